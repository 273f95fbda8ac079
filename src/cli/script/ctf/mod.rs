//! Samples as a stream of the Common Trace Format 1.8, which babeltrace2 and Trace Compass read.
//!
//! One stream, which is one packet without a context; its `metadata` tells what events there are and is written last,
//! as the events of a pipe are known only then. Integers are in this machine's byte order, and nothing is aligned.

mod tsdl;

use tracer::{
    event::Event,
    perf_data::read::Info,
    schema::{Field, Kind, Show, Value},
};

use super::{
    Sampled,
    events::{Catalogue, Known},
    samples::{Shape, clock},
};
use tsdl::{Class, Type};

/// The first four bytes of a stream.
const MAGIC: u32 = 0xc1fc_1fc1;
/// The event that tells of a loss.
const LOST: u32 = 0;

/// The CTF form.
#[derive(Default)]
pub struct Ctf {
    /// By event and shape, how it is written.
    events: Vec<Option<Vec<Class>>>,
    scratch: Vec<u8>,
    begun: bool,
    /// The time of the last: a stream's never go back.
    last: u64,
    moved: u64,
}

impl Ctf {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&MAGIC.to_ne_bytes());
        }
    }

    /// Appends a sample; false where its raw bytes are too few for their own format.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) -> bool {
        self.begin(out);
        if self.events.len() <= sampled.index {
            self.events.resize_with(sampled.index + 1, || None);
        }
        let classes = self.events[sampled.index].get_or_insert_with(|| classes(sampled.event));
        let which = sampled.which();
        let Some(event) = sampled.shape().event(sampled, 0, &mut self.scratch) else { return false };
        let sample = &sampled.sample;
        let time = sample.time.unwrap_or(self.last);
        self.moved += u64::from(time < self.last);
        self.last = time.max(self.last);
        head(number(sampled.index, which), self.last, sample.cpu, out);
        for id in [sample.tgid, sample.pid] {
            out.extend_from_slice(&id.map_or(-1, |id| id as i32).to_ne_bytes());
        }
        string(sampled.comm.iter().copied(), out);
        body(&event, &classes[which], out);
        true
    }

    /// Appends a loss.
    pub fn lost(&mut self, cpu: Option<u32>, count: Option<u64>, time: Option<u64>, out: &mut Vec<u8>) {
        self.begin(out);
        self.last = time.unwrap_or(self.last).max(self.last);
        head(LOST, self.last, cpu, out);
        out.extend_from_slice(&[0xff; 8]);
        out.push(0);
        out.extend_from_slice(&count.unwrap_or(u64::MAX).to_ne_bytes());
    }

    /// How many samples came late and stand at the time of the one before them.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// The `metadata` file; a stream without any event is begun.
    pub fn end(&mut self, info: &Info, catalogue: &mut Catalogue, out: &mut Vec<u8>) -> String {
        self.begin(out);
        // What was recorded and never happened is an event of the recording all the same.
        self.events.resize_with(info.events.all().len().max(self.events.len()), || None);
        for (index, event) in self.events.iter_mut().enumerate() {
            if event.is_none()
                && let Some(known) = catalogue.get(info, index)
            {
                *event = Some(classes(known));
            }
        }
        let mut text = tsdl::head(info, &clock(info));
        tsdl::class(LOST, &lost(), &mut text);
        for (index, event) in self.events.iter().enumerate() {
            for (which, class) in event.iter().flatten().enumerate() {
                tsdl::class(number(index, which), class, &mut text);
            }
        }
        text
    }
}

/// The class of losses.
fn lost() -> Class {
    Class {
        name: "tracer:lost".to_owned(),
        fields: vec![("count".to_owned(), Type::integer(8, false))],
        faults: false,
    }
}

/// The number of a class: one for each event, and beyond those for its other shapes.
fn number(index: usize, which: usize) -> u32 {
    (index as u32 + 1) | (which as u32) << 16
}

/// What the samples of an event are.
fn classes(event: &Known) -> Vec<Class> {
    let name = |shape: &Shape| match event.shapes.len() {
        1 => event.name.clone(),
        _ => shape.schema.name.clone(),
    };
    event.shapes.iter().map(|shape| class(&name(shape), shape)).collect()
}

fn class(name: &str, shape: &Shape) -> Class {
    let mut fields: Vec<(String, Type)> = Vec::new();
    for field in &shape.schema.fields {
        let plain = tsdl::identifier(&field.name);
        // Two of one name would be one to a reader.
        let taken = |name: &str| fields.iter().any(|(known, _)| known == name);
        let name = match taken(&plain) {
            false => plain,
            true => (2..).map(|n| format!("{plain}_{n}")).find(|name| !taken(name)).unwrap_or(plain),
        };
        fields.push((name, type_of(field)));
    }
    let faults = shape.schema.fields.iter().any(|f| f.fault.is_some());
    Class { name: name.to_owned(), fields, faults }
}

fn type_of(field: &Field) -> Type {
    match (field.kind, &field.show) {
        (Kind::Bytes | Kind::Inline(_) | Kind::Rest, Show::Array { width, signed }) => {
            Type::Sequence { size: (*width).max(1), signed: *signed, hex: false }
        }
        (Kind::Text | Kind::Chars(_), _) => Type::String,
        (Kind::Bytes | Kind::Inline(_) | Kind::Rest, _) => {
            Type::Sequence { size: 1, signed: false, hex: true }
        }
        (Kind::Stack { .. }, _) => Type::Sequence { size: 8, signed: false, hex: true },
        (Kind::Signed(n), show) => Type::Integer { size: n, signed: true, hex: *show == Show::Hex },
        (Kind::Bits { signed, .. }, _) => Type::integer(field.kind.integer_size() as u8, signed),
        (Kind::Pointer, _) => Type::Integer { size: 8, signed: false, hex: true },
        (kind, show) => {
            Type::Integer { size: kind.integer_size() as u8, signed: false, hex: *show == Show::Hex }
        }
    }
}

fn head(id: u32, time: u64, cpu: Option<u32>, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_ne_bytes());
    out.extend_from_slice(&time.to_ne_bytes());
    out.extend_from_slice(&cpu.map_or(-1, |cpu| cpu as i32).to_ne_bytes());
}

/// A string up to its first NUL, and a NUL.
fn string(bytes: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    out.extend(bytes.take_while(|b| *b != 0));
    out.push(0);
}

fn body(event: &Event<'_>, class: &Class, out: &mut Vec<u8>) {
    let mut faults = Vec::new();
    // An event that is whole has each of its fields.
    for ((name, ty), (_, value)) in class.fields.iter().zip(event.fields()) {
        if value == Value::Fault {
            faults.extend_from_slice(if faults.is_empty() { b"" } else { b"," });
            faults.extend_from_slice(name.as_bytes());
        }
        match ty {
            Type::Integer { size, .. } => integer(bits(&value), *size, out),
            Type::String => match value {
                Value::Text(text) => string(text.bytes(), out),
                _ => out.push(0),
            },
            Type::Sequence { size, .. } => sequence(&value, usize::from(*size), out),
        }
    }
    if class.faults {
        string(faults.into_iter(), out);
    }
}

fn bits(value: &Value<'_>) -> u64 {
    match value {
        Value::Unsigned(n) | Value::Pointer(n) => *n,
        Value::Signed(n) => *n as u64,
        Value::Bool(truth) => u64::from(*truth),
        _ => 0,
    }
}

/// The lowest `size` bytes of a number.
fn integer(n: u64, size: u8, out: &mut Vec<u8>) {
    match size {
        1 => out.push(n as u8),
        2 => out.extend_from_slice(&(n as u16).to_ne_bytes()),
        4 => out.extend_from_slice(&(n as u32).to_ne_bytes()),
        _ => out.extend_from_slice(&n.to_ne_bytes()),
    }
}

/// How many elements, and the elements.
fn sequence(value: &Value<'_>, size: usize, out: &mut Vec<u8>) {
    match value {
        Value::Bytes(bytes) => {
            let count = bytes.len() / size;
            out.extend_from_slice(&(count as u32).to_ne_bytes());
            out.extend(bytes.bytes().take(count * size));
        }
        Value::Stack(stack) => {
            out.extend_from_slice(&(stack.len() as u32).to_ne_bytes());
            stack.addresses().for_each(|address| out.extend_from_slice(&address.to_ne_bytes()));
        }
        _ => out.extend_from_slice(&0u32.to_ne_bytes()),
    }
}

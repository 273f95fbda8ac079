//! Samples as events: their raw bytes and their own fields under one schema, for the forms that know events.

use tracer::{
    event::{Carries, Event, Wire},
    perf_data::{
        Attr, Endian,
        read::{Info, Words},
    },
    record::{Body, sample_type as bit},
    schema::{
        Field, Kind, Schema, Show,
        format::{self, FormatField},
    },
};

use super::{Sampled, events::constant, names::chain};

/// Bytes of the sample's own fields, which are put before its raw bytes: ip, addr, period, and the slots of two stacks
/// and of raw bytes.
const OWN: usize = 48;

/// How an event's samples become events.
pub struct Shape {
    pub schema: Schema,
    /// What the raw bytes alone hold.
    members: Schema,
    head: Head,
    /// What is put into this machine's byte order.
    order: Order,
    /// Where the bytes begin that the slot of raw bytes tells of.
    rest: usize,
}

/// What the raw bytes begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// The head of our own events.
    Ours,
    /// A number of its CPU at this offset: of users' objects, which we recorded.
    Numbered(u32),
    /// Nothing of ours.
    None,
}

/// What has a byte order.
enum Order {
    /// The fields of a format.
    Format(Vec<FormatField>),
    /// Those of a struct.
    Struct,
}

impl Shape {
    /// The shape of an event whose raw bytes a `format` tells of, or nothing.
    pub fn new(name: &str, attr: &Attr, format: Option<&str>) -> Shape {
        let text = format.unwrap_or_default();
        let all = format::parse(text, &constant);
        let recorded = name.strip_prefix("tracer:");
        let offset_of = |wanted: &str| all.iter().find(|f| f.name == wanted).map(|f| f.offset);
        let head = match (recorded, offset_of("tracer_probe"), offset_of("tracer_seq")) {
            (Some(_), Some(_), _) => Head::Ours,
            (Some(_), None, Some(seq)) if offset_of("tracer_bytes").is_some() => Head::Numbered(seq),
            _ => Head::None,
        };
        let ours = head != Head::None;
        let shown = all.iter().filter(|f| !(ours && f.name.starts_with("tracer_")));
        let mut fields: Vec<Field> = shown.map(field).collect();
        if let Some(faults) = all.iter().find(|f| ours && f.name == "tracer_faults") {
            tell_faults(faults, &mut fields);
        }
        // The stacks of our own events are in their bytes too: they are one thing, the call chain's.
        let stacks = |f: &Field| matches!(&*f.name, "kstack" | "ustack") && f.type_name == "__data_loc u8[]";
        let declared: Vec<Field> = fields.extract_if(.., |f| ours && stacks(f)).collect();
        let members = Schema { name: name.to_owned(), spec: name.to_owned(), fields };
        let mut own = own_fields(attr, format.is_none());
        if !declared.is_empty() {
            own.retain(|f| {
                !matches!(f.kind, Kind::Stack { .. }) || declared.iter().any(|d| d.name == f.name)
            });
        }
        let name = recorded.filter(|_| ours).unwrap_or(name);
        Shape {
            schema: joined(name, &members, own),
            members,
            head,
            order: Order::Format(format::all_fields(text)),
            rest: 0,
        }
    }

    /// The shape of an event whose raw bytes are a struct; its name in the stream is `name`.
    pub fn of_struct(name: &str, attr: &Attr, of: &Schema) -> Shape {
        let mut members = of.clone();
        let mut rest = 0;
        for field in &mut members.fields {
            // Behind the raw bytes there is more here.
            if field.kind == Kind::Rest {
                rest = field.offset as usize;
                (field.kind, field.offset) = (Kind::Bytes, RAW);
            } else {
                field.offset = field.offset.saturating_add(OWN as u32);
            }
        }
        let own = own_fields(attr, true).into_iter().filter(|f| f.name != "raw").collect();
        Shape { schema: joined(name, &members, own), members, head: Head::None, order: Order::Struct, rest }
    }

    /// Whether the raw bytes begin with our own head.
    pub fn is_headed(&self) -> bool {
        self.head == Head::Ours
    }

    /// Makes an event of a sample. `scratch` takes its bytes, which it borrows; `seq` numbers events that do not say
    /// their own number.
    pub fn event<'a>(
        &'a self,
        sampled: &Sampled<'_>,
        seq: u32,
        scratch: &'a mut Vec<u8>,
    ) -> Option<Event<'a>> {
        self.made(&self.schema, sampled, seq, scratch)
    }

    /// The same of the raw bytes alone.
    pub fn members<'a>(&'a self, sampled: &Sampled<'_>, scratch: &'a mut Vec<u8>) -> Option<Event<'a>> {
        self.made(&self.members, sampled, 0, scratch)
    }

    fn made<'a>(
        &'a self,
        schema: &'a Schema,
        sampled: &Sampled<'_>,
        seq: u32,
        scratch: &'a mut Vec<u8>,
    ) -> Option<Event<'a>> {
        let sample = &sampled.sample;
        scratch.clear();
        let raw = sample.raw.unwrap_or_default();
        let rest = raw.len().checked_sub(self.rest)?;
        let slot = (rest as u64) << 16 | (OWN + self.rest) as u64;
        for word in [sample.ip, sample.addr, sample.period, None, None, Some(slot)] {
            scratch.extend_from_slice(&word.unwrap_or(0).to_ne_bytes());
        }
        scratch.extend_from_slice(raw);
        match &self.order {
            Order::Format(fields) => make_native(fields, &mut scratch[OWN..], sampled.info.endian),
            Order::Struct => {
                for field in self.members.fields.iter().filter(|_| sampled.info.endian != Endian::NATIVE) {
                    turn(field, scratch);
                }
            }
        }
        let seq = match self.head {
            Head::Numbered(at) => Endian::NATIVE.u32_at(&scratch[OWN..], at as usize)?,
            _ => seq,
        };
        // A slot of a string is read as eight bytes, of which a tracepoint's has four.
        scratch.resize(scratch.len().next_multiple_of(8) + 8, 0);
        if let Some(chain) = sample.callchain {
            stacks(&chain, scratch);
        }
        let scratch: &'a [u8] = scratch;
        let ids = (sample.tgid.unwrap_or(0), sample.pid.unwrap_or(0));
        let wire = match self.head {
            Head::Ours => Wire::parse(&Body::new(&scratch[OWN..]))?,
            _ => Wire {
                comm: name(sampled.comm),
                carries: Carries::Task,
                ..Wire::foreign(0, 0, seq, Some(ids))
            },
        };
        let cpu = sample.cpu.unwrap_or(tracer::event::NO_CPU);
        Event { cpu, time: sample.time, wire, schema, raw: Body::new(scratch), late: false }.whole()
    }
}

/// Where the slot of raw bytes lies.
const RAW: u32 = 40;

/// What a sample itself carries. Of a tracepoint all but its stacks is told by its bytes.
fn own_fields(attr: &Attr, all: bool) -> Vec<Field> {
    let known = [
        ("ip", Kind::Pointer, 0, bit::IP, all),
        ("addr", Kind::Pointer, 8, bit::ADDR, all),
        ("period", Kind::Unsigned(8), 16, bit::PERIOD, all),
        ("raw", Kind::Bytes, RAW, bit::RAW, all),
        ("kstack", Kind::Stack { user: false }, 24, bit::CALLCHAIN, true),
        ("ustack", Kind::Stack { user: true }, 32, bit::CALLCHAIN, true),
    ];
    let has = |bits: u64| attr.sample_type & bits != 0;
    known
        .into_iter()
        .filter(|(.., bits, wanted)| *wanted && has(*bits))
        .map(|(name, kind, offset, ..)| Field::new(name, "", kind, offset))
        .collect()
}

/// The members and behind them what a sample itself carries, as far as no member has its name.
fn joined(name: &str, members: &Schema, own: Vec<Field>) -> Schema {
    let mut fields = members.fields.clone();
    fields.extend(own.into_iter().filter(|f| members.fields.iter().all(|m| m.name != f.name)));
    Schema { name: name.to_owned(), spec: members.spec.clone(), fields }
}

/// Which fields could not be read is told by bits, whose names are those of the fields.
fn tell_faults(faults: &FormatField, fields: &mut [Field]) {
    let Show::Flags(names) = &faults.show else { return };
    let slot = faults.offset.saturating_add(OWN as u32);
    for (bit, name) in names.iter().filter(|(bit, _)| bit.is_power_of_two()) {
        if let Some(field) = fields.iter_mut().find(|f| f.name == name) {
            field.fault = Some((slot, bit.trailing_zeros() as u8));
        }
    }
}

/// Puts a field of a struct into the other byte order. Bits have none that could be told apart here: whoever makes
/// the shape sees to it that there are none.
fn turn(field: &Field, scratch: &mut [u8]) {
    let (size, element) = match (field.kind, &field.show) {
        (Kind::Unsigned(n) | Kind::Signed(n), _) => (usize::from(n), usize::from(n)),
        (Kind::Pointer, _) => (8, 8),
        (Kind::Inline(size), Show::Array { width, .. }) => (usize::from(size), usize::from(*width)),
        (Kind::Inline(16), Show::Timespec) => (16, 8),
        _ => return,
    };
    let at = field.offset as usize;
    if let Some(bytes) = at.checked_add(size).and_then(|end| scratch.get_mut(at..end)) {
        bytes.chunks_exact_mut(element.max(1)).for_each(<[u8]>::reverse);
    }
}

/// Puts the raw bytes into this machine's order; slots of strings then count from the whole's first byte.
fn make_native(fields: &[FormatField], raw: &mut [u8], endian: Endian) {
    for field in fields {
        let (at, size) = (field.offset as usize, field.size as usize);
        let Some(bytes) = at.checked_add(size).and_then(|end| raw.get_mut(at..end)) else { continue };
        let relative = field.type_name.starts_with("__rel_loc");
        if relative || field.type_name.starts_with("__data_loc") {
            let Some(word) = endian.u32_at(bytes, 0) else { continue };
            let from = if relative { at + size } else { 0 };
            let offset = (word as usize & 0xffff) + from + OWN;
            // Beyond what a slot can say there is nothing to show.
            let word = if offset > 0xffff { 0 } else { word & 0xffff_0000 | offset as u32 };
            bytes[..4].copy_from_slice(&word.to_ne_bytes());
        } else if endian != Endian::NATIVE {
            let element = match field.type_name.contains('[') {
                true => element_size(field),
                false => size,
            };
            if matches!(element, 2 | 4 | 8) {
                bytes.chunks_exact_mut(element).for_each(<[u8]>::reverse);
            }
        }
    }
}

fn name(comm: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    let len = comm.len().min(15);
    name[..len].copy_from_slice(&comm[..len]);
    name
}

fn element_size(field: &FormatField) -> usize {
    let count = field.type_name.split_once('[').and_then(|(_, n)| n.strip_suffix(']')?.parse::<usize>().ok());
    count.filter(|n| *n > 0).map_or(1, |n| field.size as usize / n)
}

/// A tracepoint's field as one of ours.
fn field(field: &FormatField) -> Field {
    let ty = &*field.type_name;
    let dynamic = ty.starts_with("__data_loc") || ty.starts_with("__rel_loc");
    let text = ty.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "char")
        && !ty.contains("unsigned");
    let size = u8::try_from(field.size).ok().filter(|n| matches!(n, 1 | 2 | 4 | 8));
    let mut show = field.show.clone();
    let kind = match size {
        _ if dynamic && text => Kind::Text,
        _ if dynamic => Kind::Bytes,
        _ if ty.contains('[') && text => Kind::Chars(field.size.min(u16::MAX.into()) as u16),
        _ if ty.contains('[') => {
            let width = element_size(field);
            if matches!(width, 1 | 2 | 4 | 8) {
                show = Show::Array { width: width as u8, signed: field.signed };
            }
            Kind::Inline(field.size.min(u16::MAX.into()) as u16)
        }
        Some(8) if ty.contains('*') => Kind::Pointer,
        Some(1) if ty == "bool" => Kind::Bool,
        Some(n) if field.signed => Kind::Signed(n),
        Some(n) => Kind::Unsigned(n),
        None => Kind::Inline(field.size.min(u16::MAX.into()) as u16),
    };
    let offset = field.offset.saturating_add(OWN as u32);
    Field { name: field.name.clone(), type_name: ty.to_owned(), kind, show, offset, fault: None }
}

fn stacks(words: &Words<'_>, scratch: &mut Vec<u8>) {
    for (slot, user) in [(24, false), (32, true)] {
        let at = scratch.len();
        let own = chain(words).filter(|(of_user, _)| *of_user == user);
        own.for_each(|(_, address)| scratch.extend_from_slice(&address.to_ne_bytes()));
        let len = scratch.len() - at;
        if scratch.len() > 0xffff {
            scratch.truncate(at);
            continue;
        }
        let word = (len as u64) << 16 | at as u64;
        scratch[slot..slot + 8].copy_from_slice(&word.to_ne_bytes());
    }
}

/// What a header says of the clock: the wall clock's time at one moment.
pub fn clock(info: &Info) -> tracer::sink::Clock {
    use tracer::perf_data::{Feature, feature::id};
    match info.feature(id::CLOCK_DATA) {
        Some(Feature::ClockData(data)) => tracer::sink::Clock { monotonic: data.clock, realtime: data.wall },
        _ => tracer::sink::Clock::default(),
    }
}

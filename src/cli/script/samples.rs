//! Samples as events: their raw bytes and their own fields under one schema, for the forms that know events.

use tracer::{
    event::{Carries, Event, Wire},
    perf_data::{
        Endian,
        read::{Info, Words},
    },
    record::{Body, sample_type as bit},
    schema::{
        Field, Kind, Schema, Show,
        format::{self, FormatField},
    },
};

use super::{
    Sampled,
    events::{Known, constant},
};

/// Bytes of the sample's own fields, which are put before its raw bytes: ip, addr, period and two stacks.
const OWN: usize = 40;

/// How an event's samples become events.
pub struct Shape {
    pub schema: Schema,
    /// Whether the raw bytes begin with our own head.
    ours: bool,
    /// The fields of the raw bytes, to be put into this machine's byte order.
    fields: Vec<FormatField>,
}

impl Shape {
    /// The shape of an event.
    pub fn new(known: &Known) -> Shape {
        let text = known.format.as_deref().unwrap_or_default();
        let all = format::parse(text, &constant);
        let ours = known.name.starts_with("tracer:") && all.iter().any(|f| f.name == "tracer_probe");
        let mut fields: Vec<Field> = Vec::new();
        let has = |bits: u64| known.attr.sample_type & bits != 0;
        let mut own = |name: &str, kind: Kind, offset: u32| {
            fields.push(Field::new(name, "", kind, offset));
        };
        if known.format.is_none() {
            for (name, kind, offset, bits) in [
                ("ip", Kind::Pointer, 0, bit::IP),
                ("addr", Kind::Pointer, 8, bit::ADDR),
                ("period", Kind::Unsigned(8), 16, bit::PERIOD),
                ("raw", Kind::Rest, OWN as u32, bit::RAW),
            ] {
                if has(bits) {
                    own(name, kind, offset);
                }
            }
        }
        if has(bit::CALLCHAIN) {
            own("kstack", Kind::Stack { user: false }, 24);
            own("ustack", Kind::Stack { user: true }, 32);
        }
        let shown = all.iter().filter(|f| !(ours && f.name.starts_with("tracer_")));
        let raw = shown.map(field).collect::<Vec<_>>();
        fields.splice(0..0, raw);
        let name = known.name.strip_prefix("tracer:").filter(|_| ours).unwrap_or(&known.name).to_owned();
        Shape {
            schema: Schema { name, spec: known.name.clone(), fields },
            ours,
            fields: format::all_fields(text),
        }
    }

    /// Whether the raw bytes begin with our own head.
    pub fn is_headed(&self) -> bool {
        self.ours
    }

    /// Makes an event of a sample. `scratch` takes its bytes, which it borrows; `seq` numbers events that do not say
    /// their own number.
    pub fn event<'a>(
        &'a self,
        sampled: &Sampled<'_>,
        seq: u32,
        scratch: &'a mut Vec<u8>,
    ) -> Option<Event<'a>> {
        let sample = &sampled.sample;
        scratch.clear();
        for word in [sample.ip, sample.addr, sample.period, None, None] {
            scratch.extend_from_slice(&word.unwrap_or(0).to_ne_bytes());
        }
        let raw = sample.raw.unwrap_or_default();
        scratch.extend_from_slice(raw);
        self.make_native(&mut scratch[OWN..], sampled.info.endian);
        // A slot of a string is read as eight bytes, of which a tracepoint's has four.
        if self.schema.fields.iter().any(|f| f.kind != Kind::Rest) {
            scratch.resize(scratch.len().next_multiple_of(8) + 8, 0);
        }
        if let Some(chain) = sample.callchain {
            stacks(&chain, scratch);
        }
        let scratch: &'a [u8] = scratch;
        let ids = (sample.tgid.unwrap_or(0), sample.pid.unwrap_or(0));
        let wire = match self.ours {
            true => Wire::parse(&Body::new(&scratch[OWN..]))?,
            false => Wire {
                comm: name(sampled.comm),
                carries: Carries::Task,
                ..Wire::foreign(0, 0, seq, Some(ids))
            },
        };
        let cpu = sample.cpu.unwrap_or(tracer::event::NO_CPU);
        Event { cpu, time: sample.time, wire, schema: &self.schema, raw: Body::new(scratch), late: false }
            .whole()
    }

    /// Puts the raw bytes into this machine's order; slots of strings then count from the whole's first byte.
    fn make_native(&self, raw: &mut [u8], endian: Endian) {
        for field in &self.fields {
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

/// `PERF_CONTEXT_*`: marks between the addresses of a callchain.
const MARKS: u64 = -4095i64 as u64;
const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;

/// The addresses of a callchain: the kernel's, or the user's.
pub fn addresses(chain: &Words<'_>, user: bool) -> impl Iterator<Item = u64> {
    let mut space = None;
    chain.iter().filter(move |address| {
        if *address >= MARKS {
            space = Some(*address);
            return false;
        }
        space == Some(if user { USER } else { KERNEL })
    })
}

fn stacks(chain: &Words<'_>, scratch: &mut Vec<u8>) {
    for (slot, user) in [(24, false), (32, true)] {
        let at = scratch.len();
        addresses(chain, user).for_each(|address| scratch.extend_from_slice(&address.to_ne_bytes()));
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

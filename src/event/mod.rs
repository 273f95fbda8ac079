//! A sample decoded by its schema, and the holes between samples.
//!
//! In comes a sample's raw bytes; out comes an [`Event`] that borrows them, or a [`Gap`].
//!
//! **Invariants.** Nothing is copied but the sixteen bytes of `comm`. An event is never guessed: raw bytes
//! that do not fit their schema decode to `None` and are counted by whoever asked. Nothing here knows of
//! rings, sinks or the kernel's state.

pub mod order;
mod stream;

use std::ffi::CStr;

pub use crate::schema::{Carries, Wire};
pub use stream::{Gaps, Stream};

use crate::{
    record::Body,
    schema::{Field, Kind, Schema, Stack, Value},
};

/// The CPU of an event that does not tell: a BPF ringbuf is shared by all.
pub const NO_CPU: u32 = u32::MAX;

/// One firing of one probe.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The CPU whose ring held it, or [`NO_CPU`].
    pub cpu: u32,
    /// CLOCK_MONOTONIC nanoseconds; `None` where the ring was opened without times, or is a BPF ringbuf.
    pub time: Option<u64>,
    /// What every event carries.
    pub wire: Wire,
    /// What its fields are.
    pub schema: &'a Schema,
    /// The raw bytes as the ring holds them, padding included.
    pub raw: Body<'a>,
    /// It comes after one that is younger, where events are put into the [`order`] of their times.
    pub late: bool,
}

impl<'a> Event<'a> {
    /// Decodes raw bytes; `None` where they are too short for their own schema.
    ///
    /// `schema` is asked for by the probe id that the bytes carry.
    pub fn decode(
        cpu: u32,
        time: Option<u64>,
        raw: Body<'a>,
        schema: impl FnOnce(u16) -> Option<&'a Schema>,
    ) -> Option<Event<'a>> {
        let wire = Wire::parse(&raw)?;
        Event { cpu, time, wire, schema: schema(wire.probe)?, raw, late: false }.whole()
    }

    /// The event, where its raw bytes hold all of its schema's fields.
    pub fn whole(self) -> Option<Event<'a>> {
        let end = self.schema.fields.iter().map(|f| f.offset as usize + f.kind.size()).max().unwrap_or(0);
        (end <= self.raw.len()).then_some(self)
    }

    /// True if a field could not be read: its value is [`Value::Fault`].
    pub fn faulty(&self) -> bool {
        let bits = |slot: u32| self.raw.u64_at(slot as usize).unwrap_or(0);
        self.schema.fields.iter().filter_map(|f| f.fault).any(|(slot, bit)| bits(slot) >> bit & 1 == 1)
    }

    /// Each field with its value, in the schema's order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a Field, Value<'a>)> {
        let raw = self.raw;
        self.schema.fields.iter().filter_map(move |f| Some((f, value(&raw, f)?)))
    }

    /// The value of a field of its schema.
    #[inline]
    pub fn value(&self, field: &Field) -> Option<Value<'a>> {
        value(&self.raw, field)
    }
}

fn value<'a>(raw: &Body<'a>, field: &Field) -> Option<Value<'a>> {
    let at = field.offset as usize;
    if let Some((slot, bit)) = field.fault
        && raw.u64_at(slot as usize)? >> bit & 1 == 1
    {
        return Some(Value::Fault);
    }
    let dynamic = || {
        let slot = raw.u64_at(at)?;
        raw.range(usize::from(slot as u16), usize::from((slot >> 16) as u16))
    };
    Some(match field.kind {
        Kind::Unsigned(n) => Value::Unsigned(integer(raw, at, n)?),
        Kind::Signed(n) => {
            let unused = 64 - 8 * u32::from(n);
            Value::Signed(((integer(raw, at, n)? << unused) as i64) >> unused)
        }
        Kind::Bool => Value::Bool(raw.u8_at(at)? != 0),
        Kind::Pointer => Value::Pointer(raw.u64_at(at)?),
        Kind::BigEndian(n) => Value::Unsigned(integer(raw, at, n)?.swap_bytes() >> (64 - 8 * u32::from(n))),
        Kind::Text => Value::Text(up_to_nul(dynamic()?)),
        Kind::Bytes => Value::Bytes(dynamic()?),
        Kind::Stack { user } => Value::Stack(Stack::new(dynamic()?, user)),
        Kind::Chars(n) => Value::Text(up_to_nul(raw.range(at, usize::from(n))?)),
        Kind::Inline(n) => Value::Bytes(raw.range(at, usize::from(n))?),
        Kind::Rest => Value::Bytes(raw.from(at)?),
        Kind::Bits { first, width, signed } => {
            let cut = bits_of(raw.range(at, field.kind.size())?, first, width);
            let unused = 64 - u32::from(width);
            if signed { Value::Signed(((cut << unused) as i64) >> unused) } else { Value::Unsigned(cut) }
        }
    })
}

#[inline]
fn integer(raw: &Body<'_>, at: usize, size: u8) -> Option<u64> {
    Some(match size {
        1 => u64::from(raw.u8_at(at)?),
        2 => u64::from(raw.u16_at(at)?),
        4 => u64::from(raw.u32_at(at)?),
        _ => raw.u64_at(at)?,
    })
}

/// Bits out of at most nine bytes, in the machine's order: the first bit is the lowest of the first byte, or on a
/// big-endian machine the highest.
fn bits_of(bytes: Body<'_>, first: u8, width: u8) -> u64 {
    let count = bytes.len() as u32;
    let (first, width) = (u32::from(first), u32::from(width));
    let fold = |n: u128, b: u8| n << 8 | u128::from(b);
    let shifted = if cfg!(target_endian = "little") {
        let mut reversed = [0; 9];
        bytes.copy_to(&mut reversed);
        reversed.iter().rev().copied().fold(0, fold) >> first
    } else {
        bytes.bytes().fold(0, fold) >> (8 * count - first - width)
    };
    shifted as u64 & (u64::MAX >> (64 - width))
}

fn up_to_nul(bytes: Body<'_>) -> Body<'_> {
    if let Some(whole) = bytes.contiguous() {
        return Body::new(CStr::from_bytes_until_nul(whole).map_or(whole, CStr::to_bytes));
    }
    let end = bytes.bytes().position(|b| b == 0).unwrap_or(bytes.len());
    bytes.range(0, end).unwrap_or_default()
}

/// A known hole in one CPU's stream, at its place between that CPU's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU whose stream has the hole.
    pub cpu: u32,
    /// How many events are missing; `None` where that cannot be known.
    pub count: Option<u64>,
    /// Why they are missing.
    pub cause: Cause,
    /// The missing sequence numbers, first and last, where the hole lies between two events of one level.
    pub seq: Option<(u32, u32)>,
    /// The level that these numbers count in; of a foreign array, what tells it from others.
    pub level: Option<u8>,
    /// The time of the last event before the hole, CLOCK_MONOTONIC nanoseconds.
    pub after: Option<u64>,
    /// The time of the first record after the hole.
    pub before: Option<u64>,
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The kernel had no room in the ring (`PERF_RECORD_LOST`).
    Lost,
    /// `bpf_perf_event_output` failed in a way that no LOST record tells (ENOENT, EOPNOTSUPP, E2BIG, EBUSY).
    Failed,
    /// Newer records were written over older ones that nobody had read.
    Overwritten,
    /// The ring held what no kernel writes; bytes were given up.
    Corrupt,
    /// We had no room: the queue to a sink was full.
    Dropped,
}

impl Cause {
    /// The word for it in every output.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Lost => "lost",
            Cause::Failed => "failed",
            Cause::Overwritten => "overwritten",
            Cause::Corrupt => "corrupt",
            Cause::Dropped => "dropped",
        }
    }
}

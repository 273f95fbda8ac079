//! Events as the ring holds them, in frames whose length stands before them.
//!
//! Integers are little-endian; the raw bytes of an event are in the byte order of the host that wrote them,
//! which the `order` word shows.
//!
//! ```text
//! file   0  magic "tracer\0r"      8  u32 version = 1      12  u32 order = 0x01020304 in host order
//! frame  0  u32 length of the whole frame: a multiple of 8, at least 24
//!        4  u32 kind: 1 header, 2 event, 3 gap, 4 note, 5 footer, 6 foreign event; others are to be skipped
//!        8  u32 cpu; 0 where there is none, all ones of a BPF ringbuf's events
//!       12  u32 size of the data
//!       16  u64 time, CLOCK_MONOTONIC nanoseconds; all ones where there is none
//!       24  the data, then zeros up to the length
//! ```
//!
//! | kind | data |
//! |---|---|
//! | header, note, footer | one line of the [NDJSON form](super::json); the header names every event's fields |
//! | event | the raw bytes, the kernel's padding included: up to 7 stale bytes at the end |
//! | foreign event | u32 which of the header's probes, from 1 on, u32 seq, then the raw bytes |
//! | gap | u32 cause (1 lost, 2 failed, 3 overwritten, 4 corrupt, 5 dropped), u32 which of the rest are known (1 count, 2 seq, 4 after, 8 before, 16 level), u64 count, u32 first seq, u32 last seq, u64 after, u64 before, u32 level |
//!
//! A file that was opened again (SIGHUP) and stayed in its place holds one such file after another: the magic
//! can stand where a frame is due.

use super::{Encode, Header, Note, json::Json};
use crate::{
    event::{Carries, Cause, Event, Gap},
    ledger::Report,
    record::Body,
};

/// The first bytes of a file; as a length they are no multiple of 8.
const MAGIC: [u8; 8] = *b"tracer\0r";

/// The version of the layout.
const VERSION: u32 = 1;

/// Bytes before the first frame.
const FILE_HEAD: usize = 16;

/// Bytes before a frame's data.
const HEAD: usize = 24;

/// Stands for no time.
const NO_TIME: u64 = u64::MAX;

/// What a frame holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// A line of JSON: the header, a note or the footer, as its `type` says.
    Json(&'a [u8]),
    /// An event's raw bytes.
    Event {
        /// The CPU whose ring held them.
        cpu: u32,
        /// CLOCK_MONOTONIC nanoseconds.
        time: Option<u64>,
        /// The bytes, padding included.
        raw: &'a [u8],
    },
    /// The raw bytes of a foreign program's event.
    Foreign {
        /// The CPU whose ring held them, or [`NO_CPU`](crate::event::NO_CPU).
        cpu: u32,
        /// CLOCK_MONOTONIC nanoseconds.
        time: Option<u64>,
        /// Which of the header's probes it is, from 1 on.
        probe: u32,
        /// Its number on that CPU and in that array.
        seq: u32,
        /// The bytes, padding included.
        raw: &'a [u8],
    },
    /// A hole.
    Gap(Gap),
    /// A kind that came after this version.
    Other(u32),
}

/// Where a file stops making sense: cut off, or not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The offset of the frame that does not fit.
    pub at: usize,
}

/// The raw form.
#[derive(Debug, Default)]
pub struct Raw {
    json: Json,
}

impl Raw {
    /// Frames.
    pub fn new() -> Raw {
        Raw::default()
    }
}

impl Encode for Raw {
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0x0102_0304_u32.to_ne_bytes());
        frame(1, 0, None, out, |out| self.json.header(header, out));
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if event.wire.carries == Carries::All {
            return frame(2, event.cpu, event.time, out, |out| event.raw.append_to(out));
        }
        frame(6, event.cpu, event.time, out, |out| {
            out.extend_from_slice(&u32::from(event.wire.probe).to_le_bytes());
            out.extend_from_slice(&event.wire.seq.to_le_bytes());
            event.raw.append_to(out);
        });
    }

    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        let known = u32::from(gap.count.is_some())
            | u32::from(gap.seq.is_some()) << 1
            | u32::from(gap.after.is_some()) << 2
            | u32::from(gap.before.is_some()) << 3
            | u32::from(gap.level.is_some()) << 4;
        let (first, last) = gap.seq.unwrap_or_default();
        frame(3, gap.cpu, gap.before, out, |out| {
            out.extend_from_slice(&cause_number(gap.cause).to_le_bytes());
            out.extend_from_slice(&known.to_le_bytes());
            out.extend_from_slice(&gap.count.unwrap_or(0).to_le_bytes());
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
            out.extend_from_slice(&gap.after.unwrap_or(0).to_le_bytes());
            out.extend_from_slice(&gap.before.unwrap_or(0).to_le_bytes());
            out.extend_from_slice(&u32::from(gap.level.unwrap_or(0)).to_le_bytes());
        });
    }

    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>) {
        frame(4, 0, None, out, |out| self.json.note(note, out));
    }

    fn footer(&mut self, report: &Report, out: &mut Vec<u8>) {
        frame(5, 0, None, out, |out| self.json.footer(report, out));
    }

    fn arm(&self) -> Option<Box<dyn Encode>> {
        Some(Box::new(Raw::new()))
    }
}

fn frame(kind: u32, cpu: u32, time: Option<u64>, out: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + HEAD, 0);
    data(out);
    let size = out.len() - start - HEAD;
    out.resize(start + HEAD + size.next_multiple_of(8), 0);
    let length = out.len() - start;
    let head = &mut out[start..start + HEAD];
    head[0..4].copy_from_slice(&(length as u32).to_le_bytes());
    head[4..8].copy_from_slice(&kind.to_le_bytes());
    head[8..12].copy_from_slice(&cpu.to_le_bytes());
    head[12..16].copy_from_slice(&(size as u32).to_le_bytes());
    head[16..24].copy_from_slice(&time.unwrap_or(NO_TIME).to_le_bytes());
}

/// Reads a file's frames in turn; after a broken one nothing more comes. Any bytes end, none panic.
pub fn frames(bytes: &[u8]) -> impl Iterator<Item = Result<Data<'_>, Broken>> {
    let mut at = 0;
    let mut ended = false;
    std::iter::from_fn(move || {
        loop {
            if ended || at == bytes.len() && at > 0 {
                return None;
            }
            let rest = &bytes[at..];
            if rest.starts_with(&MAGIC) && u32_at(rest, 8) == Some(VERSION) && rest.len() >= FILE_HEAD {
                at += FILE_HEAD;
                continue;
            }
            // A file begins with the magic.
            let read = if at == 0 { None } else { read(rest) };
            let Some((length, data)) = read else {
                ended = true;
                return Some(Err(Broken { at }));
            };
            at += length;
            return Some(Ok(data));
        }
    })
}

fn read(rest: &[u8]) -> Option<(usize, Data<'_>)> {
    let length = u32_at(rest, 0)? as usize;
    let size = u32_at(rest, 12)? as usize;
    if length < HEAD || !length.is_multiple_of(8) || size > length - HEAD {
        return None;
    }
    let data = rest.get(..length)?.get(HEAD..HEAD + size)?;
    let (kind, cpu) = (u32_at(rest, 4)?, u32_at(rest, 8)?);
    let time = Some(u64_at(rest, 16)?).filter(|t| *t != NO_TIME);
    Some((
        length,
        match kind {
            1 | 4 | 5 => Data::Json(data),
            2 => Data::Event { cpu, time, raw: data },
            6 => Data::Foreign { cpu, time, probe: u32_at(data, 0)?, seq: u32_at(data, 4)?, raw: &data[8..] },
            3 => Data::Gap(read_gap(cpu, data)?),
            other => Data::Other(other),
        },
    ))
}

fn read_gap(cpu: u32, data: &[u8]) -> Option<Gap> {
    let number = u32_at(data, 0)?;
    let cause = CAUSES.into_iter().find(|c| cause_number(*c) == number)?;
    let known = u32_at(data, 4)?;
    let if_known = |bit: u32, n: u64| (known & bit != 0).then_some(n);
    let seq = (u32_at(data, 16)?, u32_at(data, 20)?);
    Some(Gap {
        cpu,
        cause,
        count: if_known(1, u64_at(data, 8)?),
        seq: (known & 2 != 0).then_some(seq),
        after: if_known(4, u64_at(data, 24)?),
        before: if_known(8, u64_at(data, 32)?),
        level: u32_at(data, 40).filter(|_| known & 16 != 0).and_then(|level| u8::try_from(level).ok()),
    })
}

const CAUSES: [Cause; 5] = [Cause::Lost, Cause::Failed, Cause::Overwritten, Cause::Corrupt, Cause::Dropped];

fn cause_number(cause: Cause) -> u32 {
    match cause {
        Cause::Lost => 1,
        Cause::Failed => 2,
        Cause::Overwritten => 3,
        Cause::Corrupt => 4,
        Cause::Dropped => 5,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Body::new(bytes).array_at(at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Body::new(bytes).array_at(at).map(u64::from_le_bytes)
}

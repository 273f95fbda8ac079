//! Events that are owned, many at a time: what is handed from the reader to another thread or task.
//!
//! ```text
//!   event, gap, note ─► Fill ─► Batch ─► whoever takes it: iterates, drops it
//!                         ▲                │
//!                         └──── spare ◄────┘     its memory comes back and is filled again
//! ```
//!
//! **Invariants.** A batch lends its events as a drain does: nothing is copied twice, and decoding is the taker's. In
//! the steady state neither filling nor dropping one allocates. Holes and notes stand at their places between events.

mod fill;
mod iter;
mod missed;
mod spare;
mod start;

use std::sync::{Arc, OnceLock};

use self::spare::Spare;
use crate::{
    event::{Event, Gap, Wire},
    ledger::Report,
    record::{self, SampleId},
    ring::TaskRecord,
    schema::Schema,
};

#[cfg(feature = "tokio")]
pub(crate) use self::iter::Place;
pub(crate) use self::{fill::Fill, iter::Cursor, missed::Missed};
pub use self::{
    iter::{Events, Iter},
    start::Start,
};

use super::Note;

/// One thing that a batch holds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// An event.
    Event(Event<'a>),
    /// A hole, at its place.
    Gap(Gap),
    /// What became of a task, where the session was asked for that.
    Task(TaskRecord<'a>),
    /// Something went wrong and the session goes on.
    Error(&'a str),
    /// A word about a probe.
    Probe(&'a str),
    /// The ledger as it stood.
    Stats(&'a Report),
}

impl<'a> Item<'a> {
    /// As a sink is told it, but for events, gaps and tasks.
    pub fn note(&self) -> Option<Note<'a>> {
        match *self {
            Item::Error(text) => Some(Note::Error(text)),
            Item::Probe(text) => Some(Note::Probe(text)),
            Item::Stats(report) => Some(Note::Stats(report)),
            _ => None,
        }
    }
}

/// Events of one or more CPUs, with the holes between them: each CPU's in the order of its ring.
///
/// It owns what it holds and can be kept, or sent to any thread, for as long as is wanted. Dropping it hands its
/// memory back to be filled again: who keeps many has the reader allocate more.
pub struct Batch {
    contents: Contents,
    start: Arc<Start>,
    spare: Arc<Spare>,
    /// The holes of batches before this one that were dropped.
    evicted: OnceLock<Vec<Gap>>,
    /// Where these are to be found.
    missed: Option<Missed>,
}

/// What a batch holds, whose memory goes round.
#[derive(Debug, Default)]
struct Contents {
    /// Which batch of its session it is.
    serial: u64,
    /// The raw bytes of all events, and the bodies of side-band records.
    bytes: Vec<u8>,
    heads: Vec<Head>,
    asides: Vec<Aside>,
}

/// An event but for its bytes.
#[derive(Clone, Copy, Debug)]
struct Head {
    cpu: u32,
    time: Option<u64>,
    wire: Wire,
    late: bool,
    range: Range,
}

/// Bytes of a batch.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    len: u32,
}

/// What stands between events.
#[derive(Debug)]
struct Aside {
    /// How many events stand before it.
    at: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    Gap(Gap),
    Task { cpu: u32, header: record::Header, id: SampleId, body: Range },
    Error(String),
    Probe(String),
    Stats(Box<Report>),
}

impl Batch {
    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.contents.heads.len()
    }

    /// True where it holds no event; it may hold gaps or notes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the session said before its first event.
    pub fn start(&self) -> &Arc<Start> {
        &self.start
    }

    /// What its events are: an event's is at its [`Wire::probe`] - 1.
    pub fn schemas(&self) -> &[Schema] {
        self.start.schemas()
    }

    /// All that it holds, in order.
    ///
    /// The first call of this, or of [`Batch::gaps`], takes the holes that dropped batches have left before it.
    pub fn iter(&self) -> Iter<'_> {
        Iter { batch: self, cursor: Cursor::new(self) }
    }

    /// The events alone.
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// The holes alone.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.iter().filter_map(|item| match item {
            Item::Gap(gap) => Some(gap),
            _ => None,
        })
    }

    /// The event at this place among the events.
    pub fn event(&self, at: usize) -> Option<Event<'_>> {
        self.contents.heads.get(at).map(|head| self.lend(head))
    }

    /// The holes of others, taken the first time.
    fn evicted(&self) -> &[Gap] {
        let Some(missed) = &self.missed else { return &[] };
        self.evicted.get_or_init(|| missed.take_before(self))
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = Item<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.contents));
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Contents { serial, bytes, heads, asides } = &self.contents;
        f.debug_struct("Batch")
            .field("serial", serial)
            .field("events", &heads.len())
            .field("asides", &asides.len())
            .field("bytes", &bytes.len())
            .finish()
    }
}

#[cfg(test)]
mod tests;

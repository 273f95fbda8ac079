//! The writing side of batches: what comes in is copied into the one in hand.

use std::{
    mem,
    sync::{Arc, OnceLock},
};

use super::{Aside, Batch, Contents, Head, Missed, Range, Spare, Start, What};
use crate::{
    Error, ErrorKind, Result,
    event::{Event, Gap},
    record::Body,
    ring::TaskRecord,
    sink::{Header, Note},
};

/// The most notes and side-band records that a batch takes beside its events.
const ASIDES: usize = 1 << 12;

/// The batch in hand.
pub(crate) struct Fill {
    contents: Contents,
    start: Arc<Start>,
    spare: Arc<Spare>,
    /// Bytes, heads included, at which it is full.
    most: usize,
    serial: u64,
    missed: Option<Missed>,
}

impl Fill {
    /// Batches of `most` bytes; the memory of `keep` is kept to be filled again. Where some may be dropped from a queue,
    /// `missed` has their holes.
    pub fn new(most: usize, keep: usize, missed: Option<Missed>) -> Fill {
        let most = most.clamp(1 << 10, 1 << 24);
        let spare = Arc::new(Spare::new(keep, most));
        Fill { contents: spare.take(), start: Arc::default(), spare, most, serial: 0, missed }
    }

    /// Takes what comes before the first event. What is in hand was handed on before.
    pub fn header(&mut self, header: &Header<'_>) {
        self.start = Arc::new(Start::new(header));
    }

    /// Whether it takes no more events.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.contents.bytes.len() + self.contents.heads.len() * size_of::<Head>() >= self.most
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.contents.heads.is_empty() && self.contents.asides.is_empty()
    }

    /// Takes an event.
    ///
    /// # Errors
    ///
    /// Sink, where the header did not tell of its probe: its fields could not be told again.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let Event { cpu, time, wire, late, .. } = *event;
        let at = usize::from(wire.probe).wrapping_sub(1);
        if at >= self.start.schemas().len() {
            return Err(Error::new(
                ErrorKind::Sink,
                format!("there is no probe {} in the header", wire.probe),
            )
            .with_help("tell the header anew after more probes were attached"));
        }
        let range = self.append(event.raw);
        self.contents.heads.push(Head { cpu, time, wire, late, range });
        Ok(())
    }

    /// Takes a hole.
    pub fn gap(&mut self, gap: &Gap) {
        self.aside(What::Gap(*gap));
    }

    /// Takes a note; where there are very many already, it is left out.
    pub fn note(&mut self, note: &Note<'_>) {
        if self.contents.asides.len() < ASIDES {
            self.aside(match note {
                Note::Error(text) => What::Error((*text).into()),
                Note::Probe(text) => What::Probe((*text).into()),
                Note::Stats(report) => What::Stats(Box::new((*report).clone())),
            });
        }
    }

    /// Takes a side-band record; where there are very many already, it is left out.
    pub fn task(&mut self, task: &TaskRecord<'_>) {
        if self.contents.asides.len() < ASIDES {
            let TaskRecord { cpu, record, id } = *task;
            let body = self.append(record.body);
            self.aside(What::Task { cpu, header: record.header, id, body });
        }
    }

    /// The batch in hand, and another is.
    pub fn take(&mut self) -> Batch {
        let mut contents = mem::replace(&mut self.contents, self.spare.take());
        contents.serial = self.serial;
        self.serial += 1;
        let (start, spare, missed) = (self.start.clone(), self.spare.clone(), self.missed.clone());
        Batch { contents, start, spare, evicted: OnceLock::new(), missed }
    }

    fn aside(&mut self, what: What) {
        let at = self.contents.heads.len() as u32;
        self.contents.asides.push(Aside { at, what });
    }

    #[inline]
    fn append(&mut self, body: Body<'_>) -> Range {
        let start = self.contents.bytes.len() as u32;
        body.append_to(&mut self.contents.bytes);
        Range { start, len: body.len() as u32 }
    }
}

impl std::fmt::Debug for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fill").field("events", &self.contents.heads.len()).field("most", &self.most).finish()
    }
}

//! A batch's events and what stands between them, lent in order.

use super::{Batch, Head, Item, Range, What};
use crate::{
    event::Event,
    record::{Body, Record},
    ring::TaskRecord,
};

/// How far somebody is in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    evicted: usize,
    aside: usize,
    event: usize,
}

/// Where one thing stands in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Evicted(usize),
    Aside(usize),
    Event(usize),
}

impl Cursor {
    /// From the beginning, the holes that others have left included.
    pub fn new(batch: &Batch) -> Cursor {
        batch.evicted();
        Cursor::default()
    }

    /// Where the next thing stands.
    #[inline]
    pub fn next(&mut self, batch: &Batch) -> Option<Place> {
        fn step(at: &mut usize) -> usize {
            *at += 1;
            *at - 1
        }
        if batch.evicted.get().is_some_and(|evicted| self.evicted < evicted.len()) {
            return Some(Place::Evicted(step(&mut self.evicted)));
        }
        let contents = &batch.contents;
        if contents.asides.get(self.aside).is_some_and(|aside| aside.at as usize <= self.event) {
            return Some(Place::Aside(step(&mut self.aside)));
        }
        (self.event < contents.heads.len()).then(|| Place::Event(step(&mut self.event)))
    }
}

/// All that a batch holds, in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pub(super) batch: &'a Batch,
    pub(super) cursor: Cursor,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        self.cursor.next(self.batch).map(|place| self.batch.at(place))
    }
}

/// A batch's events, in order.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    batch: &'a Batch,
    heads: std::slice::Iter<'a, Head>,
}

impl<'a> Events<'a> {
    pub(super) fn new(batch: &'a Batch) -> Events<'a> {
        Events { batch, heads: batch.contents.heads.iter() }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        self.heads.next().map(|head| self.batch.lend(head))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.heads.size_hint()
    }
}

impl ExactSizeIterator for Events<'_> {}

impl Batch {
    /// What stands at a place that a [`Cursor`] over this batch gave.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> Item<'_> {
        match place {
            Place::Event(at) => Item::Event(self.lend(&self.contents.heads[at])),
            Place::Aside(at) => self.aside(&self.contents.asides[at].what),
            Place::Evicted(at) => Item::Gap(self.evicted()[at]),
        }
    }

    #[inline]
    pub(super) fn lend(&self, head: &Head) -> Event<'_> {
        let Head { cpu, time, wire, late, range } = *head;
        // What was put in had a schema: `Fill::event` looks.
        let schema = &self.start.schemas()[usize::from(wire.probe) - 1];
        Event { cpu, time, wire, schema, raw: self.bytes(range), late }
    }

    fn aside<'a>(&'a self, what: &'a What) -> Item<'a> {
        match what {
            What::Gap(gap) => Item::Gap(*gap),
            What::Task { cpu, header, id, body } => {
                let record = Record { header: *header, body: self.bytes(*body) };
                Item::Task(TaskRecord { cpu: *cpu, record, id: *id })
            }
            What::Error(text) => Item::Error(text),
            What::Probe(text) => Item::Probe(text),
            What::Stats(report) => Item::Stats(report),
        }
    }

    fn bytes(&self, range: Range) -> Body<'_> {
        let start = range.start as usize;
        Body::new(&self.contents.bytes[start..start + range.len as usize])
    }
}

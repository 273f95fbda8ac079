//! One record of our own array: decoded, the holes before it found, and both handed on.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::reader::Reader;
use crate::{
    Result,
    event::Event,
    probe::Attached,
    record::Body,
    ring::{Item, ItemKind},
    schema::{Schema, shared},
    sink::{Note, Sink},
};

/// Raw bytes of an end marker, padding included.
const MARKER_RAW: usize = 4;

/// How many events the sink has had, and may have.
#[derive(Clone, Debug)]
pub struct Quota {
    limit: Option<u64>,
    delivered: u64,
    /// Events before this time were not asked for, nor any where it is the end of time.
    pub since: u64,
    /// What is left for all threads, where several share a limit: each takes one event's at a time.
    shared: Option<Arc<AtomicU64>>,
}

impl Quota {
    /// All, or up to `limit`; clones of a `shared` one share it.
    pub fn new(limit: Option<u64>, shared: bool) -> Quota {
        let pool = limit.filter(|_| shared).map(|limit| Arc::new(AtomicU64::new(limit)));
        let limit = limit.map(|limit| if shared { 0 } else { limit });
        Quota { limit, delivered: 0, since: 0, shared: pool }
    }

    /// Whether an event of that time is not to be handed on. One that is has its place.
    #[inline]
    pub fn beyond(&mut self, time: Option<u64>) -> bool {
        if time.unwrap_or(u64::MAX) < self.since || self.spent() {
            return true;
        }
        self.delivered += 1;
        false
    }

    #[inline]
    fn spent(&mut self) -> bool {
        self.limit.is_some_and(|limit| self.delivered >= limit) && !self.lease()
    }

    #[cold]
    fn lease(&mut self) -> bool {
        let Some(left) = &self.shared else { return false };
        let leased = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.limit = self.limit.map(|limit| limit + u64::from(leased));
        leased
    }

    /// Whether the sink has had them all.
    pub fn is_spent(&self) -> bool {
        let left = self.shared.as_ref().map_or(0, |left| left.load(Relaxed));
        self.limit.is_some_and(|limit| self.delivered >= limit && left == 0)
    }
}

/// What our own events are decoded by.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub attached: &'a [Attached],
    /// Events share records.
    pub gathers: bool,
}

impl<'a> Known<'a> {
    #[inline]
    fn schema(self, id: u16) -> Option<&'a Schema> {
        self.attached.get(usize::from(id).checked_sub(1)?).map(|a| &a.schema)
    }
}

/// Takes one record.
#[inline]
pub fn take(
    known: Known<'_>,
    reader: Option<&mut Reader>,
    quota: &mut Quota,
    item: &Item<'_>,
    sink: &mut dyn Sink,
) -> Result<ControlFlow<()>> {
    let Some(reader) = reader else { return Ok(ControlFlow::Continue(())) };
    match &item.kind {
        ItemKind::Sample(sample) => {
            let raw = sample.raw().unwrap_or_default();
            if raw.len() == MARKER_RAW {
                reader.markers += 1;
                return Ok(ControlFlow::Continue(()));
            }
            if known.gathers && shared::is_shared(&raw) {
                return take_shared(known, reader, quota, item.cpu, raw, sink);
            }
            take_event(known, reader, quota, (item.cpu, sample.time(), raw), sink)?;
        }
        ItemKind::Lost(lost) => reader.stream.lost(lost.lost, lost.sample_id.and_then(|id| id.time)),
        ItemKind::Corruption(corruption) => {
            sink.gap(&reader.stream.corrupt())?;
            sink.note(&Note::Error(&format!("the ring of CPU {} is corrupt: {corruption:?}", item.cpu)))?;
        }
        ItemKind::Overwritten => reader.stream.overwritten_here(),
        ItemKind::LostSamples(_) | ItemKind::Other => {}
    }
    Ok(ControlFlow::Continue(()))
}

/// Takes the events that share a record. Each is read, whatever the sink does with one before it.
fn take_shared(
    known: Known<'_>,
    reader: &mut Reader,
    quota: &mut Quota,
    cpu: u32,
    raw: Body<'_>,
    sink: &mut dyn Sink,
) -> Result<ControlFlow<()>> {
    reader.shared += 1;
    let mut rest = Rest { known, reader, cpu, events: shared::events(raw) };
    let mut said = Ok(());
    while let Some((time, raw)) = rest.next() {
        said = said.and(take_event(known, rest.reader, quota, (cpu, Some(time), raw), sink));
    }
    said.map(|()| ControlFlow::Continue(()))
}

/// The events of a record that are yet to be taken. Where a sink panics, those after its event never reach it: they
/// are read and counted all the same.
struct Rest<'a, I: Iterator<Item = Option<(u64, Body<'a>)>>> {
    known: Known<'a>,
    reader: &'a mut Reader,
    cpu: u32,
    events: I,
}

impl<'a, I: Iterator<Item = Option<(u64, Body<'a>)>>> Rest<'a, I> {
    fn next(&mut self) -> Option<(u64, Body<'a>)> {
        let next = self.events.next()?;
        match next {
            Some(_) => self.reader.unshared += 1,
            None => self.reader.undecoded += 1,
        }
        next
    }
}

impl<'a, I: Iterator<Item = Option<(u64, Body<'a>)>>> Drop for Rest<'a, I> {
    fn drop(&mut self) {
        while let Some((time, raw)) = self.next() {
            let decoded = Event::decode(self.cpu, Some(time), raw, |id| self.known.schema(id));
            match decoded.and_then(|e| self.reader.stream.event(e.wire.level, e.wire.seq, e.time)) {
                // What it would have told of holes is in the counts.
                Some(_) => self.reader.unhanded += 1,
                None => self.reader.undecoded += 1,
            }
        }
    }
}

#[inline]
fn take_event(
    known: Known<'_>,
    reader: &mut Reader,
    quota: &mut Quota,
    (cpu, time, raw): (u32, Option<u64>, Body<'_>),
    sink: &mut dyn Sink,
) -> Result<()> {
    let decoded = Event::decode(cpu, time, raw, |id| known.schema(id));
    let gaps = decoded.and_then(|e| reader.stream.event(e.wire.level, e.wire.seq, e.time));
    let (Some(event), Some(gaps)) = (decoded, gaps) else {
        reader.undecoded += 1;
        return Ok(());
    };
    let told = reader.tell(&gaps, sink);
    reader.faulty += u64::from(event.faulty());
    if quota.beyond(event.time) {
        reader.beyond += 1;
        return told;
    }
    // A sink that could not take the gap is given the event all the same: it counts it either way.
    let taken = sink.event(&event);
    told.and(taken)
}

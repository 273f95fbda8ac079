//! One record of our own array: decoded, the holes before it found, and both handed on.

use std::ops::ControlFlow;

use super::reader::Reader;
use crate::{
    Result,
    event::Event,
    probe::Probes,
    record::Body,
    ring::{Item, ItemKind},
    schema::shared,
    sink::{Note, Sink},
};

/// Raw bytes of an end marker, padding included.
const MARKER_RAW: usize = 4;

/// How many events the sink has had, and may have.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub limit: Option<u64>,
    pub delivered: u64,
    /// Events before this time were not asked for, nor any where it is the end of time.
    pub since: u64,
}

impl Quota {
    /// Whether an event of that time is not to be handed on.
    #[inline]
    pub fn beyond(&self, time: Option<u64>) -> bool {
        self.spent() || time.unwrap_or(u64::MAX) < self.since
    }

    /// Whether the sink has had them all.
    pub fn spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.delivered >= limit)
    }
}

/// Takes one record.
#[inline]
pub fn take(
    probes: &Probes,
    readers: &mut [Reader],
    quota: &mut Quota,
    item: &Item<'_>,
    sink: &mut dyn Sink,
) -> Result<ControlFlow<()>> {
    let Some(reader) = readers.get_mut(item.cpu as usize) else {
        return Ok(ControlFlow::Continue(()));
    };
    match &item.kind {
        ItemKind::Sample(sample) => {
            let raw = sample.raw().unwrap_or_default();
            if raw.len() == MARKER_RAW {
                reader.markers += 1;
                return Ok(ControlFlow::Continue(()));
            }
            if probes.gathers() && shared::is_shared(&raw) {
                return take_shared(probes, reader, quota, item.cpu, raw, sink);
            }
            take_event(probes, reader, quota, (item.cpu, sample.time(), raw), sink)?;
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
    probes: &Probes,
    reader: &mut Reader,
    quota: &mut Quota,
    cpu: u32,
    raw: Body<'_>,
    sink: &mut dyn Sink,
) -> Result<ControlFlow<()>> {
    reader.shared += 1;
    let mut rest = Rest { probes, reader, cpu, events: shared::events(raw) };
    let mut said = Ok(());
    while let Some((time, raw)) = rest.next() {
        said = said.and(take_event(probes, rest.reader, quota, (cpu, Some(time), raw), sink));
    }
    said.map(|()| ControlFlow::Continue(()))
}

/// The events of a record that are yet to be taken. Where a sink panics, those after its event never reach it: they
/// are read and counted all the same.
struct Rest<'a, I: Iterator<Item = Option<(u64, Body<'a>)>>> {
    probes: &'a Probes,
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
            let decoded = Event::decode(self.cpu, Some(time), raw, |id| self.probes.schema(id));
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
    probes: &Probes,
    reader: &mut Reader,
    quota: &mut Quota,
    (cpu, time, raw): (u32, Option<u64>, Body<'_>),
    sink: &mut dyn Sink,
) -> Result<()> {
    let decoded = Event::decode(cpu, time, raw, |id| probes.schema(id));
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
    quota.delivered += 1;
    // A sink that could not take the gap is given the event all the same: it counts it either way.
    let taken = sink.event(&event);
    told.and(taken)
}

//! One record of our own array: decoded, the holes before it found, and both handed on.

use std::ops::ControlFlow;

use super::reader::Reader;
use crate::{
    Result,
    event::Event,
    probe::Probes,
    ring::{Item, ItemKind},
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
            let decoded = Event::decode(item.cpu, sample.time(), raw, |id| probes.schema(id));
            let gaps = decoded.and_then(|e| reader.stream.event(e.wire.level, e.wire.seq, e.time));
            let (Some(event), Some(gaps)) = (decoded, gaps) else {
                reader.undecoded += 1;
                return Ok(ControlFlow::Continue(()));
            };
            let told = reader.tell(&gaps, sink);
            reader.faulty += u64::from(event.faulty());
            if quota.beyond(event.time) {
                reader.beyond += 1;
                return told.map(|()| ControlFlow::Continue(()));
            }
            quota.delivered += 1;
            // A sink that could not take the gap is given the event all the same: it counts it either way.
            let taken = sink.event(&event);
            told.and(taken)?;
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

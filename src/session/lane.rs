//! One ring's or ringbuf's events of programs that are not ours: numbered, decoded by their shapes, handed on.

use super::take::Quota;
use crate::{
    Result,
    event::{Cause, Event, Gap, NO_CPU, Wire},
    probe::foreign::Marker,
    record::Body,
    ring::{Item, ItemKind},
    schema::Shapes,
    sink::{Note, Sink},
};

/// Why events are shown as bytes is told for so many raw sizes.
const TOLD: usize = 8;

/// One CPU's events; a ringbuf has one lane.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    seq: u32,
    time: Option<u64>,
    /// Events decoded, those shown as bytes included.
    pub decoded: u64,
    /// Events shown as bytes.
    pub as_bytes: u64,
    /// Samples that no schema fits.
    pub undecoded: u64,
    /// Events after the last that was asked for.
    pub beyond: u64,
    /// End markers read.
    pub markers: u64,
    /// That the ring is corrupt was told.
    told: bool,
}

/// What events go through on their way from a feed to a sink.
pub struct Way<'a> {
    pub quota: &'a mut Quota,
    pub sink: &'a mut dyn Sink,
    /// How many schemas stand before this feed's in the header.
    pub base: usize,
}

impl Lane {
    /// So many records are missing before the next.
    pub fn lost(&mut self, cpu: u32, level: u8, count: u64, before: Option<u64>) -> Gap {
        let first = self.seq.wrapping_add(1);
        self.seq = self.seq.wrapping_add(count as u32);
        let seq = Some((first, self.seq));
        let (level, after) = (Some(level), self.time);
        Gap { cpu, count: Some(count), cause: Cause::Lost, seq, level, after, before }
    }
}

/// Takes the records of one feed.
pub struct Taker<'f, 'w, 'a> {
    pub map: &'f str,
    pub shapes: &'f Shapes,
    pub level: u8,
    /// By CPU; one of a ringbuf.
    pub lanes: &'f mut [Lane],
    /// The raw sizes of which it was told why they are shown as bytes.
    pub told: &'f mut Vec<usize>,
    pub way: &'w mut Way<'a>,
}

impl Taker<'_, '_, '_> {
    /// Takes one record of a ring; `mark` is what end markers open with.
    pub fn item(&mut self, mark: u64, item: &Item<'_>) -> Result<()> {
        let cpu = item.cpu;
        let Some(lane) = self.lanes.get_mut(cpu as usize) else { return Ok(()) };
        match &item.kind {
            ItemKind::Sample(sample) => {
                let raw = sample.raw().unwrap_or_default();
                if raw.len() == Marker::RAW && raw.u64_at(0) == Some(mark) {
                    lane.markers += 1;
                    return Ok(());
                }
                self.event(cpu, sample.time(), sample.tgid().zip(sample.pid()), raw)
            }
            ItemKind::Lost(lost) => {
                let gap = lane.lost(cpu, self.level, lost.lost, lost.sample_id.and_then(|id| id.time));
                self.way.sink.gap(&gap)
            }
            ItemKind::Corruption(corruption) => {
                let (cause, after) = (Cause::Corrupt, lane.time);
                let first = !std::mem::replace(&mut lane.told, true);
                let level = Some(self.level);
                let gap = Gap { cpu, count: None, cause, seq: None, level, after, before: None };
                self.way.sink.gap(&gap)?;
                if !first {
                    return Ok(());
                }
                let text = format!(
                    "the ring of CPU {cpu} in '{}' is corrupt (told once): {corruption:?}; a program that outputs more \
                     than 65516 bytes does that",
                    self.map
                );
                self.way.sink.note(&Note::Error(&text))
            }
            ItemKind::LostSamples(_) | ItemKind::Overwritten | ItemKind::Other => Ok(()),
        }
    }

    /// Takes one event.
    pub fn event(
        &mut self,
        cpu: u32,
        time: Option<u64>,
        ids: Option<(u32, u32)>,
        raw: Body<'_>,
    ) -> Result<()> {
        let at = if cpu == NO_CPU { 0 } else { cpu as usize };
        let Some(lane) = self.lanes.get_mut(at) else { return Ok(()) };
        lane.seq = lane.seq.wrapping_add(1);
        lane.time = time;
        let index = self.shapes.pick(raw.len());
        let schema = &self.shapes.schemas()[index];
        let wire = Wire::foreign((self.way.base + index + 1) as u16, self.level, lane.seq, ids);
        let Some(event) = (Event { cpu, time, wire, schema, raw, late: false }).whole() else {
            lane.undecoded += 1;
            return Ok(());
        };
        lane.decoded += 1;
        let bytes = index + 1 == self.shapes.schemas().len();
        lane.as_bytes += u64::from(bytes);
        if self.way.quota.beyond(None) {
            lane.beyond += 1;
            return Ok(());
        }
        let told = if bytes { self.explain(raw.len()) } else { Ok(()) };
        // A sink that could not take the note is given the event all the same: it counts it either way.
        let taken = self.way.sink.event(&event);
        told.and(taken)
    }

    /// Says, once a size, why events of it are shown as bytes.
    fn explain(&mut self, raw: usize) -> Result<()> {
        if self.told.len() == TOLD || self.told.contains(&raw) {
            return Ok(());
        }
        let Some(why) = self.shapes.why_bytes(raw) else { return Ok(()) };
        self.told.push(raw);
        self.way.sink.note(&Note::Probe(&format!("'{}' shows events as bytes: {why}", self.map)))
    }
}

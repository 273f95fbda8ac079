//! perf's own records: those that take the place of a file's sections in a pipe, and what names events and ids.

use super::put_string;
use crate::perf_data::{Attr, Endian, Fields};

/// `PERF_RECORD_HEADER_ATTR`: an event, in a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderAttr {
    /// What it was opened with.
    pub attr: Attr,
    /// The ids that its records carry.
    pub ids: Vec<u64>,
}

/// `PERF_RECORD_HEADER_FEATURE`: a feature, in a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFeature<'a> {
    /// One of [`feature::id`](crate::perf_data::feature::id), or one above all known: the mark of the last.
    pub feature: u64,
    /// What stands in a file's section.
    pub bytes: &'a [u8],
}

/// `PERF_RECORD_EVENT_UPDATE`: something more about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventUpdate<'a> {
    /// [`EventUpdate::UNIT`] and the like.
    pub kind: u64,
    /// The event's id.
    pub id: u64,
    /// What is told: a string, a number, or CPUs.
    pub data: &'a [u8],
}

/// `PERF_RECORD_ID_INDEX`: which CPU and which task ids are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdIndex {
    /// Each id.
    pub entries: Vec<IdEntry>,
    /// Of each id the machine's process and the virtual CPU; from perf 6.0 on.
    pub guests: Option<Vec<(u64, u64)>>,
}

/// One id of an [`IdIndex`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdEntry {
    /// The id.
    pub id: u64,
    /// Which of the event's.
    pub index: u64,
    /// The CPU; all ones: any.
    pub cpu: u64,
    /// The thread; all ones: any.
    pub tid: u64,
}

/// `PERF_RECORD_HEADER_TRACING_DATA`: [`TracingData`](crate::perf_data::TracingData) **follows the record**.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracingDataHead {
    /// Bytes that follow, padding included.
    pub size: u32,
}

impl HeaderAttr {
    /// Reads the body. Ids begin where the attributes say that they end, whatever of those is known here.
    pub fn parse(body: &[u8], endian: Endian) -> Option<HeaderAttr> {
        let (attr, size) = Attr::parse(body, endian)?;
        let ids = body.get(size..)?.chunks_exact(8).filter_map(|id| endian.u64_at(id, 0)).collect();
        Some(HeaderAttr { attr, ids })
    }

    /// Appends the body.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        self.attr.write(endian, out);
        self.ids.iter().for_each(|id| endian.put_u64(out, *id));
    }
}

impl<'a> HeaderFeature<'a> {
    /// Reads the body.
    pub fn parse(body: &'a [u8], endian: Endian) -> Option<HeaderFeature<'a>> {
        let mut f = Fields::new(body, endian);
        Some(HeaderFeature { feature: f.u64()?, bytes: f.rest() })
    }

    /// Appends the body.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, self.feature);
        out.extend_from_slice(self.bytes);
    }
}

impl<'a> EventUpdate<'a> {
    /// The unit of its counts, a string.
    pub const UNIT: u64 = 0;
    /// What counts are multiplied by, a `double`.
    pub const SCALE: u64 = 1;
    /// Its name, a string.
    pub const NAME: u64 = 2;
    /// Its CPUs, as a CPU_MAP record has them.
    pub const CPUS: u64 = 3;

    /// Reads the body.
    pub fn parse(body: &'a [u8], endian: Endian) -> Option<EventUpdate<'a>> {
        let mut f = Fields::new(body, endian);
        Some(EventUpdate { kind: f.u64()?, id: f.u64()?, data: f.rest() })
    }

    /// The string that it tells, where it is one.
    pub fn text(&self) -> Option<&'a [u8]> {
        let is_text = matches!(self.kind, EventUpdate::UNIT | EventUpdate::NAME);
        is_text.then(|| self.data.split(|b| *b == 0).next())?
    }

    /// Appends the body of one that gives a name.
    pub fn write_name(id: u64, name: &[u8], endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, EventUpdate::NAME);
        endian.put_u64(out, id);
        put_string(name, out);
    }
}

impl IdEntry {
    /// Of an event that counts any thread on any CPU; its id is still to be given.
    pub const ANYWHERE: IdEntry = IdEntry { id: 0, index: 0, cpu: u64::MAX, tid: u64::MAX };
}

impl IdIndex {
    /// Reads the body.
    pub fn parse(body: &[u8], endian: Endian) -> Option<IdIndex> {
        let mut f = Fields::new(body, endian);
        let count = f.u64()?;
        let entry = |f: &mut Fields<'_>| {
            Some(IdEntry { id: f.u64()?, index: f.u64()?, cpu: f.u64()?, tid: f.u64()? })
        };
        let entries = (0..count).map(|_| entry(&mut f)).collect::<Option<_>>()?;
        let guests = (0..count).map(|_| f.u64().zip(f.u64())).collect::<Option<_>>();
        Some(IdIndex { entries, guests: guests.filter(|_| count > 0) })
    }

    /// Appends the body.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, self.entries.len() as u64);
        for entry in &self.entries {
            for n in [entry.id, entry.index, entry.cpu, entry.tid] {
                endian.put_u64(out, n);
            }
        }
        for (machine, cpu) in self.guests.iter().flatten() {
            endian.put_u64(out, *machine);
            endian.put_u64(out, *cpu);
        }
    }
}

impl TracingDataHead {
    /// Reads the body: of four bytes, or in newer perf of eight.
    pub fn parse(body: &[u8], endian: Endian) -> Option<TracingDataHead> {
        Some(TracingDataHead { size: endian.u32_at(body, 0)? })
    }

    /// Appends the body.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, self.size);
        endian.put_u32(out, 0);
    }
}

//! The events of a recording, and which of them a record belongs to.

use std::{cell::Cell, collections::HashMap};

use super::Record;
use crate::perf_data::{Attr, Endian, kind};
use crate::record::sample_type::{ADDR, CPU, ID, IDENTIFIER, IP, STREAM_ID, TID, TIME};

/// One event of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventInfo {
    /// What it was opened with.
    pub attr: Attr,
    /// The ids of its records.
    pub ids: Vec<u64>,
    /// Its name, where the recording says it.
    pub name: Option<Vec<u8>>,
    /// The unit of its counts, and what they are to be multiplied by.
    pub unit: Option<(Vec<u8>, f64)>,
    time: Places,
}

/// Where an event's records hold their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Of a sample: from its body's first byte on.
    sample: Option<u32>,
    /// Of all others: from the body's end back.
    other: Option<u32>,
}

/// All events of a recording, in its order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    all: Vec<EventInfo>,
    by_id: HashMap<u64, u32>,
    /// Where a sample holds the id, and how far from their ends other records do, in bytes.
    id_at: (Option<usize>, Option<usize>),
    /// The last id that was looked up: records of one event come in rows.
    last: Cell<Option<(u64, u32)>>,
}

impl Events {
    /// The events.
    pub fn all(&self) -> &[EventInfo] {
        &self.all
    }

    /// One of them.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&EventInfo> {
        self.all.get(index)
    }

    /// Which event has an id.
    #[inline]
    pub fn of_id(&self, id: u64) -> Option<usize> {
        if let Some((known, index)) = self.last.get()
            && known == id
        {
            return Some(index as usize);
        }
        let index = *self.by_id.get(&id)?;
        self.last.set(Some((id, index)));
        Some(index as usize)
    }

    /// Takes one more.
    pub(super) fn add(&mut self, attr: Attr, ids: Vec<u64>) {
        let index = self.all.len() as u32;
        if index == 0 {
            self.id_at = id_places(&attr);
        }
        for id in &ids {
            self.by_id.insert(*id, index);
        }
        let time = Places { sample: sample_time(&attr), other: trailer_time(&attr) };
        self.all.push(EventInfo { attr, ids, time, ..EventInfo::default() });
        self.last.set(None);
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut EventInfo> {
        self.all.get_mut(index)
    }

    /// Which event a record of the kernel belongs to: by its id, or the only one that there is. `None` of a sample
    /// whose id is not known, and of perf's own records. Another record without a known id is read by the first
    /// event's attributes, as perf does.
    #[inline]
    pub fn of(&self, record: &Record<'_>) -> Option<usize> {
        if !record.is_kernels() || self.all.is_empty() {
            return None;
        }
        if self.all.len() == 1 {
            return Some(0);
        }
        let sample = record.kind == kind::SAMPLE;
        let id = match sample {
            true => self.id_at.0.map(|at| record.endian.u64_at(record.body, at)),
            false => self.id_at.1.map(|back| word_back(record.body, back, record.endian)),
        };
        match id {
            // Without any place for an id, all are the first event's.
            None => Some(0),
            Some(Some(0)) => Some(0),
            Some(id) => id.and_then(|id| self.of_id(id)).or((!sample).then_some(0)),
        }
    }

    /// The CPU that a record that is no sample says in its trailer.
    pub fn cpu(&self, record: &Record<'_>) -> Option<u32> {
        let attr = self.all.get(self.of(record)?)?.attr;
        let trailer = attr.format().sample_id_all && attr.sample_type & CPU != 0;
        let back = if attr.sample_type & IDENTIFIER != 0 { 16 } else { 8 };
        let at = record.body.len().checked_sub(back).filter(|_| trailer && record.kind != kind::SAMPLE)?;
        record.endian.u32_at(record.body, at)
    }

    /// The time of a record, where it has one.
    #[inline]
    pub fn time(&self, record: &Record<'_>) -> Option<u64> {
        let places = self.all.get(self.of(record)?)?.time;
        match record.kind {
            kind::SAMPLE => record.endian.u64_at(record.body, places.sample? as usize),
            _ => word_back(record.body, places.other? as usize, record.endian),
        }
    }
}

#[inline]
fn word_back(body: &[u8], back: usize, endian: Endian) -> Option<u64> {
    endian.u64_at(body, body.len().checked_sub(back)?)
}

fn id_places(attr: &Attr) -> (Option<usize>, Option<usize>) {
    let has = |bits: u64| 8 * (attr.sample_type & bits).count_ones() as usize;
    if attr.sample_type & IDENTIFIER != 0 {
        return (Some(0), attr.format().sample_id_all.then_some(8));
    }
    if attr.sample_type & ID == 0 {
        return (None, None);
    }
    (Some(has(IP | TID | TIME | ADDR)), attr.format().sample_id_all.then(|| 8 + has(CPU | STREAM_ID)))
}

fn sample_time(attr: &Attr) -> Option<u32> {
    let before = (attr.sample_type & (IDENTIFIER | IP | TID)).count_ones();
    (attr.sample_type & TIME != 0).then_some(8 * before)
}

fn trailer_time(attr: &Attr) -> Option<u32> {
    let behind = (attr.sample_type & (TIME | ID | STREAM_ID | CPU | IDENTIFIER)).count_ones();
    (attr.sample_type & TIME != 0 && attr.format().sample_id_all).then_some(8 * behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_data::flag;

    fn record(kind: u32, body: &[u8]) -> Record<'_> {
        let size = body.len() as u16 + 8;
        Record { offset: 0, part: 0, kind, misc: 0, size, body, payload: &[], endian: Endian::Little }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn two(sample_type: u64) -> Events {
        let mut events = Events::default();
        let attr = Attr { sample_type, flags: flag::SAMPLE_ID_ALL, ..Attr::default() };
        events.add(attr, vec![5]);
        events.add(attr, vec![6, 7]);
        events
    }

    #[test]
    fn by_the_identifier() {
        let events = two(IDENTIFIER | IP | TID | TIME | CPU);
        let body = words(&[7, 100, 1, 999, 0]);
        assert_eq!(events.of(&record(kind::SAMPLE, &body)), Some(1));
        assert_eq!(events.time(&record(kind::SAMPLE, &body)), Some(999));
        let body = words(&[1, 2, 3, 1, 555, 0, 6]);
        assert_eq!(events.of(&record(kind::COMM, &body)), Some(1));
        assert_eq!(events.time(&record(kind::COMM, &body)), Some(555));
        assert_eq!(events.time(&record(kind::FINISHED_ROUND, &[])), None);
    }

    #[test]
    fn by_the_id_in_its_old_place() {
        let events = two(IP | TID | TIME | ID | CPU);
        let body = words(&[100, 1, 999, 7, 0]);
        assert_eq!(events.of(&record(kind::SAMPLE, &body)), Some(1));
        let body = words(&[4, 1, 555, 5, 0]);
        assert_eq!(events.of(&record(kind::COMM, &body)), Some(0));
    }

    #[test]
    fn an_id_that_is_not_known() {
        let events = two(IDENTIFIER | TIME);
        assert_eq!(events.of(&record(kind::SAMPLE, &words(&[9, 1]))), None);
        assert_eq!(events.of(&record(kind::SAMPLE, &[1, 2])), None, "too short");
        assert_eq!(events.of(&record(kind::COMM, &words(&[1, 9]))), Some(0));
        assert_eq!(two(TIME).of(&record(kind::SAMPLE, &words(&[9]))), Some(0), "no ids at all");
    }
}

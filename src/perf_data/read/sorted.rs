//! Records in the order of their times, by perf's rule.
//!
//! perf's own records come where they stand. The kernel's are held until two FINISHED_ROUND records later: a round's
//! mark says that all that is older than the newest record of the round *before* it has been written. Those of one
//! time come as they lie; those without a time come at once.
//!
//! **Invariants.** What is held is bounded ([`Limits`]); where the bound was met, records may come late, and that is
//! counted. Of a file that is all there nothing is copied.

use super::{Info, Next, Reader, Record, part::Place};
use crate::error::Result;
use crate::perf_data::{Endian, kind};

/// How much may be held for the sake of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of records that had to be copied, and of the places of all.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 1 << 30 }
    }
}

/// A recording's records in order.
pub struct Sorted<'a> {
    reader: Reader<'a>,
    limits: Limits,
    /// Records that wait.
    held: Vec<Held>,
    /// Of `held`: the next that is due, and where those end that are.
    due: std::ops::Range<usize>,
    copies: Copies,
    /// The newest time so far, and the newest when the last round ended.
    newest: u64,
    round: u64,
    mark: bool,
    ended: bool,
    delivered: u64,
    early: u64,
    late: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    time: u64,
    offset: u64,
    size: u32,
    part: u32,
    /// Where it was copied to: a block, and its place there.
    copy: Option<(u32, u32)>,
}

impl<'a> Sorted<'a> {
    /// The records of `reader`, which has not been read yet.
    pub fn new(reader: Reader<'a>, limits: Limits) -> Sorted<'a> {
        Sorted {
            reader,
            limits,
            held: Vec::new(),
            due: 0..0,
            copies: Copies::default(),
            newest: 0,
            round: 0,
            mark: false,
            ended: false,
            delivered: 0,
            early: 0,
            late: 0,
        }
    }

    /// What is known of the recording so far.
    pub fn info(&self) -> &Info {
        self.reader.info()
    }

    /// How often the bound was met, so that records were handed on before it was known that none is older.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// How many records came after a newer one.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The next record in order. COMPRESSED ones are left out: what they hold is not.
    ///
    /// # Errors
    ///
    /// What reading a pipe fails with.
    pub fn next_record(&mut self) -> Result<Option<Next<'_>>> {
        loop {
            if let Some(at) = self.due.next() {
                let held = self.held[at];
                self.late += u64::from(held.time < self.delivered);
                self.delivered = self.delivered.max(held.time);
                let (record, info) = (self.record(held), self.reader.info());
                return Ok(Some(Next { record, info, time: Some(held.time) }));
            }
            if std::mem::take(&mut self.mark) {
                self.release(self.round);
                self.round = self.newest;
                continue;
            }
            if self.ended {
                return Ok(None);
            }
            let Some((part, place)) = self.reader.step()? else {
                self.ended = true;
                self.release(u64::MAX);
                continue;
            };
            if !self.hold(part, &place) {
                self.mark = place.header.kind == kind::FINISHED_ROUND;
                let (record, info) = (self.reader.parts()[part].record(&place), self.reader.info());
                return Ok(Some(Next { record, info, time: None }));
            }
        }
    }

    /// Takes a record to be put in order; false of one that comes at once. COMPRESSED ones are taken and forgotten.
    fn hold(&mut self, part: usize, place: &Place) -> bool {
        if place.header.kind >= kind::USER {
            return matches!(place.header.kind, kind::COMPRESSED | kind::COMPRESSED2);
        }
        let file = &self.reader.parts()[part];
        let lasting = file.lasting(place);
        let record = lasting.unwrap_or_else(|| file.record(place));
        let time = self.reader.info().events.time(&record);
        let Some(time) = time.filter(|time| !matches!(*time, 0 | u64::MAX)) else { return false };
        let copy = if lasting.is_some() { None } else { Some(self.copies.keep(&record)) };
        let size = place.size as u32;
        self.held.push(Held { time, offset: place.offset, size, part: part as u32, copy });
        self.newest = self.newest.max(time);
        let bytes = self.held.len() * size_of::<Held>() + self.copies.bytes;
        if bytes > self.limits.bytes {
            self.early += 1;
            // The older half of what is held.
            self.held.sort_by_key(|held| held.time);
            self.release(self.held[self.held.len() / 2].time);
        }
        true
    }

    /// Makes all that is held of up to this time due.
    fn release(&mut self, limit: u64) {
        // What was due before has gone.
        self.copies.forget(&self.held[..self.due.end]);
        self.held.drain(..self.due.end);
        // Stable, and quick where it is in order already or made of runs.
        self.held.sort_by_key(|held| held.time);
        let end = self.held.partition_point(|held| held.time <= limit);
        self.due = 0..end;
    }

    fn record(&self, held: Held) -> Record<'_> {
        let file = &self.reader.parts()[held.part as usize];
        let endian = self.reader.info().endian;
        let bytes = match held.copy {
            Some((block, at)) => &self.copies.blocks[block as usize].bytes[at as usize..],
            None => file.all().and_then(|all| all.get(held.offset as usize..)).unwrap_or_default(),
        };
        whole(&bytes[..bytes.len().min(held.size as usize)], held, file.index, endian)
    }
}

fn whole(bytes: &[u8], held: Held, part: u32, endian: Endian) -> Record<'_> {
    let head = bytes.first_chunk().map(|first| super::record::head(first, endian));
    let (kind, misc, size) = head.map_or((0, 0, 0), |head| (head.kind, head.misc, head.size));
    let body = bytes.get(Record::HEAD..).unwrap_or_default();
    Record { offset: held.offset, part, kind, misc, size, body, payload: &[], endian }
}

/// Records that had to be copied, in blocks that are used again.
#[derive(Default)]
struct Copies {
    blocks: Vec<Block>,
    /// Blocks whose records have all gone.
    free: Vec<u32>,
    current: Option<u32>,
    bytes: usize,
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    live: usize,
}

impl Copies {
    /// Bytes of a block: a record is at most 64 KiB.
    const BLOCK: usize = 1 << 20;

    fn keep(&mut self, record: &Record<'_>) -> (u32, u32) {
        let need = Record::HEAD + record.body.len();
        let fits = |block: &u32| self.blocks[*block as usize].bytes.len() + need <= Copies::BLOCK;
        let block = match self.current.filter(fits) {
            Some(block) => block,
            None => self.free.pop().unwrap_or_else(|| {
                self.blocks.push(Block { bytes: Vec::with_capacity(Copies::BLOCK), live: 0 });
                self.bytes += Copies::BLOCK;
                self.blocks.len() as u32 - 1
            }),
        };
        self.current = Some(block);
        let own = &mut self.blocks[block as usize];
        let at = own.bytes.len() as u32;
        own.live += 1;
        record.write(&mut own.bytes);
        (block, at)
    }

    fn forget(&mut self, held: &[Held]) {
        for (block, _) in held.iter().filter_map(|held| held.copy) {
            let own = &mut self.blocks[block as usize];
            own.live -= 1;
            if own.live == 0 {
                own.bytes.clear();
                if self.current != Some(block) {
                    self.free.push(block);
                }
            }
        }
    }
}

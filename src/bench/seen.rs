//! What the reader of a benchmark counts of each record.

use hdrhistogram::Histogram;

use crate::{
    probe::bench::{Bench, Emit},
    record::Body,
    sink::Clock,
};

/// How many records share one look at the clock.
const LOOK: u64 = 64;
/// The longest age that is told apart: a minute, in ns.
const OLDEST: u64 = 60_000_000_000;

/// Counts of events.
pub(super) struct Seen {
    pub events: u64,
    pub records: u64,
    pub markers: u64,
    pub wrong: u64,
    pub lost: u64,
    pub waits: u64,
    /// Nanoseconds from when an event was put out until it was read.
    pub ages: Option<Histogram<u64>>,
    emit: Emit,
    /// Bytes of a full record, with the kernel's padding where there is one.
    full: usize,
    now: u64,
}

impl Seen {
    pub(super) fn new(emit: Emit) -> Seen {
        let full = match emit.ringbuf {
            Some(_) => emit.record(),
            None => padded(emit.record()),
        };
        let ages = emit.timed.then(|| Histogram::new_with_bounds(1, OLDEST, 3).ok()).flatten();
        Seen { events: 0, records: 0, markers: 0, wrong: 0, lost: 0, waits: 0, ages, emit, full, now: 0 }
    }

    /// What another thread counts.
    pub(super) fn another(&self) -> Seen {
        Seen::new(self.emit)
    }

    /// Adds what another thread has counted.
    pub(super) fn add(&mut self, other: &Seen) {
        self.events += other.events;
        self.records += other.records;
        self.markers += other.markers;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.waits += other.waits;
        if let (Some(ages), Some(theirs)) = (&mut self.ages, &other.ages) {
            // Their bounds are the same.
            let _ = ages.add(theirs);
        }
    }

    /// Takes a record's raw bytes.
    #[inline]
    pub(super) fn take(&mut self, raw: Body<'_>) {
        if raw.len() == self.full && self.emit.gather <= 1 && !self.emit.timed {
            self.records += 1;
            match raw.u64_at(8) {
                Some(Bench::COOKIE) => self.events += 1,
                _ => self.wrong += 1,
            }
        } else {
            self.any(raw);
        }
    }

    fn any(&mut self, raw: Body<'_>) {
        if raw.len() == MARKER {
            self.markers += 1;
            return;
        }
        if self.records.is_multiple_of(LOOK) {
            self.now = Clock::monotonic_now();
        }
        self.records += 1;
        let stride = self.emit.stride();
        let head = stride - self.emit.size;
        for at in (0..raw.len() / stride).map(|i| i * stride) {
            if raw.u64_at(at + head + 8) != Some(Bench::COOKIE) {
                self.wrong += 1;
                return;
            }
            self.events += 1;
            if let (Some(ages), Some(time)) = (&mut self.ages, raw.u64_at(at).filter(|_| head > 0)) {
                ages.saturating_record(self.now.saturating_sub(time).max(1));
            }
        }
    }

    /// Forgets what the clock said: the reader has slept.
    pub(super) fn woke(&mut self) {
        self.waits += 1;
        self.now = Clock::monotonic_now();
    }
}

/// Bytes of an end marker, padded.
pub(super) const MARKER: usize = 4;

/// The raw size that the kernel makes of so many bytes: 4 mod 8 (`perf_prepare_sample`, kernel/events/core.c).
fn padded(bytes: usize) -> usize {
    (bytes + 4).next_multiple_of(8) - 4
}

//! What a reader counts of what it was handed, the same of every reader.

use nix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use tracer::probe::bench::{Bench, Emit};

/// Bytes of an end marker.
pub const MARKER: usize = 4;

/// Counts; a callback has but a shared one.
#[derive(Debug)]
pub struct Seen {
    /// Events that were what was sent.
    pub events: Cell<u64>,
    /// Records of such events.
    pub records: Cell<u64>,
    /// Records that LOST records told of.
    pub lost: Cell<u64>,
    /// End markers.
    pub markers: Cell<u64>,
    /// Anything else.
    pub wrong: Cell<u64>,
    /// How often the reader waited.
    pub waits: Cell<u64>,
    /// Nanoseconds from when an event was put out until it was read, where it carries its time.
    pub ages: RefCell<Vec<u64>>,
    emit: Emit,
    /// Bytes of a record that stands for one event.
    full: usize,
}

/// Adds to a count.
#[inline]
fn add(count: &Cell<u64>, n: u64) {
    count.set(count.get() + n);
}

impl Seen {
    /// Nothing yet, of what such programs put out.
    pub fn new(emit: Emit) -> Self {
        // The kernel pads a sample's raw bytes to 4 mod 8 (`perf_prepare_sample`, kernel/events/core.c).
        let full = match emit.ringbuf {
            Some(_) => emit.record(),
            None => (emit.record() + 4).next_multiple_of(8) - 4,
        };
        Self {
            events: Cell::default(),
            records: Cell::default(),
            lost: Cell::default(),
            markers: Cell::default(),
            wrong: Cell::default(),
            waits: Cell::default(),
            ages: RefCell::default(),
            emit,
            full,
        }
    }

    /// Counts a record by how many raw bytes it has, and what stands at an offset.
    #[inline]
    pub fn sample(&self, len: usize, at: impl Fn(usize) -> Option<u64>) {
        if len == self.full && self.emit.gather <= 1 && !self.emit.timed {
            add(&self.records, 1);
            add(if at(8) == Some(Bench::COOKIE) { &self.events } else { &self.wrong }, 1);
        } else {
            self.any(len, at);
        }
    }

    fn any(&self, len: usize, at: impl Fn(usize) -> Option<u64>) {
        if len == MARKER {
            return add(&self.markers, 1);
        }
        add(&self.records, 1);
        let stride = self.emit.stride();
        let head = stride - self.emit.size;
        for event in (0..len / stride).map(|i| i * stride) {
            if at(event + head + 8) != Some(Bench::COOKIE) {
                return add(&self.wrong, 1);
            }
            add(&self.events, 1);
            if let Some(time) = at(event).filter(|_| self.emit.timed) {
                self.ages.borrow_mut().push(monotonic().saturating_sub(time));
            }
        }
    }

    /// Counts a record that is in one piece.
    #[inline]
    pub fn bytes(&self, raw: &[u8]) {
        let at = |at: usize| raw.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        self.sample(raw.len(), at);
    }

    /// Counts what a LOST record told.
    pub fn told(&self, lost: u64) {
        add(&self.lost, lost);
    }

    /// Counts a record of another kind.
    pub fn other(&self) {
        add(&self.wrong, 1);
    }

    /// Counts a wait.
    pub fn waited(&self) {
        add(&self.waits, 1);
    }
}

fn monotonic() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

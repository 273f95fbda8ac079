//! How much one drain may hand over, and what it did.

use std::time::{Duration, Instant};

/// An end to one drain, beside the end of what is there. Whatever is reached first ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// At most so many records.
    pub records: u64,
    /// Ends after the record that reaches so many bytes.
    pub bytes: u64,
    /// Ends after this time: a clock is looked at every sixteen records of a ring.
    pub time: Option<Duration>,
}

impl Budget {
    /// All that is there.
    pub const ALL: Budget = Budget { records: u64::MAX, bytes: u64::MAX, time: None };

    /// At most `records` records.
    pub fn records(records: u64) -> Budget {
        Budget { records, ..Budget::ALL }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::ALL
    }
}

/// What one drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records handed over, of every kind.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// True where a ring was left with unread records: drain again before waiting, since nothing need wake
    /// the reader for records that were there before.
    pub more: bool,
    /// True where the handler ended the drain.
    pub stopped: bool,
}

/// What is left of a budget.
pub(super) struct Left {
    budget: Budget,
    deadline: Option<Instant>,
    records: u64,
    bytes: u64,
    late: bool,
}

impl Left {
    pub(super) fn new(budget: Budget) -> Left {
        let deadline = budget.time.and_then(|time| Instant::now().checked_add(time));
        Left { budget, deadline, records: 0, bytes: 0, late: false }
    }

    pub(super) fn records(&self) -> u64 {
        self.budget.records.saturating_sub(self.records)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.budget.bytes.saturating_sub(self.bytes)
    }

    pub(super) fn timed(&self) -> bool {
        self.deadline.is_some()
    }

    /// Looks at the clock.
    pub(super) fn late(&mut self) -> bool {
        self.late = self.late || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.late
    }

    pub(super) fn take(&mut self, records: u64, bytes: u64) {
        self.records += records;
        self.bytes += bytes;
    }

    pub(super) fn spent(&mut self) -> bool {
        self.records() == 0 || self.bytes() == 0 || self.late()
    }

    pub(super) fn drained(&self, more: bool, stopped: bool) -> Drained {
        Drained { records: self.records, bytes: self.bytes, more, stopped }
    }
}

//! What was read from one CPU's rings, counted.

use std::ops::AddAssign;

/// What was read from the rings of one CPU since the set was opened, rings that were replaced included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records of every kind.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// LOST records.
    pub lost_records: u64,
    /// The sum of what LOST records say was lost.
    pub lost: u64,
    /// What rings that were replaced had lost after their last record, by the kernel's count: no LOST record
    /// tells it. Where the kernel does not count, neither does this.
    pub untold: u64,
    /// Rings that were replaced and read to their end.
    pub replaced: u64,
    /// LOST_SAMPLES records.
    pub lost_samples_records: u64,
    /// The sum of what LOST_SAMPLES records say was lost.
    pub lost_samples: u64,
    /// Records of kinds that the reader does not know or that carry no sample: stepped over by their size.
    pub unknown: u64,
    /// Corruptions, malformed records included.
    pub corruptions: u64,
    /// Of these, records whose size was good but whose contents were not: counted in `records` too.
    pub malformed: u64,
    /// Bytes given up in corruptions.
    pub corrupt_bytes: u64,
    /// The most bytes that were ever found unread.
    pub high_water: u64,
    /// How often bytes were given back to the kernel.
    pub commits: u64,
}

impl Stats {
    /// Samples: the records that are nothing else. Counted where records are told apart, by
    /// [`Set::drain`](super::Set::drain) and not by [`Set::drain_records`](super::Set::drain_records).
    pub fn samples(&self) -> u64 {
        let others = self.lost_records + self.lost_samples_records + self.unknown + self.malformed;
        self.records.saturating_sub(others)
    }
}

impl AddAssign<&Stats> for Stats {
    fn add_assign(&mut self, other: &Stats) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.lost_records += other.lost_records;
        self.lost = self.lost.saturating_add(other.lost);
        self.untold += other.untold;
        self.replaced += other.replaced;
        self.lost_samples_records += other.lost_samples_records;
        self.lost_samples = self.lost_samples.saturating_add(other.lost_samples);
        self.unknown += other.unknown;
        self.corruptions += other.corruptions;
        self.malformed += other.malformed;
        self.corrupt_bytes += other.corrupt_bytes;
        self.high_water = self.high_water.max(other.high_water);
        self.commits += other.commits;
    }
}

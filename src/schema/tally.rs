//! What the kernel keeps of many runs in place of their events: `struct tracer_tally` of `bpf/tracer.h`.

use std::collections::BTreeMap;

use super::{Field, Kind};

/// Buckets of a histogram: below zero, zero, and one for each number of bits. `TRACER_BUCKETS` in `bpf/tracer.h`.
pub const BUCKETS: usize = 66;

/// A count, and sum, bounds and histogram of one value.
///
/// Bucket 0 counts values below zero, bucket 1 zeros, bucket `1 + n` those of `n` bits: from 2^(n-1) to below 2^n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub count: u64,
    /// Of these, those whose value could be read; what follows is of them.
    pub valued: u64,
    /// The sum of the values, modulo 2^64.
    pub sum: u64,
    /// The smallest, signed where the value is; of none, 0.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// How many values fell into each bucket.
    pub histogram: [u64; BUCKETS],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { count: 0, valued: 0, sum: 0, min: 0, max: 0, histogram: [0; BUCKETS] }
    }
}

impl Tally {
    /// `sizeof(struct tracer_tally)`
    pub const SIZE: usize = 8 * (5 + BUCKETS);

    /// Reads the kernel's side; `None` of too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Tally> {
        let word = |i: usize| Some(u64::from_ne_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?));
        let mut histogram = [0; BUCKETS];
        for (i, n) in histogram.iter_mut().enumerate() {
            *n = word(5 + i)?;
        }
        let [count, valued, sum, min, max] = [word(0)?, word(1)?, word(2)?, word(3)?, word(4)?];
        Some(Tally { count, valued, sum, min, max, histogram })
    }

    /// Adds what another one counted of the same value.
    pub fn add(&mut self, other: &Tally, signed: bool) {
        if other.valued > 0 {
            let less = |a: u64, b: u64| if signed { (a as i64) < (b as i64) } else { a < b };
            if self.valued == 0 || less(other.min, self.min) {
                self.min = other.min;
            }
            if self.valued == 0 || less(self.max, other.max) {
                self.max = other.max;
            }
        }
        self.count += other.count;
        self.valued += other.valued;
        self.sum = self.sum.wrapping_add(other.sum);
        self.histogram.iter_mut().zip(other.histogram).for_each(|(n, more)| *n += more);
    }

    /// What came since an earlier look; its bounds are those of all time.
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut since = *self;
        // A run may be half way through its additions when it is looked at.
        since.count = since.count.saturating_sub(earlier.count);
        since.valued = since.valued.saturating_sub(earlier.valued);
        since.sum = since.sum.wrapping_sub(earlier.sum);
        since.histogram.iter_mut().zip(earlier.histogram).for_each(|(n, was)| *n = n.saturating_sub(was));
        since
    }

    /// The values that were counted in a bucket: from the first to below the second. The bounds that no number of
    /// 64 bits reaches are `None`.
    pub fn range(bucket: usize) -> (Option<u64>, Option<u64>) {
        match bucket {
            0 => (None, Some(0)),
            1 => (Some(0), Some(1)),
            n => (1u64.checked_shl(n as u32 - 2), 1u64.checked_shl(n as u32 - 1)),
        }
    }
}

/// What the runs of a tally have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key {
    /// Nothing but their probe.
    All,
    /// A number.
    Number(u64),
    /// The task's name, NUL-padded; any bytes.
    Comm([u8; 16]),
    /// The calls that led there, innermost first, and of a process' its id.
    Stack {
        /// The addresses.
        addresses: Vec<u64>,
        /// The process, where it is its stack.
        process: Option<u32>,
    },
    /// A number that could not be read, or no stack.
    Unknown(Missing),
}

/// Why a key could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Missing {
    /// Memory that was not there, or a task without such a stack.
    Fault,
    /// The stack's place was taken by another, or all places are.
    Collision,
    /// Another errno.
    Other(u32),
}

impl Missing {
    /// By the errno that the kernel's side keeps.
    pub fn from_errno(errno: u32) -> Missing {
        match errno {
            14 => Missing::Fault,
            12 | 17 => Missing::Collision,
            other => Missing::Other(other),
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Missing::Fault => "fault",
            Missing::Collision => "collision",
            Missing::Other(_) => "unknown",
        }
    }
}

/// What the tallies of one probe hold, as fields of its schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// What they are told apart by.
    pub by: Option<Field>,
    /// What their sums and histograms are of.
    pub of: Option<Field>,
    /// Its values are nanoseconds.
    pub time: bool,
}

impl Kept {
    /// Whether the values have a sign.
    pub fn signed(&self) -> bool {
        self.of.as_ref().is_some_and(|field| matches!(field.kind, Kind::Signed(_)))
    }
}

/// What one probe has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its spec, with no more fields than were asked for.
    pub spec: String,
    /// What its tallies hold.
    pub kept: Kept,
    /// Its tallies by key, all CPUs together.
    pub groups: BTreeMap<Key, Tally>,
}

impl Counted {
    /// What was counted since an earlier look at the same probe; keys without any run since are left out.
    pub fn since(&self, earlier: &Counted) -> Counted {
        let nothing = Tally::default();
        let since = |(key, tally): (&Key, &Tally)| {
            let since = tally.since(earlier.groups.get(key).unwrap_or(&nothing));
            (since.count > 0).then(|| (key.clone(), since))
        };
        Counted { groups: self.groups.iter().filter_map(since).collect(), ..self.clone() }
    }

    /// Its runs, whatever their keys.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|tally| tally.count).sum()
    }

    /// The keys, the most frequent first.
    pub fn most_first(&self) -> Vec<(&Key, &Tally)> {
        let mut all: Vec<_> = self.groups.iter().collect();
        all.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64]) -> Tally {
        let mut all = Tally::default();
        for &value in values {
            let mut one = Tally { count: 1, valued: 1, sum: value as u64, ..Tally::default() };
            (one.min, one.max) = (one.sum, one.sum);
            all.add(&one, true);
        }
        all
    }

    #[test]
    fn bounds_are_signed_where_the_value_is() {
        let all = of(&[3, -2, 7]);
        assert_eq!((all.count, all.sum, all.min as i64, all.max), (3, 8, -2, 7));
        let mut unsigned = Tally::default();
        [3u64, u64::MAX].iter().for_each(|&v| {
            unsigned.add(&Tally { count: 1, valued: 1, min: v, max: v, ..Tally::default() }, false);
        });
        assert_eq!((unsigned.min, unsigned.max), (3, u64::MAX));
    }

    #[test]
    fn runs_without_a_value_move_no_bound() {
        let mut all = of(&[5]);
        all.add(&Tally { count: 2, ..Tally::default() }, true);
        assert_eq!((all.count, all.valued, all.min, all.max), (3, 1, 5, 5));
    }

    #[test]
    fn what_came_since_a_look() {
        let (earlier, now) = (of(&[-1, 4]), of(&[-1, 4, 10, -20]));
        let since = now.since(&earlier);
        assert_eq!((since.count, since.valued, since.sum as i64), (2, 2, -10));
    }

    #[test]
    fn buckets_meet_and_end_at_both_ends() {
        assert_eq!(Tally::range(0), (None, Some(0)));
        for bucket in 1..BUCKETS {
            assert_eq!(Tally::range(bucket).0, Tally::range(bucket - 1).1, "{bucket}");
        }
        assert_eq!(Tally::range(BUCKETS - 1), (Some(1 << 63), None));
    }

    #[test]
    fn bytes_of_the_kernels_side() {
        let bytes: Vec<u8> = (0..(Tally::SIZE / 8) as u64).flat_map(u64::to_ne_bytes).collect();
        let tally = Tally::from_bytes(&bytes).unwrap();
        assert_eq!((tally.count, tally.max, tally.histogram[BUCKETS - 1]), (0, 4, 70));
        assert_eq!(Tally::from_bytes(&bytes[1..]), None);
    }
}

//! What was measured: rounds, and their medians.

use serde::{Deserialize, Serialize};

use super::{Case, Noise};
use crate::ledger::{Accounts, Identity};

/// The age of events when they were read, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Age {
    /// Of half of them.
    pub p50: u64,
    /// Of all but one in a hundred.
    pub p99: u64,
    /// Of the oldest.
    pub max: u64,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// What hooked the calls, or how else the programs were run.
    pub attached: String,
    /// Seconds measured; of a drain, those that were spent reading.
    pub seconds: f64,
    /// Calls, or events asked of test-runs.
    pub calls: u64,
    /// Events received.
    pub received: u64,
    /// Records received.
    pub records: u64,
    /// Records received that were not what was sent.
    pub wrong: u64,
    /// Records that LOST records told of.
    pub lost: u64,
    /// Events that failed, by the programs' accounts.
    pub failed: u64,
    /// The programs' accounts.
    pub accounts: Accounts,
    /// Nanoseconds of CPU time a call without the program, where there are calls.
    pub untraced_ns: Option<f64>,
    /// Nanoseconds of CPU time a call, or an event of a burst, with it.
    pub traced_ns: f64,
    /// Nanoseconds that the reader spends on a record, where only reading is timed.
    pub drain_ns: Option<f64>,
    /// Of one CPU, by the reader.
    pub reader_cpu: f64,
    /// How often the reader slept and was woken or timed out.
    pub waits: u64,
    /// How old events were, where they carry their time.
    pub age: Option<Age>,
    /// Bytes of each ring.
    pub ring_size: usize,
    /// What else the machine did.
    pub noise: Noise,
    /// The checks.
    pub identities: Vec<Identity>,
}

impl Round {
    /// Events received a second.
    pub fn rate(&self) -> f64 {
        self.received as f64 / self.seconds.max(1e-9)
    }

    /// Of the events that were to be put out, those that were lost.
    pub fn loss(&self) -> f64 {
        self.failed as f64 / (self.received + self.failed).max(1) as f64
    }
}

/// What was measured of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The setting.
    pub case: Case,
    /// One measurement a round; one at least.
    pub rounds: Vec<Round>,
}

impl Outcome {
    /// The median over rounds of what `of` says of each; NaN where it says nothing of any.
    pub fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> f64 {
        let mut all: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        match all.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => all[n / 2],
            n => (all[n / 2 - 1] + all[n / 2]) / 2.0,
        }
    }

    /// Events received a second.
    pub fn rate(&self) -> f64 {
        self.median(|r| Some(r.rate()))
    }

    /// How far the rounds are apart: (largest - smallest) / median of their rates.
    pub fn spread(&self) -> f64 {
        let rates = || self.rounds.iter().map(Round::rate);
        (rates().fold(f64::MIN, f64::max) - rates().fold(f64::MAX, f64::min)) / self.rate().max(1e-9)
    }

    /// True if no check of any round failed.
    pub fn balanced(&self) -> bool {
        self.rounds.iter().flat_map(|r| &r.identities).all(|i| i.holds != Some(false))
    }
}

//! How often rings are swept: the latency, or more often while they fill fast.

use std::time::{Duration, Instant};

/// Above so many records a second the sweep is shortened, as a ring fills faster than the latency is long.
const BUSY_RATE: u64 = 10_000;
const BUSY_SWEEP: Duration = Duration::from_millis(1);
/// Over how long the rate is taken.
const RATE_WINDOW: Duration = Duration::from_millis(100);
/// How long to wait between sweeps, by the rate.
#[derive(Debug)]
pub struct Pace {
    latency: Duration,
    since: Instant,
    records: u64,
    busy: bool,
}

impl Pace {
    /// A pace that keeps this latency.
    pub fn new(latency: Duration) -> Pace {
        Pace { latency, since: Instant::now(), records: 0, busy: false }
    }

    /// Counts what a pass handed over.
    pub fn count(&mut self, records: u64) {
        self.records += records;
        let elapsed = self.since.elapsed();
        if elapsed >= RATE_WINDOW {
            let rate = self.records as f64 / elapsed.as_secs_f64();
            self.busy = rate > BUSY_RATE as f64;
            (self.records, self.since) = (0, Instant::now());
        }
    }

    /// How long to wait at most before the next pass.
    pub fn sweep(&self) -> Duration {
        if self.busy { self.latency.min(BUSY_SWEEP) } else { self.latency }
    }
}

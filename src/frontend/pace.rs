//! How often rings are swept: the latency, or more often while records come fast and nothing else wakes us soon.

use std::time::{Duration, Instant};

use crate::ring::{Drained, Set};

/// Above so many records a second the sweep is shortened, as a reader that is awake often costs little then.
const BUSY_RATE: f64 = 10_000.0;
const BUSY_SWEEP: Duration = Duration::from_millis(1);
/// Where the kernel wakes us by the watermark within this part of the latency, sweeps in between only take the
/// ring's lines out of the writer's cache: a write(2) costs it some 5 % more with one each millisecond.
const SOON: f64 = 0.5;
/// Over how long the rate is taken.
const RATE_WINDOW: Duration = Duration::from_millis(100);

/// How long to wait between sweeps, by the rate.
#[derive(Debug)]
pub struct Pace {
    latency: Duration,
    /// At how many bytes over all rings, evenly filled, the kernel wakes us; infinite where it does not by bytes.
    watermark: f64,
    since: Instant,
    records: u64,
    bytes: u64,
    busy: bool,
}

impl Pace {
    /// A pace that keeps the latency of these rings.
    pub fn new(rings: &Set) -> Pace {
        let wake = rings.options().wake;
        let bytes = wake.watermark(rings.ring_size()).map_or(f64::INFINITY, f64::from);
        Pace {
            latency: wake.sweep(),
            watermark: bytes * rings.cpus().count().max(1) as f64,
            since: Instant::now(),
            records: 0,
            bytes: 0,
            busy: false,
        }
    }

    /// Counts what a pass handed over.
    pub fn count(&mut self, drained: &Drained) {
        self.records += drained.records;
        self.bytes += drained.bytes;
        let elapsed = self.since.elapsed();
        if elapsed >= RATE_WINDOW {
            self.busy = self.is_busy(elapsed);
            (self.records, self.bytes, self.since) = (0, 0, Instant::now());
        }
    }

    fn is_busy(&self, elapsed: Duration) -> bool {
        let a_second = |count| count as f64 / elapsed.as_secs_f64();
        let soon = SOON * self.latency.as_secs_f64();
        a_second(self.records) > BUSY_RATE && a_second(self.bytes) * soon < self.watermark
    }

    /// How long to wait at most before the next pass.
    pub fn sweep(&self) -> Duration {
        if self.busy { self.latency.min(BUSY_SWEEP) } else { self.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_short_between_two_rates() {
        let busy = |records: u64, watermark| {
            let latency = Duration::from_millis(100);
            let since = Instant::now();
            Pace { latency, watermark, since, records, bytes: 32 * records, busy: false }
                .is_busy(Duration::from_secs(1))
        };
        let quarter = f64::from(1 << 18);
        assert!(!busy(9_000, quarter));
        assert!(busy(20_000, quarter), "a quarter of 1 MiB fills in 400 ms");
        assert!(busy(160_000, quarter), "in 51 ms");
        assert!(!busy(170_000, quarter), "in 48 ms");
        assert!(busy(170_000, 2.0 * quarter), "two rings, evenly filled");
        assert!(busy(10_000_000, f64::INFINITY), "no watermark");
    }
}

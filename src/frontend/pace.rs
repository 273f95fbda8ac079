//! How rings are waited for, by the rate: woken for each record, or swept; and how often.

use std::time::{Duration, Instant};

use crate::{
    Result,
    ring::{Drained, Set},
};

/// Above so many records a second no record wakes the reader by itself; what that costs the traced program, and the
/// reader, is more than all else.
const BULK_RATE: f64 = 10_000.0;
/// Below so many, each does again.
const PROMPT_RATE: f64 = 5_000.0;
/// Where records do not wake us, a reader that is awake often costs little.
const BUSY_SWEEP: Duration = Duration::from_millis(1);
/// Where the kernel wakes us by the watermark within this part of the latency, sweeps in between only take the
/// ring's lines out of the writer's cache: a write(2) costs it some 5 % more with one each millisecond.
const SOON: f64 = 0.5;
/// Over how long the rate is taken.
const RATE_WINDOW: Duration = Duration::from_millis(100);
/// Over how long, where each record wakes us, or nothing is known yet.
const SHORT_WINDOW: Duration = Duration::from_millis(20);

/// The wake rule and the time between sweeps, by the rate.
///
/// ```
/// # use tracer::{Result, frontend::{Control, Pace, Poller}, ring::{Budget, Set}};
/// # fn run(mut set: Set, poller: Poller, control: Control) -> Result<()> {
/// let mut pace = Pace::new(&set);
/// while !control.stopping() {
///     let drained = set.drain(Budget::ALL, |item| { todo!("{item:?}") });
///     pace.count(&drained, |prompt| set.set_prompt(prompt))?;
///     if !drained.more {
///         poller.wait(pace.sweep(), &control)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pace {
    latency: Duration,
    /// At how many bytes over all rings, evenly filled, the kernel wakes us; infinite where it does not by bytes.
    watermark: f64,
    since: Instant,
    records: u64,
    bytes: u64,
    rhythm: Rhythm,
    /// The wake rule that holds.
    prompt: bool,
}

/// What the rate makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rhythm {
    /// Nothing is known yet: swept as if records came.
    Unknown,
    /// Each record wakes us, or few come.
    Quiet,
    /// Swept each millisecond.
    Busy,
    /// The watermark wakes us soon.
    Full,
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
            rhythm: Rhythm::Unknown,
            prompt: rings.prompt(),
        }
    }

    /// Counts what a pass handed over. Where the rate asks for another wake rule, `set_prompt` is called, with what
    /// [`Set::set_prompt`] takes; it says what holds.
    ///
    /// # Errors
    ///
    /// What `set_prompt` says.
    pub fn count(&mut self, drained: &Drained, set_prompt: impl FnOnce(bool) -> Result<bool>) -> Result<()> {
        self.records += drained.records;
        self.bytes += drained.bytes;
        let elapsed = self.since.elapsed();
        let short = matches!(self.rhythm, Rhythm::Unknown | Rhythm::Quiet);
        if elapsed < (if short { SHORT_WINDOW } else { RATE_WINDOW }) {
            return Ok(());
        }
        self.rhythm = self.next(elapsed);
        (self.records, self.bytes, self.since) = (0, 0, Instant::now());
        let prompt = self.rhythm == Rhythm::Quiet;
        if prompt != self.prompt {
            self.prompt = set_prompt(prompt)?;
        }
        Ok(())
    }

    /// This wake rule holds now.
    pub(super) fn holds(&mut self, prompt: bool) {
        self.prompt = prompt;
    }

    fn next(&self, elapsed: Duration) -> Rhythm {
        let a_second = |count| count as f64 / elapsed.as_secs_f64();
        let quiet = if self.rhythm == Rhythm::Quiet { BULK_RATE } else { PROMPT_RATE };
        let soon = SOON * self.latency.as_secs_f64();
        if a_second(self.records) <= quiet {
            Rhythm::Quiet
        } else if a_second(self.bytes) * soon < self.watermark {
            Rhythm::Busy
        } else {
            Rhythm::Full
        }
    }

    /// How long to wait at most before the next pass.
    pub fn sweep(&self) -> Duration {
        match self.rhythm {
            Rhythm::Quiet | Rhythm::Full => self.latency,
            Rhythm::Unknown | Rhythm::Busy => self.latency.min(BUSY_SWEEP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rhythm: Rhythm, records: u64, watermark: f64) -> Pace {
        let (latency, since) = (Duration::from_millis(100), Instant::now());
        let prompt = rhythm == Rhythm::Quiet;
        Pace { latency, watermark, since, records, bytes: 32 * records, rhythm, prompt }
    }

    #[test]
    fn the_rhythm_follows_the_rate_with_a_memory() {
        let next = |rhythm, records, watermark| pace(rhythm, records, watermark).next(Duration::from_secs(1));
        let quarter = f64::from(1 << 18);
        for rhythm in [Rhythm::Unknown, Rhythm::Busy, Rhythm::Full] {
            assert_eq!(next(rhythm, 5_000, quarter), Rhythm::Quiet);
            assert_eq!(next(rhythm, 5_001, quarter), Rhythm::Busy);
        }
        assert_eq!(next(Rhythm::Quiet, 10_000, quarter), Rhythm::Quiet);
        assert_eq!(next(Rhythm::Quiet, 10_001, quarter), Rhythm::Busy, "a quarter of 1 MiB fills in 800 ms");
        assert_eq!(next(Rhythm::Busy, 160_000, quarter), Rhythm::Busy, "in 51 ms");
        assert_eq!(next(Rhythm::Busy, 170_000, quarter), Rhythm::Full, "in 48 ms");
        assert_eq!(next(Rhythm::Busy, 170_000, 2.0 * quarter), Rhythm::Busy, "two rings, evenly filled");
        assert_eq!(next(Rhythm::Busy, 10_000_000, f64::INFINITY), Rhythm::Busy, "no watermark");
    }

    #[test]
    fn the_rule_is_asked_for_when_it_changes() {
        let asked = |rhythm, records| {
            let mut pace = pace(rhythm, records, f64::INFINITY);
            pace.since -= RATE_WINDOW;
            let mut asked = None;
            let none = Drained::default();
            let set = |prompt| {
                asked = Some(prompt);
                Ok(prompt)
            };
            pace.count(&none, set).unwrap();
            assert_eq!((pace.records, pace.bytes), (0, 0));
            (asked, pace.sweep())
        };
        let (long, short) = (Duration::from_millis(100), BUSY_SWEEP);
        assert_eq!(asked(Rhythm::Unknown, 0), (Some(true), long));
        assert_eq!(asked(Rhythm::Unknown, 9_000), (None, short));
        assert_eq!(asked(Rhythm::Quiet, 0), (None, long));
        assert_eq!(asked(Rhythm::Quiet, 9_000), (Some(false), short));
        assert_eq!(asked(Rhythm::Busy, 9_000), (None, short));
        assert_eq!(asked(Rhythm::Full, 0), (Some(true), long));
        // Where it cannot be had now, it is asked for again.
        let mut refused = pace(Rhythm::Busy, 0, 0.0);
        for _ in 0..2 {
            refused.since -= RATE_WINDOW;
            let mut asked = 0;
            let set = |_| {
                asked += 1;
                Ok(false)
            };
            refused.count(&Drained::default(), set).unwrap();
            assert_eq!(asked, 1);
        }
        let young = pace(Rhythm::Unknown, 1 << 20, 0.0);
        assert_eq!(young.sweep(), BUSY_SWEEP);
    }
}

//! When a FINISHED_ROUND record may stand: perf's rule for the order of what rings give in turn.
//!
//! At each such record perf hands out all events up to the latest that it had seen **at the one before**, in order of
//! their times; one that comes later and is older is out of order. So a mark may stand only where nothing that is
//! older than the mark before it can still come. Rings are read in turn, each to the end that it has when its turn
//! comes; what a ring gives after a pass was therefore not in it when the pass began. What is older than the mark
//! before, and comes after this one, had its time taken before that mark, and was not yet in its ring when a pass
//! began that came after it. Between the two a program on another CPU may be held up, for as long as a hypervisor
//! gives that CPU to others: [`HELD_UP`] is waited for.

use std::time::{Duration, Instant};

/// Longer than any CPU is held up between taking an event's time and having the event in its ring.
const HELD_UP: Duration = Duration::from_millis(50);

/// Tells where marks stand.
#[derive(Debug)]
pub struct Rounds {
    /// The last mark.
    marked: Instant,
    /// The end of the last whole pass: the next began after it.
    ended: Instant,
}

impl Rounds {
    /// None yet.
    pub fn new(now: Instant) -> Rounds {
        Rounds { marked: now, ended: now }
    }

    /// A pass that read every ring ends now: whether a mark is to stand here.
    pub fn pass(&mut self, now: Instant) -> bool {
        let began = std::mem::replace(&mut self.ended, now);
        let safe = began.saturating_duration_since(self.marked) >= HELD_UP;
        if safe {
            self.marked = now;
        }
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_behind_a_pass_that_began_long_after_the_mark_before() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rounds = Rounds::new(start);
        assert!(!rounds.pass(at(200)), "it may have begun at once");
        assert!(rounds.pass(at(201)));
        assert!(!rounds.pass(at(202)) && !rounds.pass(at(250)) && !rounds.pass(at(251)));
        assert!(rounds.pass(at(252)), "it began 50 ms after the mark");
    }

    /// Rings are read in turn, in short passes and long ones, while events come in some time after their times were
    /// taken: what perf would say of the marks.
    #[test]
    fn no_event_comes_that_is_older_than_the_mark_before_the_last() {
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let base = Instant::now();
        let mut rounds = Rounds::new(base);
        // Of each ring: events by the moment that they are in it, and their times.
        let mut rings: Vec<Vec<(u64, u64)>> = vec![Vec::new(); 4];
        let (mut now, mut made) = (0u64, 0u64);
        let (mut latest, mut at_mark, mut flushed, mut marks) = (0u64, 0u64, 0u64, 0);
        for _ in 0..20_000 {
            now += random(30);
            for cpu in 0..4 {
                // Its turn comes some time into the pass.
                now += random(20);
                while made < now {
                    made += 1;
                    let held = if random(50) == 0 { random(49) } else { 0 };
                    let of = random(4) as usize;
                    rings[of].push((made + held, made));
                }
                let (there, later) = rings[cpu].iter().partition(|(moment, _)| *moment <= now);
                rings[cpu] = later;
                let there: Vec<(u64, u64)> = there;
                for (_, time) in there {
                    assert!(time >= flushed, "{time} is older than {flushed}");
                    latest = latest.max(time);
                }
            }
            if rounds.pass(base + Duration::from_millis(now)) {
                marks += 1;
                flushed = at_mark;
                at_mark = latest;
            }
        }
        assert!(marks > 5_000, "{marks}");
    }
}

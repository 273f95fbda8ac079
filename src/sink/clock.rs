//! The two clocks that a stream is told in.

use nix::time::{ClockId, clock_gettime};

/// Two clocks read at one moment, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// CLOCK_REALTIME.
    pub realtime: u64,
}

impl Clock {
    /// Both now.
    pub fn now() -> Clock {
        Clock { monotonic: Clock::monotonic_now(), realtime: nanoseconds(ClockId::CLOCK_REALTIME) }
    }

    /// CLOCK_MONOTONIC now.
    pub fn monotonic_now() -> u64 {
        nanoseconds(ClockId::CLOCK_MONOTONIC)
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

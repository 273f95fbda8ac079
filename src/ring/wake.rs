//! When the kernel wakes us: a latency, or a raw knob within the bounds that cannot stall.

use std::time::Duration;

use super::size::{Bytes, largest_raw};
use crate::{
    error::{Error, Result},
    record::SampleFormat,
};

/// When the kernel wakes the reader of a ring.
///
/// A wake-up costs more than a thousand records: state how old a record may grow, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// No record is to wait longer than this: whoever polls sweeps all rings in this interval. The kernel wakes us
    /// at a quarter of a ring, or, while few records come, for each: see
    /// [`Set::set_prompt`](super::Set::set_prompt).
    Latency(Duration),
    /// Every so many records (`wakeup_events`); 1 wakes for each. A number that never fits into the ring
    /// wakes at half of it.
    Records(u32),
    /// Every so many bytes (`wakeup_watermark`).
    Bytes(u32),
}

impl Default for Wake {
    /// 100 ms.
    fn default() -> Wake {
        Wake::Latency(Duration::from_millis(100))
    }
}

/// What stands in the two wake fields of `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Records(u32),
    Bytes(u32),
}

impl Wake {
    /// How often whoever polls is to drain all rings, woken or not: a wake-up is not to be relied on, since
    /// a write that fails never wakes, and records below the watermark never do.
    pub fn sweep(&self) -> Duration {
        match self {
            Wake::Latency(latency) => *latency,
            Wake::Records(_) | Wake::Bytes(_) => Duration::from_millis(100),
        }
    }

    /// At how many bytes the kernel wakes whoever polls a ring of `size` bytes; `None` where it counts records.
    pub fn watermark(&self, size: usize) -> Option<u32> {
        match *self {
            Wake::Latency(_) => Some(quarter(size)),
            Wake::Bytes(n) => Some(n),
            Wake::Records(_) => None,
        }
    }

    /// The rule for a ring of `size` bytes, or why there is none.
    ///
    /// The kernel wakes when the bytes written since the last crossing exceed the watermark
    /// (`__perf_output_begin`, kernel/events/ring_buffer.c), and a ring holds at most `size - 8` unread. A
    /// watermark that the largest record that still fits cannot cross leaves a full ring and a reader asleep.
    pub(super) fn rule(&self, size: usize, format: &SampleFormat, max_raw: usize) -> Result<Rule> {
        match *self {
            Wake::Latency(Duration::ZERO) => Err(Error::usage("a latency of 0 cannot be kept")
                .with_help("state a latency of 1 ms or more, or ask for a wake-up per record")),
            Wake::Latency(_) => Ok(Rule::Bytes(quarter(size))),
            Wake::Records(0) => Err(Error::usage("a wake-up every 0 records means nothing")
                .with_help("ask for every 1 or more, or state a latency")),
            Wake::Records(n) => Ok(Rule::Records(n)),
            Wake::Bytes(0) => Err(Error::usage("a wake-up every 0 bytes means nothing")
                .with_help("ask for every 1 or more, or state a latency")),
            Wake::Bytes(n) => {
                let record = format.sample_size(max_raw.min(largest_raw(size, format)));
                let lost = format.lost_size();
                let largest = size.saturating_sub(8 + record + lost).max(size / 2);
                if n as usize <= largest {
                    return Ok(Rule::Bytes(n));
                }
                Err(Error::usage(format!(
                    "a watermark of {n} bytes can leave a ring of {} full and its reader asleep",
                    Bytes(size)
                ))
                .with_help(format!(
                    "at most {largest} bytes: half of the ring, or {size} - 8 - {record} (the largest \
                     record) - {lost} (a LOST record)"
                )))
            }
        }
    }
}

fn quarter(size: usize) -> u32 {
    u32::try_from(size / 4).unwrap_or(u32::MAX / 4)
}

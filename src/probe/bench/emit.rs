//! What the benchmark's programs put out, and into what.

use syscalls::Sysno;

use super::Bench;
use crate::{Error, Result};

/// What the programs put out, and into what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emit {
    /// Bytes of an event: 16 to [`Bench::LARGEST`], a multiple of eight; its time is not counted.
    pub size: usize,
    /// Each event opens with its time: CLOCK_MONOTONIC nanoseconds.
    pub timed: bool,
    /// Events that share a record.
    pub gather: u32,
    /// Into a BPF ringbuf in place of the rings.
    pub ringbuf: Option<RingbufOptions>,
}

/// A BPF ringbuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingbufOptions {
    /// Its bytes: 2^n pages.
    pub size: usize,
    /// Unread bytes at which its reader is woken; `None`: by its own rule, whenever the reader had read all.
    pub wake_at: Option<u32>,
}

impl Default for Emit {
    /// Sixteen bytes, a record each, into the rings: as trace_output has it.
    fn default() -> Emit {
        Emit { size: 16, timed: false, gather: 1, ringbuf: None }
    }
}

impl Emit {
    /// The most bytes that events of one record have.
    pub const GATHERED: usize = 16 << 10;

    /// Bytes of an event, its time included.
    pub fn stride(&self) -> usize {
        self.size + if self.timed { 8 } else { 0 }
    }

    /// Bytes of a record's payload.
    pub fn record(&self) -> usize {
        self.stride() * self.gather as usize
    }

    pub(super) fn check(&self) -> Result<()> {
        let Emit { size, timed, gather, .. } = *self;
        if !(16..=Bench::LARGEST - 64).contains(&size) || !size.is_multiple_of(8) {
            return Err(Error::usage(format!("a payload of {size} bytes cannot be"))
                .with_help("it is a multiple of 8 from 16 to 65472 bytes"));
        }
        if gather == 0 || (gather > 1 || timed) && self.record() > Emit::GATHERED {
            return Err(Error::usage(format!(
                "{gather} events of {} bytes cannot share a record",
                self.stride()
            ))
            .with_help(format!("with their times they have {} bytes at most", Emit::GATHERED)));
        }
        Ok(())
    }

    /// `struct bench_config` of `bpf/bench.bpf.c`.
    pub(super) fn words(&self, tgid: u32) -> [u32; 7] {
        [
            tgid,
            Sysno::write.id() as u32,
            self.size as u32,
            self.timed.into(),
            self.gather,
            self.ringbuf.is_some().into(),
            self.ringbuf.and_then(|r| r.wake_at).unwrap_or(0),
        ]
    }
}

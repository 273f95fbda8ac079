//! What a set of rings is opened with.

use super::{
    attr::{Attr, What},
    size::{check_raw, round},
    wake::Wake,
};
use crate::{
    error::{Error, Result},
    record::{SampleFormat, sample_type},
};

/// The fields that this crate can read in a sample.
const READABLE: u64 = {
    use sample_type::*;
    IP | TID | TIME | ADDR | CALLCHAIN | ID | CPU | PERIOD | STREAM_ID | RAW | IDENTIFIER
};

/// What a [`Set`](super::Set) is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of data of each ring; rounded up to 2^n pages.
    pub size: usize,
    /// When the kernel wakes whoever polls.
    pub wake: Wake,
    /// What a sample carries beside its raw bytes: bits of [`sample_type`]. The raw bytes are always there.
    /// Each field costs the traced program some tens of nanoseconds a record.
    pub sample_type: u64,
    /// The most raw bytes that a program will output at once, where that is known, else 0. What could never
    /// fit is refused when the set is opened.
    pub max_raw: usize,
    /// Which CPUs; all where `None`.
    pub cpus: Option<Vec<u32>>,
}

impl Default for Options {
    /// 1 MiB a CPU, a latency of 100 ms, the time with every sample.
    fn default() -> Options {
        Options {
            size: 1 << 20,
            wake: Wake::default(),
            sample_type: sample_type::RAW | sample_type::TIME,
            max_raw: 0,
            cpus: None,
        }
    }
}

impl Options {
    /// How records will have to be read.
    pub(super) fn format(&self) -> SampleFormat {
        SampleFormat { sample_type: self.sample_type | sample_type::RAW, sample_id_all: true }
    }

    /// Checks all that can be checked without the kernel.
    pub(super) fn attr(&self) -> Result<Attr> {
        let format = self.format();
        let size = round(self.size)?;
        if format.sample_type & !READABLE != 0 {
            return Err(Error::usage(format!(
                "sample_type {:#x} has fields that are not supported: {:#x}",
                self.sample_type,
                format.sample_type & !READABLE
            ))
            .with_help(format!("the fields that can be read are {READABLE:#x}")));
        }
        check_raw(self.max_raw, size, &format)?;
        Ok(Attr {
            what: What::Output,
            format,
            wake: self.wake.rule(size, &format, self.max_raw)?,
            prompt: false,
            backward: false,
        })
    }
}

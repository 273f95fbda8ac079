//! Bodies of the records that tell of AUX areas.

use super::Text;
use crate::perf_data::{Endian, Fields};

/// `PERF_RECORD_AUXTRACE_INFO`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxtraceInfo {
    /// `PERF_AUXTRACE_*`: whose trace it is.
    pub kind: u32,
    /// What its decoder needs.
    pub values: Vec<u64>,
}

/// `PERF_RECORD_AUXTRACE`: a piece of an AUX area follows the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxtrace {
    /// Bytes that follow.
    pub size: u64,
    /// Where in the area they begin.
    pub offset: u64,
    /// What their decoder puts them in order by.
    pub reference: u64,
    /// Which area.
    pub index: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
}

/// `PERF_RECORD_AUXTRACE_ERROR`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceError<'a> {
    /// Which sort.
    pub kind: u32,
    /// Which of the sort.
    pub code: u32,
    /// The CPU.
    pub cpu: u32,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The instruction.
    pub ip: u64,
    /// In words.
    pub message: Text<'a>,
}

impl AuxtraceInfo {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<AuxtraceInfo> {
        let mut f = Fields::new(body, endian);
        let kind = f.u32()?;
        f.u32()?;
        Some(AuxtraceInfo { kind, values: std::iter::from_fn(|| f.u64()).collect() })
    }
}

impl Auxtrace {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Auxtrace> {
        let mut f = Fields::new(body, endian);
        let (size, offset, reference) = (f.u64()?, f.u64()?, f.u64()?);
        Some(Auxtrace { size, offset, reference, index: f.u32()?, tid: f.u32()?, cpu: f.u32()? })
    }
}

impl<'a> AuxtraceError<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian) -> Option<AuxtraceError<'a>> {
        let mut f = Fields::new(body, endian);
        let (kind, code, cpu, pid, tid, form) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?, f.u32()?, f.u32()?);
        let ip = f.u64()?;
        // From its first form on there is a time.
        if form > 0 {
            f.u64()?;
        }
        Some(AuxtraceError { kind, code, cpu, pid, tid, ip, message: Text(f.c_string()) })
    }
}

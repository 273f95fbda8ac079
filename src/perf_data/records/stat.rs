//! Bodies of the records of `perf stat record`, and of what a recording says of threads, CPUs and clocks.

use super::Text;
use crate::perf_data::{Endian, Fields};

/// `PERF_RECORD_THREAD_MAP`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadMap<'a> {
    /// Each thread and its name.
    pub threads: Vec<(u64, Text<'a>)>,
}

/// `PERF_RECORD_CPU_MAP`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuMap {
    /// One after another; 65,535 is any CPU.
    List(Vec<u16>),
    /// By bits.
    Mask(Vec<u64>),
    /// From one to another, and whether any CPU is meant too.
    Range {
        /// Any CPU.
        any: bool,
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
}

/// `PERF_RECORD_STAT_CONFIG`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatConfig {
    /// What is set to what.
    pub values: Vec<(u64, u64)>,
}

/// `PERF_RECORD_STAT`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The event's id.
    pub id: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread's place in the map of threads.
    pub thread: u32,
    /// The count.
    pub value: u64,
    /// How long it was enabled.
    pub enabled: u64,
    /// How long it was counting.
    pub running: u64,
}

/// `PERF_RECORD_STAT_ROUND`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatRound {
    /// 0 of an interval, 1 of the end.
    pub kind: u64,
    /// When.
    pub time: u64,
}

/// `PERF_RECORD_TIME_CONV`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeConv {
    /// Cycles times `mult` by 2^`shift`, and `zero`: nanoseconds.
    pub shift: u64,
    /// See `shift`.
    pub mult: u64,
    /// See `shift`.
    pub zero: u64,
}

impl<'a> ThreadMap<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian) -> Option<ThreadMap<'a>> {
        let mut f = Fields::new(body, endian);
        let count = f.u64()?;
        let thread = |_| {
            let (pid, name) = (f.u64()?, f.bytes(16)?);
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            Some((pid, Text(&name[..end])))
        };
        Some(ThreadMap { threads: (0..count).map(thread).collect::<Option<_>>()? })
    }
}

impl CpuMap {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<CpuMap> {
        let mut f = Fields::new(body, endian);
        match f.u16()? {
            0 => {
                let count = f.u16()?;
                Some(CpuMap::List((0..count).map(|_| f.u16()).collect::<Option<_>>()?))
            }
            1 => {
                let (count, wide) = (f.u16()?, f.u16()? == 8);
                if wide {
                    f.u16()?;
                }
                let word = |_| if wide { f.u64() } else { f.u32().map(u64::from) };
                Some(CpuMap::Mask((0..count).map(word).collect::<Option<_>>()?))
            }
            2 => {
                let any = f.u8()? != 0;
                f.u8()?;
                Some(CpuMap::Range { any, first: f.u16()?, last: f.u16()? })
            }
            _ => None,
        }
    }
}

impl StatConfig {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<StatConfig> {
        let mut f = Fields::new(body, endian);
        let count = f.u64()?;
        Some(StatConfig { values: (0..count).map(|_| Some((f.u64()?, f.u64()?))).collect::<Option<_>>()? })
    }
}

impl Stat {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Stat> {
        let mut f = Fields::new(body, endian);
        let (id, cpu, thread) = (f.u64()?, f.u32()?, f.u32()?);
        Some(Stat { id, cpu, thread, value: f.u64()?, enabled: f.u64()?, running: f.u64()? })
    }
}

impl StatRound {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<StatRound> {
        let mut f = Fields::new(body, endian);
        Some(StatRound { kind: f.u64()?, time: f.u64()? })
    }
}

impl TimeConv {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<TimeConv> {
        let mut f = Fields::new(body, endian);
        Some(TimeConv { shift: f.u64()?, mult: f.u64()?, zero: f.u64()? })
    }
}

//! Side-band records, which say what became of tasks: COMM, FORK, EXIT, MMAP2, from an event with rings of its own.
//!
//! The output events could carry them too, but then `PERF_FORMAT_LOST` of these would count what was lost of
//! tasks among what was lost of programs' outputs (the kernel has one count an event). So a `PERF_COUNT_SW_DUMMY` event a
//! CPU has them, in a ring that nothing else is written to. Its losses are in [`Sideband::stats`] and
//! [`Sideband::kernel_lost`] and nowhere else.
//!
//! Every record ends in a [`SampleId`] of [`FORMAT`]: TID, TIME by CLOCK_MONOTONIC, CPU, IDENTIFIER. A record is
//! in the ring of the CPU on which it came to be, so two of one task may be in two rings: their times put them
//! in order.

use std::{ops::ControlFlow, os::fd::BorrowedFd, time::Duration};

use super::{
    Budget, Drained, Item, ItemKind, Set, Stats, Wake,
    attr::{Attr, What},
    options,
    size::{Bytes, round},
};
use crate::{
    error::{Error, Result},
    record::{Record, SampleFormat, SampleId, sample_type},
};

/// How side-band records are to be read.
pub const FORMAT: SampleFormat = {
    use sample_type::*;
    SampleFormat { sample_type: TID | TIME | CPU | IDENTIFIER, sample_id_all: true }
};

/// `PERF_RECORD_MISC_COMM_EXEC`, in [`Header::misc`](crate::record::Header::misc) of a COMM: the task has executed
/// another program; without it, it was renamed.
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`, in `misc` of an MMAP2: the file's build id stands where else its device and
/// inode do.
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// Bytes of the largest MMAP2, its trailer not counted: a path has 4,096 at most.
const LARGEST: usize = 72 + 4096;

/// What side-band rings are opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of data of each ring; rounded up to 2^n pages. 8 KiB at least where there are `mmaps`.
    pub size: usize,
    /// How old a record may grow; see [`Wake::Latency`].
    pub latency: Duration,
    /// MMAP2 records, of executable mappings, too: of one `process` with build ids, where the kernel knows them (from
    /// 5.12). Of all tasks they are not asked for, as other recordings on the host would be spoiled by it.
    pub mmaps: bool,
    /// The tasks of this process and of whatever descends from it **from now on** (`inherit`); all tasks where
    /// `None`, which needs more rights.
    pub process: Option<u32>,
    /// Which CPUs; all where `None`.
    pub cpus: Option<Vec<u32>>,
}

impl Default for Options {
    /// 256 KiB a CPU, a latency of 100 ms, all tasks, no MMAP2.
    fn default() -> Options {
        Options {
            size: 1 << 18,
            latency: Duration::from_millis(100),
            mmaps: false,
            process: None,
            cpus: None,
        }
    }
}

impl Options {
    /// As a set of rings has them.
    fn rings(&self) -> options::Options {
        options::Options {
            size: self.size,
            wake: Wake::Latency(self.latency),
            sample_type: FORMAT.sample_type,
            max_raw: 0,
            cpus: self.cpus.clone(),
        }
    }

    fn attr(&self) -> Result<Attr> {
        let size = round(self.size)?;
        let needed = 8 + FORMAT.lost_size() + LARGEST + FORMAT.trailer_size();
        if self.mmaps && size < needed {
            return Err(Error::usage(format!(
                "a ring of {} cannot hold an MMAP2 record with a long path: {needed} bytes with what goes around it",
                Bytes(size)
            ))
            .with_help(format!("ask for a ring of {}", Bytes(needed.next_power_of_two()))));
        }
        let what = What::Tasks { mmaps: self.mmaps, process: self.process };
        Ok(Attr {
            what,
            format: FORMAT,
            wake: Wake::Latency(self.latency).rule(size, &FORMAT, 0)?,
            prompt: false,
            backward: false,
        })
    }
}

/// A side-band record: COMM, FORK, EXIT, MMAP2, or LOST, which says how many of them there was no room for.
#[derive(Clone, Copy, Debug)]
pub struct TaskRecord<'a> {
    /// The CPU whose ring held it: where it came to be.
    pub cpu: u32,
    /// The record as it lies in the ring, its trailer included.
    pub record: Record<'a>,
    /// Its trailer: the task, when, where, and the id of the event.
    pub id: SampleId,
}

/// The side-band rings, one a CPU.
pub struct Sideband {
    set: Set,
}

impl Sideband {
    /// Opens a ring on every CPU that is online, or on those of `options.cpus` that are. Records come from here
    /// on. What was there before has none: read `/proc` for that, afterwards, so that nothing is missed between.
    ///
    /// # Errors
    ///
    /// Usage: a size or latency that cannot be. Precondition: the kernel or a limit refuses; ESRCH where the
    /// process is not there.
    pub fn open(options: &Options) -> Result<Sideband> {
        Ok(Sideband { set: Set::with(&options.rings(), options.attr()?, None)? })
    }

    /// Of rings that have no kernel: see [`mock`](super::mock).
    #[cfg(any(test, feature = "test-utils"))]
    pub fn of_mocks(options: &Options, rings: Vec<super::Forward>) -> Result<Sideband> {
        Ok(Sideband { set: Set::mocked(&options.rings(), options.attr()?, rings) })
    }

    /// What to poll for input; see [`Set::fds`]. A descriptor changes when its ring is replaced.
    pub fn fds(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.set.fds()
    }

    /// Hands over the records that are there now, ring by ring, within the budget, as [`Set::drain`] does. Never
    /// waits; allocates nothing. Bytes that are no record are given up and counted.
    pub fn drain(&mut self, budget: Budget, mut f: impl FnMut(TaskRecord<'_>) -> ControlFlow<()>) -> Drained {
        self.set.drain(budget, |item| match item {
            Item { cpu, record: Some(record), kind: ItemKind::Other | ItemKind::Lost(_), .. } => {
                // A record without room for its trailer is none of the kernel's.
                FORMAT
                    .sample_id(&record)
                    .map_or(ControlFlow::Continue(()), |id| f(TaskRecord { cpu, record, id }))
            }
            _ => ControlFlow::Continue(()),
        })
    }

    /// Gives CPUs that came or came back a ring; see [`Set::rescan`]. Of one process, what descends from it and
    /// is there already is not seen on a CPU that comes; one that was away keeps its ring.
    ///
    /// # Errors
    ///
    /// As [`Sideband::open`]; rings that were already made stay.
    pub fn rescan(&mut self) -> Result<Vec<u32>> {
        self.set.rescan()
    }

    /// Gives `cpu` a new ring, since its event is dead: see [`Set::replace`]. False where it is not one of these
    /// rings', and where the event outlasts its CPU, as that of a process does.
    ///
    /// # Errors
    ///
    /// As [`Set::replace`].
    pub fn replace(&mut self, cpu: u32) -> Result<bool> {
        let ours = self.set.wanted.binary_search(&cpu).is_ok();
        if !ours || self.set.attr.what.outlasts_its_cpu() { Ok(false) } else { self.set.replace(cpu) }
    }

    /// Unmaps and closes every ring; see [`Set::close`].
    ///
    /// # Errors
    ///
    /// None now.
    pub fn close(&mut self) -> Result<()> {
        self.set.close()
    }

    /// The CPUs that have or had a ring, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.set.cpus()
    }

    /// The id of the live event of `cpu`: what the trailer of its records says.
    pub fn event_id(&self, cpu: u32) -> Option<u64> {
        self.set.event_ids(cpu).next()
    }

    /// What was read from the rings of `cpu`; its `unknown` counts every record that is not LOST. `None` where it
    /// never had one.
    pub fn stats(&self, cpu: u32) -> Option<Stats> {
        self.set.stats(cpu)
    }

    /// What the kernel counts as lost on `cpu`, as [`Set::kernel_lost`].
    pub fn kernel_lost(&self, cpu: u32) -> Option<u64> {
        self.set.kernel_lost(cpu)
    }
}

//! The kernel's side of the accounts, mapped: reading them costs no system call and needs no right.
#![allow(unsafe_code)]
// JUSTIFICATION: a BPF array is read while programs write it. A shared reference to such memory would be
// undefined behaviour, so each word is loaded through an atomic made from a raw pointer into the mapping.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use memmap2::{MmapOptions, MmapRaw};

use crate::{Error, ErrorKind, Result, ledger::Accounts, schema::LEVELS};

const ACCOUNT_BYTES: usize = Accounts::WORDS * 8;
/// `sizeof(struct tracer_level)`, and where its `seq` lies.
const LEVEL_BYTES: usize = 4352;
const SEQ_OFFSET: usize = 4;
/// `sizeof(struct tracer_cpu)`, and where its `records` lie.
const CPU_BYTES: usize = LEVELS * LEVEL_BYTES + 1024;
const RECORDS_OFFSET: usize = LEVELS * LEVEL_BYTES + 8;
/// `sizeof(struct tracer_gather)`; its `n` comes first.
const GATHER_BYTES: usize = 6728;

/// The maps `accounts` and `cpus`, mapped for reading.
#[derive(Debug)]
pub struct Counters {
    accounts: MmapRaw,
    cpus: Option<MmapRaw>,
    gathers: Option<MmapRaw>,
    probes: usize,
    possible: usize,
}

impl Counters {
    /// Maps the arrays of `possible` CPUs and `probes` probes; programs that number no events have no `cpus`, and
    /// those whose events each have a record no `gathers`.
    pub fn map(
        accounts: BorrowedFd<'_>,
        cpus: Option<BorrowedFd<'_>>,
        gathers: Option<BorrowedFd<'_>>,
        possible: usize,
        probes: usize,
    ) -> Result<Counters> {
        let map = |fd: BorrowedFd<'_>, len: usize| {
            MmapOptions::new().len(len).map_raw_read_only(fd.as_raw_fd()).map_err(|e| {
                Error::caused(ErrorKind::Runtime, format!("mapping {len} bytes of BPF accounts"), e)
            })
        };
        Ok(Counters {
            accounts: map(accounts, possible * probes * ACCOUNT_BYTES)?,
            cpus: cpus.map(|fd| map(fd, possible * CPU_BYTES)).transpose()?,
            gathers: gathers.map(|fd| map(fd, possible * LEVELS * GATHER_BYTES)).transpose()?,
            probes,
            possible,
        })
    }

    /// One probe's accounts on one CPU; zeros for what does not exist.
    pub fn accounts(&self, cpu: u32, probe: usize) -> Accounts {
        let cpu = cpu as usize;
        if cpu >= self.possible || probe >= self.probes {
            return Accounts::default();
        }
        read(&self.accounts, (cpu * self.probes + probe) * ACCOUNT_BYTES)
    }

    /// What became of a CPU's records that events share: emitted, and failed by cause.
    pub fn records(&self, cpu: u32) -> Accounts {
        match &self.cpus {
            Some(cpus) if (cpu as usize) < self.possible => {
                read(cpus, cpu as usize * CPU_BYTES + RECORDS_OFFSET)
            }
            _ => Accounts::default(),
        }
    }

    /// How many events of a CPU wait for their record to be full.
    pub fn held(&self, cpu: u32) -> u64 {
        let Some(gathers) = self.gathers.as_ref().filter(|_| (cpu as usize) < self.possible) else {
            return 0;
        };
        let first = cpu as usize * LEVELS;
        (first..first + LEVELS).map(|at| u64::from(word(gathers, at * GATHER_BYTES))).sum()
    }

    /// How many CPUs there can be.
    pub fn possible(&self) -> u32 {
        self.possible as u32
    }

    /// How many sequence numbers each level of a CPU has given out, modulo 2^32.
    pub fn attempts(&self, cpu: u32) -> [u32; LEVELS] {
        let mut seqs = [0; LEVELS];
        if let (Some(cpus), true) = (&self.cpus, (cpu as usize) < self.possible) {
            for (level, seq) in seqs.iter_mut().enumerate() {
                let at = cpu as usize * CPU_BYTES + level * LEVEL_BYTES + SEQ_OFFSET;
                *seq = word(cpus, at);
            }
        }
        seqs
    }
}

/// The accounts at `base`, which is a multiple of eight.
fn read(map: &MmapRaw, base: usize) -> Accounts {
    assert!(base.is_multiple_of(8) && base + ACCOUNT_BYTES <= map.len(), "accounts beyond the mapping");
    let mut words = [0; Accounts::WORDS];
    for (i, word) in words.iter_mut().enumerate() {
        // SAFETY: base + 8 * i + 8 is within the mapping; the kernel maps an array's values from a page boundary
        // with elements of a multiple of 8 bytes (`array_map_mmap`, kernel/bpf/arraymap.c), so the word is aligned.
        // It is only ever accessed atomically from here, and by the kernel's own atomic adds.
        *word =
            unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(base + 8 * i).cast()) }.load(Ordering::Relaxed);
    }
    Accounts::from_words(&words)
}

/// The u32 at `at`, which is a multiple of four.
fn word(map: &MmapRaw, at: usize) -> u32 {
    assert!(at.is_multiple_of(4) && at + 4 <= map.len(), "a word beyond the mapping");
    // SAFETY: as above: within the mapping, aligned to 4, and never borrowed.
    unsafe { AtomicU32::from_ptr(map.as_mut_ptr().add(at).cast()) }.load(Ordering::Relaxed)
}

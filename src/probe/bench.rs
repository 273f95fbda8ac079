//! The throughput programs: sixteen bytes for each write(2) of one process, or any payload by test-run.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use libbpf_rs::{Link, MapCore, Object};
use syscalls::Sysno;

use super::{
    attach,
    counters::Counters,
    hook::How,
    object, preflight,
    probes::{Refused, test_run},
    resolve::WRAPPER,
};
use crate::{Error, ErrorKind, Result, ledger::Accounts};

/// The benchmark's programs, loaded and, once asked, attached.
#[derive(Debug)]
pub struct Bench {
    link: Option<Link>,
    object: Object,
    array: OwnedFd,
    twin: OwnedFd,
    counters: Counters,
}

impl Bench {
    /// What each record says after the thread's ids.
    pub const COOKIE: u64 = 0x1234_5678;
    /// The most bytes of a payload by test-run.
    pub const LARGEST: usize = 65536;

    /// Loads the programs for the writes of process `tgid` (in the initial PID namespace), and attaches the
    /// cheapest hook this kernel takes; says which.
    ///
    /// # Errors
    ///
    /// Precondition: capabilities. Attach: no hook is to be had.
    pub fn attach(tgid: u32) -> Result<(Bench, String)> {
        let symbol = format!("{WRAPPER}write");
        let number = Sysno::write.id() as u32;
        let ways = [
            ("bench_fentry", How::SyscallFentry { symbol: symbol.clone() }),
            ("bench_kprobe", How::SyscallKprobe { symbol }),
            ("bench_raw_tp", How::SyscallRawTp { number }),
        ];
        let mut last = None;
        for (name, how) in ways {
            match Bench::load(&[name, "bench_output"], tgid, how.trampoline()).and_then(|mut bench| {
                let program = bench.object.progs_mut().find(|p| p.name() == name);
                bench.link =
                    program.map(|p| attach::attach(&p, &how, 0)).transpose().map_err(Refused::Kernels)?;
                Ok(bench)
            }) {
                Ok(bench) => return Ok((bench, how.to_string())),
                Err(Refused::Ours(error)) => return Err(error),
                Err(Refused::Kernels(cause)) => last = Some(cause),
            }
        }
        let cause = last.map_or_else(|| io::Error::other("no way was tried"), |e| preflight::os_error(&e));
        Err(Error::caused(ErrorKind::Attach, "attaching the benchmark to write(2)", cause))
    }

    /// Loads the program that outputs by test-run alone.
    ///
    /// # Errors
    ///
    /// Precondition: capabilities.
    pub fn by_hand() -> Result<Bench> {
        Bench::load(&["bench_output"], 0, None).map_err(|refused| match refused {
            Refused::Ours(error) => error,
            Refused::Kernels(cause) => Error::caused(
                ErrorKind::Runtime,
                "loading the benchmark's programs",
                preflight::os_error(&cause),
            ),
        })
    }

    fn load(programs: &[&str], tgid: u32, trampoline: Option<&str>) -> Result<Bench, Refused> {
        preflight::rights()?;
        let possible = libbpf_rs::num_possible_cpus()?;
        let mut open = object::open_bench()?;
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some("events" | "twin_events" | "accounts") => map.set_max_entries(possible as u32)?,
                Some(name) if name.ends_with(".rodata") => {
                    // struct bench_config: two words.
                    let words = [tgid, Sysno::write.id() as u32].map(u32::to_ne_bytes);
                    if let Some(bytes) = map.initial_value_mut() {
                        bytes[..8].copy_from_slice(words.as_flattened());
                    }
                }
                _ => {}
            }
        }
        for name in programs {
            object::select(&mut open, name);
        }
        for mut program in open.progs_mut().filter(|p| p.name() == programs[0]) {
            if let Some(function) = trampoline {
                program.set_attach_target(0, Some(function.to_owned()))?;
            }
        }
        let object = open.load()?;
        let map = |name: &str| -> Result<OwnedFd, Refused> {
            let found = object.maps().find(|m| m.name() == name);
            let fd = found.map(|m| m.as_fd().try_clone_to_owned()).transpose();
            fd.ok().flatten().ok_or_else(|| {
                Refused::Ours(Error::new(ErrorKind::Runtime, format!("the BPF object has no map '{name}'")))
            })
        };
        let (array, twin, accounts) = (map("events")?, map("twin_events")?, map("accounts")?);
        let counters = Counters::map(accounts.as_fd(), None, possible, 1)?;
        Ok(Bench { link: None, object, array, twin, counters })
    }

    /// The perf event array that the programs emit into.
    pub fn array(&self) -> BorrowedFd<'_> {
        self.array.as_fd()
    }

    /// A second array, which [`Bench::output`] fills alike if asked to.
    pub fn twin(&self) -> BorrowedFd<'_> {
        self.twin.as_fd()
    }

    /// Outputs `size` bytes, `times` times, on `cpu`; into both arrays if `both`. What became of the first array's
    /// is in the accounts.
    ///
    /// # Errors
    ///
    /// More than 65,516 bytes, which would run over records that nobody has read, unless the feature `test-utils`
    /// is on; else the kernel's refusal of the test-run.
    pub fn output(&self, cpu: u32, size: usize, times: u64, both: bool) -> io::Result<()> {
        /// What one run of the program does at most: the verifier walks through every round of its loop.
        const ROUND: u64 = 256;
        /// Beyond it the kernel's u16 for a record's size overflows.
        const SOUND: usize = 65_516;
        if size > SOUND && !cfg!(feature = "test-utils") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut left = times;
        while left > 0 {
            let now = left.min(ROUND);
            test_run(&self.object, "bench_output", cpu, &[size as u64, now, u64::from(both), 0, 0, 0])?;
            left -= now;
        }
        Ok(())
    }

    /// Sets the payload's first bytes.
    ///
    /// # Errors
    ///
    /// The kernel's refusal, or a payload beyond [`Bench::LARGEST`].
    pub fn set_payload(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(map) = self.object.maps().find(|m| m.name() == "payloads") else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut value = vec![0; Bench::LARGEST];
        let room = value.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
        room.copy_from_slice(bytes);
        map.update(&0u32.to_ne_bytes(), &value, libbpf_rs::MapFlags::ANY).map_err(|e| preflight::os_error(&e))
    }

    /// The accounts of one CPU.
    pub fn accounts(&self, cpu: u32) -> Accounts {
        self.counters.accounts(cpu, 0)
    }

    /// How many CPUs there can be.
    pub fn possible_cpus(&self) -> u32 {
        self.counters.possible()
    }

    /// Detaches the hook.
    pub fn detach(&mut self) {
        self.link = None;
    }
}

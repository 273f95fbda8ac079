//! The throughput programs: an event for each call of one process, or any payload by test-run.

mod emit;
mod hook;
mod ringbuf;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use libbpf_rs::{Link, MapCore, MapHandle, Object};

use super::{
    attach,
    counters::Counters,
    hook::How,
    object, preflight,
    probes::{Refused, test_run},
    tracefs,
};
use crate::{Error, ErrorKind, Result, ledger::Accounts};

pub use self::{
    emit::{Emit, RingbufOptions},
    hook::{Hook, traced_function},
    ringbuf::RingbufReader,
};

/// The benchmark's programs, loaded and, once asked, attached.
#[derive(Debug)]
pub struct Bench {
    link: Option<Link>,
    object: Object,
    array: OwnedFd,
    twin: OwnedFd,
    ringbuf: MapHandle,
    counters: Counters,
}

impl Bench {
    /// What each event of at least sixteen bytes says in its second eight, its time not counted.
    pub const COOKIE: u64 = 0x1234_5678;
    /// The most bytes of a payload by test-run.
    pub const LARGEST: usize = 65536;

    /// Loads the programs for the calls of process `tgid` (in the initial PID namespace), and attaches `hook`, or
    /// where there is none the first of [`Hook::ALL`] on write(2) that this kernel takes; says which.
    ///
    /// # Errors
    ///
    /// Usage: what [`Emit`] cannot be. Precondition: capabilities. Attach: the hook is not to be had.
    pub fn attach(tgid: u32, hook: Option<Hook>, emit: &Emit) -> Result<(Bench, Hook, String)> {
        let hooks = hook.as_ref().map_or(&Hook::ALL[..4], std::slice::from_ref);
        let mut last = None;
        for hook in hooks {
            let how = hook
                .how()
                .map_err(|e| Error::caused(ErrorKind::Runtime, "finding the benchmark's own function", e))?;
            let name = hook.program();
            let programs = [name, "bench_output", "bench_flush"];
            match Bench::load(&programs, tgid, how.trampoline(), emit).and_then(|mut bench| {
                bench.link = match how.needs_tracefs() {
                    true => tracefs::with(|_| Ok(bench.hook(name, &how)))?,
                    false => bench.hook(name, &how),
                }
                .map_err(Refused::Kernels)?;
                Ok(bench)
            }) {
                Ok(bench) => return Ok((bench, *hook, how.to_string())),
                Err(Refused::Ours(error)) => return Err(error),
                Err(Refused::Kernels(cause)) => last = Some((how, cause)),
            }
        }
        Err(match last {
            Some((how, cause)) => {
                let what = format!("attaching the benchmark: {how}");
                Error::caused(ErrorKind::Attach, what, preflight::os_error(&cause))
            }
            None => Error::usage("no hook was named"),
        })
    }

    /// Loads the programs that put out by test-run alone.
    ///
    /// # Errors
    ///
    /// Usage: what [`Emit`] cannot be. Precondition: capabilities.
    pub fn by_hand(emit: &Emit) -> Result<Bench> {
        let programs = ["bench_output", "bench_burst", "bench_flush"];
        Bench::load(&programs, 0, None, emit).map_err(|refused| match refused {
            Refused::Ours(error) => error,
            Refused::Kernels(cause) => Error::caused(
                ErrorKind::Runtime,
                "loading the benchmark's programs",
                preflight::os_error(&cause),
            ),
        })
    }

    fn hook(&self, name: &str, how: &How) -> libbpf_rs::Result<Option<Link>> {
        let program = self.object.progs_mut().find(|p| p.name() == name);
        program.map(|p| attach::attach(&p, how, 0)).transpose()
    }

    fn load(programs: &[&str], tgid: u32, trampoline: Option<&str>, emit: &Emit) -> Result<Bench, Refused> {
        emit.check()?;
        preflight::rights()?;
        let possible = libbpf_rs::num_possible_cpus()?;
        let mut open = object::open_bench()?;
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some("events" | "twin_events" | "accounts") => map.set_max_entries(possible as u32)?,
                Some("ringbuf") => {
                    if let Some(ringbuf) = emit.ringbuf {
                        map.set_max_entries(ringbuf.size as u32)?;
                    }
                }
                Some(name) if name.ends_with(".rodata") => {
                    let words = emit.words(tgid).map(u32::to_ne_bytes);
                    if let Some(room) = map.initial_value_mut().and_then(|b| b.get_mut(..4 * words.len())) {
                        room.copy_from_slice(words.as_flattened());
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
        let counters = Counters::map(accounts.as_fd(), None, None, possible, 1)?;
        let ringbuf = object.maps().find(|m| m.name() == "ringbuf");
        let ringbuf = ringbuf.ok_or_else(|| {
            Refused::Ours(Error::new(ErrorKind::Runtime, "the BPF object has no map 'ringbuf'"))
        })?;
        let ringbuf = MapHandle::try_from(&ringbuf)?;
        let bench = Bench { link: None, object, array, twin, ringbuf, counters };
        let mut payload = [0; 16];
        payload[8..].copy_from_slice(&Bench::COOKIE.to_ne_bytes());
        bench.set_payload(&payload).map_err(|e| {
            Refused::Ours(Error::caused(ErrorKind::Runtime, "setting the benchmark's payload", e))
        })?;
        Ok(bench)
    }

    /// The ringbuf that the programs put out into, mapped; each record is handed to `f`.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn ringbuf<'a>(&'a self, f: impl FnMut(&[u8]) + 'a) -> Result<RingbufReader<'a>> {
        RingbufReader::new(&self.ringbuf, f)
    }

    /// Puts out `times` events on `cpu`, as the hooked programs do.
    ///
    /// # Errors
    ///
    /// The kernel's refusal of the test-run; programs that were not loaded by [`Bench::by_hand`].
    pub fn burst(&self, cpu: u32, times: u64) -> io::Result<()> {
        self.rounds(times, |now| test_run(&self.object, "bench_burst", cpu, &[now, 0, 0, 0, 0, 0]))
    }

    /// Puts out what a CPU holds of a record that is not full.
    ///
    /// # Errors
    ///
    /// The kernel's refusal of the test-run.
    pub fn flush(&self, cpu: u32) -> io::Result<()> {
        test_run(&self.object, "bench_flush", cpu, &[0; 6])
    }

    /// In runs of as many as one does at most: the verifier walks through every turn of its loop.
    fn rounds(&self, times: u64, mut run: impl FnMut(u64) -> io::Result<()>) -> io::Result<()> {
        const ROUND: u64 = 256;
        let mut left = times;
        while left > 0 {
            let now = left.min(ROUND);
            run(now)?;
            left -= now;
        }
        Ok(())
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
        /// Beyond it the kernel's u16 for a record's size overflows.
        const SOUND: usize = 65_516;
        if size > SOUND && !cfg!(feature = "test-utils") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let args = |now| [size as u64, now, u64::from(both), 0, 0, 0];
        self.rounds(times, |now| test_run(&self.object, "bench_output", cpu, &args(now)))
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

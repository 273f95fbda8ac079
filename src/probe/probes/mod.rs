//! A session's programs: opened, configured, loaded, attached, and counted.

mod facts;
mod loaded;
mod many;
mod one;
mod tallies;

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput, ProgramMut};

pub use self::facts::{ProgramFacts, types};
pub use self::loaded::Loaded;
pub(super) use self::one::Refused;
pub use self::tallies::Row;
use self::{loaded::fdinfo, one::Many};
use super::{
    capture::capture,
    counters::Counters,
    filter::Filter,
    find::Refusal,
    hook::{Hook, How},
    keep::{Keep, kept},
    libbpf,
    object::{self, Common},
    preflight, signature,
    spec::{Provider, Spec},
};
use crate::{
    Error, ErrorKind, Result,
    ledger::Accounts,
    schema::{LEVELS, Schema},
};

/// Programs that keep the set of traced processes, attached before all others.
const FOLLOWERS: [(&str, &str); 3] = [
    ("follow_fork", "sched_process_fork"),
    ("follow_exec", "sched_process_exec"),
    ("follow_exit", "sched_process_exit"),
];

/// The map of events that wait for others.
const GATHERS: &str = "gathers";

/// `BPF_F_TEST_RUN_ON_CPU`
const TEST_RUN_ON_CPU: u32 = 1;

/// A probe that is attached, or was.
#[derive(Clone, Debug)]
pub struct Attached {
    /// What its events carry.
    pub schema: Schema,
    /// How it is attached, for example `kprobe on __x64_sys_write`.
    pub how: String,
    /// Better ways that this kernel refused, and why.
    pub passed_over: Vec<String>,
    /// The pattern that it was found by.
    pub pattern: Option<String>,
}

/// What became of a spec.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Where its probes stand in [`Probes::attached`].
    pub attached: Range<usize>,
    /// What its pattern matches and could not be attached.
    pub refused: Vec<Refusal>,
}

impl Outcome {
    /// Of what has no probes of ours, where `attached` are.
    pub fn none(attached: usize) -> Outcome {
        Outcome { attached: attached..attached, refused: Vec::new() }
    }
}

/// All programs of a session and the maps they share.
///
/// Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct Probes {
    attached: Vec<Attached>,
    loaded: Vec<Loaded>,
    followers: Vec<Link>,
    base: Object,
    array: OwnedFd,
    counters: Counters,
    filter: Filter,
    /// The most probes, our own included.
    ids: usize,
    run_counts: Option<OwnedFd>,
    /// What is kept of runs in place of their events.
    keep: Option<Keep>,
    /// Events that share a record; 1: each has its own.
    gather: u32,
}

impl Probes {
    /// The probe id of our own programs: the end marker and those that follow processes.
    pub const OWN: usize = 0;
    /// The most events that can share a record: `TRACER_GATHERED` in `bpf/tracer.h`.
    pub const GATHERED: u32 = 32;

    /// Loads our own programs and makes the maps, for up to `probes` probes. With `count_runs` the kernel counts
    /// the runs of BPF programs from before the first can run, as a second source for `fired`; that costs some
    /// ns a run. With `keep` nothing is emitted: runs are added to tallies. Up to `gather` events of a CPU share a
    /// record; they wait for it to be full, or for [`Probes::put_out`].
    ///
    /// # Errors
    ///
    /// A precondition where this process lacks the capabilities or the kernel cannot load BPF programs.
    pub fn open(
        filter: Filter,
        probes: usize,
        count_runs: bool,
        keep: Option<Keep>,
        gather: u32,
    ) -> Result<Probes> {
        if !(1..=Probes::GATHERED).contains(&gather) {
            return Err(Error::usage(format!("{gather} events cannot share a record"))
                .with_help(format!("1 to {} can", Probes::GATHERED)));
        }
        preflight::rights()?;
        // Before anything runs: our own programs are attached below.
        let run_counts = count_runs.then(libbpf::enable_run_counts).transpose().map_err(|e| {
            Error::caused(ErrorKind::Precondition, "having the kernel count the runs of BPF programs", e)
                .with_help("it can from 5.8 on, for whoever has CAP_SYS_ADMIN; leave it off (no -v)")
        })?;
        let ids = probes + 1;
        let possible = libbpf_rs::num_possible_cpus()
            .map_err(|e| Error::caused(ErrorKind::Runtime, "counting the possible CPUs", e))?;
        let mut open = object::open()?;
        for mut map in open.maps_mut() {
            let entries = match map.name().to_str() {
                Some("events" | "cpus") => possible,
                Some("accounts") => possible * ids,
                Some("gathers") => possible * LEVELS,
                _ => continue,
            };
            map.set_max_entries(entries as u32)
                .map_err(|e| Error::caused(ErrorKind::Runtime, "sizing a BPF map", e))?;
        }
        object::leave_out(&mut open, &["functions", "pairs"])?;
        Keep::size(keep.as_ref(), &mut open)?;
        object::select(&mut open, "end_marker");
        match gather {
            1 => object::leave_out(&mut open, &[GATHERS])?,
            _ => object::select(&mut open, "put_out_all"),
        }
        if filter.follows() {
            FOLLOWERS.iter().for_each(|(name, _)| object::select(&mut open, name));
        }
        object::configure(&mut open, &Common { filter: &filter, probes: ids }, Probes::OWN, |_| {})?;
        let mut base =
            object::load(open).map_err(|e| e.context("the programs of the tracer itself were refused"))?;
        for map in base.maps_mut() {
            match map.name().to_str() {
                Some("targets") => filter.fill_targets(&map)?,
                Some("cgroups") => filter.fill_cgroup(&map)?,
                _ => {}
            }
        }
        let map = |name: &str| base.maps().find(|m| m.name() == name);
        let (Some(events), Some(accounts), Some(cpus)) = (map("events"), map("accounts"), map("cpus")) else {
            return Err(Error::new(ErrorKind::Runtime, "the BPF object inside this program lacks its maps"));
        };
        let array = events.as_fd().try_clone_to_owned().map_err(|e| {
            Error::caused(ErrorKind::Runtime, "duplicating the perf event array's descriptor", e)
        })?;
        let gathers = map(GATHERS).filter(|_| gather > 1);
        let gathers = gathers.as_ref().map(AsFd::as_fd);
        let counters = Counters::map(accounts.as_fd(), Some(cpus.as_fd()), gathers, possible, ids)?;
        let mut probes = Probes {
            attached: Vec::new(),
            loaded: Vec::new(),
            followers: Vec::new(),
            base,
            array,
            counters,
            filter,
            ids,
            run_counts,
            keep,
            gather,
        };
        probes.follow()?;
        Ok(probes)
    }

    fn follow(&mut self) -> Result<()> {
        if self.filter.follows() {
            for (name, tracepoint) in FOLLOWERS {
                self.followers.extend(self.follower(name, tracepoint)?);
            }
            self.forget_gone();
        }
        Ok(())
    }

    /// Forgets tasks that ended while the program that forgets them was not attached.
    fn forget_gone(&self) {
        if let Some(targets) = self.base.maps().find(|map| map.name() == "targets") {
            Filter::forget_gone(&targets);
        }
    }

    fn follower(&self, name: &str, tracepoint: &str) -> Result<Option<Link>> {
        let program = self.base.progs_mut().find(|p| p.name() == name);
        program.map(|p| p.attach_trace()).transpose().map_err(|e| {
            let text = format!("following processes by the raw tracepoint {tracepoint}");
            Error::caused(ErrorKind::Attach, text, e)
        })
    }

    /// Whether a process or thread that the filter follows is left; `None` where it follows none, or the kernel does not
    /// say (to whoever has dropped its rights).
    pub fn followed(&self) -> Option<bool> {
        let map = self.base.maps().find(|map| map.name() == "targets").filter(|_| self.filter.follows())?;
        // No id is 0: this tells whether the map can be read at all, which its keys do not.
        map.lookup(&[0; 4], MapFlags::ANY).ok()?;
        Some(map.keys().next().is_some())
    }

    /// Puts the program that forgets a process behind all others: probes on the same tracepoint, which the kernel
    /// runs in the order in which they came (`func_add`, kernel/tracepoint.c), are to see its exit first.
    fn forget_last(&mut self) -> Result<()> {
        if let (true, Some((name, tracepoint))) = (self.filter.follows(), FOLLOWERS.last()) {
            // Old kernels take a program once.
            self.followers.pop();
            self.followers.extend(self.follower(name, tracepoint)?);
            self.forget_gone();
        }
        Ok(())
    }

    /// The perf event array that every program emits into, for whoever has rings.
    pub fn array(&self) -> BorrowedFd<'_> {
        self.array.as_fd()
    }

    /// A name that no other probe's events have: what two probes emit must be told apart.
    fn unused_name(&self, name: String) -> String {
        self.unused_name_beside(name, &[])
    }

    /// The same, beside those that are yet to be taken in.
    fn unused_name_beside(&self, name: String, more: &[Schema]) -> String {
        let known = || self.attached.iter().map(|a| &a.schema).chain(more);
        let mut names = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}_{n}")));
        names.find(|n| !known().any(|schema| schema.name == *n)).unwrap_or(name)
    }

    /// Loads a probe that fires by [`Probes::fire`] alone: the same program as a raw tracepoint's.
    pub fn attach_by_hand(&mut self, name: &str) -> Result<usize> {
        let spec = Spec {
            name: Some(name.to_owned()),
            provider: Provider::RawTracepoint,
            scope: String::new(),
            target: name.to_owned(),
            offset: 0,
            predicate: None,
            fields: None,
        };
        let hook = Hook::entry(How::RawTracepoint { name: name.to_owned() }, signature::registers());
        let (plan, mut schema) = kept(self.keep.as_ref(), capture(&spec, &hook))?;
        let loaded = self.load(&hook, &plan, Many::One).map_err(|refused| match refused {
            Refused::Ours(error) => error,
            Refused::Kernels(cause) => preflight::explain(&spec, &hook, &cause),
        })?;
        schema.name = self.unused_name(schema.name);
        self.keep(loaded, vec![schema], "test-run", Vec::new(), None);
        Ok(self.attached.len())
    }

    /// Runs a raw tracepoint's program once on `cpu` with these arguments (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    ///
    /// The kernel's refusal: the CPU is offline (ENXIO), or this process may not make bpf(2) calls.
    pub fn fire(&self, id: usize, cpu: u32, args: &[u64; 6]) -> io::Result<()> {
        let loaded = self.loaded.iter().find(|l| l.ids.contains(&id));
        let loaded = loaded.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        test_run(&loaded.object, loaded.program, cpu, args)
    }

    /// Writes an end marker of four bytes into the ring of `cpu`: it flushes a pending loss as a LOST record and
    /// proves that slot and ring are still ours. What became of it is in the accounts of [`Probes::OWN`].
    ///
    /// # Errors
    ///
    /// As [`Probes::fire`].
    pub fn mark_end(&self, cpu: u32) -> io::Result<()> {
        test_run(&self.base, "end_marker", cpu, &[0; 6])
    }

    /// Whether events share records.
    pub fn gathers(&self) -> bool {
        self.gather > 1
    }

    /// How many events of a CPU wait for their record to be full.
    pub fn held(&self, cpu: u32) -> u64 {
        self.counters.held(cpu)
    }

    /// What became of a CPU's records that events share: emitted, and failed by cause.
    pub fn records(&self, cpu: u32) -> Accounts {
        self.counters.records(cpu)
    }

    /// Outputs the events of a CPU that wait for their record to be full.
    ///
    /// # Errors
    ///
    /// As [`Probes::fire`].
    pub fn put_out(&self, cpu: u32) -> io::Result<()> {
        test_run(&self.base, "put_out_all", cpu, &[0; 6])
    }

    /// Detaches every probe. Programs that run at this moment may still emit; see `membarrier(2)`.
    pub fn detach(&mut self) {
        for loaded in &mut self.loaded {
            loaded.let_go();
        }
        self.followers.clear();
    }

    /// The probes, in the order of their ids from 1 on.
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// The schema of the events that carry this probe id.
    #[inline]
    pub fn schema(&self, id: u16) -> Option<&Schema> {
        self.attached.get(usize::from(id).checked_sub(1)?).map(|a| &a.schema)
    }

    /// How many CPUs there can be: their accounts exist whether they are online or not.
    pub fn possible_cpus(&self) -> u32 {
        self.counters.possible()
    }

    /// How many probe ids have accounts, [`Probes::OWN`] included.
    pub fn ids(&self) -> usize {
        self.ids
    }

    /// One probe's accounts on one CPU.
    pub fn accounts(&self, cpu: u32, id: usize) -> Accounts {
        self.counters.accounts(cpu, id)
    }

    /// How many sequence numbers each scratch level of a CPU has given out, modulo 2^32.
    pub fn attempts(&self, cpu: u32) -> [u32; LEVELS] {
        self.counters.attempts(cpu)
    }

    /// What serves this probe, if it alone or it first: what a program tells of itself is told once.
    pub fn served_by(&self, id: usize) -> Option<&Loaded> {
        self.loaded.iter().find(|l| l.ids().start == id)
    }

    /// What is loaded for the probes, each for one or more of them.
    pub fn loaded(&self) -> &[Loaded] {
        &self.loaded
    }

    /// Whether the kernel counts the runs of programs.
    pub fn counts_runs(&self) -> bool {
        self.run_counts.is_some()
    }

    /// How often the kernel ran our own programs; `None` where it does not tell.
    pub fn own_runs(&self) -> Option<u64> {
        // Those that were not loaded have no descriptor.
        let loaded = self.base.progs().filter(|p| p.autoload());
        loaded.map(|p| fdinfo(p.as_fd(), "run_cnt:")).sum()
    }
}

pub(super) fn test_run(object: &Object, name: &str, cpu: u32, args: &[u64; 6]) -> io::Result<()> {
    let Some(program) = object.progs_mut().find(|p: &ProgramMut<'_>| p.name() == name) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut context: Vec<u8> = args.iter().flat_map(|a| a.to_ne_bytes()).collect();
    let input = ProgramInput {
        context_in: Some(&mut context),
        cpu,
        flags: TEST_RUN_ON_CPU,
        ..ProgramInput::default()
    };
    match program.test_run(input) {
        Ok(_) => Ok(()),
        Err(e) => Err(preflight::os_error(&e)),
    }
}

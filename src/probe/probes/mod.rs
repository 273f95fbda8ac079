//! A session's programs: opened, configured, loaded, attached, and counted.

mod loaded;
mod many;
mod tallies;

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use libbpf_rs::{Link, MapCore, Object, OpenObject, ProgramAttachType, ProgramInput, ProgramMut};

pub use self::loaded::Loaded;
use self::loaded::{Links, fdinfo};
pub use self::tallies::Row;
use super::{
    attach,
    capture::capture,
    counters::Counters,
    fetch::Plan,
    filter::Filter,
    find::{Found, Refusal},
    hook::{Hook, How},
    keep::{Keep, kept},
    libbpf,
    object::{self, Common},
    preflight,
    resolve::resolve,
    signature,
    spec::{Provider, Spec},
    tracefs,
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

/// How one program tells the functions apart that it serves: `TRACER_MANY_*` of `bpf/tracer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    /// It serves one.
    One,
    /// By cookies, all attached in one call (kprobe.multi).
    Multi,
    /// By cookies, attached one by one.
    Cookies,
    /// By their addresses: so many.
    Addresses(usize),
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
}

impl Probes {
    /// The probe id of our own programs: the end marker and those that follow processes.
    pub const OWN: usize = 0;

    /// Loads our own programs and makes the maps, for up to `probes` probes. With `count_runs` the kernel counts
    /// the runs of BPF programs from before the first can run, as a second source for `fired`; that costs some
    /// ns a run. With `keep` nothing is emitted: runs are added to tallies.
    ///
    /// # Errors
    ///
    /// A precondition where this process lacks the capabilities or the kernel cannot load BPF programs.
    pub fn open(filter: Filter, probes: usize, count_runs: bool, keep: Option<Keep>) -> Result<Probes> {
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
                _ => continue,
            };
            map.set_max_entries(entries as u32)
                .map_err(|e| Error::caused(ErrorKind::Runtime, "sizing a BPF map", e))?;
        }
        object::leave_out(&mut open, &["functions", "pairs"])?;
        Keep::size(keep.as_ref(), &mut open)?;
        object::select(&mut open, "end_marker");
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
        let counters = Counters::map(accounts.as_fd(), Some(cpus.as_fd()), possible, ids)?;
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
        };
        probes.follow()?;
        Ok(probes)
    }

    fn follow(&mut self) -> Result<()> {
        if self.filter.follows() {
            for (name, tracepoint) in FOLLOWERS {
                self.followers.extend(self.follower(name, tracepoint)?);
            }
        }
        Ok(())
    }

    fn follower(&self, name: &str, tracepoint: &str) -> Result<Option<Link>> {
        let program = self.base.progs_mut().find(|p| p.name() == name);
        program.map(|p| p.attach_trace()).transpose().map_err(|e| {
            let text = format!("following processes by the raw tracepoint {tracepoint}");
            Error::caused(ErrorKind::Attach, text, e)
        })
    }

    /// Puts the program that forgets a process behind all others: probes on the same tracepoint, which the kernel
    /// runs in the order in which they came (`func_add`, kernel/tracepoint.c), are to see its exit first.
    fn forget_last(&mut self) -> Result<()> {
        if let (true, Some((name, tracepoint))) = (self.filter.follows(), FOLLOWERS.last()) {
            // Old kernels take a program once.
            self.followers.pop();
            self.followers.extend(self.follower(name, tracepoint)?);
        }
        Ok(())
    }

    /// The perf event array that every program emits into, for whoever has rings.
    pub fn array(&self) -> BorrowedFd<'_> {
        self.array.as_fd()
    }

    /// Resolves, loads and attaches all that a spec matches: the best hooks that this kernel takes. `progress` is
    /// told how many of how many are done, where there are several.
    ///
    /// # Errors
    ///
    /// Says why no hook could be attached: the symbol is absent, the kernel has no kprobes, a right is missing. Of
    /// what a pattern matches some may be refused; that is an error only where all are.
    pub fn attach(&mut self, found: &Found, progress: &mut dyn FnMut(usize, usize)) -> Result<Outcome> {
        let first = self.attached.len();
        let refused = match found.is_pattern() {
            true => self.attach_all(found, progress)?,
            false => self.attach_one(found.spec(), None).map(|()| Vec::new())?,
        };
        self.forget_last()?;
        if self.attached.len() == first && !refused.is_empty() {
            let text = format!("{}: cannot attach: none of {} that match", found.spec(), refused.len());
            // What is said of most of them.
            let said = |one: &Refusal| refused.iter().filter(|other| other.why == one.why).count();
            let most = refused.iter().max_by_key(|one| said(one));
            let help = most.map(|one| format!("{}: {}", one.name, one.why)).unwrap_or_default();
            return Err(Error::new(ErrorKind::Attach, text).with_help(help));
        }
        Ok(Outcome { attached: first..self.attached.len(), refused })
    }

    /// Attaches a spec without wildcards.
    fn attach_one(&mut self, spec: &Spec, pattern: Option<&str>) -> Result<()> {
        let hooks = resolve(spec)?;
        let mut passed_over = Vec::new();
        let last = hooks.len() - 1;
        for (i, hook) in hooks.iter().enumerate() {
            match self.try_hook(spec, hook) {
                Ok((loaded, schema)) => {
                    self.keep(loaded, vec![schema], &hook.how.to_string(), passed_over, pattern);
                    return Ok(());
                }
                Err(Refused::Ours(error)) => return Err(error),
                Err(Refused::Kernels(cause)) if i == last || !may_help(&hooks[i..], &cause) => {
                    return Err(preflight::explain(spec, hook, &cause));
                }
                Err(Refused::Kernels(cause)) => passed_over.push(preflight::reason(hook, &cause)),
            }
        }
        Err(Error::new(ErrorKind::Attach, format!("{spec}: this kernel has no hook for it")))
    }

    /// Takes in what is attached, with the schema of each of its probes.
    fn keep(
        &mut self,
        loaded: Loaded,
        schemas: Vec<Schema>,
        how: &str,
        passed_over: Vec<String>,
        pattern: Option<&str>,
    ) {
        for schema in schemas {
            self.attached.push(Attached {
                schema,
                how: how.to_owned(),
                passed_over: passed_over.clone(),
                pattern: pattern.map(str::to_owned),
            });
        }
        self.loaded.push(Loaded { ids: loaded.ids.start..self.attached.len() + 1, ..loaded });
    }

    fn try_hook(&self, spec: &Spec, hook: &Hook) -> Result<(Loaded, Schema), Refused> {
        let (plan, mut schema) = kept(self.keep.as_ref(), capture(spec, hook))?;
        let mut loaded = self.load(hook, &plan, Many::One)?;
        let put = |name: &str, how: &How| {
            let program = loaded.object.progs_mut().find(|p| p.name() == name);
            program.map(|p| attach::attach(&p, how)).transpose()
        };
        // The return first: an entry whose return is not looked at would wait for ever.
        let both = || -> libbpf_rs::Result<Links> {
            let back = put(loaded.program, &hook.how)?;
            let half = hook.how.half().filter(|_| loaded.half.is_some());
            let entry = half.map(|(name, how)| put(name, &how)).transpose()?.flatten();
            Ok(Links { entries: entry.into_iter().collect(), returns: back.into_iter().collect() })
        };
        // A tracepoint's id is read from tracefs, which may be mounted on that thread alone.
        let links = if hook.how.needs_tracefs() { tracefs::with(|_| Ok(both()))? } else { both() }?;
        loaded.links = links;
        schema.name = self.unused_name(schema.name);
        Ok((loaded, schema))
    }

    /// Loads the program of a hook for the next free ids.
    fn load(&self, hook: &Hook, plan: &Plan, many: Many) -> Result<Loaded, Refused> {
        let id = self.attached.len() + 1;
        if id >= self.ids {
            return Err(Refused::Ours(Error::new(
                ErrorKind::Runtime,
                "more probes than the accounts were made for",
            )));
        }
        let program = hook.how.program();
        let half = hook.how.half().filter(|_| hook.pairs(plan)).map(|(name, _)| name);
        let mut open = object::open()?;
        for name in [program].into_iter().chain(half) {
            object::select(&mut open, name);
            set_trampoline(&mut open, name, hook)?;
        }
        if many == Many::Multi {
            open.progs_mut()
                .filter(|p| p.name() == program)
                .for_each(|mut p| p.set_attach_type(ProgramAttachType::KprobeMulti));
        }
        object::share_maps(&mut open, &self.base, &object::SHARED)?;
        Keep::size(self.keep.as_ref(), &mut open)?;
        object::share_maps(&mut open, &self.base, Keep::maps(self.keep.as_ref()))?;
        match many {
            Many::Addresses(entries) => object::size(&mut open, "functions", entries)?,
            _ => object::leave_out(&mut open, &["functions"])?,
        }
        if half.is_none() {
            object::leave_out(&mut open, &["pairs"])?;
        }
        object::configure(&mut open, &Common { filter: &self.filter, probes: self.ids }, id, |c| {
            hook.configure(plan, c);
            c.set_u32("many", many.number());
        })?;
        Ok(Loaded {
            object: open.load()?,
            program,
            half,
            links: Links::default(),
            ids: id..id + 1,
            told: None,
            kprobes: hook.how.is_kprobe(),
        })
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

impl Many {
    fn number(self) -> u32 {
        match self {
            Many::One => 0,
            Many::Multi | Many::Cookies => 1,
            Many::Addresses(_) => 2,
        }
    }
}

/// Why a hook did not come about.
pub(super) enum Refused {
    /// The kernel or libbpf refused it; another hook may do.
    Kernels(libbpf_rs::Error),
    /// Something else is wrong, and no other hook will help.
    Ours(Error),
}

impl From<libbpf_rs::Error> for Refused {
    fn from(error: libbpf_rs::Error) -> Refused {
        Refused::Kernels(error)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Ours(error)
    }
}

/// Whether the next hook may do where the first was refused: reading arguments in another way helps against the
/// verifier alone.
fn may_help(hooks: &[Hook], cause: &libbpf_rs::Error) -> bool {
    match hooks {
        [this, next, ..]
            if this.how.trampoline().is_some() && this.how.trampoline() == next.how.trampoline() =>
        {
            preflight::os_error(cause).kind() == io::ErrorKind::PermissionDenied
                && preflight::os_error(cause).raw_os_error() != Some(preflight::EPERM)
        }
        _ => true,
    }
}

fn set_trampoline(open: &mut OpenObject, name: &str, hook: &Hook) -> libbpf_rs::Result<()> {
    let Some(function) = hook.how.trampoline() else { return Ok(()) };
    open.progs_mut()
        .filter(|p| p.name() == name)
        .try_for_each(|mut p| p.set_attach_target(0, Some(function.to_owned())))
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

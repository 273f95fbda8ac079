//! What it means: arguments to the options of a session.

use std::{os::unix::fs::MetadataExt, path::Path};

use nix::unistd::User;
use tracer::{
    Error, ErrorKind, Result,
    probe::{self, Filter, Found, Provider, Spec, Target, foreign::Settings, spec::Field},
    ring::{self, Wake, cpus},
    schema::{self, Kind},
    session::{self, Session},
};

use super::{
    args::{Probes, Rings, Tasks, Trace},
    kin, say,
    units::Gather,
};

/// The specs; the default is one.
pub fn specs(asked: &[String]) -> Result<Vec<Spec>> {
    if asked.is_empty() {
        return Ok(vec!["s:write".parse()?]);
    }
    let specs: Vec<Spec> = asked.iter().map(|text| text.parse()).collect::<Result<_>>()?;
    specs.iter().try_for_each(probe::servable)?;
    Ok(specs)
}

/// Has the files of specs be those that the one process of `-p` sees: in a container a path means another file.
pub fn within_root(specs: &mut [Spec], pids: &[u32]) {
    let [pid] = pids else { return };
    let root = format!("/proc/{pid}/root");
    let identity = |path: &str| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    if identity(&root) == identity("/") {
        return;
    }
    for spec in specs.iter_mut().filter(|spec| spec.provider.is_in_process() && spec.scope.starts_with('/')) {
        spec.scope.insert_str(0, &root);
    }
}

/// Has every spec show these stacks too.
pub fn with_stacks(specs: &mut [Spec], kernel: bool, user: bool) -> Result<()> {
    for name in [kernel.then_some("kstack"), user.then_some("ustack")].into_iter().flatten() {
        let field: Field = name.parse()?;
        specs.iter_mut().for_each(|spec| spec.show_too(field.clone()));
    }
    Ok(())
}

/// Checks that what is said of objects has one to be said of, and tells what does not hold for them.
pub fn objects(args: &Probes, quiet: bool, specs: &[Spec]) -> Result<()> {
    let objects = specs.iter().filter(|s| s.provider == Provider::Object).count();
    if objects == 0 && !(args.set.is_empty() && args.event.is_empty()) {
        return Err(Error::usage("--set and --event are for objects, and no SPEC is one")
            .with_help("an object is o:FILE.bpf.o"));
    }
    let Tasks { pid, comm, uid, cgroup, .. } = &args.tasks;
    let filtered = !pid.is_empty() || comm.is_some() || uid.is_some() || cgroup.is_some();
    if objects > 0 && filtered && !quiet {
        say("-p, --comm, -u and --cgroup are our own programs' filters: objects emit what they emit");
    }
    Ok(())
}

/// Refuses what has no rings that could be in overwrite mode.
pub fn without_objects(specs: &[Spec]) -> Result<()> {
    match specs.iter().find(|spec| spec.provider == Provider::Object) {
        Some(spec) => Err(Error::usage(format!("--flight: {spec} emits into rings of its own"))
            .with_help("record it without --flight, with --rotate and --keep")),
        None => Ok(()),
    }
}

/// The options of a session; `child` is the command that waits to be let go.
pub fn options(args: &Probes, trace: &Trace, probes: usize, child: Option<u32>) -> Result<session::Options> {
    let cpus = trace.cpus.as_deref().map(cpu_list).transpose()?;
    Ok(session::Options {
        rings: ring::Options { cpus: cpus.clone(), ..rings(&trace.rings, cpus.as_deref())? },
        filter: filter(&args.tasks, child)?,
        probes,
        objects: Settings { set: args.set.clone(), events: args.event.clone() },
        reader_threads: args.reader_threads as usize,
        limit: trace.count,
        count_runs: trace.verbose,
        ..session::Options::default()
    })
}

/// How many events share a record.
pub fn gather(asked: Gather, found: &[Found]) -> Result<u32> {
    /// What suits events that are small.
    const AUTO: u32 = 8;
    /// The most bytes of an event that is, strings aside.
    const SMALL: usize = 256;
    if let Gather::Events(n) = asked {
        return Ok(n);
    }
    for found in found.iter().filter(|f| f.spec().provider != Provider::Object) {
        for schema in found.schemas()? {
            let large = |f: &schema::Field| {
                matches!(f.kind, Kind::Stack { .. }) || f.offset as usize + f.kind.size() > SMALL
            };
            if schema.fields.iter().any(large) {
                return Ok(1);
            }
        }
    }
    Ok(AUTO)
}

/// Side-band records for a recording: of the command and its children, where nothing else is traced, else of all.
pub fn sideband(args: &Probes, trace: &Trace, child: Option<u32>) -> ring::sideband::Options {
    ring::sideband::Options {
        mmaps: trace.ustack,
        process: child.filter(|_| args.tasks.pid.is_empty()),
        ..ring::sideband::Options::default()
    }
}

/// Which tasks are traced; `child` is the command that waits to be let go.
pub fn filter(tasks: &Tasks, child: Option<u32>) -> Result<Filter> {
    Ok(Filter {
        targets: targets(&tasks.pid, child)?,
        uid: tasks.uid.as_deref().map(uid).transpose()?,
        comm: tasks.comm.clone(),
        cgroup: tasks.cgroup.clone(),
        cpus: None,
        excluded: if tasks.include_self { Vec::new() } else { excluded() },
    })
}

/// The processes that are never traced, the nearest first, as many as the programs have room for.
fn excluded() -> Vec<u32> {
    let mut all = kin::processes();
    if all.len() > Filter::MAX_EXCLUDED {
        say(&format!(
            "{} processes read this output; the first {} are left out",
            all.len(),
            Filter::MAX_EXCLUDED
        ));
        all.truncate(Filter::MAX_EXCLUDED);
    }
    all
}

/// The rings' options for these CPUs, or all.
pub fn rings(args: &Rings, cpus: Option<&[u32]>) -> Result<ring::Options> {
    let defaults = ring::Options::default();
    let mut size = args.size.unwrap_or(defaults.size);
    if let Some(total) = args.ring_total {
        let rings = match cpus {
            Some(cpus) => cpus.len(),
            None => cpus::online()?.len(),
        };
        let share = total / rings.max(1);
        let page = ring::size::round(1)?;
        if share < page {
            return Err(Error::usage(format!(
                "--ring-total {total}: {rings} rings get {share} bytes each, and a ring has at least {page}"
            ))
            .with_help(format!("{} bytes are the least", page * rings)));
        }
        // Rings have 2^n pages, and the total is not to be exceeded.
        size = size.min(1 << share.ilog2());
    }
    let wake = match args.wakeup {
        None => Wake::Latency(args.latency),
        Some(wakeup) => wakeup.into(),
    };
    Ok(ring::Options { size, wake, ..defaults })
}

/// A session with its rings mapped. Where the default size is beyond a limit, they have what fits, which is returned.
pub fn prepare(args: &Rings, options: session::Options) -> Result<(Session, Option<usize>)> {
    const EPERM: i32 = nix::errno::Errno::EPERM as i32;
    match Session::prepare(options.clone()) {
        Err(error) if args.size.is_none() && error.os_error() == Some(EPERM) => {
            let rings = match &options.rings.cpus {
                Some(cpus) => cpus.len(),
                None => cpus::online()?.len(),
            };
            let Some(size) = ring::lockable(rings).filter(|size| *size < options.rings.size) else {
                return Err(error);
            };
            let rings = ring::Options { size, ..options.rings };
            Session::prepare(session::Options { rings, ..options }).map(|session| (session, Some(size)))
        }
        prepared => prepared.map(|session| (session, None)),
    }
}

/// The CPUs of a list such as `0-3,7`, all of which can be there.
pub fn cpu_list(list: &str) -> Result<Vec<u32>> {
    let cpus = cpus::parse(list)?;
    let possible = cpus::possible()?;
    match cpus.iter().find(|cpu| !possible.contains(cpu)) {
        Some(cpu) => Err(Error::usage(format!("-C {list}: this machine has no CPU {cpu}"))),
        None if cpus.is_empty() => Err(Error::usage(format!("-C '{list}' names no CPU"))),
        None => Ok(cpus),
    }
}

fn targets(pids: &[u32], child: Option<u32>) -> Result<Vec<Target>> {
    let asked = pids.iter().map(|&pid| target(pid));
    asked.chain(child.map(|pid| Ok(Target::OnExec(pid)))).collect()
}

/// A process, or a thread of one by its own id.
fn target(pid: u32) -> Result<Target> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|_| Error::usage(format!("-p {pid}: there is no such process")))?;
    let tgid = status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
    Ok(if tgid == Some(pid) || !Path::new("/proc").join(pid.to_string()).exists() {
        Target::Process(pid)
    } else {
        Target::Thread(pid)
    })
}

/// A user id by name or number.
pub fn uid(user: &str) -> Result<u32> {
    match user.parse() {
        Ok(uid) => Ok(uid),
        Err(_) => Ok(account(user)?.uid.as_raw()),
    }
}

/// A user by name or number.
pub fn account(user: &str) -> Result<User> {
    let found = match user.parse::<u32>() {
        Ok(uid) => User::from_uid(uid.into()),
        Err(_) => User::from_name(user),
    };
    found
        .map_err(|e| Error::caused(ErrorKind::Runtime, format!("looking up the user {user}"), e))?
        .ok_or_else(|| Error::usage(format!("there is no user '{user}'")))
}

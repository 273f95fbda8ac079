//! What it means: arguments to the options of a session.

use std::path::Path;

use nix::unistd::User;
use tracer::{
    Error, ErrorKind, Result,
    probe::{self, Filter, Spec, Target},
    ring::{self, Wake, cpus},
    session::{self, Session},
};

use super::{
    args::{Rings, Run, Tasks},
    kin, say,
    units::Wakeup,
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

/// The options of a session; `child` is the command that waits to be let go.
pub fn options(args: &Run, specs: usize, child: Option<u32>) -> Result<session::Options> {
    let filter = filter(&args.tasks, child)?;
    let cpus = filter.cpus.clone();
    Ok(session::Options {
        rings: ring::Options { cpus: cpus.clone(), ..rings(&args.rings, cpus.as_deref())? },
        filter,
        probes: specs,
        limit: args.count,
        count_runs: args.manner.verbose,
        ..session::Options::default()
    })
}

/// Which tasks are traced; `child` is the command that waits to be let go.
pub fn filter(tasks: &Tasks, child: Option<u32>) -> Result<Filter> {
    Ok(Filter {
        targets: targets(&tasks.pid, child)?,
        uid: tasks.uid.as_deref().map(uid).transpose()?,
        comm: tasks.comm.clone(),
        cgroup: tasks.cgroup.clone(),
        cpus: tasks.cpus.as_deref().map(cpu_list).transpose()?,
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
        Some(Wakeup::Records(n)) => Wake::Records(n),
        Some(Wakeup::Bytes(n)) => Wake::Bytes(n),
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

fn cpu_list(list: &str) -> Result<Vec<u32>> {
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

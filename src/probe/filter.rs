//! Which tasks are traced, decided in the kernel before anything is copied.

use std::{fs::File, os::fd::AsFd, path::PathBuf};

use libbpf_rs::{MapCore, MapFlags, MapMut};

use super::{
    automaton::{Automaton, pieces},
    config::Config,
};
use crate::{Error, ErrorKind, Result};

/// The longest `comm` is 15 bytes and a NUL (`TASK_COMM_LEN`).
const MAX_COMM: usize = 15;

const TARGET_PROCESS: u32 = 1;
const TARGET_THREAD: u32 = 2;
const TARGET_ARMED: u32 = 4;

const FILTER_TARGETS: u32 = 1;
const FILTER_UID: u32 = 2;
const FILTER_COMM: u32 = 4;
const FILTER_CGROUP: u32 = 8;
const FILTER_CPUS: u32 = 16;
/// The CPUs that the kernel's side has bits for.
const MAX_CPUS: u32 = 64 * 64;

/// A task to trace, by its id in this process's PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process, and the children it forks from now on.
    Process(u32),
    /// One thread.
    Thread(u32),
    /// A process of ours: traced, with its children, from its next `execve` on, even if it is excluded.
    OnExec(u32),
}

/// Which tasks are traced. All parts that are given must agree; the default is every task.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// These tasks alone; all where it is empty.
    pub targets: Vec<Target>,
    /// Tasks of this user, by effective id in the initial user namespace.
    pub uid: Option<u32>,
    /// Tasks whose `comm` matches: `*` is any bytes, `?` any one.
    pub comm: Option<String>,
    /// Tasks in this cgroup v2 directory or below it.
    pub cgroup: Option<PathBuf>,
    /// On these CPUs alone.
    pub cpus: Option<Vec<u32>>,
    /// Never these processes: the tracer itself and whoever reads its output, at most 64.
    pub excluded: Vec<u32>,
}

impl Filter {
    /// The most processes that can be excluded: `TRACER_EXCLUDED` in `bpf/tracer.h`.
    pub const MAX_EXCLUDED: usize = 64;

    /// Whether targets are asked for, and so must be followed over fork, exec and exit.
    pub(super) fn follows(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Writes the filter into a probe's configuration.
    pub(super) fn configure(&self, config: &mut Config) -> Result<()> {
        let mut filters = 0;
        if self.follows() {
            filters |= FILTER_TARGETS;
        }
        if let Some(uid) = self.uid {
            filters |= FILTER_UID;
            config.set_u32("uid", uid);
        }
        if let Some(pattern) = &self.comm {
            filters |= FILTER_COMM;
            let glob = comm(pattern)?;
            config
                .set_u32s("comm_next", &glob.next.map(|states| states as u32))
                .set_u32("comm_loop", glob.stay as u32)
                .set_u32("comm_accept", glob.accept as u32);
        }
        if self.cgroup.is_some() {
            filters |= FILTER_CGROUP;
        }
        if let Some(cpus) = &self.cpus {
            filters |= FILTER_CPUS;
            let mut bits = [0u64; 64];
            for &cpu in cpus {
                if cpu >= MAX_CPUS {
                    return Err(Error::usage(format!("CPU {cpu}: up to {MAX_CPUS} CPUs can be told apart")));
                }
                bits[cpu as usize / 64] |= 1 << (cpu % 64);
            }
            let bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_ne_bytes()).collect();
            config.set("cpus", &bytes);
        }
        let excluded = &self.excluded;
        if excluded.len() > Filter::MAX_EXCLUDED {
            let (n, most) = (excluded.len(), Filter::MAX_EXCLUDED);
            return Err(Error::usage(format!("{n} processes to be left out: {most} is the most")));
        }
        config
            .set_u32("filters", filters)
            .set_u32s("excluded", excluded)
            .set_u32("excluded_len", excluded.len() as u32);
        if let Some((dev, ino)) = pid_namespace()? {
            config.set_u64("pidns_dev", dev).set_u64("pidns_ino", ino);
        }
        Ok(())
    }

    /// Puts the targets into the map that the programs look them up in.
    pub(super) fn fill_targets(&self, map: &MapMut<'_>) -> Result<()> {
        for target in &self.targets {
            let (id, how) = match *target {
                Target::Process(id) => (id, TARGET_PROCESS),
                Target::Thread(id) => (id, TARGET_THREAD),
                Target::OnExec(id) => (id, TARGET_ARMED),
            };
            map.update(&id.to_ne_bytes(), &how.to_ne_bytes(), MapFlags::ANY).map_err(|e| {
                Error::caused(ErrorKind::Runtime, format!("adding process {id} to the traced ones"), e)
                    .with_help("8192 processes can be followed at once")
            })?;
        }
        Ok(())
    }

    /// Takes tasks that have ended from that map.
    pub(super) fn forget_gone(map: &impl MapCore) {
        // Behind a key that is not there any more the kernel begins anew.
        let keys: Vec<_> = map.keys().collect();
        for key in keys {
            if let Ok(id) = key.as_slice().try_into().map(u32::from_ne_bytes)
                && is_gone(id)
            {
                // The program that does this otherwise may be first.
                let _ = map.delete(&key);
            }
        }
    }

    /// Puts the cgroup's descriptor where the programs find it.
    pub(super) fn fill_cgroup(&self, map: &MapMut<'_>) -> Result<()> {
        let Some(path) = &self.cgroup else { return Ok(()) };
        let folder = File::open(path).map_err(|e| {
            Error::caused(ErrorKind::Usage, format!("opening the cgroup {}", path.display()), e)
        })?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder.as_fd());
        map.update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(|e| {
            Error::caused(ErrorKind::Usage, format!("{} is no cgroup v2 directory", path.display()), e)
                .with_help("give a directory below the mount of type cgroup2 (findmnt -t cgroup2)")
        })
    }
}

/// True of a task that is not there, or has ended with all of its threads and waits to be asked for.
fn is_gone(id: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
    // The name before may hold anything.
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let threads = || std::fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count);
    state.starts_with(['Z', 'X']) && threads() <= 1
}

/// Device and inode of this process's PID namespace, unless it is the initial one.
fn pid_namespace() -> Result<Option<(u64, u64)>> {
    use std::os::linux::fs::MetadataExt;
    /// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
    const INITIAL: u64 = 0xEFFF_FFFC;
    let meta = std::fs::metadata("/proc/self/ns/pid").map_err(|e| {
        Error::caused(ErrorKind::Precondition, "finding this process's PID namespace in /proc/self/ns/pid", e)
            .with_help("mount procfs on /proc")
    })?;
    Ok((meta.st_ino() != INITIAL).then(|| (meta.st_dev(), meta.st_ino())))
}

/// The automaton of `--comm`.
fn comm(pattern: &str) -> Result<Automaton> {
    Automaton::new(pieces(pattern)).filter(|a| a.tokens() <= MAX_COMM).ok_or_else(|| {
        Error::usage(format!("--comm '{pattern}' can never match: a task's name has 15 bytes at most"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_gone_before_it_is_asked_for() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        assert!(!is_gone(child.id()) && !is_gone(std::process::id()) && is_gone(u32::MAX));
        child.kill().expect("a child that can be killed");
        while !is_gone(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().expect("its status");
    }

    #[test]
    fn a_pattern_longer_than_any_name_is_refused() {
        assert!(comm("123456789012345").is_ok());
        assert!(comm("1234567890123456").is_err());
    }
}

//! The processes that tracing must leave out, or it would trace its own output: ourselves, our ancestors up to the
//! session's terminal or sshd, and whoever reads what we write, and what they write, and so on.

use std::{
    collections::BTreeSet,
    fs,
    os::{fd::RawFd, linux::fs::MetadataExt},
    path::Path,
};

/// How far readers of readers are followed.
const DEPTH: usize = 8;

/// All of them, by process id, ours first.
pub fn processes() -> Vec<u32> {
    let me = std::process::id();
    let mut found = vec![me];
    for pid in ancestors(me) {
        add(&mut found, pid);
    }
    // Those whose output is read by somebody in turn: we, and then each reader.
    let mut writers = vec![me];
    for _ in 0..DEPTH {
        let outputs: BTreeSet<Output> =
            writers.iter().flat_map(|pid| [1, 2].map(|fd| output(*pid, fd))).flatten().collect();
        writers = readers(&outputs).into_iter().filter(|pid| add(&mut found, *pid)).collect();
        if writers.is_empty() {
            break;
        }
    }
    found
}

fn add(found: &mut Vec<u32>, pid: u32) -> bool {
    let new = !found.contains(&pid);
    if new {
        found.push(pid);
    }
    new
}

/// Parents as long as they have a terminal or only pass us on, and the first one beyond: it owns the terminal.
fn ancestors(mut pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    loop {
        let Some(task) = Task::read(pid) else { return found };
        if task.parent <= 1 {
            return found;
        }
        pid = task.parent;
        found.push(pid);
        let Some(parent) = Task::read(pid) else { return found };
        if parent.tty == 0 && !matches!(&*parent.comm, "sudo" | "su" | "doas" | "runuser") {
            return found;
        }
    }
}

/// What /proc/PID/stat says of a process.
struct Task {
    comm: String,
    parent: u32,
    tty: i64,
}

impl Task {
    fn read(pid: u32) -> Option<Task> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        // The name may hold anything, parentheses too, so its end is the last one.
        let (head, rest) = stat.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        let mut words = rest.split_whitespace().skip(1);
        Some(Task {
            comm: comm.to_owned(),
            parent: words.next()?.parse().ok()?,
            tty: words.nth(2)?.parse().ok()?,
        })
    }
}

/// Something that another process may hold the other end of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Output {
    /// A pipe or FIFO, by device and inode.
    Pipe(u64, u64),
    /// The slave of a pseudoterminal, by its number.
    Pty(u64),
}

fn output(pid: u32, fd: RawFd) -> Option<Output> {
    const FIFO: u32 = 0o010_000;
    const CHAR: u32 = 0o020_000;
    let meta = fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
    match meta.st_mode() & 0o170_000 {
        FIFO => Some(Output::Pipe(meta.st_dev(), meta.st_ino())),
        // Unix98 slaves have the majors 136 to 143 (Documentation/admin-guide/devices.txt).
        CHAR if (136..144).contains(&nix::sys::stat::major(meta.st_rdev())) => {
            let base = (nix::sys::stat::major(meta.st_rdev()) - 136) << 20;
            Some(Output::Pty(base + nix::sys::stat::minor(meta.st_rdev())))
        }
        _ => None,
    }
}

/// The processes that hold the other end of any of these outputs.
fn readers(outputs: &BTreeSet<Output>) -> Vec<u32> {
    if outputs.is_empty() {
        return Vec::new();
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let folder = format!("/proc/{pid}/fd");
        let descriptors = fs::read_dir(&folder).into_iter().flatten().flatten();
        descriptors.into_iter().any(|d| reads(*pid, &d.path(), outputs))
    })
    .collect()
}

fn reads(pid: u32, descriptor: &Path, outputs: &BTreeSet<Output>) -> bool {
    let Ok(target) = fs::read_link(descriptor) else { return false };
    let number = descriptor.file_name().unwrap_or_default().to_string_lossy();
    let info = || fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let value =
        |info: &str, key: &str| info.lines().find_map(|l| Some(l.strip_prefix(key)?.trim().to_owned()));
    if target.ends_with("ptmx") {
        let index = value(&info(), "tty-index:").and_then(|n| n.parse().ok());
        return index.is_some_and(|n| outputs.contains(&Output::Pty(n)));
    }
    let Ok(meta) = fs::metadata(descriptor) else { return false };
    if !outputs.contains(&Output::Pipe(meta.st_dev(), meta.st_ino())) {
        return false;
    }
    // O_WRONLY is 1 in the last octal digit: our own end, and that of those who write into it beside us.
    let flags = value(&info(), "flags:").and_then(|f| u32::from_str_radix(&f, 8).ok());
    flags.is_some_and(|f| f & 3 != 1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn we_and_our_parent_are_among_them() {
        let found = processes();
        assert_eq!(found[0], std::process::id());
        assert!(found.contains(&std::os::unix::process::parent_id()));
    }

    #[test]
    fn readers_of_a_pipe_are_found_and_its_writers_are_not() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stdin = reader.stdin.as_ref().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(stdin);
        let pipe = output(std::process::id(), fd).unwrap();
        assert_eq!(readers(&BTreeSet::from([pipe])), [reader.id()]);
        drop(reader.stdin.take());
        reader.wait().unwrap();
    }
}

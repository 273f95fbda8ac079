//! The processes that tracing must leave out, or it would trace its own output: ourselves, our ancestors up to the
//! session's terminal or sshd, and whoever reads what we write, and what they write, and so on.

use std::{
    collections::BTreeSet,
    fs,
    os::{fd::RawFd, linux::fs::MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How far readers of readers are followed.
const DEPTH: usize = 8;

/// How long the start may wait for a pipeline that is still being put together, and in which steps.
const SETTLING: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_millis(5);

/// All of them, by process id, ours first.
///
/// A shell starts a pipeline's programs one after another, and us first. So for as long as it holds the reading end
/// of a pipe itself, or a child of it that has not become its program yet does, this looks again.
pub fn processes() -> Vec<u32> {
    let me = std::process::id();
    let ancestors = ancestors(me);
    let shells: BTreeSet<PathBuf> = ancestors.iter().filter_map(|pid| program(*pid)).collect();
    let until = Instant::now() + SETTLING;
    loop {
        let readers = all_readers(me);
        let settled = |reader: &Reader| {
            let shell = || {
                ancestors.contains(&reader.pid)
                    || program(reader.pid).is_some_and(|file| shells.contains(&file))
            };
            !reader.of_pipe || !shell()
        };
        if readers.iter().all(settled) || Instant::now() >= until {
            let mut found = vec![me];
            for pid in ancestors.into_iter().chain(readers.iter().map(|reader| reader.pid)) {
                if !found.contains(&pid) {
                    found.push(pid);
                }
            }
            return found;
        }
        thread::sleep(STEP);
    }
}

/// Who reads what a process writes, who reads what they write, and so on.
fn all_readers(of: u32) -> Vec<Reader> {
    let mut found: Vec<Reader> = Vec::new();
    let mut writers = vec![of];
    for _ in 0..DEPTH {
        let outputs: BTreeSet<Output> =
            writers.iter().flat_map(|pid| [1, 2].map(|fd| output(*pid, fd))).flatten().collect();
        let mut more = readers(&outputs);
        more.retain(|reader| reader.pid != of && found.iter().all(|known| known.pid != reader.pid));
        if more.is_empty() {
            break;
        }
        writers = more.iter().map(|reader| reader.pid).collect();
        found.extend(more);
    }
    found
}

/// The file that a process runs.
fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
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

/// A process that holds the other end of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reader {
    pid: u32,
    /// Of a pipe, and not of a terminal.
    of_pipe: bool,
}

/// The processes that hold the other end of any of these outputs.
fn readers(outputs: &BTreeSet<Output>) -> Vec<Reader> {
    if outputs.is_empty() {
        return Vec::new();
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let folder = format!("/proc/{pid}/fd");
        let descriptors = fs::read_dir(&folder).into_iter().flatten().flatten();
        let read: Vec<Output> = descriptors.filter_map(|d| reads(pid, &d.path(), outputs)).collect();
        let of_pipe = read.iter().any(|output| matches!(output, Output::Pipe(..)));
        (!read.is_empty()).then_some(Reader { pid, of_pipe })
    })
    .collect()
}

/// The output of which a descriptor is the other end.
fn reads(pid: u32, descriptor: &Path, outputs: &BTreeSet<Output>) -> Option<Output> {
    let target = fs::read_link(descriptor).ok()?;
    let number = descriptor.file_name().unwrap_or_default().to_string_lossy();
    let info = || fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let value =
        |info: &str, key: &str| info.lines().find_map(|l| Some(l.strip_prefix(key)?.trim().to_owned()));
    if target.ends_with("ptmx") {
        let terminal = Output::Pty(value(&info(), "tty-index:")?.parse().ok()?);
        return outputs.contains(&terminal).then_some(terminal);
    }
    let meta = fs::metadata(descriptor).ok()?;
    let pipe = Output::Pipe(meta.st_dev(), meta.st_ino());
    if !outputs.contains(&pipe) {
        return None;
    }
    // O_WRONLY is 1 in the last octal digit: our own end, and that of those who write into it beside us.
    let flags = value(&info(), "flags:").and_then(|f| u32::from_str_radix(&f, 8).ok());
    flags.filter(|f| f & 3 != 1).map(|_| pipe)
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
        assert_eq!(readers(&BTreeSet::from([pipe])), [Reader { pid: reader.id(), of_pipe: true }]);
        drop(reader.stdin.take());
        reader.wait().unwrap();
    }
}

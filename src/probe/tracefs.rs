//! Tracefs, which holds the formats and ids of tracepoints, found or mounted where nobody else sees it.

use std::{fs, io, path::Path, thread};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use super::preflight::lockdown;
use crate::{Error, ErrorKind, Result};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

fn mounted() -> Option<&'static str> {
    PLACES.into_iter().find(|place| Path::new(place).join("events").is_dir())
}

/// Whether it is mounted at all, where it can be read or not.
pub fn is_mounted() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(1)).any(|place| PLACES.contains(&place))
}

/// Runs `job` where tracefs is mounted, with its path.
///
/// Fresh machines and containers often lack it. It is then mounted in a mount namespace that holds one thread
/// of ours and ends with it, so the host stays as it is; `job` runs on that thread.
pub fn with<R: Send>(job: impl FnOnce(&Path) -> Result<R> + Send) -> Result<R> {
    if let Some(place) = mounted() {
        return job(Path::new(place));
    }
    if lockdown() == "confidentiality" {
        return Err(Error::new(
            ErrorKind::Precondition,
            "tracefs is shut, as the kernel is locked down (confidentiality)",
        )
        .with_help("f:, fr:, rt:, u: and s: still work; or boot without lockdown=confidentiality"));
    }
    if is_mounted() {
        return Err(Error::new(
            ErrorKind::Precondition,
            "tracefs belongs to root, and this process may not read it",
        )
        .with_help("run as root, or use rt: or s:, which need no tracefs"));
    }
    let on_a_thread = || {
        let cannot = |what: &str, errno: nix::Error| {
            Error::caused(ErrorKind::Precondition, format!("tracefs is not mounted, and {what}"), errno).with_help(
                "mount it (mount -t tracefs tracefs /sys/kernel/tracing), or run as root, or use rt: or s:, \
                 which need no tracefs",
            )
        };
        unshare(CloneFlags::CLONE_NEWNS).map_err(|e| cannot("a mount namespace was refused", e))?;
        // What is mounted here must not travel back through shared propagation.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .map_err(|e| cannot("its propagation cannot be made private", e))?;
        mount(Some("tracefs"), PLACES[0], Some("tracefs"), MsFlags::empty(), None::<&str>)
            .map_err(|e| cannot("mounting it failed", e))?;
        job(Path::new(PLACES[0]))
    };
    thread::scope(|scope| {
        scope.spawn(on_a_thread).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The format text of a tracepoint; `None` where this kernel has no such tracepoint.
pub fn format(category: &str, name: &str) -> Result<Option<String>> {
    with(|tracefs| {
        let path = tracefs.join("events").join(category).join(name).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::caused(ErrorKind::Precondition, format!("reading {}", path.display()), e)
                .with_help("tracefs belongs to root: run as root, or use rt: or s:")),
        }
    })
}

/// Every tracepoint that programs can be put on, as category and name.
pub fn events() -> Result<Vec<(String, String)>> {
    let text = read("available_events")?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(c, n)| (c.to_owned(), n.to_owned()))
        .collect())
}

/// The table of what the kernel's function tracer knows; `None` where it cannot be read.
pub fn traced_functions() -> Option<Vec<u8>> {
    read("available_filter_functions").ok().filter(|text| !text.is_empty())
}

fn read(file: &str) -> Result<Vec<u8>> {
    with(|tracefs| {
        let path = tracefs.join(file);
        fs::read(&path).map_err(|e| {
            Error::caused(ErrorKind::Precondition, format!("reading {}", path.display()), e)
                .with_help("tracefs belongs to root: run as root, or use rt: or s:")
        })
    })
}

/// The names of a category's tracepoints, for an error that offers near ones; empty where they cannot be had.
pub fn names(category: &str) -> Vec<String> {
    with(|tracefs| Ok(entries(&tracefs.join("events").join(category)))).unwrap_or_default()
}

/// The categories of tracepoints; empty where they cannot be had.
pub fn categories() -> Vec<String> {
    with(|tracefs| Ok(entries(&tracefs.join("events")))).unwrap_or_default()
}

fn entries(folder: &Path) -> Vec<String> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    listed.filter(|e| e.path().is_dir()).filter_map(|e| e.file_name().into_string().ok()).collect()
}

//! What this host allows and has, asked before anything is tried and after it was refused.

use std::{fs, path::Path};

use super::{Error, ErrorKind};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn precondition(why: impl Into<String>, way_out: impl Into<String>) -> Error {
    Error::new(ErrorKind::Precondition, why).with_help(way_out)
}

/// Whether this process may load tracing programs and open their rings at all.
pub fn rights() -> Result<(), Error> {
    let Some(caps) = effective_capabilities() else { return Ok(()) };
    let has = |cap: u32| caps >> cap & 1 == 1;
    if has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON)) {
        return Ok(());
    }
    let lacking: Vec<_> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter_map(|(cap, name)| (!has(cap)).then_some(name))
        .collect();
    let lacking = lacking.join(" and ");
    Err(precondition(
        format!("loading BPF programs needs {lacking}, which this process lacks"),
        "run it with sudo, or give it CAP_BPF and CAP_PERFMON (setcap, or AmbientCapabilities= in a unit)",
    ))
}

/// The effective capabilities of this process, as a mask.
fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether it has CAP_SYS_ADMIN, or that cannot be told.
pub fn is_admin() -> bool {
    effective_capabilities().is_none_or(|caps| caps >> CAP_SYS_ADMIN & 1 == 1)
}

/// Whether it may raise its limits, or that cannot be told.
pub fn may_raise_limits() -> bool {
    effective_capabilities().is_none_or(|caps| caps >> CAP_SYS_RESOURCE & 1 == 1)
}

/// The kernel's lockdown mode; empty where there is none.
pub fn lockdown() -> String {
    let modes = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    modes.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default().to_owned()
}

/// A setting below `/proc/sys/kernel`, where it is a number.
pub fn setting(name: &str) -> Option<i32> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

/// Whether perf events, which all probes but trampolines and raw tracepoints are, are open to this process.
pub fn perf_events() -> Result<(), Error> {
    match setting("perf_event_paranoid") {
        Some(level @ 3..) if !is_admin() => Err(precondition(
            format!("kernel.perf_event_paranoid is {level}, which refuses perf events"),
            "run as root, or lower it: sysctl kernel.perf_event_paranoid=2",
        )),
        _ => Ok(()),
    }
}

/// The kernel's release: what `uname -r` says.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The kernel's version as two numbers, to compare.
pub fn version() -> (u32, u32) {
    let release = release();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Whether the kernel tells its types.
pub fn btf() -> Result<(), Error> {
    match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => Ok(()),
        false => Err(precondition(
            "this kernel has no BTF (/sys/kernel/btf/vmlinux)",
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF, as those of distributions are",
        )),
    }
}

/// Whether this kernel has kprobes built in.
pub fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe/type").exists()
        || Path::new("/sys/kernel/debug/kprobes").exists()
        || Path::new("/proc/sys/debug/kprobes-optimization").exists()
}

/// Whether it takes kprobes at all; the way out names the function that one was wanted on.
pub fn kprobes(function: &str) -> Result<(), Error> {
    if !has_kprobes() {
        return Err(precondition(
            "this kernel was built without CONFIG_KPROBES",
            format!(
                "try f:{function} (BPF's own trampoline) where it is allowed, a tracepoint (t:, rt:), or s: for a \
                 system call"
            ),
        ));
    }
    not_locked_down()
}

/// Whether it has uprobes built in.
pub fn uprobes() -> Result<(), Error> {
    match Path::new("/sys/bus/event_source/devices/uprobe/type").exists() {
        true => Ok(()),
        false => Err(precondition(
            "this kernel was built without CONFIG_UPROBE_EVENTS",
            "trace the system calls that the program makes (s:), with -p or --comm",
        )),
    }
}

/// Whether lockdown leaves kprobes and tracefs open.
pub fn not_locked_down() -> Result<(), Error> {
    match lockdown() == "confidentiality" {
        false => Ok(()),
        true => Err(precondition(
            "the kernel is locked down (confidentiality)",
            "f:, fr:, rt: and u: still work under lockdown; or boot without lockdown=confidentiality",
        )),
    }
}

/// Whether BPF maps may be made where they count as locked memory.
pub fn memory_for_maps() -> Result<(), Error> {
    // What a session's maps and programs need at most, with room to spare.
    const ENOUGH: u64 = 64 << 20;
    let limit = locked_memory_limit();
    if version() >= (5, 11) || limit.is_none_or(|bytes| bytes >= ENOUGH) || may_raise_limits() {
        return Ok(());
    }
    Err(precondition("kernels before 5.11 count BPF maps as locked memory", raise_the_limit()))
}

/// The limit on locked memory of this process, in bytes.
fn locked_memory_limit() -> Option<u64> {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK);
    limit.ok().map(|(soft, _)| soft)
}

/// The way out of too low a limit on locked memory.
pub fn raise_the_limit() -> String {
    let limit = locked_memory_limit().map_or("unknown".to_owned(), |soft| format!("{} KiB", soft >> 10));
    format!(
        "kernels before 5.11 count BPF maps as locked memory, of which this process may have {limit}: raise it \
         (ulimit -l unlimited, or LimitMEMLOCK=infinity in a unit), or run it as root"
    )
}

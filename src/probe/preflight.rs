//! Why a probe cannot be attached, and the way out: what this host is asked when something was refused.

use std::{fs, path::Path};

use super::{
    hook::{Hook, How},
    object,
    spec::Spec,
};
use crate::{Error, ErrorKind};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// The errno of what is forbidden, and no fault of the program's.
pub const EPERM: i32 = 1;

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
    Err(Error::new(
        ErrorKind::Precondition,
        format!("loading BPF programs needs {lacking}, which this process lacks"),
    )
    .with_help(
        "run it with sudo, or give it CAP_BPF and CAP_PERFMON (setcap, or AmbientCapabilities= in a unit)",
    ))
}

/// The effective capabilities of this process, as a mask.
fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn is_admin() -> bool {
    effective_capabilities().is_none_or(|caps| caps >> CAP_SYS_ADMIN & 1 == 1)
}

/// The kernel's lockdown mode; empty where there is none.
pub fn lockdown() -> String {
    let modes = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    modes.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default().to_owned()
}

fn paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Whether this kernel has kprobes built in.
pub fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe/type").exists()
        || Path::new("/sys/kernel/debug/kprobes").exists()
        || Path::new("/proc/sys/debug/kprobes-optimization").exists()
}

/// The error for a hook that the kernel refused, with the reason where this host tells it.
pub fn explain(spec: &Spec, hook: &Hook, cause: &libbpf_rs::Error) -> Error {
    let said = object::take_said();
    let how = &hook.how;
    let why = |kind, why: &str| Error::new(kind, format!("{spec}: cannot attach: {why}"));
    if how.is_kprobe() && !has_kprobes() {
        let function = how.symbol().unwrap_or_default();
        return why(ErrorKind::Precondition, "this kernel was built without CONFIG_KPROBES").with_help(
            format!(
                "try f:{function} (BPF's own trampoline) where it is allowed, a tracepoint (t:, rt:), or s: for a system call"
            ),
        );
    }
    if lockdown() == "confidentiality" && (how.is_kprobe() || how.needs_tracefs()) {
        return why(ErrorKind::Precondition, "the kernel is locked down (confidentiality)").with_help(
            "f:, fr:, rt: and u: still work under lockdown; or boot without lockdown=confidentiality",
        );
    }
    if let Some(symbol) = how.symbol() {
        let found = Symbols::like(symbol);
        if !found.whole {
            return absent(spec, symbol, &found);
        }
        if how.is_kprobe() && is_blacklisted(symbol) {
            return why(ErrorKind::Attach, &format!("{symbol} is on the kernel's kprobe blacklist"))
                .with_help("probe a function that calls it or that it calls");
        }
    }
    if let (Some(level @ 3..), false) = (paranoid(), is_admin()) {
        return why(
            ErrorKind::Precondition,
            &format!("kernel.perf_event_paranoid is {level}, which refuses perf events"),
        )
        .with_help("run as root, or lower it: sysctl kernel.perf_event_paranoid=2");
    }
    let in_user_space = matches!(how, How::Uprobe { .. } | How::Uretprobe { .. } | How::Usdt { .. });
    if in_user_space && !is_admin() && os_error(cause).kind() == std::io::ErrorKind::PermissionDenied {
        return why(ErrorKind::Precondition, "this kernel wants CAP_SYS_ADMIN for uprobes").with_help(
            "run as root: kernels from July 2025 on, stable ones too, no longer take CAP_PERFMON",
        );
    }
    if how.needs_tracefs() && !is_admin() {
        return why(ErrorKind::Precondition, "tracefs belongs to root")
            .with_help("run as root, or use rt: or s:");
    }
    let cause = os_error(cause);
    let refused = cause.raw_os_error() == Some(EPERM);
    let error = Error::caused(ErrorKind::Attach, format!("{spec}: cannot attach: {how}"), cause);
    if how.trampoline().is_some() && refused {
        let other = if has_kprobes() { "k:, " } else { "" };
        why(ErrorKind::Precondition, &format!("this kernel refuses BPF trampolines ({how})"))
            .with_help(format!("try {other}a tracepoint (t:, rt:), or s: for a system call"))
    } else if said.is_empty() {
        error
    } else {
        error.with_help(format!("libbpf and the kernel said:\n{}", object::tail(&said, 12)))
    }
}

/// The error for a map that the kernel did not make for want of locked memory.
pub fn locked_memory(cause: libbpf_rs::Error) -> Error {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK);
    let limit = limit.map_or("unknown".to_owned(), |(soft, _)| format!("{} KiB", soft >> 10));
    Error::caused(ErrorKind::Precondition, "the kernel refused memory for a BPF map", os_error(&cause)).with_help(
        format!(
            "kernels before 5.11 count BPF maps as locked memory, of which this process may have {limit}: raise it \
             (ulimit -l unlimited, or LimitMEMLOCK=infinity in a unit), or run it as root"
        ),
    )
}

/// The operating system's error behind libbpf's, which libbpf-rs shows in its text alone.
pub fn os_error(error: &libbpf_rs::Error) -> std::io::Error {
    let text = format!("{error:#}");
    let number = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    number.map_or_else(|| std::io::Error::other(text), std::io::Error::from_raw_os_error)
}

/// One line on why a better hook was passed over.
pub fn reason(hook: &Hook, cause: &libbpf_rs::Error) -> String {
    object::take_said();
    if hook.how.is_kprobe() && !has_kprobes() {
        return format!("no {}: the kernel was built without CONFIG_KPROBES", hook.how);
    }
    format!("no {}: {}", hook.how, os_error(cause))
}

/// The error for a function that this kernel's BTF does not know.
pub fn explain_absent(spec: &Spec, symbol: &str) -> Error {
    let found = Symbols::like(symbol);
    if found.whole {
        return Error::new(
            ErrorKind::Attach,
            format!("{spec}: cannot attach: {symbol} has no type in the kernel's BTF"),
        )
        .with_help(format!("try k:{symbol}, which needs none"));
    }
    absent(spec, symbol, &found)
}

fn absent(spec: &Spec, symbol: &str, found: &Symbols) -> Error {
    if !found.renamed.is_empty() {
        let names: Vec<_> = found.renamed.iter().map(|n| format!("k:{n}")).collect();
        return Error::new(
            ErrorKind::Attach,
            format!("{spec}: cannot attach: the compiler renamed {symbol}"),
        )
        .with_help(format!("it may be there as {}", names.join(", ")));
    }
    Error::new(
        ErrorKind::Attach,
        format!("{spec}: cannot attach: {symbol} is no symbol of this kernel (absent, inlined, or in a module that is not loaded)"),
    )
    .with_help(near(symbol, found.near.clone(), |n| format!("{}:{n}", spec.provider.short())))
}

/// What the kernel's symbol table has like a name.
struct Symbols {
    /// The name itself is there.
    whole: bool,
    /// The name with a suffix of the compiler's: `.isra.0`, `.constprop.0`, `.part.0`.
    renamed: Vec<String>,
    /// Names that are worth a guess.
    near: Vec<String>,
}

impl Symbols {
    fn like(symbol: &str) -> Symbols {
        let mut found = Symbols { whole: false, renamed: Vec::new(), near: Vec::new() };
        let table = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        // A table that cannot be read tells nothing, so nothing is said to be absent.
        found.whole = table.is_empty();
        for line in table.lines() {
            let mut columns = line.split([' ', '\t']);
            let (Some("T" | "t" | "W" | "w"), Some(name)) = (columns.nth(1), columns.next()) else {
                continue;
            };
            match name.strip_prefix(symbol) {
                Some("") => found.whole = true,
                Some(rest) if rest.starts_with('.') && !rest.starts_with(".cold") => {
                    found.renamed.push(name.to_owned())
                }
                _ => {}
            }
            // Few mistype the first letters, and a comparison with every symbol takes a second.
            let alike = name.len().abs_diff(symbol.len()) <= 4 && name.get(..2) == symbol.get(..2);
            if alike && !name.contains('.') {
                found.near.push(name.to_owned());
            }
        }
        found
    }
}

/// How many bytes a kernel function has, up to the next symbol; `None` where addresses are hidden.
pub fn function_size(symbol: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/kallsyms").ok()?;
    let entries = table.lines().filter_map(|line| {
        let mut columns = line.split([' ', '\t']);
        let address = u64::from_str_radix(columns.next()?, 16).ok().filter(|a| *a != 0)?;
        Some((address, columns.nth(1)?))
    });
    let begin = entries.clone().find(|(_, name)| *name == symbol)?.0;
    let end = entries.map(|(address, _)| address).filter(|address| *address > begin).min()?;
    Some(end - begin)
}

fn is_blacklisted(symbol: &str) -> bool {
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/blacklist").unwrap_or_default();
    list.lines().any(|l| l.split_whitespace().last() == Some(symbol))
}

/// A hint that offers the names nearest to what was typed.
pub fn near(typed: &str, names: Vec<String>, show: impl Fn(&str) -> String) -> String {
    let mut scored: Vec<(f64, String)> = names
        .into_iter()
        .map(|n| (strsim::jaro_winkler(typed, &n), n))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    let best: Vec<String> = scored.iter().take(4).map(|(_, n)| show(n)).collect();
    match best.is_empty() {
        true => "nothing with a name like it is there".into(),
        false => format!("did you mean {}?", best.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_systems_error_is_found() {
        let error = libbpf_rs::Error::from(std::io::Error::from_raw_os_error(EPERM));
        assert_eq!(os_error(&error).raw_os_error(), Some(EPERM));
        let error = libbpf_rs::ErrorExt::context(error, "loading");
        assert_eq!(os_error(&error).raw_os_error(), Some(EPERM));
    }

    #[test]
    fn near_names_come_nearest_first() {
        let names = ["vfs_read", "vfs_write", "vfs_writev", "tcp_sendmsg"].map(str::to_owned).to_vec();
        assert_eq!(
            near("vfs_wriet", names, |n| format!("k:{n}")),
            "did you mean k:vfs_write, k:vfs_writev, k:vfs_read?"
        );
    }
}

//! Why a probe cannot be attached, and the way out: what this host is asked when something was refused.

mod function;
pub mod host;
mod program;

use self::host::{is_admin, not_locked_down, perf_events, uprobes};
pub use self::{
    function::{explain_absent, function_size},
    host::{kprobes, lockdown, rights},
};
use super::{
    catalogue,
    hook::{Hook, How},
    object,
    spec::Spec,
};
use crate::{Error, ErrorKind};

/// The errno of what is forbidden, and no fault of the program's.
pub const EPERM: i32 = 1;
const EOPNOTSUPP: i32 = nix::errno::Errno::EOPNOTSUPP as i32;

/// The error for a hook that the kernel refused, with the reason where this host tells it.
pub fn explain(spec: &Spec, hook: &Hook, cause: &libbpf_rs::Error) -> Error {
    let said = object::take_said();
    let how = &hook.how;
    let why = |kind, why: &str| Error::new(kind, format!("{spec}: cannot attach: {why}"));
    let cannot = |error: Error| error.context(format!("{spec}: cannot attach"));
    let function = how.symbol().unwrap_or_default();
    let host = match () {
        () if how.is_kprobe() => kprobes(function),
        () if how.needs_tracefs() => not_locked_down(),
        () if how.is_uprobe() => uprobes(),
        () => Ok(()),
    };
    if let Err(error) = host {
        return cannot(error);
    }
    if let Some(error) = how.in_file().and_then(|(path, symbol)| program::absent(spec, path, symbol)) {
        return error;
    }
    let catalogue = catalogue::recent();
    if let Some(error) = how.symbol().and_then(|symbol| function::absent(spec, symbol, &catalogue)) {
        return error;
    }
    if let Err(error) = perf_events() {
        return cannot(error);
    }
    let trampoline = how.trampoline().is_some();
    let shut = how.symbol().and_then(|symbol| function::shut_off(spec, symbol, trampoline, &catalogue));
    if let Some(error) = shut {
        return error;
    }
    if how.is_uprobe() && !is_admin() && os_error(cause).kind() == std::io::ErrorKind::PermissionDenied {
        return why(ErrorKind::Precondition, "this kernel wants CAP_SYS_ADMIN for uprobes").with_help(
            "run as root: kernels from July 2025 on, stable ones too, no longer take CAP_PERFMON",
        );
    }
    if matches!(how, How::Usdt { .. }) && os_error(cause).raw_os_error() == Some(EOPNOTSUPP) {
        return why(
            ErrorKind::Precondition,
            "this kernel has no cookies of BPF (they came with 5.15), by which the sites of a program that is \
             loaded anywhere are told apart",
        )
        .with_help("a program linked with -no-pie can be traced here; or put u: on a function near the probe");
    }
    if how.needs_tracefs() && !is_admin() {
        return why(ErrorKind::Precondition, "tracefs belongs to root")
            .with_help("run as root, or use rt: or s:");
    }
    let cause = os_error(cause);
    let refused = cause.raw_os_error() == Some(EPERM);
    let error = Error::caused(ErrorKind::Attach, format!("{spec}: cannot attach: {how}"), cause);
    if how.trampoline().is_some() && refused {
        let other = if host::has_kprobes() { "k:, " } else { "" };
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
    Error::caused(ErrorKind::Precondition, "the kernel refused memory for a BPF map", os_error(&cause))
        .with_help(host::raise_the_limit())
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
    if hook.how.is_kprobe() && !host::has_kprobes() {
        return format!("no {}: the kernel was built without CONFIG_KPROBES", hook.how);
    }
    format!("no {}: {}", hook.how, os_error(cause))
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

//! What this host allows and has, told before anything is tried, with the way out of what it lacks.

use super::{preflight::host, tracefs};
use crate::Error;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it is about.
    pub name: String,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub says: String,
    /// The way out of what is lacking.
    pub fix: Option<String>,
}

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Something cannot be done here; the rest can.
    Warn,
    /// Nothing can be traced, or not what was asked for.
    Fail,
}

impl Level {
    /// `ok`, `warn` or `fail`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }
}

impl Check {
    /// A thing that is as it should be.
    pub fn ok(name: impl Into<String>, says: impl Into<String>) -> Check {
        Check { name: name.into(), level: Level::Ok, says: says.into(), fix: None }
    }

    /// What an attempt came to: its error has the level that is given, and brings its own way out.
    pub fn of(name: impl Into<String>, level: Level, outcome: Result<String, Error>) -> Check {
        match outcome {
            Ok(says) => Check::ok(name, says),
            Err(error) => {
                let fix = error.help().map(str::to_owned);
                Check { name: name.into(), level, says: error.to_string(), fix }
            }
        }
    }
}

/// Everything about this host that can be told without trying; run's errors have the same words.
pub fn host() -> Vec<Check> {
    let said = |text: &str| text.to_owned();
    vec![
        kernel(),
        Check::of("capabilities", Level::Fail, host::rights().map(|()| capabilities())),
        Check::of("lockdown", Level::Warn, host::not_locked_down().map(|()| locked_down())),
        Check::of(
            "perf_event_paranoid",
            Level::Fail,
            host::perf_events().map(|()| number("perf_event_paranoid", "no such setting")),
        ),
        Check::ok("unprivileged bpf", unprivileged()),
        Check::of("memory for BPF maps", Level::Fail, host::memory_for_maps().map(|()| maps())),
        Check::of("BTF", Level::Fail, host::btf().map(|()| said("/sys/kernel/btf/vmlinux is there"))),
        Check::of(
            "tracefs",
            Level::Warn,
            tracefs::with(|_| Ok(())).map(|()| match tracefs::is_mounted() {
                true => said("mounted and readable"),
                false => said("not mounted: tracer mounts it for itself alone"),
            }),
        ),
        Check::of("kprobes", Level::Warn, host::kprobes("FUNCTION").map(|()| said("built in"))),
        Check::of("uprobes", Level::Warn, host::uprobes().map(|()| uprobes())),
    ]
}

fn kernel() -> Check {
    const OLDEST: (u32, u32) = (5, 10);
    let release = host::release();
    match host::version() >= OLDEST {
        true => Check::ok("kernel", format!("{release} on {}", std::env::consts::ARCH)),
        false => Check {
            name: "kernel".into(),
            level: Level::Warn,
            says: format!("{release} is older than 5.10, from which on tracer is tested"),
            fix: Some("boot a newer kernel".into()),
        },
    }
}

fn capabilities() -> String {
    match host::is_admin() {
        true => "CAP_SYS_ADMIN".into(),
        false => "CAP_BPF and CAP_PERFMON, without CAP_SYS_ADMIN".into(),
    }
}

fn locked_down() -> String {
    match &*host::lockdown() {
        "" => "this kernel has none".into(),
        mode => mode.to_owned(),
    }
}

fn number(setting: &str, absent: &str) -> String {
    host::setting(setting).map_or_else(|| absent.to_owned(), |n| n.to_string())
}

fn unprivileged() -> String {
    match host::setting("unprivileged_bpf_disabled") {
        Some(0) => "0: any user may load some BPF programs; none of tracer's are among them".into(),
        Some(n) => format!("{n}: bpf(2) is shut to users without capabilities"),
        None => "no such setting".into(),
    }
}

fn maps() -> String {
    match host::version() >= (5, 11) {
        true => "counted against the cgroup, not as locked memory".into(),
        false => "the limit on locked memory is high enough, or may be raised".into(),
    }
}

/// Whether CAP_PERFMON is enough differs even among the stable releases of one kernel.
fn uprobes() -> String {
    match host::is_admin() {
        true => "built in".into(),
        false => "built in; kernels from July 2025 on want CAP_SYS_ADMIN for them".into(),
    }
}

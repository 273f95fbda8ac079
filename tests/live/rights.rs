//! Users without rights, with some, and rights given up: each is told what it lacks, and what works works.

use crate::context::Context;
use crate::job::Ran;
use crate::table::{Kernel, Outcome, Test, Variant};
use crate::trace::Trace;
use anyhow::Result;
use nix::sys::signal::Signal;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("rights::without_any", without_any).in_guests(),
    Test::new("rights::without_any_on_the_host", without_any).on_host().may_skip(&[Kernel::Host]),
    Test::new("rights::bpf_and_perfmon_where_perf_is_shut", bpf_and_perfmon_where_perf_is_shut).in_guests(),
    Test::new("rights::bpf_and_perfmon_where_perf_is_open", bpf_and_perfmon_where_perf_is_open)
        .with(Variant::Paranoid2),
    Test::new("rights::given_up_after_the_start", given_up_after_the_start),
    Test::new("rights::lockdown", lockdown).with(Variant::Lockdown),
];

/// What `setpriv` is told to start the tracer as nobody, with these capabilities alone.
pub fn nobody(ctx: &Context, capabilities: &str, words: &[&str]) -> Vec<String> {
    let mut all = ["--reuid=65534", "--regid=65534", "--clear-groups"].map(str::to_owned).to_vec();
    if !capabilities.is_empty() {
        all.extend([format!("--inh-caps={capabilities}"), format!("--ambient-caps={capabilities}")]);
    }
    all.push(ctx.tracer_path().display().to_string());
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all
}

/// A run as nobody, with these capabilities alone.
fn as_nobody(ctx: &Context, capabilities: &str, words: &[&str]) -> Result<Ran> {
    let all = nobody(ctx, capabilities, &[&["run", "-f", "json"], words].concat());
    // Kernels before 5.11 count BPF maps as locked memory.
    if ctx.version() < (5, 11) {
        return ctx
            .job("prlimit", ["--memlock=67108864", "setpriv"].map(str::to_owned).into_iter().chain(all))
            .run();
    }
    ctx.job("setpriv", all).run()
}

/// As root made them reachable: on a host the tracer may lie where nobody else can go.
fn without_any(ctx: &Context) -> Outcome {
    let tracer = ctx.tracer_path().display().to_string();
    let probe = ctx
        .job("setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups", &tracer, "--version"])
        .run()?;
    if !probe.status.success() {
        crate::skip!("nobody cannot run {tracer}");
    }
    let ran = as_nobody(ctx, "", &["--", "true"])?;
    assert_eq!(ran.code(), 3, "{ran}");
    for word in ["CAP_BPF", "CAP_PERFMON", "sudo"] {
        assert!(ran.stderr.contains(word), "{ran}");
    }
    let ran = as_nobody(ctx, "+bpf", &["--", "true"])?;
    assert_eq!(ran.code(), 3, "{ran}");
    assert!(ran.stderr.contains("needs CAP_PERFMON, which"), "{ran}");
    Ok(())
}

const BOTH: &str = "+bpf,+perfmon";

fn bpf_and_perfmon_where_perf_is_shut(ctx: &Context) -> Outcome {
    let ran = as_nobody(ctx, BOTH, &["k:ksys_write", "--", "true"])?;
    assert_eq!(ran.code(), 3, "{ran}");
    assert!(ran.stderr.contains("perf_event_paranoid is 3"), "{ran}");
    if ctx.version() < (5, 11) {
        let words = ["--memlock=65536", "setpriv", "--reuid=65534", "--inh-caps=+bpf,+perfmon"];
        let tracer = ctx.tracer_path().display().to_string();
        let words = words.into_iter().chain(["--ambient-caps=+bpf,+perfmon", &tracer, "run", "--", "true"]);
        let ran = ctx.job("prlimit", words).run()?;
        assert!(ran.code() == 3 && ran.stderr.contains("locked memory"), "{ran}");
    }
    Ok(())
}

fn bpf_and_perfmon_where_perf_is_open(ctx: &Context) -> Outcome {
    let dd = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000", "status=none"];
    let me = ctx.program_path()?;
    let target = format!("u:{me}:{}", crate::program::TARGET);
    for spec in ["k:ksys_write", "kr:ksys_write", "f:ksys_write", "fr:vfs_write", "rt:sys_enter", "s:write"] {
        let words: Vec<&str> = ["-m", "1M", spec].into_iter().chain(dd).collect();
        let ran = as_nobody(ctx, BOTH, &words)?;
        assert_eq!(ran.code(), 0, "{ran}");
        let trace = Trace::read(&ran.stdout)?;
        trace.balanced()?;
        assert!(trace.events().count() as u64 + trace.footer.missing >= 1000, "{spec}: {ran}");
        assert!(trace.events().all(|event| event.uid == 65534));
    }
    // Kernels from July 2025 on want more for uprobes, and those that are kept with them.
    let ran = as_nobody(ctx, BOTH, &[&target, "--", "true"])?;
    assert!(ran.code() == 3 && ran.stderr.contains("CAP_SYS_ADMIN for uprobes"), "{ran}");
    // Tracefs is root's alone.
    let ran = as_nobody(ctx, BOTH, &["t:sched:sched_process_exec", "--", "true"])?;
    assert_eq!(ran.code(), 3, "{ran}");
    assert!(ran.stderr.contains("tracefs belongs to root"), "{ran}");
    // More than may be locked: what fits is taken, and said.
    let ran = as_nobody(ctx, BOTH, &["s:write", "--", "true"])?;
    assert_eq!(ran.code(), 0, "{ran}");
    Ok(())
}

fn given_up_after_the_start(ctx: &Context) -> Outcome {
    let dd = ctx.renamed("dd", "dd-dropped")?;
    let mut tracer =
        ctx.tracer(["run", "-f", "json", "--user", "nobody", "--comm", "dd-dropped", "s:write"]).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    // The header is written by a thread, which may be ahead of what is done after it.
    let path = format!("/proc/{}/status", tracer.pid());
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    tracer.until("another user", |_| read().contains("Uid:\t65534"))?;
    let status = read();
    let line = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(line("Uid:"), "65534\t65534\t65534\t65534", "{status}");
    assert!(["CapEff:", "CapPrm:"].iter().all(|set| line(set).trim_matches('0').is_empty()), "{status}");
    for thread in std::fs::read_dir(format!("/proc/{}/task", tracer.pid()))?.flatten() {
        let status = std::fs::read_to_string(thread.path().join("status"))?;
        assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "a thread kept its user: {status}");
    }
    ctx.job(&dd, ["if=/dev/zero", "of=/dev/null", "bs=1", "count=1000", "status=none"]).succeed()?;
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    assert_eq!(ran.code(), 0, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    assert_eq!(trace.events().count(), 1000);
    trace.balanced()?;
    if ctx.kernel == Kernel::V5_10 {
        // bpf(2) is shut to users there, so no end marker is written.
        assert!(trace.footer.tail["derived"].is_string(), "{:?}", trace.footer.tail);
        assert!(ran.stderr.contains("tail derived"), "{ran}");
    } else if ctx.version() >= (6, 12) {
        assert_eq!(trace.footer.tail, "proved");
    }
    Ok(())
}

fn lockdown(ctx: &Context) -> Outcome {
    let dd = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000", "status=none"];
    let run = |spec: &str| ctx.tracer(["run", "-f", "json", spec].into_iter().chain(dd)).run();
    for spec in ["k:ksys_write", "kr:ksys_write", "t:sched:sched_process_exec"] {
        let ran = run(spec)?;
        assert_eq!(ran.code(), 3, "{ran}");
        assert!(ran.stderr.contains("locked down"), "{ran}");
    }
    for spec in ["f:ksys_write", "fr:ksys_write", "rt:sys_enter", "s:write"] {
        let ran = run(spec)?;
        assert_eq!(ran.code(), 0, "{ran}");
        let trace = Trace::read(&ran.stdout)?;
        trace.sound()?;
        assert!(trace.events().count() >= 1000, "{ran}");
    }
    Ok(())
}

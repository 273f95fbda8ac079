//! What can be probed and what a host allows, told before anything is traced, and told as a run tells it.

use crate::context::Context;
use crate::job::Ran;
use crate::rights::nobody;
use crate::table::{Kernel, Outcome, Test, Variant};
use anyhow::{Context as _, Result};
use serde_json::Value;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("doctor::as_root", as_root),
    Test::new("doctor::what_it_says_a_run_says", what_it_says_a_run_says),
    Test::new("doctor::without_capabilities", without_capabilities).in_guests(),
    Test::new("doctor::where_perf_is_shut", where_perf_is_shut).in_guests(),
    Test::new("doctor::where_perf_is_open", where_perf_is_open)
        .with(Variant::Paranoid2)
        .may_skip(&[Kernel::V5_10]),
    Test::new("doctor::under_lockdown", under_lockdown).with(Variant::Lockdown),
    Test::new("doctor::a_list_of_what_is_there", a_list_of_what_is_there),
    Test::new("doctor::a_list_of_what_cannot_be", a_list_of_what_cannot_be).in_guests(),
    // A table of that size takes minutes under emulation.
    Test::new("doctor::a_list_of_everything", a_list_of_everything).on_host(),
    Test::new("doctor::nothing_matches", nothing_matches),
    Test::new("doctor::pages_of_the_command_line", pages_of_the_command_line).on_host(),
];

/// What it printed, a line an object.
fn lines(ran: &Ran) -> Result<Vec<Value>> {
    let parse = |line| serde_json::from_str(line).with_context(|| format!("{line} in {ran}"));
    ran.stdout.lines().map(parse).collect()
}

fn doctor(ctx: &Context, words: &[&str]) -> Result<Ran> {
    ctx.tracer(["doctor", "--json"].iter().chain(words)).run()
}

/// The level of one check.
fn level(ran: &Ran, name: &str) -> Result<String> {
    let all = lines(ran)?;
    let check = all.iter().find(|line| line["name"] == name);
    let check = check.with_context(|| format!("no check of {name}: {ran}"))?;
    // Whatever is lacking has a way out.
    assert!(check["level"] == "ok" || check["fix"].is_string(), "{ran}");
    Ok(check["level"].as_str().unwrap_or_default().to_owned())
}

fn as_root(ctx: &Context) -> Outcome {
    let ran = doctor(ctx, &["-m", "64K", "s:write", "rt:sched_switch"])?;
    assert_eq!(ran.code(), 0, "{ran}");
    for name in
        ["kernel", "capabilities", "BTF", "tracefs", "uprobes", "rings", "tracepoint", "raw tracepoint"]
    {
        assert_eq!(level(&ran, name)?, "ok", "{name}: {ran}");
    }
    assert_eq!(
        (level(&ran, "s:write")?, level(&ran, "rt:sched_switch")?),
        ("ok".into(), "ok".into()),
        "{ran}"
    );
    // This host was built without kprobes and refuses trampolines; the guests have both.
    let expected = if ctx.is_guest() { "ok" } else { "warn" };
    assert_eq!((&*level(&ran, "kprobes")?, &*level(&ran, "fentry")?), (expected, expected), "{ran}");
    let ran = ctx.tracer(["doctor"]).succeed()?;
    assert!(
        ran.stdout.lines().all(|line| ["ok ", "warn", "    "].iter().any(|w| line.starts_with(w))),
        "{ran}"
    );
    Ok(())
}

/// One source for both.
fn what_it_says_a_run_says(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let specs =
        ["k:no_such_function", "f:vfs_wriet", "t:sched:sched_swich", "s:wrte", &format!("u:{me}:mian")];
    let ran = doctor(ctx, &specs)?;
    assert_eq!(ran.code(), 3, "{ran}");
    let all = lines(&ran)?;
    for spec in specs {
        assert_eq!(level(&ran, spec)?, "fail", "{ran}");
        let check = all.iter().find(|line| line["name"] == spec).context("no such check")?;
        let run = ctx.tracer(["run", "--dry-run", spec]).run()?;
        let said = format!(
            "error: {}\nhelp: {}\n",
            check["says"].as_str().unwrap_or_default(),
            check["fix"].as_str().unwrap_or_default()
        );
        assert_eq!(run.stderr, said);
    }
    Ok(())
}

/// The doctor as nobody, with these capabilities alone.
fn as_nobody(ctx: &Context, capabilities: &str, words: &[&str]) -> Result<Ran> {
    let all = nobody(ctx, capabilities, &[&["doctor", "--json"], words].concat());
    // No more than what perf_event_mlock_kb gives everybody, so that the arithmetic is the same everywhere.
    ctx.job("prlimit", ["--memlock=0", "setpriv"].map(str::to_owned).into_iter().chain(all)).run()
}

fn without_capabilities(ctx: &Context) -> Outcome {
    let ran = as_nobody(ctx, "", &["s:write"])?;
    assert_eq!((ran.code(), &*level(&ran, "capabilities")?), (3, "fail"), "{ran}");
    assert!(ran.stdout.contains("CAP_BPF and CAP_PERFMON"), "{ran}");
    Ok(())
}

const BOTH: &str = "+bpf,+perfmon";

fn where_perf_is_shut(ctx: &Context) -> Outcome {
    let ran = as_nobody(ctx, BOTH, &[])?;
    assert_eq!((ran.code(), &*level(&ran, "perf_event_paranoid")?), (3, "fail"), "{ran}");
    assert_eq!(level(&ran, "capabilities")?, "ok", "{ran}");
    let expected = if ctx.version() < (5, 11) { "fail" } else { "ok" };
    assert_eq!(level(&ran, "memory for BPF maps")?, expected, "{ran}");
    Ok(())
}

fn where_perf_is_open(ctx: &Context) -> Outcome {
    if ctx.version() < (5, 11) {
        crate::skip!("maps count as locked memory there, which rights::* looks at");
    }
    // The default is more than a user may lock, and what fits is taken.
    let ran = as_nobody(ctx, BOTH, &["s:write"])?;
    assert_eq!((ran.code(), &*level(&ran, "rings")?), (0, "warn"), "{ran}");
    assert!(ran.stdout.contains("sysctl kernel.perf_event_mlock_kb=1028"), "{ran}");
    assert_eq!((&*level(&ran, "tracefs")?, &*level(&ran, "fentry")?), ("warn", "ok"), "{ran}");
    let ran = as_nobody(ctx, BOTH, &["-m", "64M"])?;
    assert_eq!((ran.code(), &*level(&ran, "rings")?), (3, "fail"), "{ran}");
    Ok(())
}

fn under_lockdown(ctx: &Context) -> Outcome {
    let ran = doctor(ctx, &["f:ksys_write", "s:write"])?;
    assert_eq!(ran.code(), 0, "{ran}");
    for (name, is) in [("lockdown", "warn"), ("kprobes", "warn"), ("tracefs", "warn"), ("fentry", "ok")] {
        assert_eq!(level(&ran, name)?, is, "{name}: {ran}");
    }
    let ran = doctor(ctx, &["k:ksys_write"])?;
    assert_eq!((ran.code(), &*level(&ran, "k:ksys_write")?), (3, "fail"), "{ran}");
    Ok(())
}

fn a_list_of_what_is_there(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let program = format!("u:{me}:{}", crate::program::TARGET);
    let cases = [
        ("s:openat*", "s:openat(int dfd, const char *filename, int flags, umode_t mode)"),
        ("f:vfs_rea?", "f:vfs_read(struct file *file, char *buf, size_t count, loff_t *pos) -> ssize_t"),
        ("t:sched:*exec", "t:sched:sched_process_exec(__data_loc char[] filename, pid_t pid, pid_t old_pid)"),
        (
            "rt:sched_process_e?ec",
            "rt:sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)",
        ),
        (&*program, &*program),
    ];
    for (pattern, line) in cases {
        let ran = ctx.tracer(["list", pattern]).succeed()?;
        assert!(ran.stdout.lines().any(|l| l == line), "{pattern}: {ran}");
    }
    let ran = ctx.tracer(["list", "-f", "json", "s:write"]).succeed()?;
    let all = lines(&ran)?;
    assert!(
        all.len() == 1 && all[0]["attachable"] == true && all[0]["params"][2]["name"] == "count",
        "{ran}"
    );
    Ok(())
}

/// The kernel keeps kprobes away from its own entry code; a list says so, and a run says why.
fn a_list_of_what_cannot_be(ctx: &Context) -> Outcome {
    let ran = ctx.tracer(["list", "k:ksys_write"]).succeed()?;
    assert!(ran.stdout.starts_with("k:ksys_write(") && !ran.stdout.contains("cannot be"), "{ran}");
    let ran = ctx.tracer(["list", "k:do_syscall_64"]).succeed()?;
    assert!(ran.stdout.contains(" -- cannot be: on the kernel's kprobe blacklist"), "{ran}");
    let run = ctx.tracer(["run", "--dry-run", "k:do_syscall_64"]).run()?;
    assert!(run.code() == 4 && run.stderr.contains("on the kernel's kprobe blacklist"), "{run}");
    Ok(())
}

fn a_list_of_everything(ctx: &Context) -> Outcome {
    let ran = ctx.tracer(["list"]).succeed()?;
    for provider in ["s:", "t:", "rt:", "k:", "f:"] {
        let found = ran.stdout.lines().filter(|line| line.starts_with(provider)).count();
        assert!(found > 200, "{found} of {provider}");
    }
    assert!(ran.stderr.is_empty() && !ran.stdout.contains("__pfx_"), "{}", ran.stderr);
    Ok(())
}

fn nothing_matches(ctx: &Context) -> Outcome {
    let cases = [
        ("s:opentaa", "did you mean s:openat"),
        ("f:vfs_wriet", "did you mean f:vfs_write"),
        ("s:tim", "tracer list '*tim*'"),
        ("u:/no/such/file:*", "/no/such/file"),
    ];
    for (pattern, says) in cases {
        let ran = ctx.tracer(["list", pattern]).run()?;
        assert!(ran.code() == 4 && ran.stdout.is_empty() && ran.stderr.contains(says), "{ran}");
    }
    let ran = ctx.tracer(["list", "o:x.bpf.o"]).run()?;
    assert_eq!(ran.code(), 2, "{ran}");
    Ok(())
}

fn pages_of_the_command_line(ctx: &Context) -> Outcome {
    for shell in ["bash", "zsh", "fish"] {
        let ran = ctx.tracer(["completions", shell]).succeed()?;
        assert!(["doctor", "fail-on-loss"].iter().all(|word| ran.stdout.contains(word)), "{shell}: {ran}");
    }
    let page = ctx.tracer(["man"]).succeed()?;
    assert!(page.stdout.contains(".TH tracer 1") && page.stdout.contains("doctor"), "{page}");
    let page = ctx.tracer(["man", "run"]).succeed()?;
    assert!(page.stdout.contains(".TH tracer-run 1") && page.stdout.contains("duration"), "{page}");
    let ran = ctx.tracer(["man", "nothing"]).run()?;
    assert!(ran.code() == 2 && ran.stderr.contains("the subcommands: run"), "{ran}");
    Ok(())
}

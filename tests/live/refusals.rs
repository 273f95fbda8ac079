//! What cannot be is refused before anything is traced, with its reason, its way out and its exit code.

use crate::context::Context;
use crate::table::{Outcome, Test};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("refusals::usage", usage),
    Test::new("refusals::probes_that_are_not_there", probes_that_are_not_there),
    Test::new("refusals::a_kernel_without_kprobes", a_kernel_without_kprobes).on_host(),
];

/// Runs the tracer and looks for its exit code and words on stderr; nothing may be on stdout.
fn refused(ctx: &Context, words: &[&str], code: i32, says: &[&str]) -> Outcome {
    let ran = ctx.tracer(["run"].iter().chain(words)).run()?;
    if ran.code() != code || !ran.stdout.is_empty() || !says.iter().all(|word| ran.stderr.contains(word)) {
        crate::fail!("wanted {code} and {says:?}: {ran}");
    }
    Ok(())
}

fn usage(ctx: &Context) -> Outcome {
    let cases: [(&[&str], &[&str]); 27] = [
        (&[""], &["an empty spec"]),
        (&["-m", "3"], &["3 bytes", "64K"]),
        (&["-t", "bad"], &["'bad'", "utc"]),
        (&["s:write{kstack.x}"], &["kstack", "no members"]),
        (&["-m", "0"], &["0 bytes", "4096"]),
        (&["-m", "12Q"], &["Q", "size"]),
        (&["-m", "nothing"], &["size"]),
        (&["--latency", "5"], &["unit"]),
        (&["--duration", "-3s"], &[]),
        (&["-n", "many"], &["-n"]),
        (&["--ring-total", "4K", "s:write"], &["--ring-total"]),
        (&["-m", "8K", "--wakeup", "8K"], &["watermark", "help"]),
        (&["-C", "7777"], &["CPU 7777"]),
        (&["-C", "1-0"], &["1-0"]),
        (&["-f", "xml"], &["xml", "json"]),
        (&["-t", "later"], &["later"]),
        (&["-u", "nosuchuser"], &["nosuchuser"]),
        (&["--user", "nosuchuser"], &["nosuchuser"]),
        (&["-p", "4194304"], &["4194304"]),
        (&["--comm", "a-name-that-is-too-long"], &["15 bytes"]),
        (&["x:write"], &["'x'", "kprobe"]),
        (&["s:write/pid=42/"], &["==", "^"]),
        (&["s:write{nope}"], &["'nope'", "count"]),
        (&["s:write/count==\"x\"/"], &["no string"]),
        (&["rt:sched_process_exec{p.comn}"], &["task_struct", "comm"]),
        (&["k:vfs_*+4"], &["wildcards"]),
        (&["s:write{a:fd, a:count}"], &["two fields", "'a'"]),
    ];
    for (words, says) in cases {
        refused(ctx, words, 2, says)?;
    }
    // Before anything is attached, and nothing that is there is touched.
    refused(ctx, &["-o", "/no/such/folder/file"], 6, &["no folder /no/such/folder"])?;
    refused(ctx, &["-o", "/proc"], 6, &["/proc", "a folder"])?;
    refused(ctx, &["--cgroup", "/proc"], 2, &["/proc", "cgroup"])?;
    refused(ctx, &["--no-such-flag"], 2, &["--no-such-flag"])
}

fn probes_that_are_not_there(ctx: &Context) -> Outcome {
    let near = ["did you mean", "write"];
    refused(ctx, &["f:vfs_wriet"], 4, &near)?;
    refused(ctx, &["s:wrte"], 4, &["did you mean s:write"])?;
    refused(ctx, &["rt:sched_swich"], 4, &["did you mean rt:sched_switch"])?;
    refused(ctx, &["t:sched:sched_swich"], 4, &["did you mean t:sched:sched_switch"])?;
    refused(ctx, &["t:shed:sched_switch"], 4, &["did you mean t:sched"])?;
    refused(ctx, &["u:/no/such/file:main"], 4, &["no such file as /no/such/file"])?;
    refused(ctx, &["u:/dev/null:main"], 4, &["/dev/null is no file"])?;
    let me = ctx.program_path()?;
    refused(ctx, &[&format!("u:{me}:no_such_function")], 4, &["no_such_function"])?;
    if ctx.is_guest() {
        refused(ctx, &["k:no_such_function"], 4, &["no symbol of this kernel"])?;
        refused(ctx, &["k:ksys_wriet"], 4, &["did you mean k:ksys_write"])?;
        refused(ctx, &["kr:ksys_wriet"], 4, &["did you mean kr:ksys_write"])?;
    }
    Ok(())
}

fn a_kernel_without_kprobes(ctx: &Context) -> Outcome {
    refused(ctx, &["k:vfs_write"], 3, &["CONFIG_KPROBES", "f:vfs_write"])?;
    refused(ctx, &["kr:vfs_write"], 3, &["CONFIG_KPROBES"])?;
    refused(
        ctx,
        &["--missing", "warn", "k:vfs_write", "k:tcp_*"],
        3,
        &["CONFIG_KPROBES", "none of the probes"],
    )?;
    refused(ctx, &["f:vfs_write"], 3, &["trampolines"])
}

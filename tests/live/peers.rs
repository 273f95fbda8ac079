//! The same events as bpftrace prints, where both trace the same workload at the same time.
//!
//! On the host alone: with the LLVM it needs, bpftrace has 200 MB, which only one guest carries.

use crate::context::Context;
use crate::job::Running;
use crate::program::{self, TARGET};
use crate::table::{Kernel, Outcome, Test};
use crate::trace::{Event, Trace};
use crate::{fail, skip};
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use std::path::Path;

/// The tests of this file.
pub const TESTS: &[Test] =
    &[Test::new("peers::what_bpftrace_prints", what_bpftrace_prints).on_host().may_skip(&[Kernel::Host])];

/// The workload's name, by which both know it.
const NAME: &str = "peers-workload";
/// How often it calls the target, and writes.
const CALLS: u64 = 20;

/// bpftrace at work: it writes as soon as it reads its buffers, and by then all is attached.
fn bpftrace(ctx: &Context, me: &str) -> Result<Running> {
    let probe = |probe: &str, format: &str, args: &str| {
        format!("{probe} /comm == \"{NAME}\"/ {{ printf(\"%d {format}\\n\", pid, {args}); }}\n")
    };
    let script = [
        "BEGIN { printf(\"ready\\n\"); }\n".to_owned(),
        probe("tracepoint:syscalls:sys_enter_write", "write %lu %lu", "args->fd, args->count"),
        probe("tracepoint:sched:sched_process_exec", "exec %s", "str(args->filename)"),
        probe("tracepoint:syscalls:sys_enter_openat", "open %s", "str(args->filename)"),
        probe("tracepoint:syscalls:sys_exit_openat", "opened %ld", "args->ret"),
        probe(&format!("uprobe:{me}:{TARGET}"), "call %lu %lu", "arg0, arg1"),
        probe(&format!("uretprobe:{me}:{TARGET}"), "back %lu", "retval"),
    ];
    let file = ctx.scratch.join("script.bt");
    std::fs::write(&file, script.concat()).context("cannot write the script")?;
    // It mounts no tracefs by itself where there is none.
    let there = "for fs in debugfs:debug tracefs:tracing; do \
        mount -t ${fs%:*} none /sys/kernel/${fs#*:} 2>/dev/null; done; exec bpftrace -B none \"$0\"";
    let words = ["-m", "sh", "-c", there, &file.display().to_string()];
    let mut running = ctx
        .job("unshare", words)
        .with(|command| {
            command.env("BPFTRACE_STRLEN", "200");
        })
        .start()?;
    running.until("bpftrace reads", |job| job.stdout().contains("ready\n"))?;
    Ok(running)
}

/// The same probes by the tracer.
fn tracer(ctx: &Context, me: &str) -> Result<Running> {
    let call = format!("call=u:{me}:{TARGET}{{arg0:u64,arg1:u64}}");
    let back = format!("back=ur:{me}:{TARGET}{{ret:u64}}");
    let specs = [
        "write=s:write{fd,count}",
        "exec=t:sched:sched_process_exec{filename}",
        "open=s:openat{filename,ret}",
        &call,
        &back,
    ];
    let words = ["run", "-f", "json", "--comm", NAME];
    let mut running = ctx.tracer(words.iter().chain(&specs)).start()?;
    running.until("tracer reads", |job| job.stdout().contains("\"header\""))?;
    Ok(running)
}

/// What bpftrace printed of one probe for that process, in order.
fn printed(text: &str, pid: u32, probe: &str) -> Vec<String> {
    let start = format!("{pid} {probe} ");
    text.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

fn what_bpftrace_prints(ctx: &Context) -> Outcome {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/bin:/usr/local/bin";
    if !folders.split(':').any(|folder| Path::new(folder).join("bpftrace").is_file()) {
        skip!("bpftrace is not installed (cargo xtask setup --tests installs it)");
    }
    let me = ctx.program_path()?;
    let (mut theirs, ours) = (bpftrace(ctx, &me)?, tracer(ctx, &me)?);
    let workload = ctx.renamed(&me, NAME)?;
    let calls = CALLS.to_string();
    // One CPU: bpftrace prints CPU by CPU.
    let words = [&["-c", "0", &workload][..], &program::args(&["calls", &calls])].concat();
    let running = ctx.job("taskset", words).start()?;
    let pid = running.pid().as_raw().cast_unsigned();
    let ran = running.finish()?;
    assert!(ran.status.success(), "{ran}");
    // On a busy machine it has not read all of it yet, and once it is told to end it reads no more.
    theirs.until("all that the workload did", |job| {
        let text = job.stdout();
        ["write", "call", "back"].iter().all(|probe| printed(&text, pid, probe).len() >= CALLS as usize)
    })?;
    for job in [&theirs, &ours] {
        job.signal(Signal::SIGINT)?;
    }
    let (theirs, ours) = (theirs.finish()?, ours.finish()?);
    let seen = Trace::read(&ours.stdout)?;
    seen.sound()?;
    let mut events: Vec<&Event> = seen.events().filter(|event| event.pid == pid).collect();
    events.sort_by_key(|event| event.time);
    let of = |name: &str, shown: &dyn Fn(&Event) -> String| -> Vec<String> {
        events.iter().filter(|event| event.event == name).map(|event| shown(event)).collect()
    };
    let numbers = |names: &'static [&'static str]| {
        move |event: &Event| {
            let all: Vec<String> =
                names.iter().map(|name| event.arg(name).cast_signed().to_string()).collect();
            all.join(" ")
        }
    };
    let same = |probe: &str, ours: &[String], at_least: usize| -> Outcome {
        let theirs = printed(&theirs.stdout, pid, probe);
        if theirs != ours || ours.len() < at_least {
            fail!("{probe}: bpftrace printed {theirs:?}, tracer {ours:?}");
        }
        println!("{probe}: the same {} events", ours.len());
        Ok(())
    };
    let many = CALLS as usize;
    same("write", &of("write", &numbers(&["fd", "count"])), many)?;
    same("call", &of("call", &numbers(&["arg0", "arg1"])), many)?;
    same("back", &of("back", &numbers(&["ret"])), many)?;
    same("exec", &of("exec", &|event| event.text("filename").to_owned()), 1)?;
    same("opened", &of("open", &numbers(&["ret"])), 2)?;
    // bpftrace reads a name at the entry, where its page may not be there yet, and is then without it.
    let names = of("open", &|event| event.text("filename").to_owned());
    let theirs: Vec<String> = printed(&theirs.stdout, pid, "open");
    let alike =
        |(ours, theirs): (&String, &String)| !ours.is_empty() && (ours == theirs || theirs.is_empty());
    let known = theirs.iter().filter(|name| !name.is_empty()).count();
    if theirs.len() != names.len() || known == 0 || !names.iter().zip(&theirs).all(alike) {
        fail!("open: bpftrace printed {theirs:?}, tracer {names:?}");
    }
    Ok(())
}

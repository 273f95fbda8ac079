//! Losses are told where they happened and to the unit, whatever the load.

use crate::context::Context;
use crate::job::Running;
use crate::table::{Outcome, Test};
use crate::trace::{Line, Trace};
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("losses::a_hundred_thousand_writes", a_hundred_thousand_writes),
    Test::new("losses::gaps_of_a_stopped_reader", gaps_of_a_stopped_reader),
    Test::new("losses::every_system_call_for_two_seconds", every_system_call_for_two_seconds).on_host(),
];

const WRITES: u64 = 100_000;

/// What sees write(2) in a kernel with kprobes, and what here.
fn spec(ctx: &Context) -> &'static str {
    if ctx.is_guest() { "k:ksys_write" } else { "s:write" }
}

/// Delivered, in gaps, and never tried for want of a scratch level: together every write that dd made.
fn adds_up(trace: &Trace) -> Outcome {
    trace.sound()?;
    let delivered = trace.events().filter(|event| event.comm == "dd").count() as u64;
    assert_eq!(delivered, trace.events().count() as u64);
    let untried = trace.failed("scratch") + trace.failed("nomem");
    let dropped: u64 = trace.footer.sinks.iter().map(|sink| sink.dropped_queue + sink.dropped_sink).sum();
    let missed = trace.skipped();
    let in_gaps = trace.in_gaps();
    println!(
        "delivered {delivered}, in gaps {in_gaps}, untried {untried}, dropped {dropped}, missed {missed}"
    );
    assert_eq!(delivered + in_gaps + untried + dropped + missed, WRITES);
    assert_eq!(trace.footer.missing, in_gaps + untried + dropped);
    Ok(())
}

fn a_hundred_thousand_writes(ctx: &Context) -> Outcome {
    let dd = "dd if=/dev/zero of=/dev/null bs=1 count=100000 status=none";
    let words = ["run", "-f", "json", spec(ctx), "--"].into_iter().chain(dd.split(' '));
    let ran = ctx.tracer(words).seconds(110).succeed()?;
    adds_up(&Trace::read(&ran.stdout)?)
}

/// The tracer is stopped three times while dd writes on, the last time until dd has ended.
fn gaps_of_a_stopped_reader(ctx: &Context) -> Outcome {
    let dd = "dd if=/dev/zero of=/dev/null bs=1 count=100000 status=none";
    let words =
        ["run", "-f", "json", "-m", "8K", "--wakeup", "1", spec(ctx), "--"].into_iter().chain(dd.split(' '));
    let mut tracer = ctx.tracer(words).seconds(110).start()?;
    let dd = dd_of(&mut tracer)?;
    for turn in 1..=3 {
        // While neither runs, the rings are read to their end, so that the next gap is another.
        kill(dd, Signal::SIGSTOP)?;
        settle(&tracer);
        tracer.signal(Signal::SIGSTOP)?;
        let before = writes_of(dd).unwrap_or(0);
        kill(dd, Signal::SIGCONT)?;
        let missed = if turn == 3 { WRITES } else { 3000 };
        tracer.until("dd's progress", |_| writes_of(dd).is_none_or(|now| now >= before + missed))?;
        if turn < 3 {
            kill(dd, Signal::SIGSTOP)?;
        }
        tracer.signal(Signal::SIGCONT)?;
        if turn < 3 {
            settle(&tracer);
            let now = writes_of(dd).context("dd ended too early")?;
            kill(dd, Signal::SIGCONT)?;
            tracer.until("dd's progress", |_| writes_of(dd).is_none_or(|writes| writes > now + 100))?;
        }
    }
    let ran = tracer.finish()?;
    assert_eq!(ran.code(), 0, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    adds_up(&trace)?;
    let gaps: Vec<u64> = trace.gaps().filter_map(|gap| gap.count).collect();
    println!("gaps: {gaps:?}");
    assert!(gaps.len() >= 3 && gaps.iter().all(|count| *count > 0), "{gaps:?}");
    assert!(trace.gaps().all(|gap| gap.cause == "lost"), "{:?}", trace.gaps().collect::<Vec<_>>());
    // At the very end: after it comes the footer.
    assert!(matches!(trace.lines.last(), Some(Line::Gap(_))), "{:?}", trace.lines.last());
    Ok(())
}

/// The dd that the tracer has started and let go.
fn dd_of(tracer: &mut Running) -> Result<Pid> {
    let mut found = None;
    let tracer_pid = tracer.pid();
    tracer.until("dd", |_| {
        found = children(tracer_pid).into_iter().find(|pid| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim() == "dd"
        });
        found.is_some()
    })?;
    found.context("no dd")
}

/// The children of a process.
pub fn children(of: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if parent == Some(of.as_raw()) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// How many writes a process has made; none once it has ended.
fn writes_of(pid: Pid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next())?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    text.lines().find_map(|line| line.strip_prefix("syscw: ")?.trim().parse().ok())
}

/// Waits until the tracer's output no longer grows.
fn settle(tracer: &Running) {
    let mut last = usize::MAX;
    loop {
        let now = tracer.stdout().len();
        if now == last {
            return;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn every_system_call_for_two_seconds(ctx: &Context) -> Outcome {
    let load = ctx.dd(u64::from(u32::MAX), 1).start()?;
    let ran =
        ctx.tracer(["run", "-v", "-f", "json", "--duration", "2s", "rt:sys_enter"]).seconds(110).succeed()?;
    drop(load);
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    let delivered = trace.events().count() as u64;
    println!("delivered {delivered}, missing {}", trace.footer.missing);
    assert!(delivered > 1000, "{}", ran.stderr);
    assert!(trace.footer.probes[0].fired >= delivered + trace.footer.missing);
    Ok(())
}

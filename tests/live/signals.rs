//! Signals end, report and reopen as they should, also while nobody reads our output.

use crate::context::Context;
use crate::job::Running;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use std::io::PipeReader;
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("signals::one_ends_a_stuck_run_in_time", one_ends_a_stuck_run_in_time),
    Test::new("signals::two_end_it_at_once", two_end_it_at_once),
    Test::new("signals::interrupt_and_hang_up_end_in_order", interrupt_and_hang_up_end_in_order),
    Test::new("signals::user_1_is_a_stats_line", user_1_is_a_stats_line),
    Test::new("signals::hang_up_reopens_the_file", hang_up_reopens_the_file),
];

/// A tracer under load whose output is a pipe that is full and that nobody reads. Each test has a dd by a name of its
/// own: what is traced by name is traced wherever it runs.
fn stuck(ctx: &Context, name: &str) -> Result<(Running, Running, PipeReader)> {
    let (reader, writer) = std::io::pipe()?;
    let dd = ctx.renamed("dd", name)?;
    let count = "count=4000000000";
    let load = ctx.job(&dd, ["if=/dev/zero", "of=/dev/null", "bs=1", count, "status=none"]).start()?;
    let words = ["run", "--stats", "200ms", "--comm", name, "s:write"];
    let mut tracer = ctx.tracer(words).stdout(writer).start()?;
    // Its queue is full too once more is missing than the rings had lost.
    tracer.until("events", |job| job.stderr().lines().count() > 12)?;
    Ok((tracer, load, reader))
}

fn one_ends_a_stuck_run_in_time(ctx: &Context) -> Outcome {
    let (tracer, _load, reader) = stuck(ctx, "dd-one")?;
    let begin = Instant::now();
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    let took = begin.elapsed();
    drop(reader);
    println!("{took:?}\n{}", ran.stderr);
    let bound = Duration::from_secs(if ctx.is_guest() { 60 } else { 3 });
    assert!(took < bound, "{took:?}");
    assert_eq!(ran.code(), 0, "{ran}");
    assert!(ran.stderr.contains("balanced: yes"), "{ran}");
    let dropped = ran.stderr.lines().find(|line| line.trim_start().starts_with("stdout: delivered"));
    let words = dropped.context("a line of stdout's")?;
    assert!(words.contains("(not written at the end)") && !words.contains(", 0 (not written"), "{ran}");
    Ok(())
}

fn two_end_it_at_once(ctx: &Context) -> Outcome {
    let (tracer, _load, reader) = stuck(ctx, "dd-two")?;
    tracer.signal(Signal::SIGTERM)?;
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    println!("{:?}", begin.elapsed());
    drop(reader);
    assert!(begin.elapsed() < Duration::from_millis(1000), "{:?}", begin.elapsed());
    assert_eq!(ran.code(), 128 + Signal::SIGTERM as i32, "{ran}");
    Ok(())
}

fn started(ctx: &Context, name: &str, more: &[&str]) -> Result<Running> {
    let words = ["run", "-f", "json", "--comm", name, "s:write"].into_iter().chain(more.iter().copied());
    let mut tracer = ctx.tracer(words).start()?;
    let file = ctx.scratch.join("file");
    let header = |text: &str| text.contains("\"header\"");
    tracer.until("the header", |job| {
        header(&job.stdout()) || header(&std::fs::read_to_string(&file).unwrap_or_default())
    })?;
    Ok(tracer)
}

fn writes(ctx: &Context, name: &str, count: &str) -> Result<()> {
    let dd = ctx.scratch.join(name).display().to_string();
    ctx.job(&dd, ["if=/dev/zero", "of=/dev/null", "bs=1", count, "status=none"]).succeed().map(drop)
}

fn interrupt_and_hang_up_end_in_order(ctx: &Context) -> Outcome {
    const DD: &str = "dd-interrupt";
    ctx.renamed("dd", DD)?;
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM] {
        let tracer = started(ctx, DD, &[])?;
        writes(ctx, DD, "count=100")?;
        tracer.signal(signal)?;
        let ran = tracer.finish()?;
        assert_eq!(ran.code(), 0, "{signal}: {ran}");
        let trace = Trace::read(&ran.stdout)?;
        trace.sound()?;
        assert_eq!(trace.events().count(), 100, "{signal}");
        assert!(ran.stderr.contains("balanced: yes"), "{ran}");
    }
    Ok(())
}

fn user_1_is_a_stats_line(ctx: &Context) -> Outcome {
    const DD: &str = "dd-user-1";
    ctx.renamed("dd", DD)?;
    let mut tracer = started(ctx, DD, &[])?;
    writes(ctx, DD, "count=100")?;
    tracer.until("the events", |job| job.stdout().lines().count() > 100)?;
    tracer.signal(Signal::SIGUSR1)?;
    tracer.until("a stats line", |job| job.stderr().contains("100 events, "))?;
    tracer.signal(Signal::SIGUSR2)?;
    writes(ctx, DD, "count=100")?;
    tracer.until("more events", |job| job.stdout().lines().count() > 200)?;
    tracer.signal(Signal::SIGTERM)?;
    assert_eq!(tracer.finish()?.code(), 0);
    Ok(())
}

fn hang_up_reopens_the_file(ctx: &Context) -> Outcome {
    const DD: &str = "dd-hang-up";
    ctx.renamed("dd", DD)?;
    let (file, old) = (ctx.scratch.join("file"), ctx.scratch.join("file.old"));
    let mut tracer = started(ctx, DD, &["-o", &file.display().to_string()])?;
    writes(ctx, DD, "count=100")?;
    let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    tracer.until("the events", |_| lines(&file) > 100)?;
    std::fs::rename(&file, &old)?;
    tracer.signal(Signal::SIGHUP)?;
    tracer.until("a new file", |_| lines(&file) > 0)?;
    writes(ctx, DD, "count=50")?;
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    assert_eq!((ran.code(), &*ran.stdout), (0, ""), "{ran}");
    assert_eq!(lines(&old), 101);
    let text = std::fs::read_to_string(&file)?;
    let trace = Trace::read(&text)?;
    assert_eq!(trace.events().count(), 50);
    assert!(trace.footer.balanced && trace.footer.sinks[0].delivered == 150, "{:?}", trace.footer);
    Ok(())
}

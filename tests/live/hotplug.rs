//! CPUs that go and come back while a trace runs.

use crate::context::{Context, switch};
use crate::job::Running;
use crate::table::{Outcome, Test, Variant};
use crate::trace::{Gap, Trace};
use anyhow::Result;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("hotplug::off_and_on_within_a_sweep", off_and_on_within_a_sweep).in_guests(),
    Test::new("hotplug::off_and_on_under_two_readers", off_and_on_under_two_readers).in_guests(),
    Test::new("hotplug::off_for_two_seconds", off_for_two_seconds).in_guests(),
    Test::new("hotplug::gone_at_the_end", gone_at_the_end).in_guests(),
    Test::new("hotplug::a_cpu_comes_late", a_cpu_comes_late).with(Variant::OneOnline),
];

/// The tracer, once it is attached, seeing the writes of dd alone.
fn traced(ctx: &Context, more: &[&str]) -> Result<Running> {
    let words = ["run", "-f", "json", "--comm", "dd", "k:ksys_write"].into_iter().chain(more.iter().copied());
    let mut tracer = ctx.tracer(words).seconds(100).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    Ok(tracer)
}

/// So many writes on CPU 1.
fn write_there(ctx: &Context, count: u64) -> Result<()> {
    let count = format!("count={count}");
    let dd = ["-c", "1", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"];
    ctx.job("taskset", dd).succeed().map(drop)
}

fn end(tracer: Running) -> Result<Trace> {
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    anyhow::ensure!(ran.code() == 0, "{ran}");
    Trace::read(&ran.stdout)
}

/// Events of CPU 1 so far.
fn there(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("{\"type\":\"event\",\"cpu\":1,")).count()
}

fn gaps(trace: &Trace) -> Vec<&Gap> {
    trace.gaps().collect()
}

fn off_and_on_within_a_sweep(ctx: &Context) -> Outcome {
    off_and_on(ctx, &[])
}

fn off_and_on_under_two_readers(ctx: &Context) -> Outcome {
    off_and_on(ctx, &["--reader-threads", "2"])
}

fn off_and_on(ctx: &Context, words: &[&str]) -> Outcome {
    let mut tracer = traced(ctx, words)?;
    // All of this comes to pass between two sweeps.
    tracer.signal(Signal::SIGSTOP)?;
    write_there(ctx, 1000)?;
    switch(1, false)?;
    switch(1, true)?;
    write_there(ctx, 500)?;
    assert_eq!(there(&tracer.stdout()), 0, "a sweep came between, and this shows nothing");
    tracer.signal(Signal::SIGCONT)?;
    tracer.until("the first thousand events", |job| there(&job.stdout()) >= 1000)?;
    write_there(ctx, 300)?;
    let trace = end(tracer)?;
    assert_eq!(trace.events().filter(|event| event.cpu == 1).count(), 1300);
    let expected = Gap { cpu: 1, cause: "failed".into(), count: Some(500), seq: Some((1001, 1500)) };
    assert_eq!(gaps(&trace), [&expected]);
    assert_eq!(trace.failed("eopnotsupp"), 500);
    trace.sound()
}

fn off_for_two_seconds(ctx: &Context) -> Outcome {
    let mut tracer = traced(ctx, &[])?;
    write_there(ctx, 1000)?;
    switch(1, false)?;
    std::thread::sleep(Duration::from_secs(2));
    switch(1, true)?;
    let back = Instant::now();
    let mut written = 0;
    while there(&tracer.stdout()) <= 1000 {
        assert!(back.elapsed() < Duration::from_secs(20), "no event of CPU 1 since it is back");
        write_there(ctx, 10)?;
        written += 10;
    }
    let took = back.elapsed();
    println!("events again {took:?} after the CPU was back, {written} writes meanwhile");
    write_there(ctx, 1000)?;
    tracer.until("the last events", |job| there(&job.stdout()) >= 2000)?;
    let trace = end(tracer)?;
    let lost = trace.failed("eopnotsupp") + trace.failed("enoent");
    assert_eq!(trace.events().filter(|event| event.cpu == 1).count() as u64 + lost, 2000 + written);
    assert_eq!(trace.in_gaps(), lost);
    trace.sound()?;
    // A second, and what a loaded machine adds to it.
    assert!(took < Duration::from_secs(5), "{took:?}");
    Ok(())
}

/// A CPU that is gone at the end cannot be asked for an end marker: what is known is told, and nothing is wrong.
fn gone_at_the_end(ctx: &Context) -> Outcome {
    let mut tracer = traced(ctx, &[])?;
    write_there(ctx, 1000)?;
    tracer.until("the events", |job| there(&job.stdout()) >= 1000)?;
    let gone = ctx.offline(1)?;
    let trace = end(tracer)?;
    gone.back()?;
    trace.balanced()?;
    assert_eq!(trace.events().count(), 1000);
    assert!(
        trace.footer.tail["derived"].as_str().is_some_and(|why| why.contains("CPU 1")),
        "{:?}",
        trace.footer.tail
    );
    Ok(())
}

fn a_cpu_comes_late(ctx: &Context) -> Outcome {
    // Another test of this guest may have brought it already.
    switch(1, false)?;
    assert_eq!(ctx.online()?, [0]);
    let mut tracer = traced(ctx, &[])?;
    ctx.dd(100, 1).succeed()?;
    switch(1, true)?;
    let back = Instant::now();
    let mut written = 0;
    while there(&tracer.stdout()) == 0 {
        assert!(back.elapsed() < Duration::from_secs(20), "no event of CPU 1 since it is there");
        write_there(ctx, 10)?;
        written += 10;
    }
    println!("events {:?} after the CPU came", back.elapsed());
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    write_there(ctx, 1000)?;
    tracer.until("the last events", |job| there(&job.stdout()) >= 1000)?;
    let trace = end(tracer)?;
    assert_eq!(trace.events().filter(|event| event.cpu == 0).count(), 100);
    let lost = trace.failed("enoent");
    assert_eq!(trace.events().filter(|event| event.cpu == 1).count() as u64 + lost, 1000 + written);
    assert_eq!(trace.in_gaps(), lost);
    trace.sound()
}

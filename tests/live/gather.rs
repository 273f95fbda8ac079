//! Events that share records: each is told once, in its order and with its own time, and both kinds of counts check.

use crate::context::Context;
use crate::kit::{Dice, Hand, balanced};
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use crate::wild::{Act, Wild};
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tracer::ring::{Budget, Wake};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("gather::every_event_once_with_its_own_time", every_event_once_with_its_own_time),
    Test::new("gather::records_that_are_lost", records_that_are_lost),
    Test::new("gather::a_few_events_come_within_the_latency", a_few_events_come_within_the_latency),
    Test::new("gather::two_probes_share_a_record", two_probes_share_a_record),
    Test::new("gather::a_sink_that_panics_within_a_record", a_sink_that_panics_within_a_record),
    Test::new("gather::what_cannot_be", what_cannot_be),
];

const WRITES: u64 = 20_000;

fn dd(ctx: &Context, words: &[&str]) -> Result<Trace> {
    let count = format!("count={WRITES}");
    let dd = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=64", &count, "status=none"];
    let run = ["run", "-v", "-f", "json"];
    let ran = ctx.tracer(run.iter().chain(words).chain(&dd)).seconds(110).succeed()?;
    Trace::read(&ran.stdout)
}

/// What is known of a probe's events that shared records: put in, in records emitted, in records that failed.
fn gathered(trace: &Trace) -> (u64, u64, u64) {
    let sum = |of: fn(&crate::trace::Accounts) -> u64| trace.footer.probes.iter().map(of).sum();
    (sum(|p| p.gathered), sum(|p| p.sent), sum(|p| p.unsent))
}

/// Whether these are all writes, but for those that the kernel skipped as recursion and counted.
fn all_of(events: u64, trace: &Trace) -> bool {
    let missed = trace.skipped();
    events <= WRITES && events + missed >= WRITES
}

/// Numbers have no hole, and times go up on each CPU and level.
fn in_order(trace: &Trace) {
    let mut last: HashMap<(u32, u8), (u32, u64)> = HashMap::new();
    for event in trace.events() {
        let before = last.insert((event.cpu, event.level), (event.seq, event.time));
        if let Some((seq, time)) = before {
            assert!(event.seq > seq && event.time >= time, "{event:?} after {seq} at {time}");
        }
    }
}

fn every_event_once_with_its_own_time(ctx: &Context) -> Outcome {
    for gather in ["2", "8", "32", "auto"] {
        let trace = dd(ctx, &["--gather", gather, "-m", "4M", "s:write{fd,count}/comm==\"dd\"/"])?;
        trace.sound()?;
        in_order(&trace);
        let events = trace.events().count() as u64;
        assert!(all_of(events, &trace), "--gather {gather}: {events}");
        assert_eq!(trace.footer.missing, 0, "--gather {gather}");
        assert!(trace.events().all(|event| event.arg("count") == 64));
        assert_eq!(gathered(&trace), (events, events, 0));
        // Records are fewer by as much as was asked for, but for those that the reader had put out early.
        let emitted: u64 = trace.footer.cpus.iter().map(|cpu| cpu.emitted).sum();
        let full = events / gather.parse().unwrap_or(8);
        assert!(emitted >= full && emitted < full + full / 2 + 50, "--gather {gather}: {emitted} records");
        // Times are of the events, not of their records.
        let mut times: Vec<u64> = trace.events().map(|event| event.time).collect();
        times.sort_unstable();
        times.dedup();
        assert!(times.len() as u64 > events * 9 / 10, "{} times", times.len());
    }
    Ok(())
}

/// Of a reader that cannot keep up, both counts: records by the kernel, events by their numbers.
fn records_that_are_lost(ctx: &Context) -> Outcome {
    let mut hand = Hand::with(|options| {
        options.gather = 5;
        options.rings.wake = Wake::Latency(Duration::from_secs(60));
    })?;
    let cpu = ctx.online()?[0];
    let mut sink = Wild::new(|_| Act::Take);
    for round in 0..20 {
        hand.fire(cpu, round * 1000, 137)?;
        while hand.session.drain(Budget::ALL, &mut sink)?.more {}
    }
    let report = hand.session.stop(&mut sink)?;
    balanced(&report)?;
    let a = &report.probes[0].accounts;
    assert_eq!((a.gathered, a.sent + a.unsent), (20 * 137, 20 * 137));
    let line = report.cpus.iter().find(|c| c.cpu == cpu).context("no such CPU")?;
    assert!(a.unsent > 0 && line.lost > 0 && line.lost < a.unsent, "{line:?}");
    assert_eq!((line.holes, report.missing()), (a.unsent, a.unsent));
    Ok(())
}

/// Nothing fills a record: the reader asks for what is held.
fn a_few_events_come_within_the_latency(ctx: &Context) -> Outcome {
    let words = ["run", "-f", "json", "--gather", "32", "--latency", "50ms", "--include-self", "s:getppid"];
    let mut job = ctx.tracer(words).seconds(60).start()?;
    job.until("the header", |job| job.stdout().contains("header"))?;
    // Asked here, of which nobody else asks now.
    for _ in 0..3 {
        let _ = std::os::unix::process::parent_id();
    }
    let asked = Instant::now();
    let me = format!("\"pid\":{}", std::process::id());
    job.until("three events", |job| job.stdout().lines().filter(|line| line.contains(&me)).count() >= 3)?;
    let took = asked.elapsed();
    job.signal(Signal::SIGINT)?;
    let ran = job.finish()?;
    assert_eq!(ran.code(), 0, "{ran}");
    Trace::read(&ran.stdout)?.sound()?;
    // Guests are emulated; without being asked for, the events would come at the end alone.
    assert!(took < Duration::from_secs(20), "{took:?}");
    Ok(())
}

/// Each probe's own accounts tell of its events, whichever shared a record with them.
fn two_probes_share_a_record(ctx: &Context) -> Outcome {
    let specs = ["in=s:read{fd}/comm==\"dd\"/", "out=s:write{count}/comm==\"dd\"/"];
    let trace = dd(ctx, &["--gather", "16", "-m", "4M", specs[0], specs[1]])?;
    trace.sound()?;
    in_order(&trace);
    for (i, name) in ["in", "out"].into_iter().enumerate() {
        let told = trace.events().filter(|event| event.event == name).count() as u64;
        let probe = &trace.footer.probes[i];
        assert!(probe.gathered == told && probe.sent == told, "{name}: {told}, {probe:?}");
    }
    let out = trace.events().filter(|event| event.event == "out").count() as u64;
    assert!(all_of(out, &trace), "{out}");
    Ok(())
}

/// What comes after its event in the same record is counted as what it did not get.
fn a_sink_that_panics_within_a_record(ctx: &Context) -> Outcome {
    let mut hand = Hand::with(|options| options.gather = 7)?;
    let mut dice = Dice::new(5);
    let mut sink = Wild::new(move |_| match dice.below(9) {
        0 => Act::Panic,
        1 => Act::Fail,
        _ => Act::Take,
    });
    let cpu = ctx.online()?[0];
    let mut panics = 0;
    for round in 0..40 {
        hand.fire(cpu, round * 100, 33)?;
        let drained = catch_unwind(AssertUnwindSafe(|| hand.session.drain(Budget::ALL, &mut sink)));
        panics += u32::from(drained.is_err());
    }
    assert!(panics > 3, "{panics}");
    sink.tame();
    while hand.session.drain(Budget::ALL, &mut sink)?.more {}
    let report = hand.session.stop(&mut sink)?;
    balanced(&report)?;
    assert_eq!(report.decoded() + report.cpus.iter().map(|c| c.holes).sum::<u64>(), 40 * 33);
    Ok(())
}

fn what_cannot_be(ctx: &Context) -> Outcome {
    for (n, why) in [("0", "cannot share"), ("33", "1 to 32"), ("many", "no number of events")] {
        let ran = ctx.tracer(["run", "--gather", n, "s:write", "--duration", "100ms"]).run()?;
        assert!(ran.code() == 2 && ran.stderr.contains(why), "--gather {n}: {ran}");
    }
    Ok(())
}

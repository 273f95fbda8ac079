//! `--reader-threads`: several threads read the rings, and all that holds of one holds of them.

use crate::context::Context;
use crate::kit::{Hand, balanced};
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use crate::wild::{Act, Told, Wild};
use anyhow::Result;
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tracer::ErrorKind;
use tracer::frontend::{Control, threads};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("threads::every_event_of_every_cpu_once", every_event_of_every_cpu_once),
    Test::new("threads::a_limit_is_met_to_the_event", a_limit_is_met_to_the_event),
    Test::new("threads::stopped_in_the_middle", stopped_in_the_middle),
    Test::new("threads::losses_stand_in_their_places", losses_stand_in_their_places),
    Test::new("threads::files_are_reopened_with_their_header", files_are_reopened_with_their_header),
    Test::new("threads::a_recording", a_recording),
    Test::new("threads::a_benchmark", a_benchmark),
    Test::new("threads::more_than_there_are_rings", more_than_there_are_rings),
    Test::new("threads::few_events_come_within_the_latency", few_events_come_within_the_latency),
    Test::new("threads::a_flush_from_another_thread", a_flush_from_another_thread),
    Test::new("threads::each_has_a_pace_of_its_own", each_has_a_pace_of_its_own).on_host(),
    Test::new("threads::sinks_that_fail_and_panic", sinks_that_fail_and_panic),
];

/// Writes on each CPU of a guest, and of this host.
const WRITES: u64 = 5_000;

/// A shell's words: as many writes at once on CPUs 0 and 1.
fn on_both(count: u64) -> String {
    let dd = |cpu| format!("taskset -c {cpu} dd if=/dev/zero of=/dev/null bs=64 count={count} status=none");
    format!("{} & {}; wait", dd(0), dd(1))
}

const SPEC: &str = "s:write{count}/comm==\"dd\"/";

fn traced(ctx: &Context, ring: &str, words: &[&str], count: u64) -> Result<Trace> {
    let run = ["run", "-f", "json", "--reader-threads", "2", "-m", ring, SPEC];
    let command = on_both(count);
    let ran =
        ctx.tracer(run.iter().chain(words).chain(&["--", "sh", "-c", &command])).seconds(110).succeed()?;
    Trace::read(&ran.stdout)
}

/// Numbers of each CPU and level go up by one, but for what gaps tell.
fn in_order(trace: &Trace) -> HashMap<u32, u64> {
    let (mut last, mut cpus) = (HashMap::new(), HashMap::new());
    for event in trace.events() {
        let before = last.insert((event.cpu, event.level), event.seq);
        assert!(before.is_none_or(|before| before < event.seq), "{event:?} after {before:?}");
        *cpus.entry(event.cpu).or_default() += 1;
    }
    cpus
}

fn every_event_of_every_cpu_once(ctx: &Context) -> Outcome {
    for words in [&[][..], &["-k"], &["--order", "time"], &["--order", "strict"], &["--gather", "8"]] {
        let trace = traced(ctx, "4M", words, WRITES)?;
        trace.sound()?;
        let cpus = in_order(&trace);
        let (told, missed) = (cpus.values().sum::<u64>(), trace.skipped());
        assert!(told <= 2 * WRITES && told + missed >= 2 * WRITES, "{words:?}: {told}, {missed} missed");
        assert_eq!(trace.footer.missing, 0, "{words:?}");
        assert!(cpus.len() > 1, "{words:?}: {cpus:?}");
        if words.contains(&"--order") {
            let times: Vec<u64> = trace.events().map(|event| event.time).collect();
            assert!(times.is_sorted(), "{words:?}");
        }
    }
    Ok(())
}

fn a_limit_is_met_to_the_event(ctx: &Context) -> Outcome {
    for limit in [1, 777] {
        let words = ["-n", &limit.to_string()];
        let trace = traced(ctx, "4M", &words, 1_000_000)?;
        trace.sound()?;
        assert_eq!(trace.events().count(), limit);
    }
    Ok(())
}

fn stopped_in_the_middle(ctx: &Context) -> Outcome {
    let words = ["run", "-f", "json", "--reader-threads", "2", "--stats", "200ms", SPEC, "--"];
    let endless = on_both(4_000_000_000);
    let out = std::fs::File::create(ctx.scratch.join("out"))?;
    let job = ctx.tracer(words.into_iter().chain(["sh", "-c", &endless]));
    let mut tracer = job.stdout(out).start()?;
    tracer.until("two lines of the ledger", |job| job.stderr().matches(" in the rings").count() >= 2)?;
    tracer.signal(Signal::SIGUSR1)?;
    tracer.signal(Signal::SIGINT)?;
    let ran = tracer.finish()?;
    assert_eq!(ran.code(), 0, "{ran}");
    assert!(ran.stderr.contains("balanced: yes"), "{ran}");
    let trace = Trace::read(&std::fs::read_to_string(ctx.scratch.join("out"))?)?;
    trace.balanced()?;
    assert!(in_order(&trace).len() > 1);
    Ok(())
}

/// Rings of one page, so that most is lost.
fn losses_stand_in_their_places(ctx: &Context) -> Outcome {
    let trace = traced(ctx, "4K", &[], 20 * WRITES)?;
    trace.sound()?;
    in_order(&trace);
    assert!(trace.failed("enospc") > 0 && trace.in_gaps() == trace.footer.missing);
    Ok(())
}

fn files_are_reopened_with_their_header(ctx: &Context) -> Outcome {
    let (file, moved) = (ctx.scratch.join("file"), ctx.scratch.join("moved"));
    let path = file.display().to_string();
    let endless = on_both(4_000_000_000);
    let words = ["run", "-f", "json", "--reader-threads", "2", "-o", &path, SPEC, "--", "sh", "-c", &endless];
    let mut tracer = ctx.tracer(words).seconds(110).start()?;
    let size = |path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    tracer.until("some events", |_| size(&file) > 1 << 17)?;
    std::fs::rename(&file, &moved)?;
    tracer.signal(Signal::SIGHUP)?;
    tracer.until("some events in another file", |_| size(&file) > 1 << 17)?;
    tracer.signal(Signal::SIGTERM)?;
    assert_eq!(tracer.finish()?.code(), 0);
    for file in [&file, &moved] {
        let text = std::fs::read_to_string(file)?;
        assert!(text.starts_with("{\"type\":\"header\"") && text.ends_with("}\n"), "{}", file.display());
        assert_eq!(text.matches("\"type\":\"header\"").count(), 1);
    }
    Ok(())
}

fn a_recording(ctx: &Context) -> Outcome {
    let file = ctx.scratch.join("x.data").display().to_string();
    let command = on_both(WRITES);
    let words =
        ["record", "-m", "4M", "--reader-threads", "2", "-o", &file, SPEC, "--", "sh", "-c", &command];
    let ran = ctx.tracer(words).seconds(110).succeed()?;
    assert!(ran.stderr.contains("balanced: yes") && ran.stderr.contains(" 0 missing"), "{ran}");
    let events: usize = ran
        .stderr
        .split(" events in ")
        .next()
        .and_then(|n| n.split_whitespace().last()?.parse().ok())
        .unwrap_or(0);
    let script = ctx.tracer(["script", &file]).seconds(110).succeed()?;
    let lines = script.stdout.lines().filter(|line| line.contains("tracer:write")).count();
    assert_eq!(lines, events, "{ran}");
    Ok(())
}

fn a_benchmark(ctx: &Context) -> Outcome {
    let words = ["bench", "--json", "--rounds", "1", "--duration", "300ms", "--producers", "2"];
    let ran = ctx.tracer(words.iter().chain(&["--reader-threads", "1,2", "--age"])).seconds(110).succeed()?;
    let cases: Vec<serde_json::Value> =
        ran.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(cases.len(), 2);
    for case in cases {
        assert_eq!(case["balanced"], true, "{case}");
        assert!(case["rounds"][0]["received"].as_u64() > Some(0), "{case}");
    }
    Ok(())
}

fn more_than_there_are_rings(ctx: &Context) -> Outcome {
    let words = ["run", "--reader-threads", "1000", "-C", "0,1", "--duration", "100ms", SPEC];
    let ran = ctx.tracer(words).succeed()?;
    assert!(ran.stderr.contains("--reader-threads 1000 is 2 here"), "{ran}");
    let refused = ctx.tracer(["run", "--reader-threads", "0", SPEC]).run()?;
    assert!(refused.code() == 2 && refused.stderr.contains("--reader-threads"), "{refused}");
    let flight = ctx.tracer(["record", "--flight", "1M", "--reader-threads", "2", SPEC]).run()?;
    assert!(flight.code() == 2 && flight.stderr.contains("--flight"), "{flight}");
    Ok(())
}

/// A quiet trace: what is told within a second is told by somebody who was woken or swept.
fn few_events_come_within_the_latency(ctx: &Context) -> Outcome {
    let words = ["run", "-f", "json", "--reader-threads", "2", "--latency", "200ms", SPEC];
    let mut tracer = ctx.tracer(words).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    for round in 1..=5 {
        for cpu in ["0", "1"] {
            let dd = ["-c", cpu, "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1", "status=none"];
            ctx.job("taskset", dd).succeed()?;
        }
        let written = Instant::now();
        tracer.until("both events", |job| job.stdout().matches("\"type\":\"event\"").count() >= 2 * round)?;
        let bound = Duration::from_secs(if ctx.is_guest() { 10 } else { 2 });
        assert!(written.elapsed() < bound, "round {round}: {:?}", written.elapsed());
    }
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    let trace = Trace::read(&ran.stdout)?;
    assert_eq!(in_order(&trace), HashMap::from([(0, 5), (1, 5)]));
    trace.sound()
}

fn two_readers() -> Result<Hand> {
    let hand = Hand::with(|options| {
        options.reader_threads = 2;
        options.rings.wake = tracer::ring::Wake::Bytes(1024);
    })?;
    assert_eq!(hand.session.reader_threads(), 2);
    Ok(hand)
}

/// Whoever asks for a flush has what was in all rings then, long before a sweep; and a tick sees it.
fn a_flush_from_another_thread(ctx: &Context) -> Outcome {
    let (cpus, mut hand, control) = (ctx.online()?, two_readers()?, Control::new()?);
    let Hand { session, sink, probe } = &mut hand;
    session.header(sink)?;
    let (mut round, mut due) = (0, 0);
    let ended = threads::run(session, sink, &control, None, |session, sink| {
        let delivered = tracer::sink::Sink::counts(sink).delivered;
        assert!(delivered >= due, "{delivered} of {due} events were there at the end of a stretch");
        assert_eq!(session.report(sink).decoded(), delivered);
        round += 1;
        for &cpu in &cpus {
            for n in 0..7 {
                due += u64::from(session.probes().fire(*probe, cpu, &[n; 6]).is_ok());
            }
        }
        control.flush();
        if round > 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    balanced(&ended.report)?;
    assert_eq!((ended.report.sinks[0].delivered, ended.report.missing()), (due, 0));
    Ok(())
}

/// The rings of a busy CPU wake nobody for a record, and those of a quiet one do.
fn each_has_a_pace_of_its_own(ctx: &Context) -> Outcome {
    let (cpu, control) = (ctx.online()?[0], Control::new()?);
    let mut hand = Hand::with(|options| {
        options.reader_threads = 2;
        options.rings.size = 4 << 20;
    })?;
    let Hand { session, sink, probe } = &mut hand;
    session.header(sink)?;
    let busy = session.shard_of(cpu);
    let (mut phase, mut fired, begin) = (0, 0, Instant::now());
    // What is waited for: quiet, then busy there alone, then quiet again.
    let wanted = [[true, true], [false, true], [true, true]];
    let ended = threads::run(session, sink, &control, None, |session, _| {
        let now = [busy, 1 - busy].map(|at| session.shard_rings()[at].prompt());
        assert!(phase == 0 || now[1], "the quiet one's rule changed");
        phase += usize::from(now == wanted[phase]);
        for n in 0..if phase == 1 { 4000 } else { 0 } {
            fired += u64::from(session.probes().fire(*probe, cpu, &[n; 6]).is_ok());
        }
        let over = phase == wanted.len() || begin.elapsed() > Duration::from_secs(30);
        if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    assert_eq!(phase, wanted.len(), "what was waited for did not come");
    balanced(&ended.report)?;
    assert_eq!((ended.report.sinks[0].delivered, ended.report.missing()), (fired, 0));
    Ok(())
}

/// The books balance whatever the sink does to the threads that hand it events.
fn sinks_that_fail_and_panic(ctx: &Context) -> Outcome {
    let (cpus, mut hand) = (ctx.online()?, two_readers()?);
    let (mut told, mut fired) = (0, 0);
    let mut sink = Wild::new(move |what| {
        told += u32::from(what == Told::Event);
        match told {
            n if n < 400 && n % 40 == 13 => Act::Panic,
            600 => Act::Fail,
            _ => Act::Take,
        }
    });
    hand.session.header(&mut sink)?;
    let (mut panics, mut fails) = (0, 0);
    // A run that fails is stopped in order; one that panics can go on.
    let report = loop {
        let (Hand { session, probe, .. }, mut ticks) = (&mut hand, 0);
        let run = AssertUnwindSafe(|| {
            threads::run(session, &mut sink, &Control::new()?, None, |session, _| {
                ticks += 1;
                for &cpu in &cpus {
                    for n in 0..30 {
                        fired += u64::from(session.probes().fire(*probe, cpu, &[n; 6]).is_ok());
                    }
                }
                if ticks > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        match catch_unwind(run) {
            Err(_) => panics += 1,
            Ok(Ok(ended)) => {
                fails += u32::from(ended.error.is_some_and(|e| e.kind() == ErrorKind::Sink));
                break ended.report;
            }
            Ok(Err(error)) => return Err(error.into()),
        }
    };
    assert!(panics > 0 && fails > 0, "{panics} panics, {fails} failures");
    balanced(&report)?;
    assert_eq!(report.probes[0].accounts.fired, fired);
    assert!(report.sinks[0].dropped_sink > 0);
    Ok(())
}

//! Sessions driven by the library: stopped from anywhere, many of them, and sinks that misbehave.

use crate::context::Context;
use crate::kit::{Dice, EVENT, Hand, balanced, descriptors, number};
use crate::table::{Outcome, Test};
use crate::wild::{Act, Told, Wild};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tracer::frontend::{Control, blocking};
use tracer::ring::Budget;
use tracer::session::{Options, Session};
use tracer::sink::Item;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("sessions::a_sink_that_panics_and_fails", a_sink_that_panics_and_fails),
    Test::new("sessions::a_sink_that_panics_at_the_stop", a_sink_that_panics_at_the_stop),
    Test::new("sessions::a_stop_from_another_thread", a_stop_from_another_thread),
    Test::new("sessions::a_stop_from_inside_a_sink", a_stop_from_inside_a_sink),
    Test::new("sessions::a_second_stop_is_the_first", a_second_stop_is_the_first),
    Test::new("sessions::a_pause_does_not_outlast_the_stop", a_pause_does_not_outlast_the_stop),
    Test::new("sessions::two_at_once", two_at_once),
    Test::new("sessions::half_built_ones_leave_nothing", half_built_ones_leave_nothing),
    Test::new("sessions::a_thousand_cycles", a_thousand_cycles).seconds(600),
];

fn a_sink_that_panics_and_fails(ctx: &Context) -> Outcome {
    let cpus = ctx.online()?;
    let mut dice = Dice::new(11);
    let mut hand = Hand::new()?;
    let mut sink = Wild::new({
        let mut dice = Dice::new(12);
        move |_: Told| match dice.below(8) {
            0 => Act::Panic,
            1 => Act::Fail,
            _ => Act::Take,
        }
    });
    let (mut panics, mut failures) = (0, 0);
    for round in 0..60 {
        for &cpu in &cpus {
            hand.fire(cpu, round * 100, dice.below(50))?;
        }
        match catch_unwind(AssertUnwindSafe(|| hand.session.drain(Budget::ALL, &mut sink))) {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => failures += 1,
            Err(_) => panics += 1,
        }
    }
    assert!(panics > 3 && failures > 3, "{panics} panics, {failures} failures");
    sink.tame();
    while hand.session.drain(Budget::ALL, &mut sink)?.more {}
    let report = hand.session.stop(&mut sink)?;
    balanced(&report)?;
    assert!(report.sinks[0].dropped_sink > 0 && report.cpus.iter().any(|cpu| cpu.lost > 0));
    Ok(())
}

/// What a sink does while the session stops does not keep it from stopping in order.
fn a_sink_that_panics_at_the_stop(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 40)?;
    let mut panics = 0;
    let mut sink = Wild::new(move |_| {
        panics += 1;
        if panics < 5 { Act::Panic } else { Act::Fail }
    });
    let mut unwound = 0;
    let report = loop {
        match catch_unwind(AssertUnwindSafe(|| hand.session.stop(&mut sink))) {
            Ok(report) => break report?,
            Err(_) => unwound += 1,
        }
    };
    assert_eq!(unwound, 4);
    balanced(&report)?;
    assert_eq!(report.sinks[0].dropped_sink, 34);
    Ok(())
}

fn a_stop_from_another_thread(ctx: &Context) -> Outcome {
    let (cpu, mut hand, control) = (ctx.online()?[0], Hand::new()?, Control::new()?);
    let other = control.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        other.stop();
        asked
    });
    let (Hand { session, sink, probe }, mut fired) = (&mut hand, 0);
    let ended = blocking::run(session, sink, &control, None, |session, _| {
        for n in 0..100 {
            fired += u64::from(session.probes().fire(*probe, cpu, &[n; 6]).is_ok());
        }
        ControlFlow::Continue(())
    })?;
    let asked = stopper.join().expect("the stopping thread");
    assert!(asked.elapsed() < Duration::from_secs(20), "the stop took {:?}", asked.elapsed());
    balanced(&ended.report)?;
    assert!(ended.error.is_none());
    assert_eq!(ended.report.probes[0].accounts.fired, fired);
    Ok(())
}

/// The events that are in the rings when a sink says stop still reach it.
fn a_stop_from_inside_a_sink(ctx: &Context) -> Outcome {
    let (cpu, mut hand, control) = (ctx.online()?[0], Hand::new()?, Control::new()?);
    let handle = control.clone();
    let mut events = 0;
    let mut sink = Wild::new(move |told| {
        events += u32::from(told == Told::Event);
        if events == 5 {
            handle.stop();
        }
        Act::Take
    });
    hand.fire(cpu, 0, 30)?;
    let ended =
        blocking::run(&mut hand.session, &mut sink, &control, None, |_, _| ControlFlow::Continue(()))?;
    balanced(&ended.report)?;
    assert_eq!(ended.report.sinks[0].delivered, 30);
    Ok(())
}

fn a_second_stop_is_the_first(ctx: &Context) -> Outcome {
    let mut hand = Hand::new()?;
    hand.fire(ctx.online()?[0], 0, 50)?;
    let first = hand.stop()?;
    balanced(&first)?;
    let told = hand.sink.items.len();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(hand.stop()?, first);
    hand.drain()?;
    assert_eq!(hand.sink.items.len(), told, "a session that has stopped says nothing more");
    let footers = hand.sink.items.iter().filter(|item| matches!(item, Item::Footer(_))).count();
    assert_eq!(footers, 1);
    Ok(())
}

/// Rings that are paused when the session stops end in their markers too, and tell what they lost.
fn a_pause_does_not_outlast_the_stop(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 5)?;
    hand.session.rings_mut().pause(cpu, true)?;
    hand.fire(cpu, 5, 7)?;
    let report = hand.stop()?;
    balanced(&report)?;
    assert_eq!(hand.numbers(cpu), [1, 2, 3, 4, 5]);
    assert_eq!(
        hand.sink.gaps().map(|gap| (gap.count, gap.seq)).collect::<Vec<_>>(),
        [(Some(7), Some((6, 12)))]
    );
    Ok(())
}

fn two_at_once(ctx: &Context) -> Outcome {
    let cpus = ctx.online()?;
    let (mut one, mut two) = (Hand::new()?, Hand::new()?);
    for round in 0..20 {
        for &cpu in &cpus {
            one.fire(cpu, round, 7)?;
            two.fire(cpu, round, 3)?;
        }
        one.drain()?;
    }
    let (one_report, two_report) = (one.stop()?, two.stop()?);
    balanced(&one_report)?;
    balanced(&two_report)?;
    assert_eq!(one_report.decoded(), 140 * cpus.len() as u64);
    let fit = (4096 - 8) / EVENT;
    for &cpu in &cpus {
        let numbers: Vec<u32> = two.sink.items.iter().filter_map(|item| number(item, cpu)).collect();
        assert_eq!(numbers, (1..=fit as u32).collect::<Vec<_>>());
    }
    Ok(())
}

fn half_built_ones_leave_nothing(ctx: &Context) -> Outcome {
    // What libraries open once and keep is open after the first.
    drop(Hand::new()?);
    let before = descriptors()?;
    drop(Session::prepare(Options::default())?);
    let fired = Hand::new()?;
    fired.fire(ctx.online()?[0], 0, 50)?;
    drop(fired);
    let mut options = Options::default();
    options.rings.cpus = Some(vec![60_000]);
    assert!(Session::prepare(options).is_err());
    let specs = ["rt:sys_enter".parse()?, "rt:no_such_tracepoint".parse()?];
    assert!(Session::start(Options::default(), &specs).is_err());
    let mut full = Session::prepare(Options { probes: 1, ..Options::default() })?;
    full.probes_mut().attach_by_hand("one")?;
    assert!(full.probes_mut().attach_by_hand("two").is_err());
    drop(full);
    assert_eq!(descriptors()?, before);
    Ok(())
}

/// In a guest a hundred do: each takes as long as ten on the host.
fn a_thousand_cycles(ctx: &Context) -> Outcome {
    let (cpu, cycles) = (ctx.online()?[0], if ctx.is_guest() { 100 } else { 1000 });
    let mut start = (0, 0);
    for cycle in 0..cycles {
        let mut hand = Hand::new()?;
        hand.fire(cpu, 0, 3)?;
        if cycle % 2 == 0 {
            let report = hand.stop()?;
            balanced(&report)?;
            assert_eq!(report.decoded(), 3);
        }
        drop(hand);
        if cycle == cycles / 10 {
            start = (descriptors()?, resident()?);
        }
    }
    assert_eq!(descriptors()?, start.0);
    let grown = resident()?.saturating_sub(start.1);
    assert!(grown < 4096, "{grown} KiB more than after a tenth of the cycles");
    Ok(())
}

/// This process's resident memory in KiB.
fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

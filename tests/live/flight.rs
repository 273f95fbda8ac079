//! Sessions whose rings are in overwrite mode: snapshots, their gaps, and books that balance.

use crate::context::{Context, switch};
use crate::kit::{EVENT, Hand, balanced};
use crate::table::{Outcome, Test};
use crate::wild::{Act, Wild};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tracer::ErrorKind;
use tracer::event::Cause;
use tracer::session::Flight;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("flight::snapshots_and_their_gaps", snapshots_and_their_gaps),
    Test::new("flight::what_nobody_asked_for_is_counted", what_nobody_asked_for_is_counted),
    Test::new("flight::a_window_of_time", a_window_of_time),
    Test::new("flight::a_sink_that_panics_and_fails", a_sink_that_panics_and_fails),
    Test::new("flight::a_cpu_goes_and_comes", a_cpu_goes_and_comes).in_guests(),
    Test::new("flight::a_session_without_one_refuses", a_session_without_one_refuses),
];

/// Rings of one page: in overwrite mode they hold 34 events, 35 at times by their padding.
fn hand(window: Option<Duration>) -> anyhow::Result<Hand> {
    Hand::with(|options| options.flight = Some(Flight { window }))
}

/// How many events a ring holds.
const HOLDS: u64 = 4096 / EVENT.next_multiple_of(8) as u64;

fn snapshots_and_their_gaps(ctx: &Context) -> Outcome {
    let cpus = ctx.online()?;
    let mut hand = hand(None)?;
    for &cpu in &cpus {
        hand.fire(cpu, 0, 10)?;
    }
    hand.drain()?;
    assert!(cpus.iter().all(|cpu| hand.numbers(*cpu).is_empty()), "nothing is read unasked");
    assert!(hand.session.snapshot(&mut hand.sink)?.covered);
    for &cpu in &cpus {
        assert_eq!(hand.numbers(cpu), (1..=10).collect::<Vec<_>>());
        hand.fire(cpu, 0, 500)?;
    }
    assert_eq!(hand.sink.gaps().count(), 0);
    hand.session.snapshot(&mut hand.sink)?;
    for &cpu in &cpus {
        let mut expected: Vec<u32> = (1..=10).collect();
        expected.extend(511 - HOLDS as u32..=510);
        assert_eq!(hand.numbers(cpu), expected);
        let gap = hand.sink.gaps().find(|gap| gap.cpu == cpu).copied();
        let told = gap.map(|gap| (gap.cause, gap.count, gap.seq));
        let gone = 500 - HOLDS;
        assert_eq!(told, Some((Cause::Overwritten, Some(gone), Some((11, 10 + gone as u32)))));
    }
    let report = hand.stop()?;
    balanced(&report)?;
    assert!(report.cpus.iter().all(|cpu| cpu.overwritten == 500 - HOLDS && cpu.holes == 0), "{report:#?}");
    assert_eq!(report.beyond, 0);
    Ok(())
}

fn what_nobody_asked_for_is_counted(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = hand(None)?;
    hand.fire(cpu, 0, 7)?;
    hand.session.snapshot(&mut hand.sink)?;
    hand.fire(cpu, 0, 100)?;
    let report = hand.stop()?;
    balanced(&report)?;
    assert_eq!(hand.numbers(cpu).len(), 7);
    // The end marker has its place in the ring too.
    assert!((HOLDS - 1..=HOLDS).contains(&report.beyond), "{}", report.beyond);
    assert_eq!(report.decoded(), 7 + report.beyond);
    assert_eq!(report.cpus[0].overwritten, 100 - report.beyond);
    assert_eq!(report.tail, tracer::ledger::Tail::Proved);
    Ok(())
}

fn a_window_of_time(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = hand(Some(Duration::from_secs(3)))?;
    hand.fire(cpu, 0, 4)?;
    std::thread::sleep(Duration::from_secs(4));
    hand.fire(cpu, 0, 5)?;
    hand.session.snapshot(&mut hand.sink)?;
    assert_eq!(hand.numbers(cpu), [5, 6, 7, 8, 9]);
    let report = hand.stop()?;
    balanced(&report)?;
    assert_eq!((report.beyond, hand.sink.gaps().count()), (4, 0));
    Ok(())
}

fn a_sink_that_panics_and_fails(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = hand(None)?;
    let mut events = 0;
    let mut sink = Wild::new(|_| {
        events += 1;
        match events % 7 {
            0 => Act::Panic,
            1 => Act::Fail,
            _ => Act::Take,
        }
    });
    let (mut panics, mut failures) = (0, 0);
    for _ in 0..20 {
        hand.fire(cpu, 0, 50)?;
        match catch_unwind(AssertUnwindSafe(|| hand.session.snapshot(&mut sink))) {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => failures += 1,
            Err(_) => panics += 1,
        }
    }
    assert!(panics > 3, "{panics} panics, {failures} failures");
    sink.tame();
    let report = hand.session.stop(&mut sink)?;
    balanced(&report)?;
    assert!(report.sinks[0].dropped_sink > 0);
    Ok(())
}

/// What its dead rings hold is told, before what the new ones do.
fn a_cpu_goes_and_comes(_: &Context) -> Outcome {
    let mut hand = hand(None)?;
    hand.fire(1, 0, 5)?;
    switch(1, false)?;
    switch(1, true)?;
    hand.fire(1, 0, 3)?;
    // Looked after within a second.
    let since = Instant::now();
    while hand.accounts(1).emitted == 5 {
        assert!(since.elapsed() < Duration::from_secs(20), "no new ring");
        std::thread::sleep(Duration::from_millis(60));
        hand.drain()?;
        hand.fire(1, 0, 1)?;
    }
    hand.session.snapshot(&mut hand.sink)?;
    let failed = hand.accounts(1).failed.eopnotsupp as u32;
    assert_eq!(hand.numbers(1), [1, 2, 3, 4, 5, 6 + failed]);
    let gaps: Vec<_> = hand.sink.gaps().map(|gap| (gap.cause, gap.count)).collect();
    assert_eq!(gaps, [(Cause::Failed, Some(u64::from(failed)))]);
    balanced(&hand.stop()?)?;
    Ok(())
}

fn a_session_without_one_refuses(_: &Context) -> Outcome {
    let mut hand = Hand::new()?;
    let error = hand.session.snapshot(&mut hand.sink).err();
    assert!(error.is_some_and(|error| error.kind() == ErrorKind::Usage && error.help().is_some()));
    Ok(())
}

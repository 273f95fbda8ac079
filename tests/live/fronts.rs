//! Front ends beside the blocking one: a thread that hands on batches, and a loop of one's own.

use crate::context::Context;
use crate::kit::{Hand, balanced};
use crate::load::{Load, Told, session};
use crate::table::{Outcome, Test};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use tracer::ErrorKind;
use tracer::frontend::channel::{self, OnFull, Receiver};
use tracer::frontend::{Control, Driver};
use tracer::ring::Budget;
use tracer::sink::Sink;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("fronts::a_slow_receiver_by_each_rule", a_slow_receiver_by_each_rule),
    // Under emulation, beside writers that never rest, detaching alone takes tens of seconds.
    Test::new("fronts::a_stop_while_nobody_takes", a_stop_while_nobody_takes).on_host(),
    Test::new("fronts::a_receiver_that_goes_ends_the_run", a_receiver_that_goes_ends_the_run),
    Test::new("fronts::a_reader_dropped_where_batches_are_taken", a_reader_dropped_where_batches_are_taken),
    Test::new("fronts::a_limit_ends_the_run", a_limit_ends_the_run),
    Test::new("fronts::the_ledger_from_another_thread", the_ledger_from_another_thread),
    Test::new("fronts::a_loop_of_ones_own", a_loop_of_ones_own),
];

/// Few and small batches, so that they are soon full.
fn few(on_full: OnFull) -> channel::Options {
    channel::Options { batches: 4, batch: 8192, on_full }
}

fn sample() -> OnFull {
    OnFull::Sample(NonZeroU32::new(10).expect("ten"))
}

fn busy(ctx: &Context, most: u64) -> anyhow::Result<Load> {
    let cpus = ctx.online()?;
    Ok(cpus.into_iter().fold(Load::new(), |load, cpu| load.on(cpu, most, Duration::ZERO)))
}

fn a_slow_receiver_by_each_rule(ctx: &Context) -> Outcome {
    const WRITES: u64 = 20_000;
    let rules = [OnFull::Block, OnFull::DropNew, OnFull::DropOld, sample()];
    let readers = if ctx.is_guest() { 1..=1 } else { 1..=2 };
    for (on_full, readers) in rules.into_iter().flat_map(|rule| readers.clone().map(move |n| (rule, n))) {
        let session = session(1 << 16, |options| options.reader_threads = readers)?;
        let (reader, batches) = channel::spawn(session, few(on_full))?;
        let load = busy(ctx, WRITES)?;
        let control = reader.control().clone();
        let watch = std::thread::spawn(move || {
            let writes = load.wait();
            control.stop();
            writes
        });
        let mut told = Told::default();
        for batch in &batches {
            std::thread::sleep(Duration::from_millis(2));
            told.batch(&batch);
        }
        let (writes, ended) = (watch.join().expect("the writing threads"), reader.join()?);
        assert!(ended.error.is_none(), "{:?}", ended.error);
        let (report, sink) = (&ended.report, &ended.report.sinks[0]);
        println!("{on_full}, {readers} readers: {writes} writes, {} decoded, {sink:?}", report.decoded());
        told.whole(report)?;
        assert_eq!(sink.on_full.as_deref(), Some(&*on_full.to_string()));
        assert_eq!((sink.delivered + sink.dropped_queue, sink.dropped_sink), (report.decoded(), 0));
        let lost: u64 = report.cpus.iter().map(|cpu| cpu.holes).sum();
        assert!(report.decoded() + lost <= writes && report.decoded() > 0);
        if on_full == OnFull::Block {
            assert_eq!(sink.dropped_queue, 0);
        }
    }
    Ok(())
}

fn a_stop_while_nobody_takes(ctx: &Context) -> Outcome {
    for on_full in [OnFull::Block, OnFull::DropNew, OnFull::DropOld, sample()] {
        let bound = Duration::from_millis(500);
        let session = session(1 << 16, |options| options.stop_bound = bound)?;
        let (reader, batches) = channel::spawn(session, few(on_full))?;
        let load = busy(ctx, u64::MAX)?;
        let since = Instant::now();
        while batches.len() < 4 {
            assert!(since.elapsed() < Duration::from_secs(20), "{on_full}: the channel does not fill up");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        let asked = Instant::now();
        reader.control().stop();
        let report = reader.join()?.report;
        let took = asked.elapsed();
        load.stop();
        println!("{on_full}: the stop took {took:?}, {:?}", report.sinks[0]);
        balanced(&report)?;
        assert!(took < bound + Duration::from_secs(3), "{took:?}");
        let sink = &report.sinks[0];
        assert_eq!(sink.delivered + sink.dropped_queue + sink.dropped_sink, report.decoded());
        match on_full {
            OnFull::Block => assert!(sink.dropped_sink > 0, "what was in hand had no room"),
            _ => assert!(sink.dropped_queue > 0),
        }
        // What is in the channel can still be taken.
        assert_eq!(batches.iter().map(|batch| batch.len() as u64).sum::<u64>(), sink.delivered);
    }
    Ok(())
}

fn a_receiver_that_goes_ends_the_run(ctx: &Context) -> Outcome {
    for on_full in [OnFull::Block, OnFull::DropOld] {
        let (reader, batches) = channel::spawn(session(1 << 16, |_| {})?, few(on_full))?;
        let load = busy(ctx, u64::MAX)?;
        let taken = batches.recv()?.len() as u64 + batches.recv()?.len() as u64;
        drop(batches);
        let ended = reader.join()?;
        load.stop();
        assert_eq!(ended.error.map(|e| e.kind()), Some(ErrorKind::Closed));
        balanced(&ended.report)?;
        let sink = &ended.report.sinks[0];
        assert!(sink.delivered >= taken && sink.dropped_sink > 0, "{sink:?}");
        assert!(on_full == OnFull::DropOld || sink.delivered == taken, "{taken} taken: {sink:?}");
    }
    // A silent one too.
    let (reader, batches) = channel::spawn(session(1 << 16, |_| {})?, few(OnFull::DropNew))?;
    drop(batches);
    balanced(&reader.join()?.report)?;
    Ok(())
}

/// The loop that takes batches stops the run, asks for the ledger, and drops the handle that would have joined it.
fn a_reader_dropped_where_batches_are_taken(ctx: &Context) -> Outcome {
    let (reader, batches) = channel::spawn(session(1 << 16, |_| {})?, few(OnFull::DropNew))?;
    let (control, load) = (reader.control().clone(), busy(ctx, u64::MAX)?);
    let mut reader = Some(reader);
    let mut told = Told::default();
    for (n, batch) in batches.iter().enumerate() {
        told.batch(&batch);
        if n == 3 {
            control.flush();
            control.stats();
            control.stop();
            control.stop();
            drop(reader.take());
        }
    }
    load.stop();
    let report = control.stats().expect("the final ledger");
    told.whole(&report)?;
    Ok(())
}

fn a_limit_ends_the_run(ctx: &Context) -> Outcome {
    let session = session(1 << 16, |options| options.limit = Some(1000))?;
    let (reader, batches) = channel::spawn(session, channel::Options::default())?;
    let load = busy(ctx, u64::MAX)?;
    let events: u64 = batches.iter().map(|batch| batch.len() as u64).sum();
    let report = reader.join()?.report;
    load.stop();
    balanced(&report)?;
    assert_eq!((events, report.events()), (1000, 1000));
    Ok(())
}

fn the_ledger_from_another_thread(ctx: &Context) -> Outcome {
    let (reader, batches) = channel::spawn(session(1 << 20, |_| {})?, channel::Options::default())?;
    let taker = std::thread::spawn(move || {
        let mut told = Told::default();
        batches.iter().for_each(|batch| told.batch(&batch));
        told
    });
    let (control, load) = (reader.control().clone(), busy(ctx, u64::MAX)?);
    let (mut before, since) = (0, Instant::now());
    for round in 0..10 {
        let report = control.stats_within(Duration::from_secs(20)).expect("a ledger");
        assert!(report.decoded() >= before && report.identities.is_empty(), "round {round}");
        before = report.decoded();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(before > 0 && since.elapsed() < Duration::from_secs(60));
    load.stop();
    control.stop();
    let report = reader.join()?.report;
    assert_eq!(*control.stats_within(Duration::from_secs(20)).expect("the final ledger"), report);
    taker.join().expect("the taker").whole(&report)?;
    Ok(())
}

/// What stood in the rings before they were registered, what a pass left behind, what comes later, and a stop: each is
/// had by waiting for one descriptor and one time-out.
fn a_loop_of_ones_own(ctx: &Context) -> Outcome {
    let cpus = ctx.online()?;
    let mut hand = Hand::with(|options| options.rings.size = 1 << 16)?;
    for &cpu in &cpus {
        hand.fire(cpu, 0, 20)?;
    }
    let control = Control::new()?;
    let Hand { session, sink, probe } = &mut hand;
    let mut driver = Driver::new(session, &control)?;
    session.header(sink)?;
    let (mut passes, mut expected) = (0, 20 * cpus.len() as u64);
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    epoll.add(&driver, EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
    let since = Instant::now();
    while !control.stopping() {
        let drained = driver.pass(session, Budget::records(7), sink)?;
        assert_eq!(drained.more, driver.timeout().is_zero());
        passes += 1;
        if sink.counts().delivered == expected {
            if expected > 200 {
                // It wakes the loop, which ends by it.
                control.stop();
            }
            session.probes().fire(*probe, cpus[0], &[1; 6])?;
            expected += 1;
        }
        let millis = driver.timeout().as_nanos().div_ceil(1_000_000) as u16;
        epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(millis))?;
        assert!(since.elapsed() < Duration::from_secs(60), "{passes} passes, {:?}", sink.counts());
    }
    let report = hand.stop()?;
    balanced(&report)?;
    assert_eq!(report.sinks[0].delivered, expected);
    println!("{passes} passes for {expected} events in {:?}", since.elapsed());
    assert!(passes < 20 * expected, "{passes} passes: it does not wait");
    Ok(())
}

/// That a receiver may be sent and shared.
const _: () = {
    const fn may_move<T: Send + Sync>() {}
    may_move::<Receiver>();
    may_move::<Control>();
};

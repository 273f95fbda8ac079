//! Budgets, fairness, handlers that stop or panic, and when bytes are given back.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use tracer::{
    record::SampleFormat,
    ring::{
        Budget, Set,
        mock::{Mock, Producer},
    },
};

use crate::support::{Seen, drain, drain_all, raw_only, set_of};

fn rings(cpus: impl IntoIterator<Item = u32>, size: usize) -> (Set, Vec<Producer>) {
    let mocks = cpus.into_iter().map(|cpu| Mock::new(cpu, size, SampleFormat::RAW, 0));
    let (producers, readers) = mocks.map(|mock| (mock.producer, mock.reader)).unzip();
    (Set::of_mocks(&raw_only(), readers).unwrap(), producers)
}

/// The CPUs that a drain gave records of, in order.
fn order(set: &mut Set, budget: Budget) -> Vec<u32> {
    let mut cpus = Vec::new();
    set.drain(budget, |item| {
        cpus.push(item.cpu);
        ControlFlow::Continue(())
    });
    cpus
}

#[test]
fn a_budget_of_records_and_of_bytes() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    let fill = |producer: &mut Producer| (0..100).for_each(|_| producer.output(b"4444").unwrap());
    fill(&mut producer);
    let (seen, drained) = drain(&mut set, Budget::records(0));
    assert_eq!((seen.len(), drained.more), (0, true));
    let (seen, drained) = drain(&mut set, Budget::records(7));
    assert_eq!((seen.len(), drained.records, drained.bytes, drained.more), (7, 7, 7 * 16, true));
    let (seen, drained) = drain(&mut set, Budget { bytes: 33, ..Budget::ALL });
    assert_eq!((seen.len(), drained.bytes, drained.more), (3, 48, true));
    assert!(set.more());
    let (seen, drained) = drain(&mut set, Budget::records(90));
    assert_eq!((seen.len(), drained.more, set.more()), (90, false, false));
    fill(&mut producer);
    let (seen, _) = drain(&mut set, Budget { time: Some(Duration::ZERO), ..Budget::ALL });
    assert_eq!(seen.len(), 0);
    let (seen, drained) = drain(&mut set, Budget { time: Some(Duration::from_secs(60)), ..Budget::ALL });
    assert_eq!((seen.len(), drained.more), (100, false));
}

#[test]
fn a_budget_of_time_ends_a_slow_handler() {
    let (mut set, mut producer) = set_of(Mock::new(0, 1 << 16, SampleFormat::RAW, 0));
    (0..1000).for_each(|_| producer.output(b"4444").unwrap());
    let drained = set.drain(Budget { time: Some(Duration::from_millis(5)), ..Budget::ALL }, |_| {
        std::thread::sleep(Duration::from_millis(1));
        ControlFlow::Continue(())
    });
    assert!(drained.more && !drained.stopped);
    assert_eq!(drained.records, 16, "a clock is looked at every sixteen records");
}

#[test]
fn every_ring_gets_its_turn() {
    let (mut set, mut producers) = rings([0, 1, 4, 7], 4096);
    let mut firsts = Vec::new();
    for _ in 0..8 {
        for producer in &mut producers {
            let _ = producer.output(b"4444");
        }
        // One ring floods.
        while producers[0].output(b"4444").is_ok() {}
        firsts.push(order(&mut set, Budget::records(1))[0]);
    }
    assert_eq!(firsts, [0, 1, 4, 7, 0, 1, 4, 7]);
    assert_eq!(set.cpus().collect::<Vec<_>>(), [0, 1, 4, 7]);
    order(&mut set, Budget::ALL);
    assert!(!set.more());
}

/// A ring that the budget did not reach is remembered.
#[test]
fn a_ring_that_was_not_reached_is_more() {
    let (mut set, mut producers) = rings([0, 1, 2], 4096);
    producers[0].output(b"4444").unwrap();
    producers[2].output(b"4444").unwrap();
    let (seen, drained) = drain(&mut set, Budget::records(1));
    assert_eq!((seen.len(), drained.more), (1, true));
    let (seen, drained) = drain(&mut set, Budget::records(1));
    assert_eq!((seen.len(), drained.more), (1, false));
}

#[test]
fn one_cpu_only() {
    let (mut set, mut producers) = rings([0, 3], 4096);
    producers.iter_mut().for_each(|producer| producer.output(b"4444").unwrap());
    let mut cpus = Vec::new();
    set.drain_cpu(3, Budget::ALL, |item| {
        cpus.push((item.cpu, item.position));
        ControlFlow::Continue(())
    });
    assert_eq!(cpus, [(3, 0)]);
    assert_eq!(set.drain_cpu(9, Budget::ALL, |_| ControlFlow::Continue(())).records, 0);
    assert_eq!(order(&mut set, Budget::ALL), [0]);
    assert!(set.stats(9).is_none() && set.kernel_lost(0).is_none(), "unknown is not 0");
}

#[test]
fn a_handler_stops_the_drain() {
    let (mut set, mut producers) = rings([0, 1], 4096);
    for producer in &mut producers {
        (0..10).for_each(|_| producer.output(b"4444").unwrap());
    }
    let mut n = 0;
    let drained = set.drain(Budget::ALL, |_| {
        n += 1;
        if n == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((drained.records, drained.stopped, drained.more), (3, true, true));
    // The record it broke at counts as read.
    assert_eq!(producers[0].room(), 4096 - 7 * 16);
    let (seen, drained) = drain(&mut set, Budget::ALL);
    assert_eq!((seen.len(), drained.stopped, drained.more), (17, false, false));
}

#[test]
fn a_handler_that_panics_costs_one_record() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    (0..50_u32).for_each(|i| producer.output(&i.to_ne_bytes()).unwrap());
    let mut n = 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        set.drain(Budget::ALL, |_| {
            n += 1;
            assert!(n != 20, "the handler's own fault");
            ControlFlow::Continue(())
        })
    }));
    assert!(result.is_err());
    assert_eq!(producer.room(), 4096 - 30 * 16, "committed on unwinding");
    assert!(set.more());
    let rest: Vec<_> = (20..50_u32).map(|i| Seen::Sample(i.to_ne_bytes().to_vec())).collect();
    assert_eq!(drain_all(&mut set), rest);
    assert_eq!(set.stats(0).unwrap().samples(), 50);
}

#[test]
fn a_handler_that_panics_at_a_corruption_is_past_it() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    assert!(producer.inject(&[0; 64]));
    let result =
        catch_unwind(AssertUnwindSafe(|| set.drain(Budget::ALL, |item| panic!("{:?}", item.record))));
    assert!(result.is_err());
    assert!(drain_all(&mut set).is_empty());
    assert_eq!(set.stats(0).unwrap().corruptions, 1);
}

/// The kernel gets its bytes back every eighth of the ring, not at the end only.
#[test]
fn bytes_are_given_back_every_eighth() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    while producer.output(b"4444").is_ok() {}
    let mut rooms = Vec::new();
    let mut extra = 0;
    set.drain(Budget::ALL, |_| {
        rooms.push(producer.room());
        ControlFlow::Continue(())
    });
    rooms.dedup();
    assert_eq!(rooms, (0..8).map(|i| 16 + i * 512).collect::<Vec<_>>());
    assert_eq!(set.stats(0).unwrap().commits, 8);
    assert_eq!(set.stats(0).unwrap().high_water, 4080);
    // So a drain of a full ring can be written into meanwhile; what is new is the next drain's.
    while producer.output(b"4444").is_ok() {}
    let drained = set.drain(Budget::ALL, |_| {
        extra += u64::from(producer.output(b"4444").is_ok());
        ControlFlow::Continue(())
    });
    assert!(extra > 100 && drained.records <= 255, "{extra} {drained:?}");
    let samples = drain_all(&mut set).into_iter().filter(|seen| matches!(seen, Seen::Sample(_)));
    assert_eq!(samples.count() as u64, extra);
}

#[test]
fn closing_twice_is_fine_and_counts_stay() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    producer.output(b"4444").unwrap();
    drain_all(&mut set);
    producer.output(b"left").unwrap();
    set.close().unwrap();
    set.close().unwrap();
    assert!(drain_all(&mut set).is_empty() && !set.more());
    assert_eq!(set.stats(0).unwrap().samples(), 1);
    assert_eq!(set.fds().count(), 0);
}

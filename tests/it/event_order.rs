//! Order: a merge equals a sort, keeps its bound, and tells what comes too late; in front of a sink it loses nothing.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tracer::{
    event::order::Merge,
    sink::{Item, Memory, Options, Order, Ordered, Outlet, Sink, StreamSink, json::Json},
};

use crate::sink_fixture::{event, gap, raw, with_header};
use crate::support::Random;

/// Rings of 64 CPUs, read in turn while they are written; times within a ring are inverted now and then.
#[test]
fn a_million_events_of_64_rings_equal_the_sort() {
    const CPUS: usize = 64;
    let mut dice = Random(1);
    let mut merge = Merge::new(usize::MAX);
    let mut rings: Vec<Vec<u64>> = vec![Vec::new(); CPUS];
    let (mut now, mut written, mut given, mut most) = (0u64, Vec::new(), Vec::new(), 0);
    while written.len() < 1_000_000 {
        // What is in the rings when a pass begins is all that is older than now.
        let began = now;
        for cpu in 0..CPUS {
            for _ in 0..dice.below(8) {
                now += dice.below(100) as u64;
                let at = dice.below(CPUS);
                rings[at].push(now);
                written.push(now);
                // An NMI took its time later and its room earlier.
                if let [.., a, b] = rings[at].as_mut_slice()
                    && dice.below(50) == 0
                {
                    std::mem::swap(a, b);
                }
            }
            for time in rings[cpu].drain(..) {
                merge.put(time, 1, time);
            }
        }
        merge.advance(began);
        most = most.max(merge.held());
        while let Some(one) = merge.take() {
            assert!(!one.late, "{one:?}");
            given.push(one.entry);
        }
    }
    for ring in &mut rings {
        ring.drain(..).for_each(|time| merge.put(time, 1, time));
    }
    merge.advance(u64::MAX);
    given.extend(std::iter::from_fn(|| merge.take()).map(|one| one.entry));
    written.sort_unstable();
    assert_eq!(given, written);
    // Two passes' worth, not the million.
    assert!(most < 3000, "{most} were held");
}

#[test]
fn any_sequence_comes_out_whole_within_its_bound_and_in_order_but_for_what_is_told() {
    for seed in 0..300 {
        let mut dice = Random(seed);
        let bound = 1 + dice.below(400);
        let (mut merge, mut put, mut given, mut known) = (Merge::new(bound), Vec::new(), Vec::new(), 0);
        let mut last = 0;
        for i in 0..500 {
            let time = dice.below(1000) as u64;
            merge.put(time, 1 + dice.below(9), (time, i));
            put.push((time, i));
            if dice.below(4) == 0 {
                known += dice.below(20) as u64;
                merge.advance(known);
            }
            while let Some(one) = merge.take() {
                let (time, _) = one.entry;
                assert_eq!(one.late, time < last, "{one:?} after {last}");
                last = last.max(time);
                given.push(one.entry);
            }
            assert!(merge.bytes() <= bound);
        }
        merge.advance(u64::MAX);
        given.extend(std::iter::from_fn(|| merge.take()).map(|one| one.entry));
        given.sort_unstable();
        put.sort_unstable();
        assert_eq!(given, put, "seed {seed}");
    }
}

static NOW: AtomicU64 = AtomicU64::new(0);

fn ordered(order: Order) -> Ordered<Memory> {
    NOW.store(0, Relaxed);
    let mut sink =
        Ordered::new(Memory::new(), order, Duration::ZERO, 1 << 20).with_clock(|| NOW.load(Relaxed));
    with_header(|header| sink.header(header)).unwrap();
    sink
}

/// Hands over one event of the header's probe.
fn hand(sink: &mut dyn Sink, cpu: u32, seq: u32) -> tracer::Result<()> {
    let mut raw = raw(seq, 0, b"dd");
    raw[8] = 1;
    sink.event(&event(cpu, u64::from(seq) * 1000, &raw))
}

/// CPU and number of each event; 999 of a gap.
fn told(sink: &Ordered<Memory>) -> Vec<(u32, u32)> {
    let one = |item: &Item| match item {
        Item::Event { cpu, wire, .. } => Some((*cpu, wire.seq)),
        Item::Gap(gap) => Some((gap.cpu, 999)),
        _ => None,
    };
    sink.sink().items.iter().filter_map(one).collect()
}

#[test]
fn a_sink_gets_events_by_time_and_gaps_behind_what_they_follow() {
    // One test, as they share a clock. Numbers are microseconds.
    let mut sink = ordered(Order::Time);
    for (cpu, seq) in [(0, 5), (0, 9), (1, 3)] {
        hand(&mut sink, cpu, seq).unwrap();
    }
    sink.gap(&tracer::event::Gap { cpu: 1, after: Some(3000), before: Some(7000), ..gap() }).unwrap();
    hand(&mut sink, 1, 7).unwrap();
    NOW.store(8_000, Relaxed);
    sink.caught_up().unwrap();
    assert_eq!(told(&sink), [], "they may have been written after the last pass began");
    sink.caught_up().unwrap();
    assert_eq!(told(&sink), [(1, 3), (1, 999), (0, 5), (1, 7)]);
    hand(&mut sink, 1, 6).unwrap();
    assert_eq!(told(&sink).last(), Some(&(1, 6)));
    assert_eq!((sink.late(), sink.counts().late, sink.counts().delivered), (1, 1, 4));
    sink.settle(Duration::ZERO).unwrap();
    assert_eq!(told(&sink).last(), Some(&(0, 9)));

    let mut sink = ordered(Order::Cpu);
    for (cpu, seq) in [(0, 9), (0, 5), (1, 3), (1, 1)] {
        hand(&mut sink, cpu, seq).unwrap();
    }
    sink.settle(Duration::ZERO).unwrap();
    let mut by_cpu = told(&sink);
    by_cpu.sort_by_key(|(cpu, _)| *cpu);
    assert_eq!(by_cpu, [(0, 5), (0, 9), (1, 1), (1, 3)]);

    let mut sink = ordered(Order::None);
    for (cpu, seq) in [(0, 9), (1, 3)] {
        hand(&mut sink, cpu, seq).unwrap();
    }
    assert_eq!(told(&sink), [(0, 9), (1, 3)]);

    let mut sink = ordered(Order::Strict);
    hand(&mut sink, 0, 5).unwrap();
    NOW.store(10_000, Relaxed);
    (0..2).for_each(|_| sink.caught_up().unwrap());
    let error = hand(&mut sink, 1, 4).unwrap_err();
    assert!(error.to_string().contains("0.000004000"), "{error}");
    assert_eq!(told(&sink), [(0, 5), (1, 4)], "it is handed on all the same, and counted");
}

/// Many come at once out of an order: what the sink has no room for yet is held, not dropped.
#[test]
fn a_sink_without_room_is_waited_for() {
    const EVENTS: u32 = 2000;
    let (mut reading, writing) = std::io::pipe().unwrap();
    let options = Options { buffers: 2, batch: 4096, ..Options::default() };
    let outlet = Outlet::new("pipe", writing.as_fd(), options).unwrap();
    drop(writing);
    let stream = StreamSink::new(Json::default(), outlet);
    let mut sink = Ordered::new(stream, Order::Time, Duration::ZERO, 64 << 20).with_clock(|| 1 << 40);
    with_header(|header| sink.header(header)).unwrap();
    (1..=EVENTS).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    // All are known, and there is room in the pipe and in two batches for some hundreds.
    (0..3).for_each(|_| sink.caught_up().unwrap());
    assert_eq!(sink.counts().dropped_queue, 0);
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut reading).unwrap());
    sink.settle(Duration::from_secs(60)).unwrap();
    let counts = sink.counts();
    drop(sink);
    assert_eq!((counts.delivered, counts.dropped_queue, counts.dropped_sink), (EVENTS.into(), 0, 0));
    let text = reader.join().unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("\"event\"")).count(), EVENTS as usize);
}

//! Batches by a bounded channel: whatever the rule, each event is delivered or told as a hole at its place.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use tracer::{
    ErrorKind,
    event::{Cause, Gap},
    sink::{
        Batch, Counts, Note, OnFull, Sink,
        batch::Item,
        channel::{Batches, Options, Receiver},
    },
};

use crate::{
    sink_fixture::{event, raw, with_header},
    support::Random,
};

const SAMPLE: OnFull = OnFull::Sample(NonZeroU32::new(10).unwrap());

fn channel(on_full: OnFull) -> (Batches, Receiver) {
    with_options(Options { on_full, ..small() })
}

/// Four batches of some ten events.
fn small() -> Options {
    Options { batches: 4, batch: 2048, stop_bound: Duration::from_millis(200), ..Options::default() }
}

fn with_options(options: Options) -> (Batches, Receiver) {
    let (mut sink, receiver) = Batches::new(options);
    with_header(|header| sink.header(header)).unwrap();
    (sink, receiver)
}

fn hand(sink: &mut Batches, cpu: u32, seq: u32) -> tracer::Result<()> {
    let mut raw = raw(seq, 0, b"dd");
    raw[8..10].copy_from_slice(&1u16.to_ne_bytes());
    sink.event(&event(cpu, u64::from(seq) * 1000, &raw))
}

/// What a receiver has seen of each CPU: that no number is missing and none comes twice.
#[derive(Default)]
struct Seen {
    /// The last number, and how many are missing behind it.
    last: HashMap<u32, (u32, u64)>,
    events: u64,
    dropped: u64,
}

impl Seen {
    fn take(&mut self, batch: &Batch) {
        for item in batch {
            match item {
                Item::Event(event) => {
                    let (last, missing) = self.last.entry(event.cpu).or_default();
                    let expected = u64::from(*last) + *missing + 1;
                    assert_eq!(u64::from(event.wire.seq), expected, "on CPU {}", event.cpu);
                    (*last, *missing) = (event.wire.seq, 0);
                    self.events += 1;
                }
                Item::Gap(gap) => {
                    let (last, missing) = self.last.entry(gap.cpu).or_default();
                    let count = gap.count.unwrap();
                    if let Some((first, end)) = gap.seq {
                        assert_eq!(u64::from(first), u64::from(*last) + *missing + 1);
                        assert_eq!(u64::from(end - first) + 1, count);
                    }
                    *missing += count;
                    self.dropped += if gap.cause == Cause::Dropped { count } else { 0 };
                }
                _ => {}
            }
        }
    }

    fn take_all(&mut self, receiver: &Receiver) {
        while let Ok(batch) = receiver.try_recv() {
            self.take(&batch);
        }
    }
}

/// Two CPUs at random, a receiver that takes at random; losses of the kernel among them.
fn at_random(on_full: OnFull, seed: u64) -> (Counts, Seen) {
    let (mut sink, receiver) = channel(on_full);
    let (mut random, mut seen, mut next) = (Random(seed), Seen::default(), [1u32; 3]);
    let mut handed = 0;
    for _ in 0..5_000 {
        let cpu = random.below(3);
        let seq = &mut next[cpu];
        match random.below(100) {
            0 => {
                let count = 1 + random.below(5) as u32;
                let seq = Some((*seq, *seq + count - 1));
                let (count, cause) = (Some(u64::from(count)), Cause::Lost);
                let level = Some(0);
                let gap = Gap { cpu: cpu as u32, count, cause, seq, level, after: None, before: None };
                next[cpu] += count.unwrap_or(0) as u32;
                sink.gap(&gap).unwrap();
            }
            1 => sink.flush().unwrap(),
            2 => seen.take_all(&receiver),
            3..6 => _ = receiver.try_recv().map(|batch| seen.take(&batch)),
            _ => {
                hand(&mut sink, cpu as u32, *seq).unwrap();
                *seq += 1;
                handed += 1;
            }
        }
    }
    // What is in hand at the end needs room.
    seen.take_all(&receiver);
    sink.settle(Duration::from_secs(5)).unwrap();
    seen.take_all(&receiver);
    let counts = sink.counts();
    assert_eq!(counts.delivered + counts.dropped_queue, handed);
    assert_eq!(counts.dropped_sink, 0);
    assert_eq!(seen.events, counts.delivered);
    assert_eq!(seen.dropped, counts.dropped_queue, "every drop is told");
    for (cpu, next) in (0..).zip(next) {
        let (last, missing) = seen.last[&cpu];
        assert_eq!(u64::from(last) + missing + 1, u64::from(next), "CPU {cpu} to its end");
    }
    (counts, seen)
}

#[test]
fn whatever_the_rule_no_event_is_neither_delivered_nor_told() {
    for on_full in [OnFull::DropNew, OnFull::DropOld, SAMPLE] {
        for seed in 0..20 {
            let (counts, _) = at_random(on_full, seed);
            assert!(counts.dropped_queue > 100 && counts.delivered > 500, "{on_full}: {counts:?}");
        }
    }
}

#[test]
fn drop_new_keeps_the_oldest_and_drop_old_the_newest() {
    let numbers = |on_full| {
        let (mut sink, receiver) = channel(on_full);
        (1..=1000).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
        let taken = thread::spawn(move || {
            receiver.iter().flat_map(|b| b.events().map(|e| e.wire.seq).collect::<Vec<_>>()).collect()
        });
        sink.settle(Duration::from_secs(5)).unwrap();
        drop(sink);
        let numbers: Vec<u32> = taken.join().unwrap();
        (*numbers.first().unwrap(), *numbers.last().unwrap(), numbers.len())
    };
    let (first, last, count) = numbers(OnFull::DropNew);
    assert_eq!((first, last as usize), (1, count), "the first so many");
    let (first, last, count) = numbers(OnFull::DropOld);
    assert_eq!((first as usize, last), (1001 - count, 1000), "the last so many");
    let (first, last, count) = numbers(SAMPLE);
    assert!(first == 1 && (count as u32) < last, "some of those that came while it was full: {last} {count}");
}

#[test]
fn a_sample_is_one_in_so_many_while_it_is_full() {
    let (mut sink, receiver) = channel(SAMPLE);
    let mut seq = 0;
    while receiver.len() < 4 {
        seq += 1;
        hand(&mut sink, 0, seq).unwrap();
    }
    assert_eq!(sink.counts().dropped_queue, 0);
    // The one that filled it is in hand; there is room there for a few more.
    for _ in 0..50 {
        seq += 1;
        hand(&mut sink, 0, seq).unwrap();
    }
    assert_eq!(sink.counts().dropped_queue, 45);
    let mut seen = Seen::default();
    seen.take_all(&receiver);
    sink.settle(Duration::from_secs(5)).unwrap();
    seen.take_all(&receiver);
    assert_eq!((seen.dropped, seen.events), (45, u64::from(seq) - 45));
}

#[test]
fn block_waits_for_a_slow_receiver_and_drops_nothing() {
    let (mut sink, receiver) = channel(OnFull::Block);
    let slow = thread::spawn(move || {
        let mut seen = Seen::default();
        for batch in &receiver {
            thread::sleep(Duration::from_micros(300));
            seen.take(&batch);
        }
        seen
    });
    (1..=3000).for_each(|seq| hand(&mut sink, seq % 2, seq.div_ceil(2)).unwrap());
    sink.settle(Duration::from_secs(5)).unwrap();
    assert_eq!(sink.counts(), Counts { delivered: 3000, ..Counts::default() });
    drop(sink);
    assert_eq!(slow.join().unwrap().events, 3000);
}

#[test]
fn a_stop_ends_the_wait_for_a_receiver_that_takes_nothing() {
    let stopping = Arc::new(AtomicBool::new(false));
    let (asked, at) = (stopping.clone(), Duration::from_millis(50));
    let stopping: tracer::sink::Stopping = Arc::new(move || stopping.load(SeqCst));
    let options = Options { on_full: OnFull::Block, stopping: Some(stopping), ..small() };
    let (mut sink, receiver) = with_options(options);
    let stopper = thread::spawn(move || {
        thread::sleep(at);
        asked.store(true, SeqCst);
    });
    let start = Instant::now();
    (1..=500).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    sink.ending(Duration::from_millis(200));
    sink.settle(Duration::from_millis(200)).unwrap();
    let took = start.elapsed();
    stopper.join().unwrap();
    assert!(took >= Duration::from_millis(240), "it was waited as long as the bound: {took:?}");
    assert!(took < Duration::from_millis(900), "one bound for all: {took:?}");
    let counts = sink.counts();
    assert_eq!((counts.delivered + counts.dropped_sink, counts.dropped_queue), (500, 0));
    assert!(counts.dropped_sink > 400);
    // What is in the channel is the receiver's still.
    drop(sink);
    assert_eq!(receiver.iter().map(|batch| batch.len() as u64).sum::<u64>(), counts.delivered);
}

#[test]
fn without_a_receiver_the_run_ends_and_what_was_not_taken_is_dropped() {
    let gone = Arc::new(AtomicUsize::new(0));
    let count = gone.clone();
    let on_gone = Some(Box::new(move || _ = count.fetch_add(1, SeqCst)) as Box<dyn Fn() + Send + Sync>);
    let (mut sink, receiver) = with_options(Options { on_gone, ..small() });
    let other = receiver.clone();
    drop(receiver);
    assert_eq!(gone.load(SeqCst), 0, "one is left");
    (1..=30).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    let taken = other.recv().unwrap().len() as u64;
    drop(other);
    assert_eq!(gone.load(SeqCst), 1);
    assert_eq!(hand(&mut sink, 0, 31).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(sink.flush().unwrap_err().kind(), ErrorKind::Closed);
    sink.ending(Duration::from_secs(1));
    hand(&mut sink, 0, 32).unwrap();
    assert_eq!(sink.settle(Duration::from_secs(1)).unwrap_err().kind(), ErrorKind::Closed);
    let counts = Counts { delivered: taken, dropped_sink: 32 - taken, ..Counts::default() };
    assert_eq!(sink.counts(), counts);
}

#[test]
fn several_receivers_share_the_batches() {
    let (mut sink, receiver) = channel(OnFull::Block);
    let takers: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            thread::spawn(move || {
                receiver.iter().flat_map(|b| b.events().map(|e| e.wire.seq).collect::<Vec<_>>()).collect()
            })
        })
        .collect();
    drop(receiver);
    (1..=2000).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    sink.settle(Duration::from_secs(5)).unwrap();
    drop(sink);
    let taken: Vec<Vec<u32>> = takers.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(taken.iter().all(|numbers| numbers.is_sorted()));
    let mut all = taken.concat();
    all.sort_unstable();
    assert_eq!(all, (1..=2000).collect::<Vec<_>>());
}

/// A batch that is not full is handed on by a flush, while few wait; and the gap of a CPU that is silent after two.
#[test]
fn a_flush_hands_on_what_is_there() {
    let (mut sink, receiver) = channel(OnFull::DropNew);
    for seq in 1..=8 {
        hand(&mut sink, 0, seq).unwrap();
        sink.flush().unwrap();
    }
    assert_eq!(receiver.len(), 4, "from then on they gather in one");
    sink.note(&Note::Error("oh")).unwrap();
    let mut seen = Seen::default();
    seen.take_all(&receiver);
    sink.flush().unwrap();
    let batch = receiver.try_recv().unwrap();
    assert!(batch.iter().any(|item| matches!(item, Item::Error("oh"))));
    seen.take(&batch);
    assert_eq!(seen.events, 8);
    // CPU 1 falls silent after its drops.
    (9..=100).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    (1..=5).for_each(|seq| hand(&mut sink, 1, seq).unwrap());
    let dropped = sink.counts().dropped_queue;
    assert!(dropped > 5);
    for _ in 0..4 {
        seen.take_all(&receiver);
        sink.flush().unwrap();
    }
    seen.take_all(&receiver);
    assert_eq!((seen.dropped, seen.last[&1]), (dropped, (0, 5)));
}

#[test]
fn the_steady_state_allocates_nothing() {
    for on_full in [OnFull::Block, OnFull::DropNew, SAMPLE] {
        let (mut sink, receiver) = channel(on_full);
        let raw = {
            let mut raw = raw(1, 0, b"dd");
            raw[8] = 1;
            raw
        };
        let mut events = 0;
        let mut some = |times: u32| {
            for _ in 0..times {
                sink.event(&event(0, 1, &raw)).unwrap();
                if receiver.len() == 3 {
                    while let Ok(batch) = receiver.try_recv() {
                        events += batch.events().filter(|event| event.fields().count() == 5).count();
                    }
                }
            }
        };
        some(500);
        let counts = allocation_counter::measure(|| some(5_000));
        assert_eq!(counts.count_total, 0, "{on_full}");
        assert!(events > 5_000);
    }
}

//! A machine of 256 CPUs, simulated: what a sweep costs, who waits how long, and what it takes of memory.
//!
//! `cargo xtask bench cpus` prints the figures of a release build; what is asserted are ratios of one run.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use tracer::{
    record::SampleFormat,
    ring::{
        Budget, Set,
        mock::{Mock, Producer},
    },
};

use crate::support::raw_only;

const CPUS: u32 = if cfg!(miri) { 16 } else { 256 };
/// Bytes of a ring, and of a record: header, raw size, 60 bytes.
const RING: usize = 1 << 12;
const RECORD: usize = 72;
const RAW: [u8; 60] = [7; 60];

fn rings(count: u32, size: usize) -> (Set, Vec<Producer>) {
    let mocks = (0..count).map(|cpu| Mock::new(cpu, size, SampleFormat::RAW, 0));
    let (producers, readers) = mocks.map(|mock| (mock.producer, mock.reader)).unzip();
    (Set::of_mocks(&raw_only(), readers).unwrap(), producers)
}

fn sweep(set: &mut Set, budget: Budget) -> u64 {
    set.drain(budget, |item| {
        std::hint::black_box(&item);
        ControlFlow::Continue(())
    })
    .records
}

/// The shortest of many.
fn best(rounds: u32, mut once: impl FnMut() -> Duration) -> f64 {
    (0..rounds).map(|_| once()).min().unwrap_or_default().as_nanos() as f64
}

fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let started = Instant::now();
    let done = work();
    (started.elapsed(), done)
}

/// Nanoseconds of a sweep over sets of which so many rings, evenly, hold so many records each.
fn cost(set: &mut Set, producers: &mut [Producer], active: usize, records: u64) -> f64 {
    let every = producers.len() / active.max(1);
    best(200, || {
        for producer in producers.iter_mut().step_by(every).take(active) {
            (0..records).for_each(|_| producer.output(&RAW).unwrap());
        }
        let (took, read) = timed(|| sweep(set, Budget::ALL));
        assert_eq!(read, active as u64 * records);
        took
    })
}

#[test]
#[cfg_attr(miri, ignore = "a measurement")]
fn a_sweep_costs_by_the_ring_and_by_the_record() {
    const RECORDS: u64 = 40;
    let (mut few, mut their) = rings(16, RING);
    let (mut set, mut producers) = rings(CPUS, RING);
    let few_empty = cost(&mut few, &mut their, 0, 0) / 16.0;
    let empty = cost(&mut set, &mut producers, 0, 0);
    let each = empty / f64::from(CPUS);
    println!("a sweep over {CPUS} empty rings: {empty:.0} ns, {each:.1} ns a ring (of 16: {few_empty:.1})");
    let of = |active: usize, cost: f64| (cost - empty).max(0.0) / (active as u64 * RECORDS) as f64;
    let costs = [1, 8, 64, 256].map(|active| of(active, cost(&mut set, &mut producers, active, RECORDS)));
    println!("a record, of 1, 8, 64 and 256 rings that have {RECORDS}: {costs:.1?} ns");
    // A ring of many costs what one of few does, but for caches.
    assert!(each < 8.0 * few_empty, "{each} ns a ring of {CPUS}, {few_empty} of 16");
    // A record costs the same wherever it lies, and an empty ring a few of them.
    let (least, most) =
        (costs.iter().copied().fold(f64::MAX, f64::min), costs.iter().copied().fold(0.0, f64::max));
    assert!(most < 8.0 * least, "{costs:?}");
    assert!(each < 8.0 * most, "{each} ns for an empty ring, {most} for a record");
}

#[test]
#[cfg_attr(miri, ignore = "a measurement")]
fn each_of_several_threads_sweeps_its_share() {
    let mut whole = 0.0;
    for threads in [1, 2, 4] {
        let (set, _producers) = rings(CPUS, RING);
        let mut shards = set.into_shards(threads).unwrap();
        assert!(shards.iter().all(|shard| shard.cpus().count() == CPUS as usize / threads));
        // One after the other, as this machine may have fewer CPUs than threads.
        let took = shards.iter_mut().map(|shard| best(200, || timed(|| sweep(shard, Budget::ALL)).0));
        let slowest = took.fold(0.0, f64::max);
        whole = if threads == 1 { slowest } else { whole };
        println!(
            "{threads} threads: a sweep takes the slowest {slowest:.0} ns, {:.2} of one's",
            slowest / whole
        );
        assert!(slowest < 2.0 * whole / threads as f64, "{slowest} ns of {whole} in {threads} threads");
    }
}

/// One thread's share of the rings, and what writes them.
struct Share {
    set: Set,
    /// By the place in the set: their CPUs are that times the number of threads.
    producers: Vec<Producer>,
    threads: usize,
}

fn share(threads: usize) -> Share {
    let (set, producers) = rings(CPUS, RING);
    let set = set.into_shards(threads).unwrap().swap_remove(0);
    Share { set, producers: producers.into_iter().step_by(threads).collect(), threads }
}

impl Share {
    /// How many drains a ring waits for its turn at worst, and how many records of others are read meanwhile, where
    /// so many rings are never empty and the others have a record whenever they were read.
    fn waits(&mut self, endless: usize, budget: Budget) -> (u64, u64) {
        let Share { set, producers, threads } = self;
        let every = producers.len() / endless;
        let (mut worst, mut read) = ((0, 0), 0);
        let mut last = vec![(0, 0); producers.len()];
        for drain in 1..=4 * producers.len() as u64 {
            for (at, producer) in producers.iter_mut().enumerate() {
                if at.is_multiple_of(every) {
                    while producer.output(&RAW).is_ok() {}
                } else if producer.room() == RING {
                    producer.output(&RAW).unwrap();
                }
            }
            set.drain(budget, |item| {
                let at = item.cpu as usize / *threads;
                read += 1;
                if at.is_multiple_of(every) {
                    // What is read is written again at once.
                    let _ = producers[at].output(&RAW);
                } else {
                    let (drained, reading) = std::mem::replace(&mut last[at], (drain, read));
                    worst = (worst.0.max(drain - drained), worst.1.max(read - reading));
                }
                ControlFlow::Continue(())
            });
        }
        worst
    }
}

#[test]
fn endless_rings_hold_nobody_up() {
    let full = (RING / RECORD) as u64;
    for threads in [1, 2, 4] {
        let count = u64::from(CPUS) / threads as u64;
        // All that a drain reads of the endless one is what was there when it looked.
        let (drains, records) = share(threads).waits(1, Budget::ALL);
        println!(
            "{threads} threads, an endless ring among {count}: {drains} drain, {records} records until a turn"
        );
        assert_eq!(drains, 1);
        // Twice, as the next drain may begin just behind; LOST records are some more.
        assert!(records <= 2 * (count + full) * 5 / 4, "{records} records");
        // A drain gets through a quarter of four endless ones.
        let budget = Budget::records(full + count / 4);
        let (drains, records) = share(threads).waits(4, budget);
        println!("{threads} threads, four among {count}, a drain of one: {drains} drains, {records} records");
        assert!(drains <= 6, "{drains} drains");
        assert!(records <= 6 * budget.records, "{records} records");
    }
}

#[test]
fn memory_is_that_of_the_rings() {
    for threads in [1, 2, 4] {
        let mut kept = None;
        let counted = allocation_counter::measure(|| {
            let (set, producers) = rings(CPUS, RING);
            kept = Some((set.into_shards(threads).unwrap(), producers));
        });
        let beside = counted.bytes_current - i64::from(CPUS) * RING as i64;
        let each = beside / i64::from(CPUS);
        println!("{threads} threads: {each} bytes a ring beside its data, both sides of it");
        assert!((1..1500).contains(&each), "{each} bytes");
        // Sets are few, and each knows its CPUs.
        drop(kept);
    }
}

//! A machine of 256 CPUs, simulated as far as an output: what each of several threads has to do, and what it takes.
//!
//! `cargo xtask bench cpus` prints the figures of a release build; what is asserted are ratios of one run.

use std::{fs::File, os::fd::AsFd, sync::Arc, thread, time::Duration};

use nix::time::{ClockId, clock_gettime};
use tracer::{
    ring::Budget,
    session::mock::Mock,
    sink::{Arms, Options, Outlet, Sink, StreamSink, json::Json, text},
};

use crate::{
    session_shards::{emit, rings},
    sink_fixture::{WRITE, with_header},
};

const CPUS: u32 = 256;
/// Events of each CPU.
const EACH: u32 = 50;
const ROUNDS: u32 = 8;

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap()
}

/// Of an event, the nanoseconds of CPU time that the busiest of the threads needs for its share.
fn busiest<S: Sink + Send>(threads: usize, sink: &mut S) -> f64 {
    let cpus: Vec<u32> = (0..CPUS).collect();
    let (mut mock, mut producers) = rings(&cpus, threads, None);
    with_header(|header| sink.header(header)).unwrap();
    let of = cpus.iter().map(|cpu| mock.shard_of(*cpu)).collect();
    let mut arms = Arms::new(sink, of, std::iter::once(WRITE.clone()), &Arc::default());
    let mut best = Duration::MAX;
    for round in 0..ROUNDS {
        for producer in &mut producers {
            assert!((1..=EACH).all(|n| emit(producer, EACH * round + n)));
        }
        let ways = arms.ways().1;
        let read = thread::scope(|scope| {
            let readings = mock.shards().into_iter().zip(ways);
            let all: Vec<_> = readings
                .map(|(mut shard, mut way)| {
                    scope.spawn(move || {
                        let started = cpu_time();
                        while shard.drain(Budget::ALL, &mut way).unwrap().more {}
                        way.flush().unwrap();
                        cpu_time() - started
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
        });
        best = best.min(read);
    }
    let events: u64 = cpus.iter().map(|cpu| mock.counts(*cpu).events).sum();
    assert_eq!(events, u64::from(ROUNDS * EACH * CPUS));
    best.as_nanos() as f64 / f64::from(EACH * CPUS)
}

/// By the number of threads.
type Busiest<'a> = &'a dyn Fn(usize) -> f64;

fn outlet() -> Outlet {
    let null = File::options().write(true).open("/dev/null").unwrap();
    Outlet::new("null", null.as_fd(), Options::default()).unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "a measurement")]
fn threads_share_the_decoding_and_the_formatting() {
    let text = || text::Text::new(text::Options::default());
    let ways: [(&str, Busiest<'_>, f64); 3] = [
        ("text, apart", &|threads| busiest(threads, &mut StreamSink::new(text(), outlet())), 1.6),
        ("JSON, apart", &|threads| busiest(threads, &mut StreamSink::new(Json::default(), outlet())), 1.6),
        // Who has the turn formats its own batch, and so CPU time is shared here too; the wait for it is not seen.
        (
            "text by differences, by turns",
            &|threads| busiest(threads, &mut StreamSink::new(delta(), outlet())),
            2.4,
        ),
    ];
    for (name, busiest, bound) in ways {
        let one = busiest(1);
        for threads in [2, 4] {
            let busy = busiest(threads);
            println!("{name}: {one:.0} ns an event by one thread, {busy:.0} by the busiest of {threads}");
            assert!(busy < bound * one / threads as f64, "{name}: {busy} of {one} in {threads} threads");
        }
    }
}

fn delta() -> text::Text {
    text::Text::new(text::Options { time: tracer::sink::TimeFormat::Delta, ..text::Options::default() })
}

#[test]
fn what_a_session_knows_of_a_ring_is_little() {
    let cpus: Vec<u32> = (0..CPUS).collect();
    for threads in [1, 2, 4] {
        let (mut mock, mut producers): (Option<Mock>, _) = (None, Vec::new());
        let all = allocation_counter::measure(|| {
            let built = rings(&cpus, threads, None);
            (mock, producers) = (Some(built.0), built.1);
        });
        let mut mock = mock.unwrap();
        let mut shards = 0;
        let stretch = allocation_counter::measure(|| shards = mock.shards().len());
        let each = all.bytes_current / i64::from(CPUS) - (1 << 14);
        println!(
            "{threads} threads: {each} bytes a ring beside its data; a stretch allocates {} bytes in {} pieces",
            stretch.bytes_total, stretch.count_total
        );
        assert_eq!((shards, producers.len()), (threads, CPUS as usize));
        assert!((1..2500).contains(&each), "{each} bytes");
        assert!(stretch.bytes_current == 0 && stretch.bytes_total < 40_000 * threads as u64, "{stretch:?}");
    }
}

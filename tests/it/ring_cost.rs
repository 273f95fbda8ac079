//! What a record costs to drain: a measurement, for `cargo test --release -- --ignored --nocapture`.

use std::{
    hint::black_box,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use tracer::{
    record::{SampleFormat, sample_type::*},
    ring::{Budget, Entry, Forward, Item, ItemKind, Options, Set, mock::Mock},
};

/// Nanoseconds a record, the best of several rounds of a full 1 MiB ring.
fn cost(sample_type: u64, raw: usize, drain: impl Fn(&mut Set) -> u64) -> f64 {
    cost_of(sample_type, raw, |reader| reader, drain)
}

fn cost_of(
    sample_type: u64,
    raw: usize,
    read: impl Fn(Forward) -> Forward,
    drain: impl Fn(&mut Set) -> u64,
) -> f64 {
    let options = Options { sample_type, ..Options::default() };
    let format = SampleFormat { sample_type, sample_id_all: true };
    let mock = Mock::new(0, 1 << 20, format, 0);
    let mut set = Set::of_mocks(&options, vec![read(mock.reader)]).unwrap();
    let mut producer = mock.producer;
    let raw = vec![1; raw];
    let mut best = f64::INFINITY;
    for _ in 0..60 {
        let mut records = 0;
        while producer.room() > (1 << 20) / 64 {
            producer.output(&raw).unwrap();
            records += 1;
        }
        let start = Instant::now();
        assert_eq!(drain(&mut set), records);
        best = best.min(start.elapsed().as_nanos() as f64 / records as f64);
    }
    best
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_record() {
    // A macro, so that each drain has a handler of its own, as a program has.
    macro_rules! first_word {
        ($sum:ident) => {
            |item: Item<'_>| {
                if let ItemKind::Sample(sample) = item.kind {
                    $sum = $sum.wrapping_add(sample.raw().and_then(|raw| raw.u64_at(0)).unwrap_or(0));
                }
                ControlFlow::Continue(())
            }
        };
    }
    for raw in [16, 64, 256, 1024] {
        macro_rules! items {
            ($sample_type:expr) => {
                cost($sample_type, raw, |set| {
                    let mut sum = 0_u64;
                    let n = set.drain(Budget::ALL, first_word!(sum)).records;
                    black_box(sum);
                    n
                })
            };
        }
        let dynamic = cost(RAW | TIME, raw, |set| {
            let mut sum = 0_u64;
            let mut f = first_word!(sum);
            let f: &mut dyn FnMut(Item<'_>) -> ControlFlow<()> = black_box(&mut f);
            set.drain(Budget::ALL, f).records
        });
        let records = cost(RAW, raw, |set| {
            let mut sum = 0_u64;
            let n = set.drain_records(Budget::ALL, |_, entry| {
                if let Entry::Record(record) = entry {
                    sum += u64::from(record.header.size);
                }
                ControlFlow::Continue(())
            });
            black_box(sum);
            n.records
        });
        let by_hand = cost(RAW | TIME, raw, |set| {
            let (mut sum, format) = (0_u64, set.format());
            let n = set.drain_records(Budget::ALL, |_, entry| {
                if let Entry::Record(record) = entry
                    && let Some(sample) = format.sample(&record)
                {
                    sum = sum.wrapping_add(sample.raw().and_then(|raw| raw.u64_at(0)).unwrap_or(0));
                }
                ControlFlow::Continue(())
            });
            black_box(sum);
            n.records
        });
        let timed = cost(RAW | TIME, raw, |set| {
            let mut sum = 0_u64;
            let budget = Budget { time: Some(Duration::from_secs(9)), ..Budget::ALL };
            let n = set.drain(budget, first_word!(sum)).records;
            black_box(sum);
            n
        });
        let by_copy = cost_of(RAW | TIME | TID, raw, Forward::by_copy, |set| {
            let mut sum = 0_u64;
            let n = set.drain(Budget::ALL, first_word!(sum)).records;
            black_box(sum);
            n
        });
        println!(
            "{raw:5} bytes: RAW {:.2} ns, RAW|TIME {:.2}, RAW|TIME|CPU|TID {:.2}, RAW|TIME by dyn {dynamic:.2}, \
             with a time budget {timed:.2}, samples of \
             records {by_hand:.2}, records alone {records:.2}; RAW|TIME|TID by copy {by_copy:.2}",
            items!(RAW),
            items!(RAW | TIME),
            items!(RAW | TIME | CPU | TID),
        );
    }
}

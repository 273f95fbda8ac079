//! A producer on a thread of its own: nothing doubled, nothing missing, every loss in its place.

use std::{ops::ControlFlow, thread};

use tracer::{
    record::SampleFormat,
    ring::{Budget, ItemKind, Set, mock::Mock},
};

use crate::support::{Random, raw_only};

/// Under Miri and valgrind there is less time.
fn attempts() -> u64 {
    std::env::var("TRACER_TEST_ATTEMPTS").ok().and_then(|n| n.parse().ok()).unwrap_or(if cfg!(miri) {
        2_000
    } else {
        1_000_000
    })
}

#[test]
fn a_real_producer_and_a_reader() {
    for (size, budget) in [(512, Budget::ALL), (1 << 14, Budget::records(100)), (1 << 16, Budget::ALL)] {
        let attempts = attempts();
        let mock = Mock::new(0, size, SampleFormat::RAW, 0_u64.wrapping_sub(size as u64 * 3));
        let mut set = Set::of_mocks(&raw_only(), vec![mock.reader]).unwrap();
        let mut producer = mock.producer;
        let thread = thread::spawn(move || {
            let mut random = Random(size as u64);
            let (mut sum, mut last) = (0_u64, 0);
            for n in 0..attempts {
                let mut raw = [0; 60];
                raw[..8].copy_from_slice(&n.to_ne_bytes());
                let len = 8 + random.below(52);
                raw[8..len].fill(n as u8);
                if producer.output(&raw[..len]).is_ok() {
                    sum = sum.wrapping_add(n);
                    last = n;
                }
                if n % 4096 == 0 {
                    thread::yield_now();
                }
            }
            (producer, sum, last)
        });
        let (mut next, mut sum) = (0, 0_u64);
        let mut read = |set: &mut Set| {
            set.drain(budget, |item| {
                match item.kind {
                    ItemKind::Sample(sample) => {
                        let raw = sample.raw().unwrap();
                        let n = raw.u64_at(0).unwrap();
                        assert_eq!(n, next);
                        // The true length is not told: at least this byte is the sample's.
                        assert!(raw.len() < 12 + 4 || raw.u8_at(8) == Some(n as u8));
                        next = n + 1;
                        sum = sum.wrapping_add(n);
                    }
                    ItemKind::Lost(lost) => next += lost.lost,
                    other => panic!("{other:?}"),
                }
                ControlFlow::Continue(())
            })
        };
        while !thread.is_finished() {
            if read(&mut set).records == 0 {
                thread::yield_now();
            }
        }
        let (producer, sent, last) = thread.join().unwrap();
        while read(&mut set).more {}
        let stats = set.stats(0).unwrap();
        assert_eq!((sum, next), (sent, last + 1));
        assert_eq!(stats.samples() + producer.lost(), attempts);
        assert_eq!(producer.lost() - stats.lost, attempts - 1 - last, "the trailing loss");
        assert_eq!((stats.corruptions, stats.unknown), (0, 0));
        println!(
            "{size} bytes: {} read, {} lost in {} gaps",
            stats.samples(),
            stats.lost,
            stats.lost_records
        );
    }
}

//! LOST's place, and losses that no LOST record tells.

use std::ops::ControlFlow;

use tracer::{
    record::{SampleFormat, kind, sample_type::*},
    ring::{Budget, ItemKind, Options, Set, mock::Mock},
};

use crate::support::{Random, Seen, drain_all, set_of};

/// K6: a gap is exactly where reading order says, whatever the fill and the drains between.
#[test]
fn a_gap_stands_where_records_are_missing() {
    let mut random = Random(11);
    let (mut set, mut producer) = set_of(Mock::new(3, 512, SampleFormat::RAW, 0));
    let (mut next, mut number) = (0_u32, 0_u32);
    let mut gaps = 0;
    for _ in 0..2000 {
        for _ in 0..random.below(40) {
            let _ = producer.output(&number.to_ne_bytes());
            number += 1;
        }
        for seen in drain_all(&mut set) {
            match seen {
                Seen::Lost(lost) => {
                    gaps += 1;
                    next += lost.lost as u32;
                }
                Seen::Sample(raw) => {
                    assert_eq!(raw, next.to_ne_bytes());
                    next += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // The rest has no LOST record, but the kernel's own count has it.
    let told = set.stats(3).unwrap();
    assert!(gaps > 100);
    assert_eq!(told.lost_records, gaps);
    assert_eq!(u64::from(number - next), producer.lost() - told.lost);
    assert_eq!(told.samples(), u64::from(number) - producer.lost());
}

#[test]
fn a_loss_at_the_very_end_is_told_by_the_next_success_only() {
    let (mut set, mut producer) = set_of(Mock::new(0, 256, SampleFormat::RAW, 0));
    let kept = (0..100).filter(|_| producer.output(b"4444").is_ok()).count();
    assert_eq!(kept, 15, "15 records of 16 bytes in 256 - 8");
    assert_eq!(drain_all(&mut set).len(), kept);
    assert!(drain_all(&mut set).is_empty());
    assert_eq!((set.stats(0).unwrap().lost, producer.lost()), (0, 85));
    // The end marker of a stop.
    producer.output(b"end.").unwrap();
    let seen = drain_all(&mut set);
    assert!(matches!(&seen[..], [Seen::Lost(lost), Seen::Sample(_)] if lost.lost == 85), "{seen:?}");
}

/// With TID, TIME and CPU a LOST record has 48 bytes and its own time.
#[test]
fn lost_carries_the_trailer() {
    let options = Options { sample_type: RAW | TID | TIME | CPU, ..Options::default() };
    let format = SampleFormat { sample_type: options.sample_type, sample_id_all: true };
    let mock = Mock::new(2, 256, format, 0);
    let (mut set, mut producer) = (Set::of_mocks(&options, vec![mock.reader]).unwrap(), mock.producer);
    assert_eq!(set.format(), format);
    for time in 1..=20 {
        producer.fields().time = time;
        producer.fields().tgid = 9;
        let _ = producer.output(b"4444");
        if time % 10 == 0 {
            let mut lines = Vec::new();
            set.drain(Budget::ALL, |item| {
                match item.kind {
                    ItemKind::Sample(sample) => lines.push((sample.time().unwrap(), 0)),
                    ItemKind::Lost(lost) => {
                        let id = lost.sample_id.unwrap();
                        assert_eq!(
                            (id.cpu, id.tgid, item.record.unwrap().header.size),
                            (Some(2), Some(9), 48)
                        );
                        lines.push((id.time.unwrap(), lost.lost));
                    }
                    other => panic!("{other:?}"),
                }
                ControlFlow::Continue(())
            });
            let samples = |from: u64| (from..from + 6).map(|time| (time, 0));
            let expected: Vec<_> = match time {
                10 => samples(1).collect(), // six of 40 bytes in 248; 7 to 10 are lost
                _ => [(11, 4)].into_iter().chain(samples(11).take(5)).collect(),
            };
            assert_eq!(lines, expected);
        }
    }
}

#[test]
fn lost_samples_and_unknown_kinds_are_counted_apart() {
    let (mut set, mut producer) = set_of(Mock::new(0, 4096, SampleFormat::RAW, 0));
    producer.record(kind::LOST_SAMPLES, 0, &7_u64.to_ne_bytes()).unwrap();
    producer.record(kind::COMM, 0, b"a comm record of some length").unwrap();
    producer.record(4242, 0xffff, &[]).unwrap();
    producer.output(b"last").unwrap();
    let expected =
        [Seen::LostSamples(7), Seen::Other(kind::COMM), Seen::Other(4242), Seen::Sample(b"last".to_vec())];
    assert_eq!(drain_all(&mut set), expected);
    let stats = set.stats(0).unwrap();
    assert_eq!((stats.records, stats.samples(), stats.unknown), (4, 1, 2));
    assert_eq!((stats.lost_samples_records, stats.lost_samples, stats.lost, stats.corruptions), (1, 7, 0, 0));
}

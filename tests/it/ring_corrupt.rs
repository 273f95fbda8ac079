//! Garbage headers, heads that cannot be, and records that run over others.

use tracer::{
    record::{Header, SampleFormat, kind},
    ring::{Corruption, CorruptionCause, Set, mock::Mock},
};

use crate::support::{Seen, drain_all, raw_only, set_of};

const S: usize = 4096;

fn header(size: u16) -> [u8; 8] {
    Header { kind: kind::SAMPLE, misc: 0, size }.to_bytes()
}

/// Two good records, a bad header with 24 bytes after it, then, past the damage, a good one again.
fn bad_size(size: u16, cause: CorruptionCause) {
    let (mut set, mut producer) = set_of(Mock::new(1, S, SampleFormat::RAW, 64));
    producer.output(b"one.").unwrap();
    producer.output(b"two.").unwrap();
    let bad = producer.head();
    assert!(producer.inject(&header(size)));
    assert!(producer.inject(&[0x5a; 24]));
    let one_and_two = [Seen::Sample(b"one.".to_vec()), Seen::Sample(b"two.".to_vec())];
    let corruption = Corruption { cpu: 1, position: bad, header: Some(header(size)), bytes: 32, cause };
    let seen = drain_all(&mut set);
    assert_eq!(seen[..2], one_and_two);
    assert_eq!(seen[2..], [Seen::Corruption(corruption)]);
    producer.output(b"aft.").unwrap();
    assert_eq!(drain_all(&mut set), [Seen::Sample(b"aft.".to_vec())]);
    let stats = set.stats(1).unwrap();
    assert_eq!((stats.records, stats.corruptions, stats.corrupt_bytes), (3, 1, 32));
    assert_eq!(producer.room(), S);
}

#[test]
fn every_bad_size_is_told_and_the_tail_goes_to_the_head() {
    (0..8).for_each(|size| bad_size(size, CorruptionCause::SizeTooSmall));
    [9, 12, 31, 33, 65_535].into_iter().for_each(|size| bad_size(size, CorruptionCause::SizeUnaligned));
    [40, 4096, 65_528].into_iter().for_each(|size| bad_size(size, CorruptionCause::SizeBeyondUnread));
}

#[test]
fn a_head_that_cannot_be_is_told_and_the_ring_goes_on() {
    for head in [S as u64 + 8, u64::MAX - 7, 1 << 40, 0_u64.wrapping_sub(8), 12, 4095] {
        let mut mock = Mock::new(1, S, SampleFormat::RAW, 0);
        mock.producer.output(b"gone").unwrap();
        mock.set_head(head);
        let (mut set, mut producer) = set_of(mock);
        let bytes = head.min(S as u64);
        let corruption =
            Corruption { cpu: 1, position: 0, header: None, bytes, cause: CorruptionCause::Head };
        assert_eq!(drain_all(&mut set), [Seen::Corruption(corruption)], "head {head}");
        assert!(drain_all(&mut set).is_empty() || head % 8 != 0);
        assert!(!set.more());
        if head % 8 == 0 {
            producer.output(b"aft.").unwrap();
            assert_eq!(drain_all(&mut set), [Seen::Sample(b"aft.".to_vec())]);
        }
    }
}

/// K12: a ring mapped for overwriting runs ahead of any tail.
#[test]
fn overwritten_records_are_told_as_one_corruption() {
    let mut mock = Mock::new(0, S, SampleFormat::RAW, 0);
    (0..100).for_each(|_| mock.overwrite(&[7; 100]));
    let (mut set, _) = set_of(mock);
    let seen = drain_all(&mut set);
    let [Seen::Corruption(corruption)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((corruption.cause, corruption.bytes), (CorruptionCause::Head, S as u64));
}

/// K8: raw bytes above 65,516 on a healthy kernel: nothing at all, an empty sample, or other records written over.
#[test]
fn oversized_records_as_a_kernel_writes_them() {
    let drained = |size: usize, n: usize, before: usize| {
        let mut mock = Mock::new(0, size, SampleFormat::RAW, 0);
        (0..before).for_each(|_| mock.producer.output(&[1; 20]).unwrap());
        let head = mock.producer.head();
        mock.output_oversized(&vec![0xab; n]).unwrap();
        let moved = mock.producer.head() - head;
        let mut set = Set::of_mocks(&raw_only(), vec![mock.reader]).unwrap();
        let mut producer = mock.producer;
        let seen = drain_all(&mut set);
        // Whatever it was, the ring is good again.
        producer.output(b"aft.").unwrap();
        assert_eq!(drain_all(&mut set), [Seen::Sample(b"aft.".to_vec())]);
        (moved, seen)
    };
    for n in 65_517..=65_524 {
        assert_eq!(drained(1 << 16, n, 0), (0, vec![]));
    }
    let (moved, seen) = drained(1 << 18, 65_532, 0);
    assert_eq!(moved, 8);
    assert!(
        matches!(&seen[..], [Seen::Corruption(c)] if c.cause == CorruptionCause::Malformed && c.bytes == 8)
    );
    let (moved, seen) = drained(1 << 16, 100_000, 0);
    assert_eq!(moved, 34_480);
    // It ran round the ring and over its own header.
    let [Seen::Corruption(corruption)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(corruption.header, Some([0xab; 8]));
    // Unread records before it are overwritten: what is left of them is told, not made up.
    let (_, seen) = drained(1 << 16, 100_000, 500);
    assert!(matches!(&seen[..], [Seen::Corruption(c)] if c.bytes == 500 * 32 + 34_480), "{seen:?}");
}

/// A record whose size is good and whose contents are not costs itself alone.
#[test]
fn a_malformed_record_costs_itself_alone() {
    let (mut set, mut producer) = set_of(Mock::new(0, S, SampleFormat::RAW, 0));
    producer.record(kind::SAMPLE, 0, &[0xff; 16]).unwrap();
    producer.record(kind::LOST, 0, &[0; 8]).unwrap();
    producer.record(kind::LOST_SAMPLES, 0, &[]).unwrap();
    producer.output(b"good").unwrap();
    let seen = drain_all(&mut set);
    let bytes = |seen: &Seen| match seen {
        Seen::Corruption(c) if c.cause == CorruptionCause::Malformed => c.bytes,
        other => panic!("{other:?}"),
    };
    assert_eq!(seen[..3].iter().map(bytes).collect::<Vec<_>>(), [24, 16, 8]);
    assert_eq!(seen[3..], [Seen::Sample(b"good".to_vec())]);
    let stats = set.stats(0).unwrap();
    assert_eq!((stats.records, stats.samples(), stats.malformed, stats.corrupt_bytes), (4, 1, 3, 48));
}

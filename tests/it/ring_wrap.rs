//! Records round the end of the data, stale padding, and the largest that fit.

use tracer::{
    record::{SampleFormat, kind},
    ring::mock::{Mock, NoRoom},
};

use crate::support::{Owned, Random, Seen, drain_all, padded, set_of, step_through};

fn numbered(i: u64, len: usize) -> Vec<u8> {
    i.to_ne_bytes().into_iter().cycle().take(len).collect()
}

/// Each record size against each start in the ring: the wrap falls on every 8-byte offset of a record, the one
/// right after its header and the one right after the record too.
#[test]
fn a_record_wraps_at_every_eight_bytes() {
    const SIZE: usize = 512;
    for start in (0..SIZE as u64).step_by(8) {
        for len in [0, 4, 8, 12, 16, 28, 100, 300] {
            let mock = Mock::new(0, SIZE, SampleFormat::RAW, start);
            let (mut set, mut producer) = set_of(mock);
            for i in 0..20 {
                let raw = numbered(i, len);
                producer.output(&raw).unwrap();
                let seen = drain_all(&mut set);
                let [Seen::Sample(got)] = &seen[..] else { panic!("{seen:?}") };
                assert_eq!(got.len(), padded(len));
                assert_eq!(got[..len], raw);
            }
        }
    }
}

/// The same near the end of what a position can be, where adding to it wraps.
#[test]
fn positions_wrap_too() {
    for back in (0..256).step_by(8) {
        let mut mock = Mock::new(0, 256, SampleFormat::RAW, 0_u64.wrapping_sub(back));
        for i in 0..40 {
            mock.producer.output(&numbered(i, 20)).unwrap();
            let seen = step_through(&mut mock.reader);
            assert!(matches!(&seen[..], [Owned::Record(header, _)] if header.kind == kind::SAMPLE));
        }
    }
}

/// K2: what pads the raw bytes is whatever the ring held, and the size is 4 mod 8.
#[test]
fn padding_is_stale_bytes() {
    let (mut set, mut producer) = set_of(Mock::new(0, 256, SampleFormat::RAW, 0));
    for _ in 0..8 {
        producer.output(&[0xaa; 20]).unwrap();
        drain_all(&mut set);
    }
    // Where the padding falls on an old header or size it is not 0xaa, but over a round it does somewhere.
    let mut stale = 0;
    for _ in 0..32 {
        producer.output(&[0x55; 5]).unwrap();
        let seen = drain_all(&mut set);
        let [Seen::Sample(got)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((got.len(), &got[..5]), (12, &[0x55; 5][..]));
        stale += got[5..].iter().filter(|&&b| b != 0).count();
    }
    assert!(stale > 0);
}

/// K5: a ring holds its size less 8; a pending loss takes 24 more.
#[test]
fn the_largest_record_that_fits() {
    const SIZE: usize = 8192;
    let (mut set, mut producer) = set_of(Mock::new(0, SIZE, SampleFormat::RAW, 4096));
    let all = Random(5).bytes(SIZE);
    producer.output(&all[..SIZE - 20]).unwrap();
    assert_eq!(drain_all(&mut set), [Seen::Sample(all[..SIZE - 20].to_vec())]);
    // One byte more never fits, and from this loss on neither does what just did.
    assert_eq!(producer.output(&all[..SIZE - 19]), Err(NoRoom));
    assert_eq!(producer.output(&all[..SIZE - 20]), Err(NoRoom));
    assert!(drain_all(&mut set).is_empty());
    assert_eq!(producer.output(&all[..SIZE - 20]), Err(NoRoom));
    producer.output(&all[..SIZE - 44]).unwrap();
    let seen = drain_all(&mut set);
    let [Seen::Lost(lost), Seen::Sample(got)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(lost.lost, 3);
    assert_eq!(*got, all[..SIZE - 44]);
    assert_eq!(tracer::ring::size::largest_raw(SIZE, &SampleFormat::RAW), SIZE - 44);
}

/// Records of nearly 64 KiB, the most that a header can say.
#[test]
fn payloads_of_64_kib() {
    const MOST: usize = 65_516;
    let mut random = Random(7);
    let (mut set, mut producer) = set_of(Mock::new(0, 1 << 18, SampleFormat::RAW, 8));
    for i in 0..50 {
        let raw = random.bytes(MOST - i % 3 * 8);
        producer.output(&raw).unwrap();
        producer.output(&raw[..12]).unwrap();
        assert_eq!(drain_all(&mut set), [Seen::Sample(raw.clone()), Seen::Sample(raw[..12].to_vec())]);
    }
    assert_eq!(tracer::ring::size::largest_raw(1 << 18, &SampleFormat::RAW), MOST);
}

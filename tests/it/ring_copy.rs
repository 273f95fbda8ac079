//! A ring that is read by copy says what one that is read by reference says, whatever is written into it.

use tracer::{
    record::SampleFormat,
    ring::{Set, mock::Mock},
};

use crate::support::{Random, drain_all, raw_only};

const S: usize = 1 << 12;

/// One step of a ring's life; the same for both by the same seed.
fn step(mock: &mut Mock, random: &mut Random) {
    match random.below(12) {
        0..=6 => {
            let raw = random.below(300);
            let raw = random.bytes(raw);
            let _ = mock.producer.output(&raw);
        }
        7 => {
            let body = random.below(40);
            let (kind, body) = (random.below(12) as u32, random.bytes(body));
            let _ = mock.producer.record(kind, 0, &body);
        }
        8 => {
            let bytes = random.bytes(16);
            mock.producer.inject(&bytes);
        }
        9 => {
            let back = random.below(S) as u64;
            let bytes = random.bytes(24);
            mock.damage(mock.producer.head().wrapping_sub(back), &bytes);
        }
        10 => {
            let raw = vec![random.next() as u8; 65_517 + random.below(40_000)];
            let _ = mock.output_oversized(&raw);
        }
        _ => {
            let head = mock.producer.head().wrapping_add(8 * random.below(2 * S / 8) as u64);
            mock.set_head(head);
        }
    }
}

#[test]
fn a_copy_says_what_the_ring_says() {
    let (mut samples, mut corruptions) = (0, 0);
    for seed in 0..300 {
        let start = (seed * 1000) & !7;
        let mut life = |by_copy: bool| {
            let mut random = Random(seed);
            let mut mock = Mock::new(0, S, SampleFormat::RAW, start);
            if by_copy {
                mock.reader = mock.reader.by_copy();
            }
            let mut seen = Vec::new();
            for _ in 0..40 {
                (0..1 + random.below(6)).for_each(|_| step(&mut mock, &mut random));
                let mut set = Set::of_mocks(&raw_only(), vec![mock.reader]).unwrap();
                seen.extend(drain_all(&mut set));
                let stats = set.stats(0).unwrap();
                (samples, corruptions) = (samples + stats.samples(), corruptions + stats.corruptions);
                mock.reader = set.into_mocks().remove(0);
            }
            seen
        };
        assert_eq!(life(false), life(true), "seed {seed}");
    }
    assert!(samples > 10_000 && corruptions > 1_000, "{samples} samples, {corruptions} corruptions");
}

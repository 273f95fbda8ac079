//! A ring whose bytes and heads are anything: every drain ends, reads only what is unread, and tells what it gave up.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use tracer::{
    record::SampleFormat,
    ring::{Budget, Entry, ItemKind, Options, Set, mock::Mock},
};

/// Takes `N` bytes off the input.
fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*bytes)
}

fuzz_target!(|input: &[u8]| {
    let mut input = input;
    let Some([size, start, time]) = take(&mut input) else { return };
    let by_copy = size & 0x80 != 0;
    let size = 64 << (size % 7);
    let start = u64::from(start).wrapping_sub(128).wrapping_mul(8);
    let sample_type = SampleFormat::RAW.sample_type | u64::from(time) << 2 & !(1 << 4);
    let options = Options { sample_type, ..Options::default() };
    let mut mock = Mock::new(0, size, SampleFormat { sample_type, sample_id_all: true }, start);
    if by_copy {
        mock.reader = mock.reader.by_copy();
    }
    while let Some([step, low, high]) = take(&mut input) {
        let number = u64::from(u16::from_le_bytes([low, high]));
        let (now, later) = input.split_at(input.len().min(usize::from(low)));
        match step % 12 {
            0 | 1 => {
                input = later;
                mock.producer.inject(now);
            }
            2 => {
                // A header of any size, aligned and with its kind told more often than not.
                let size = if step & 0x80 == 0 { number & !7 } else { number } as u16;
                let header = tracer::record::Header { kind: u32::from(step >> 4), misc: 0, size };
                mock.producer.inject(&header.to_bytes());
            }
            3 => {
                input = later;
                let _ = mock.producer.output(now);
            }
            4 => {
                input = later;
                let _ = mock.producer.record(u32::from(high), 0, now);
            }
            5 => {
                input = later;
                mock.damage(mock.producer.head().wrapping_sub(number * 4), now);
            }
            6 => mock.set_head(mock.producer.head().wrapping_add(number << (step >> 4) * 3)),
            7 => mock.overwrite(&[step; 24]),
            8 => {
                let _ = mock.output_oversized(&vec![high; 65_517 + usize::from(low)]);
            }
            9 => {
                // By hand: at most one entry for every eight bytes, and an end.
                let _ = mock.reader.snapshot();
                let mut entries = 0;
                while let Some(entry) = mock.reader.peek() {
                    if let Entry::Record(record) = entry {
                        let sum = record.body.bytes().fold(0_u8, u8::wrapping_add);
                        std::hint::black_box(sum);
                    }
                    mock.reader.advance();
                    entries += 1;
                    assert!(entries <= size / 8 + 1);
                }
                mock.reader.commit();
            }
            _ => {
                let Mock { producer, reader } = mock;
                let before = producer.room();
                let mut set = Set::of_mocks(&options, vec![reader]).expect("good options");
                let mut budget = Budget::ALL;
                if step & 0x10 != 0 {
                    budget.records = number;
                }
                let mut bytes = 0;
                let drained = set.drain(budget, |item| {
                    if let Some(record) = item.record {
                        assert_eq!(record.body.len() + 8, usize::from(record.header.size));
                        std::hint::black_box(record.body.bytes().fold(0_u8, u8::wrapping_add));
                    }
                    match item.kind {
                        ItemKind::Sample(sample) => {
                            let raw = sample.raw().expect("the format has it");
                            std::hint::black_box(raw.bytes().fold(0_u8, u8::wrapping_add));
                            bytes += raw.len();
                        }
                        ItemKind::Corruption(corruption) => assert!(corruption.bytes <= size as u64),
                        _ => {}
                    }
                    if step & 0x20 != 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                assert!(drained.records <= size as u64 / 8 && drained.bytes <= size as u64 && bytes <= size);
                assert!(producer.room() >= before);
                assert!(drained.more || producer.room() == size);
                let reader = set.into_mocks().remove(0);
                mock = Mock { producer, reader };
            }
        }
    }
});

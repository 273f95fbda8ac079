//! The reader against one that goes byte by byte, on any sequence of records, damage, budgets and commits.

use std::ops::ControlFlow;

use tracer::{
    record::{Header, SampleFormat, kind},
    ring::{Budget, Corruption, CorruptionCause, Entry, Set, mock::Mock},
};

use crate::support::{Owned, Random, raw_only, step_through};

const CPU: u32 = 5;

/// Reads as the kernel's documents say and no cleverer: one byte at a time, a modulo each.
struct Naive {
    tail: u64,
}

impl Naive {
    /// At most `most` entries, of which a corruption is the last.
    fn read(&mut self, memory: &[u8], head: u64, most: usize) -> Vec<Owned> {
        let mut owned = Vec::new();
        let byte = |position: u64| memory[(position % memory.len() as u64) as usize];
        let give_up = |tail: &mut u64, header, bytes, cause| {
            let corruption = Corruption { cpu: CPU, position: *tail, header, bytes, cause };
            *tail = head;
            Owned::Corruption(corruption)
        };
        let unread = head.wrapping_sub(self.tail);
        if unread > memory.len() as u64 || !(head | self.tail).is_multiple_of(8) {
            let bytes = unread.min(memory.len() as u64);
            return vec![give_up(&mut self.tail, None, bytes, CorruptionCause::Head)];
        }
        while self.tail != head && owned.len() < most {
            let unread = head.wrapping_sub(self.tail);
            let mut bytes = [0; 8];
            for (i, b) in bytes.iter_mut().enumerate() {
                *b = byte(self.tail.wrapping_add(i as u64));
            }
            let header = Header::parse(bytes);
            let cause = match u64::from(header.size) {
                0..8 => Some(CorruptionCause::SizeTooSmall),
                size if size % 8 != 0 => Some(CorruptionCause::SizeUnaligned),
                size if size > unread => Some(CorruptionCause::SizeBeyondUnread),
                _ => None,
            };
            if let Some(cause) = cause {
                owned.push(give_up(&mut self.tail, Some(bytes), unread, cause));
                break;
            }
            let size = u64::from(header.size);
            let body = (8..size).map(|i| byte(self.tail.wrapping_add(i))).collect();
            owned.push(Owned::Record(header, body));
            self.tail = self.tail.wrapping_add(size);
        }
        owned
    }
}

/// One step of a producer, good or bad.
fn produce(mock: &mut Mock, random: &mut Random, damage: bool) {
    let size = mock.size();
    match random.below(if damage { 12 } else { 6 }) {
        0..=3 => {
            let len = random.below(size / 4);
            let raw = random.bytes(len);
            let _ = mock.producer.output(&raw);
        }
        4 => {
            let len = random.below(size / 3);
            let body = random.bytes(len);
            let _ = mock.producer.record(random.next() as u32, random.next() as u16, &body);
        }
        5 => {
            let _ = mock.producer.record(0, 0, &[]); // a header alone, size 8
        }
        6 => {
            let len = random.below(64);
            let bytes = random.bytes(len);
            mock.producer.inject(&bytes);
        }
        7 => {
            let sizes = [0, 1, 7, 8, 12, 16, size - 8, size, 65_528, 65_535, random.below(1 << 16)];
            let size = sizes[random.below(sizes.len())] as u16;
            let header = Header { kind: random.below(14) as u32, misc: 0, size };
            mock.producer.inject(&header.to_bytes());
        }
        8 => {
            let bytes = random.bytes(8);
            mock.damage(random.next() % (2 * size as u64) / 8 * 8, &bytes);
        }
        9 if random.below(8) == 0 => mock.set_head(random.next()),
        9 => {
            let head = mock.producer.head().wrapping_add(random.below(3 * size) as u64 / 8 * 8);
            mock.set_head(head.wrapping_sub(size as u64));
        }
        10 => mock.overwrite(&[1; 40]),
        _ => {
            let len = 65_517 + random.below(200);
            let _ = mock.output_oversized(&random.bytes(len));
        }
    }
}

/// Stepping by hand.
#[test]
fn peek_and_advance_equal_the_naive_reader() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let size = 64 << random.below(6);
        let start = if seed % 3 == 0 { 0_u64.wrapping_sub(random.below(4 * size) as u64 / 8 * 8) } else { 0 };
        let mut mock = Mock::new(CPU, size, SampleFormat::RAW, start);
        let mut naive = Naive { tail: start };
        for _ in 0..200 {
            for _ in 0..random.below(6) {
                produce(&mut mock, &mut random, seed % 2 == 1);
            }
            let (memory, head) = (mock.producer.memory(), mock.producer.head());
            let expected = naive.read(&memory, head, usize::MAX);
            assert_eq!(step_through(&mut mock.reader), expected, "seed {seed}");
            assert_eq!(mock.producer.room(), size, "seed {seed}: everything was given back");
        }
    }
}

/// Draining within random budgets, at a random number of records.
#[test]
fn drains_equal_the_naive_reader() {
    for seed in 0..300 {
        let mut random = Random(!seed);
        let size = 64 << random.below(6);
        let mut mock = Mock::new(CPU, size, SampleFormat::RAW, 0);
        let mut naive = Naive { tail: 0 };
        for _ in 0..100 {
            for _ in 0..random.below(6) {
                produce(&mut mock, &mut random, seed % 2 == 1);
            }
            let (memory, head) = (mock.producer.memory(), mock.producer.head());
            let records = if random.below(3) == 0 { u64::MAX } else { random.below(5) as u64 };
            let Mock { producer, reader } = mock;
            let mut set = Set::of_mocks(&raw_only(), vec![reader]).unwrap();
            let mut owned = Vec::new();
            let drained = set.drain_records(Budget::records(records), |cpu, entry| {
                assert_eq!(cpu, CPU);
                owned.push(Owned::from(entry));
                ControlFlow::Continue(())
            });
            // A corruption is no record: it costs no budget, so one more entry may come of it.
            let mut expected = Vec::new();
            let mut got = owned.iter();
            if records > 0 {
                expected = naive.read(&memory, head, usize::try_from(records).unwrap_or(usize::MAX));
            }
            assert!(expected.iter().all(|e| got.next() == Some(e)), "seed {seed}: {owned:?} {expected:?}");
            assert_eq!(got.next(), None, "seed {seed}");
            let count = |o: &&Owned| matches!(o, Owned::Record(..));
            assert_eq!(drained.records, owned.iter().filter(count).count() as u64);
            assert_eq!(drained.more, naive.tail != head, "seed {seed}");
            assert_eq!(producer.room() as u64, (size as u64).saturating_sub(head.wrapping_sub(naive.tail)));
            let reader = set.into_mocks().remove(0);
            mock = Mock { producer, reader };
        }
    }
}

/// Without damage, what comes out is what went in, in order, whatever the sizes.
#[test]
fn what_went_in_comes_out() {
    for seed in 0..200 {
        let mut random = Random(seed << 32);
        let size = 256 << random.below(5);
        let mut mock = Mock::new(CPU, size, SampleFormat::RAW, random.next() & !7);
        let mut sent = std::collections::VecDeque::new();
        for _ in 0..300 {
            let len = random.below(size / 3);
            let raw = random.bytes(len);
            if mock.producer.output(&raw).is_ok() {
                sent.push_back(raw);
            }
            if random.below(4) != 0 {
                continue;
            }
            mock.reader.snapshot();
            for _ in 0..random.below(8) {
                match mock.reader.peek() {
                    Some(Entry::Record(record)) => {
                        if let Some(sample) = SampleFormat::RAW.sample(&record) {
                            let raw = sample.raw().unwrap().to_contiguous().into_owned();
                            let expected = sent.pop_front().unwrap();
                            assert_eq!(raw[..expected.len()], expected);
                        }
                    }
                    Some(Entry::Corruption(corruption)) => panic!("{corruption:?}"),
                    None => break,
                }
                mock.reader.advance();
                if random.below(2) == 0 {
                    mock.reader.commit();
                }
            }
        }
        // The rest.
        for owned in step_through(&mut mock.reader) {
            let Owned::Record(header, body) = owned else { panic!("{owned:?}") };
            if header.kind == kind::SAMPLE {
                let expected = sent.pop_front().unwrap();
                assert_eq!(body[4..4 + expected.len()], expected);
            }
        }
        assert!(sent.is_empty());
    }
}

//! A seeded generator, and drains collected into owned values.

use std::ops::ControlFlow;

use tracer::{
    record::{Header, Lost, SampleFormat},
    ring::{Budget, Corruption, Drained, Entry, Forward, ItemKind, Options, Set, mock::Mock},
};

/// splitmix64: the same numbers for the same seed, everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// What a drain handed over, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The raw bytes.
    Sample(Vec<u8>),
    Lost(Lost),
    LostSamples(u64),
    Corruption(Corruption),
    Other(u32),
}

/// Options whose format is `RAW` alone.
pub fn raw_only() -> Options {
    Options { sample_type: SampleFormat::RAW.sample_type, ..Options::default() }
}

/// A set of one mock ring, and its producer.
pub fn set_of(mock: Mock) -> (Set, tracer::ring::mock::Producer) {
    (Set::of_mocks(&raw_only(), vec![mock.reader]).unwrap(), mock.producer)
}

pub fn drain(set: &mut Set, budget: Budget) -> (Vec<Seen>, Drained) {
    let mut seen = Vec::new();
    let drained = set.drain(budget, |item| {
        seen.push(match item.kind {
            ItemKind::Sample(sample) => Seen::Sample(sample.raw().unwrap().to_contiguous().into_owned()),
            ItemKind::Lost(lost) => Seen::Lost(lost),
            ItemKind::LostSamples(lost) => Seen::LostSamples(lost.lost),
            ItemKind::Corruption(corruption) => Seen::Corruption(corruption),
            ItemKind::Overwritten => panic!("a forward ring is never overwritten"),
            ItemKind::Other => Seen::Other(item.record.unwrap().header.kind),
        });
        ControlFlow::Continue(())
    });
    (seen, drained)
}

pub fn drain_all(set: &mut Set) -> Vec<Seen> {
    drain(set, Budget::ALL).0
}

/// An entry, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    Record(Header, Vec<u8>),
    Corruption(Corruption),
}

impl From<Entry<'_>> for Owned {
    fn from(entry: Entry<'_>) -> Owned {
        match entry {
            Entry::Record(record) => Owned::Record(record.header, record.body.to_contiguous().into_owned()),
            Entry::Corruption(corruption) => Owned::Corruption(corruption),
        }
    }
}

/// Everything up to the head, one peek and advance at a time.
pub fn step_through(reader: &mut Forward) -> Vec<Owned> {
    let mut owned: Vec<Owned> = reader.snapshot().into_iter().map(Owned::Corruption).collect();
    while let Some(entry) = reader.peek() {
        owned.push(entry.into());
        reader.advance();
    }
    reader.commit();
    owned
}

/// Raw bytes as a ring holds them: the size that `len` bytes are padded to.
pub fn padded(len: usize) -> usize {
    (len + 4).next_multiple_of(8) - 4
}

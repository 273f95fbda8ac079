//! Shards over rings that have no kernel: for tests of what reads them, and measurements of many CPUs.

use super::{
    own::Own,
    reader::Reader,
    shard::{Shard, deal},
    take::{Known, Quota},
};
use crate::{
    Result,
    probe::Attached,
    ring::{Set, Stats},
};

/// What a session knows of its rings, without programs.
pub struct Mock {
    rings: Own,
    readers: Vec<Reader>,
    attached: Vec<Attached>,
    quota: Quota,
}

/// What was read of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events decoded.
    pub events: u64,
    /// Sequence numbers that none of them carried.
    pub holes: u64,
    /// Samples that no schema fits.
    pub undecoded: u64,
    /// Events after the last that was asked for.
    pub beyond: u64,
}

impl Mock {
    /// `rings`, of mocks, for so many threads; their events are those of `attached`, of which `limit` are handed on.
    ///
    /// # Errors
    ///
    /// As [`Set::into_shards`].
    pub fn new(rings: Set, threads: usize, attached: Vec<Attached>, limit: Option<u64>) -> Result<Mock> {
        let cpus = rings.cpus().max().map_or(0, |cpu| cpu + 1);
        let readers = (0..cpus).map(|cpu| Reader::new(cpu, false)).collect();
        let rings = Own::new(rings, threads)?;
        Ok(Mock { rings, readers, attached, quota: Quota::new(limit, threads > 1) })
    }

    /// As [`Session::parts`](super::Session::parts).
    pub fn shards(&mut self) -> Vec<Shard<'_>> {
        let Mock { rings, readers, attached, quota } = self;
        deal(rings, readers, Known { attached, gathers: false }, quota)
    }

    /// As [`Session::shard_of`](super::Session::shard_of).
    pub fn shard_of(&self, cpu: u32) -> usize {
        self.rings.with(cpu).unwrap_or(0)
    }

    /// What the ring of a CPU counts.
    pub fn stats(&self, cpu: u32) -> Option<Stats> {
        self.rings.stats(cpu)
    }

    /// What was read of a CPU.
    pub fn counts(&self, cpu: u32) -> Counts {
        self.readers.get(cpu as usize).map_or(Counts::default(), |reader| Counts {
            events: reader.stream.events(),
            holes: reader.stream.holes(),
            undecoded: reader.undecoded,
            beyond: reader.beyond,
        })
    }
}

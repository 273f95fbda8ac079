//! The rings of our own programs: one set, or one for each thread that reads.

use crate::{
    Result,
    ring::{Set, Stats},
};

/// The sets; one at least.
pub struct Own {
    pub sets: Vec<Set>,
}

impl Own {
    /// Deals the rings out to so many threads.
    pub fn new(rings: Set, threads: usize) -> Result<Own> {
        Ok(Own { sets: rings.into_shards(threads)? })
    }

    /// The set that has, or is to have, the ring of a CPU.
    pub fn with(&self, cpu: u32) -> Option<usize> {
        self.sets.iter().position(|set| set.wants(cpu))
    }

    /// The CPUs that have or had a ring.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.sets.iter().flat_map(Set::cpus)
    }

    pub fn stats(&self, cpu: u32) -> Option<Stats> {
        self.sets.iter().find_map(|set| set.stats(cpu))
    }

    pub fn kernel_lost(&self, cpu: u32) -> Option<u64> {
        self.sets.iter().find_map(|set| set.kernel_lost(cpu))
    }

    /// As [`Set::rescan`].
    pub fn rescan(&mut self) -> Result<Vec<u32>> {
        self.sets.iter_mut().try_fold(Vec::new(), |mut made, set| {
            made.extend(set.rescan()?);
            Ok(made)
        })
    }

    /// As [`Set::replace`]; who refuses a CPU that is none of ours is the first set.
    pub fn replace(&mut self, cpu: u32) -> Result<bool> {
        let at = self.with(cpu).unwrap_or(0);
        self.sets[at].replace(cpu)
    }

    pub fn settle(&mut self) {
        self.sets.iter_mut().for_each(Set::settle);
    }

    pub fn resume(&mut self) {
        self.sets.iter_mut().for_each(Set::resume);
    }

    /// Closes them all, whatever the first says.
    pub fn close(&mut self) -> Result<()> {
        let mut closed = Ok(());
        for set in &mut self.sets {
            closed = closed.and(set.close());
        }
        closed
    }
}

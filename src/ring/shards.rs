//! A set taken apart into sets of fewer rings, each for a thread of its own.
//!
//! Rings are dealt out in turn by CPU, not in blocks: busy CPUs stand side by side more often than not (a service is
//! bound to a range, a scheduler fills a node first), and a block of them would be one thread's while the others sleep.

use super::{Set, slots::Slots};
use crate::error::Result;

impl Set {
    /// Deals the rings out to `count` sets, at most one a ring: the first that are there in turn by CPU, then the CPUs
    /// that are to have a ring once they are online. Each set goes on by itself: it drains its own rings, replaces
    /// them, and empties their slots when it is closed. One set is this one.
    ///
    /// # Errors
    ///
    /// Precondition, where no more descriptors are to be had; the slots are empty then.
    pub fn into_shards(mut self, count: usize) -> Result<Vec<Set>> {
        let count = count.clamp(1, self.rings.len().max(1));
        if count == 1 {
            return Ok(vec![self]);
        }
        let mut shards = Vec::with_capacity(count);
        for _ in 0..count {
            shards.push(Set {
                options: self.options.clone(),
                size: self.size,
                attr: self.attr,
                reading: self.reading,
                slots: self.slots.as_ref().map(Slots::duplicate).transpose()?,
                prompt: self.prompt,
                settled: self.settled,
                wanted: Vec::new(),
                rings: Vec::new(),
                start: 0,
            });
        }
        let mut turn = (0..count).cycle();
        let mut wanted = std::mem::take(&mut self.wanted);
        for ring in std::mem::take(&mut self.rings) {
            let at = turn.next().unwrap_or(0);
            wanted.retain(|cpu| *cpu != ring.cpu);
            shards[at].wanted.push(ring.cpu);
            shards[at].rings.push(ring);
        }
        for (cpu, at) in wanted.into_iter().zip(turn) {
            shards[at].wanted.push(cpu);
        }
        for shard in &mut shards {
            shard.wanted.sort_unstable();
            shard.options.cpus = Some(shard.wanted.clone());
        }
        Ok(shards)
    }

    /// Whether this CPU has a ring here, or is to have one once it is online.
    pub fn wants(&self, cpu: u32) -> bool {
        self.wanted.binary_search(&cpu).is_ok()
    }
}

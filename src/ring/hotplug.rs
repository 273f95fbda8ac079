//! CPUs that come and go: a new ring for each that is back.

use super::{
    Set,
    cpu_ring::{CpuRing, Ring},
    cpus, sys,
};
use crate::error::{Error, Result};

impl Set {
    /// Gives the CPUs that came online since a ring, and those that were seen offline and are back a new one
    /// in place of the old. Says which. A CPU that goes and comes between two calls is not seen: whoever finds
    /// that its outputs fail (EOPNOTSUPP) calls [`Set::replace`].
    ///
    /// # Errors
    ///
    /// As [`Set::open`]; rings that were already made stay.
    pub fn rescan(&mut self) -> Result<Vec<u32>> {
        let online = cpus::online()?;
        let mut made = Vec::new();
        for cpu in self.wanted.clone() {
            let at = self.rings.binary_search_by_key(&cpu, |ring| ring.cpu);
            let online = online.contains(&cpu);
            if let (Ok(at), false) = (at, online) {
                self.rings[at].away = !self.attr.what.outlasts_its_cpu();
            }
            let due = at.map_or(true, |at| self.rings[at].away || self.rings[at].live.is_none());
            if online && due && self.replace(cpu)? {
                made.push(cpu);
            }
        }
        Ok(made)
    }

    /// Opens a new ring on `cpu` and puts it into the slot in place of the old one, whose output event is dead
    /// once its CPU was offline. What the old ring holds is handed over by the next drains, before the records
    /// of the new one; its counts are kept. False where the CPU is offline. Waits for programs that are
    /// running, some tens of milliseconds, where there is an old ring.
    ///
    /// # Errors
    ///
    /// As [`Set::open`]; the old ring stays in place then.
    pub fn replace(&mut self, cpu: u32) -> Result<bool> {
        if self.wanted.binary_search(&cpu).is_err() {
            return Err(Error::usage(format!("CPU {cpu} is not one of this set's")));
        }
        let Some(new) = Ring::open(cpu, self.attr, self.size, self.reading, self.rings.len())? else {
            return Ok(false);
        };
        let at = match self.rings.binary_search_by_key(&cpu, |ring| ring.cpu) {
            Ok(at) => at,
            Err(at) => {
                self.rings.insert(at, CpuRing::new(cpu, None));
                at
            }
        };
        let old = self.rings[at].live.replace(new);
        if let Err(e) = self.put(cpu) {
            self.rings[at].live = old;
            return Err(e);
        }
        self.rings[at].away = false;
        if let Some(old) = old {
            // Nobody writes the old ring once the programs that took it from the slot have ended.
            sys::wait_for_programs();
            self.rings[at].retiring.push(old);
        }
        Ok(true)
    }
}

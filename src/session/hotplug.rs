//! CPUs that come and go while a session runs: each that is back gets rings again.

use std::time::{Duration, Instant};

use super::Session;
use crate::{
    Error, Result,
    ring::Sideband,
    sink::{Note, Sink},
};

/// How often the accounts are looked at for CPUs that came or went.
const CPU_CHECK: Duration = Duration::from_millis(50);
/// How often the mask of online CPUs is read.
const CPU_RESCAN: Duration = Duration::from_secs(1);

impl Session {
    /// Gives a new ring to CPUs that came back: the sign is a rise of what the programs were refused there.
    pub(super) fn look_after_cpus(&mut self, sink: &mut dyn Sink) -> Result<()> {
        if self.cpus_checked.elapsed() < CPU_CHECK {
            return Ok(());
        }
        self.cpus_checked = Instant::now();
        if self.cpus_rescanned.elapsed() >= CPU_RESCAN {
            self.cpus_rescanned = Instant::now();
            match self.rescan_own() {
                Ok(made) => self.generation += made.len() as u64,
                Err(error) => self.without_ring(&error, sink)?,
            }
            match self.foreign.rescan() {
                Ok(made) => self.generation += made as u64,
                Err(error) => self.without_ring(&error, sink)?,
            }
            match self.sideband.as_mut().map_or(Ok(vec![]), Sideband::rescan) {
                Ok(made) => self.generation += made.len() as u64,
                Err(error) => self.without_ring(&error, sink)?,
            }
        }
        for cpu in 0..self.probes.possible_cpus() {
            let (empty, dead) = self.refused(cpu);
            let without = self.ring_stats(cpu).is_none();
            let reader = &mut self.readers[cpu as usize];
            let rise = reader.refused(empty, dead);
            if rise.dead || (rise.empty && without) {
                match self.replace_own(cpu) {
                    Ok(made) => self.generation += u64::from(made),
                    Err(error) => self.without_ring(&error, sink)?,
                }
            } else if rise.empty && !std::mem::replace(&mut reader.told, true) {
                self.rings.settle();
                let text = format!("the slot of CPU {cpu} was emptied by somebody else: its events fail");
                sink.note(&Note::Error(&text))?;
            }
        }
        Ok(())
    }

    fn rescan_own(&mut self) -> Result<Vec<u32>> {
        match &mut self.flight {
            Some(flight) => flight.rescan(),
            None => self.rings.rescan(),
        }
    }

    /// New rings for our own programs, and for side-band records.
    fn replace_own(&mut self, cpu: u32) -> Result<bool> {
        let made = match &mut self.flight {
            Some(flight) => flight.replace(cpu)?,
            None => self.rings.replace(cpu)?,
        };
        let tasks = self.sideband.as_mut().map_or(Ok(false), |sideband| sideband.replace(cpu))?;
        Ok(made || tasks)
    }

    /// A CPU came and gets no ring, for want of rights or of memory: said once. Its events fail, and are counted.
    fn without_ring(&mut self, error: &Error, sink: &mut dyn Sink) -> Result<()> {
        match std::mem::replace(&mut self.ring_refused, true) {
            true => Ok(()),
            false => sink.note(&Note::Error(&format!("no ring for a CPU that has come: {error}"))),
        }
    }

    /// Whether a slot that had a ring was found empty since the last look.
    pub(super) fn emptied(&self) -> bool {
        let mut with_ring = self.rings.cpus().filter_map(|cpu| Some((cpu, self.readers.get(cpu as usize)?)));
        with_ring.any(|(cpu, reader)| reader.found_empty(self.refused(cpu).0))
    }

    /// What the programs were refused on a CPU: empty slot, dead output event.
    fn refused(&self, cpu: u32) -> (u64, u64) {
        let accounts = (0..self.probes.ids()).map(|id| self.probes.accounts(cpu, id).failed);
        accounts.fold((0, 0), |(empty, dead), f| (empty + f.enoent, dead + f.eopnotsupp))
    }
}

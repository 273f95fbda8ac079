//! A session whose rings are in overwrite mode: snapshots, and the account of what no snapshot was taken of.

use std::{ops::ControlFlow, time::Duration};

use super::{
    Session,
    take::{Known, take},
};
use crate::{
    Error, Result,
    ring::{self, Snapshot, Stats},
    sink::{Clock, Count, Sink},
};

impl Session {
    /// Hands to `sink` what the rings of our own programs have held since the last snapshot, CPU by CPU, each in its
    /// order: the newest as far as they go, and before them a gap of what was overwritten. Programs go on
    /// meanwhile, into other rings, so the next snapshot goes on where this one ends.
    ///
    /// Blocks for some tens of milliseconds, until programs that took the old rings have ended.
    ///
    /// # Errors
    ///
    /// Usage, of a session without [`Options::flight`](super::Options::flight). Else what the sink said first; every event is handed to it
    /// all the same, and is in its counts.
    pub fn snapshot(&mut self, sink: &mut dyn Sink) -> Result<Snapshot> {
        if self.flight.is_none() {
            return Err(Error::usage("a snapshot is of rings in overwrite mode, and these are not")
                .with_help("prepare the session with Options::flight"));
        }
        // What a sink that panicked left of the last one was asked for then.
        let mut told = self.hand_over(sink);
        let snapshot = self.take_flight()?;
        if let Some(window) = self.options.flight.and_then(|flight| flight.window) {
            self.quota.since = before(window);
        }
        told = told.and(self.hand_over(sink));
        told.map(|()| snapshot)
    }

    fn take_flight(&mut self) -> Result<Snapshot> {
        self.flight.as_mut().map_or(Ok(Snapshot { covered: true }), ring::Flight::snapshot)
    }

    /// Everything that was taken of the rings, whatever the sink says.
    fn hand_over(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let Session { probes, flight: Some(flight), readers, quota, .. } = self else { return Ok(()) };
        let known = Known { attached: probes.attached(), gathers: probes.gathers() };
        let mut told = Ok(());
        flight.drain(|item| {
            let reader = readers.get_mut(item.cpu as usize);
            let taken = take(known, reader, quota, &item, sink);
            told = std::mem::replace(&mut told, Ok(())).and(taken.map(drop));
            ControlFlow::Continue(())
        });
        told
    }

    /// At the stop: what a sink that panicked left is handed on; what is still in the rings nobody asked for, and it is
    /// read to be counted.
    pub(super) fn end_flight(&mut self, sink: &mut dyn Sink) -> Result<()> {
        if self.flight.is_none() {
            return Ok(());
        }
        // A sink that fails now has its counts.
        let _ = self.hand_over(sink);
        self.take_flight()?;
        self.quota.since = u64::MAX;
        self.hand_over(&mut Count::default())
    }

    /// The CPUs whose rings our own programs emit into.
    pub(super) fn ring_cpus(&self) -> impl Iterator<Item = u32> {
        self.rings.cpus().chain(self.flight.iter().flat_map(|flight| flight.cpus()))
    }

    /// What was read of such a ring; `None` where there is none.
    pub(super) fn ring_stats(&self, cpu: u32) -> Option<Stats> {
        self.rings.stats(cpu).or_else(|| self.flight.as_ref()?.stats(cpu))
    }

    /// What such a ring lost by the kernel's count.
    pub(super) fn ring_lost(&self, cpu: u32) -> Option<u64> {
        self.rings.kernel_lost(cpu).or_else(|| self.flight.as_ref()?.kernel_lost(cpu))
    }
}

/// CLOCK_MONOTONIC so long ago.
fn before(window: Duration) -> u64 {
    Clock::monotonic_now().saturating_sub(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX))
}

//! A session taken apart for a while, so that several threads read its rings at once.
//!
//! ```text
//!   Session ── parts ──┬─ Shard ─► a thread ─► its own way into the sink
//!                      ├─ Shard ─► a thread ─► …
//!                      └─ Rest: side-band records, and others' rings ─► whoever took it apart
//! ```
//!
//! A CPU's ring, its stream and its counts are one shard's, so what a shard hands on of a CPU is in the ring's order.
//! All else (CPUs that come and go, the ledger, the stop) is the whole session's, when its parts are let go again.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Duration,
};

use super::{
    Session,
    foreign::Foreign,
    own::Own,
    reader::Reader,
    take::{Known, Quota, take},
};
use crate::{
    Result,
    ring::{Budget, Drained, Item, Set, Sideband},
    sink::Sink,
};

/// The parts of a session.
pub struct Parts<'a> {
    /// One for each of [`Session::reader_threads`].
    pub shards: Vec<Shard<'a>>,
    /// What is no shard's.
    pub rest: Rest<'a>,
}

/// A thread's share of the rings of our own programs.
pub struct Shard<'a> {
    set: &'a mut Set,
    /// By CPU; those of other shards are `None`.
    readers: Vec<Option<&'a mut Reader>>,
    known: Known<'a>,
    quota: Quota,
}

/// Side-band records, and the rings of programs that are not ours.
pub struct Rest<'a> {
    sideband: &'a mut Option<Sideband>,
    foreign: &'a mut Foreign,
    base: usize,
    quota: Quota,
}

impl Shard<'_> {
    /// Its rings.
    pub fn rings(&self) -> &Set {
        self.set
    }

    /// As [`Session::drain`], the rings of this shard alone; CPUs are not looked after.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn drain(&mut self, budget: Budget, sink: &mut dyn Sink) -> Result<Drained> {
        let Shard { set, readers, known, quota } = self;
        drain(set, budget, |item| {
            let reader = readers.get_mut(item.cpu as usize).and_then(Option::as_deref_mut);
            take(*known, reader, quota, item, sink)
        })
    }

    /// As [`Session::limit_reached`].
    pub fn limit_reached(&self) -> bool {
        self.quota.is_spent()
    }
}

impl Rest<'_> {
    /// Hands over side-band records.
    ///
    /// # Errors
    ///
    /// What the sink said first.
    pub fn drain_tasks(&mut self, budget: Budget, sink: &mut dyn Sink) -> Result<Drained> {
        drain_sideband(self.sideband, budget, sink)
    }

    /// Hands over what others' programs emitted; says so together with what `own` rings did.
    ///
    /// # Errors
    ///
    /// What the sink said first.
    pub fn drain_foreign(&mut self, budget: Budget, own: Drained, sink: &mut dyn Sink) -> Result<Drained> {
        let budget = self.foreign.share(budget);
        self.foreign.drain(budget, own, self.base, &mut self.quota, sink)
    }
}

impl Session {
    /// The rings of our own programs: their descriptors for polling, their sizes and counts. Where several threads
    /// read ([`Session::reader_threads`]), those of the first; [`Session::shard_rings`] has all.
    pub fn rings(&self) -> &Set {
        &self.rings.sets[0]
    }

    /// The same, to pause or replace one.
    pub fn rings_mut(&mut self) -> &mut Set {
        &mut self.rings.sets[0]
    }

    /// How many threads the rings are dealt out to.
    pub fn reader_threads(&self) -> usize {
        self.rings.sets.len()
    }

    /// The rings of each thread.
    pub fn shard_rings(&self) -> &[Set] {
        &self.rings.sets
    }

    /// Whose thread's rings are, or will be, a CPU's; the first's of a CPU without one.
    pub fn shard_of(&self, cpu: u32) -> usize {
        self.rings.with(cpu).unwrap_or(0)
    }

    /// How many CPUs there can be.
    pub fn possible_cpus(&self) -> u32 {
        self.probes.possible_cpus()
    }

    /// Takes the session apart.
    pub fn parts(&mut self) -> Parts<'_> {
        let Session { probes, rings, readers, foreign, sideband, quota, .. } = self;
        let known = Known { attached: probes.attached(), gathers: probes.gathers() };
        let base = probes.attached().len();
        let shards = deal(rings, readers, known, quota);
        Parts { shards, rest: Rest { sideband, foreign, base, quota: quota.clone() } }
    }

    /// What is due between two passes of several threads: CPUs that came or went are looked after, and where events
    /// share records those are put out that have waited long enough. True where none of before waits any more.
    ///
    /// # Errors
    ///
    /// What the sink said first.
    pub fn between(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        self.look_after(sink)
    }

    /// How long threads may read by themselves, so that what only the whole session does is done in time.
    pub fn stretch(&self) -> Duration {
        let sweep = self.options.rings.wake.sweep();
        let sweep = if self.probes.gathers() { sweep / 2 } else { sweep };
        sweep.clamp(Duration::from_millis(5), Duration::from_millis(100))
    }

    /// Where a thread counts the events that it read and could not hand on, since the sink panicked.
    pub fn unhanded_count(&self) -> Arc<AtomicU64> {
        self.unhanded.clone()
    }

    pub(super) fn unhanded(&self) -> u64 {
        self.readers.iter().map(|r| r.unhanded).sum::<u64>() + self.unhanded.load(Relaxed)
    }

    /// Has the kernel wake whoever polls for each record from now on, or only at a quarter of a ring; see
    /// [`Set::set_prompt`]. Says what holds for our own rings. Once somebody else has emptied a slot nothing changes
    /// any more, and so the slot stays empty and is told.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_prompt(&mut self, prompt: bool) -> Result<bool> {
        let all = 0..self.rings.sets.len();
        all.rev().try_fold(false, |_, shard| self.set_prompt_of(shard, prompt))
    }

    /// The same of one thread's rings; others' rings go with the first.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_prompt_of(&mut self, shard: usize, prompt: bool) -> Result<bool> {
        if !self.options.prompt {
            return Ok(false);
        }
        if shard == 0 {
            self.foreign.set_prompt(prompt)?;
        }
        if self.emptied() {
            return Ok(self.rings.sets[shard].prompt());
        }
        self.rings.sets[shard].set_prompt(prompt)
    }

    /// Our own programs' rings, by the thread that calls.
    pub(super) fn drain_rings(&mut self, budget: Budget, sink: &mut dyn Sink) -> Result<Drained> {
        let Session { probes, rings: Own { sets }, readers, quota, .. } = self;
        let known = Known { attached: probes.attached(), gathers: probes.gathers() };
        let mut sum = Drained::default();
        let budget = Budget { time: budget.time.map(|time| time / sets.len() as u32), ..budget };
        for set in sets {
            let drained = drain(set, budget, |item| {
                take(known, readers.get_mut(item.cpu as usize), quota, item, sink)
            })?;
            sum.records += drained.records;
            sum.bytes += drained.bytes;
            sum.more |= drained.more;
            sum.stopped |= drained.stopped;
        }
        Ok(sum)
    }
}

/// Each set with what is known of its CPUs.
pub(super) fn deal<'a>(
    rings: &'a mut Own,
    readers: &'a mut [Reader],
    known: Known<'a>,
    quota: &Quota,
) -> Vec<Shard<'a>> {
    let of: Vec<usize> = (0..readers.len()).map(|cpu| rings.with(cpu as u32).unwrap_or(0)).collect();
    let mut shares: Vec<Vec<Option<&mut Reader>>> = rings.sets.iter().map(|_| Vec::new()).collect();
    for (reader, at) in readers.iter_mut().zip(of) {
        shares.iter_mut().for_each(|share| share.push(None));
        if let Some(place) = shares[at].last_mut() {
            *place = Some(reader);
        }
    }
    let shares = rings.sets.iter_mut().zip(shares);
    shares.map(|(set, readers)| Shard { set, readers, known, quota: quota.clone() }).collect()
}

/// Drains until `take` says stop or fails.
#[inline]
fn drain(
    set: &mut Set,
    budget: Budget,
    mut take: impl FnMut(&Item<'_>) -> Result<ControlFlow<()>>,
) -> Result<Drained> {
    let mut failed = None;
    let drained = set.drain(budget, |item| match take(&item) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    failed.map_or(Ok(drained), Err)
}

pub(super) fn drain_sideband(
    sideband: &mut Option<Sideband>,
    budget: Budget,
    sink: &mut dyn Sink,
) -> Result<Drained> {
    let Some(sideband) = sideband else { return Ok(Drained::default()) };
    let mut failed = Ok(());
    let drained = sideband.drain(budget, |record| {
        failed = sink.task(&record);
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    failed.map(|()| drained)
}

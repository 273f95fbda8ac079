//! All rings of a session: one per CPU, opened, put into their slots, drained, replaced and closed together.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    Array, Entry, Item,
    array::Reading,
    attr::Attr,
    budget::{Budget, Drained, Left},
    cpu_ring::{CpuRing, Ring},
    cpus,
    forward::Hand,
    item::{Entries, Items},
    options::Options,
    run::{Run, Runs},
    size::round,
    slots::Slots,
    stats::Stats,
    wake::Wake,
};
use crate::{
    error::{Error, Result},
    record::SampleFormat,
};

/// The rings of a session.
pub struct Set {
    pub(super) options: Options,
    /// Bytes of data of each ring.
    pub(super) size: usize,
    pub(super) attr: Attr,
    pub(super) reading: Reading,
    pub(super) slots: Option<Slots>,
    /// The events that wake for each record stand in the slots.
    pub(super) prompt: bool,
    /// Slots are not written any more to change that.
    pub(super) settled: bool,
    /// The CPUs that are to have a ring whenever they are online.
    pub(super) wanted: Vec<u32>,
    /// By CPU, ascending.
    pub(super) rings: Vec<CpuRing>,
    /// Which ring the next drain starts at.
    pub(super) start: usize,
}

impl Set {
    /// Opens a ring on every CPU that is online (or on those of `options.cpus` that are), and puts each into
    /// its slot of `array`, a `BPF_MAP_TYPE_PERF_EVENT_ARRAY`: the slot's number is the CPU's. From here on
    /// programs can output; put rings in place before attaching any. A CPU that is offline is no error:
    /// [`Set::rescan`] gives it a ring once it is back.
    ///
    /// The rings are read by reference where that is sound by the promise of [`Array::bounded`], and by copy where
    /// the array is [`foreign`](Array::foreign). Without an array nothing outputs into them, but by
    /// `PERF_EVENT_IOC_SET_OUTPUT`.
    ///
    /// Nothing here waits. Where it fails, nothing stays open and every slot it filled is empty again.
    ///
    /// # Errors
    ///
    /// Usage: a size, wake rule, largest sample or CPU that cannot be, each with the arithmetic. Precondition:
    /// the kernel or a limit refuses (EACCES, EMFILE, EPERM by mlock limits; [`lockable`](super::lockable) says
    /// what would fit).
    pub fn open(options: &Options, array: Option<Array<'_>>) -> Result<Set> {
        let by_latency = matches!(options.wake, Wake::Latency(_));
        let prompt = by_latency && array.is_some_and(Array::ours);
        Set::with(options, Attr { prompt, ..options.attr()? }, array)
    }

    /// As [`Set::open`], of any kind of event.
    pub(super) fn with(options: &Options, attr: Attr, array: Option<Array<'_>>) -> Result<Set> {
        let size = round(options.size)?;
        let possible = cpus::possible()?;
        let wanted = match &options.cpus {
            None => possible,
            Some(cpus) => {
                if let Some(cpu) = cpus.iter().find(|cpu| !possible.contains(cpu)) {
                    return Err(Error::usage(format!("there is no CPU {cpu} on this machine"))
                        .with_help(format!("its CPUs are {possible:?}")));
                }
                let mut cpus = cpus.clone();
                cpus.sort_unstable();
                cpus.dedup();
                cpus
            }
        };
        let slots = array.map(|array| Slots::new(array.fd())).transpose()?;
        let reading = array.map_or(Reading::ByReference, Array::reading);
        let options = options.clone();
        let rings = Vec::new();
        let (prompt, settled) = (false, false);
        let mut set = Set { options, size, attr, reading, slots, prompt, settled, wanted, rings, start: 0 };
        let online = cpus::online()?;
        let rings = set.wanted.iter().filter(|cpu| online.contains(cpu)).count();
        for cpu in set.wanted.clone() {
            if online.contains(&cpu) {
                let ring = Ring::open(cpu, attr, size, reading, rings)?;
                set.rings.extend(ring.map(|ring| CpuRing::new(cpu, Some(ring))));
            }
        }
        // A failure drops the set, which empties the slots again.
        for ring in &set.rings {
            set.put(ring.cpu)?;
        }
        Ok(set)
    }

    /// A set of rings that have no kernel: see [`mock`](super::mock).
    #[cfg(any(test, feature = "test-utils"))]
    pub fn of_mocks(options: &Options, rings: Vec<super::Forward>) -> Result<Set> {
        Ok(Set::mocked(options, options.attr()?, rings))
    }

    #[cfg(any(test, feature = "test-utils"))]
    pub(super) fn mocked(options: &Options, attr: Attr, rings: Vec<super::Forward>) -> Set {
        let mut rings: Vec<CpuRing> = rings.into_iter().map(CpuRing::mock).collect();
        rings.sort_by_key(|ring| ring.cpu);
        let wanted = rings.iter().map(|ring| ring.cpu).collect();
        let (options, size) = (options.clone(), options.size);
        let reading = Reading::ByReference;
        let (slots, prompt, settled) = (None, false, false);
        Set { options, size, attr, reading, slots, prompt, settled, wanted, rings, start: 0 }
    }

    /// The rings again, to be drained by hand or damaged.
    #[cfg(any(test, feature = "test-utils"))]
    pub fn into_mocks(mut self) -> Vec<super::Forward> {
        std::mem::take(&mut self.rings).into_iter().filter_map(|ring| Some(ring.live?.reader)).collect()
    }

    /// What the set was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How the records of this set are to be read.
    pub fn format(&self) -> SampleFormat {
        self.attr.format
    }

    /// Bytes of data of each ring: the size asked for, rounded up to 2^n pages.
    pub fn ring_size(&self) -> usize {
        self.size
    }

    /// The CPUs that have or had a ring, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.rings.iter().map(|ring| ring.cpu)
    }

    /// What to poll for input, by CPU: none after [`Set::close`].
    ///
    /// Readiness is one-shot: a poll that said yes says no until the kernel's next wake-up, read or unread, and
    /// what stood in a ring before it was registered is never signalled. So drain once after registering, drain
    /// again while [`Set::more`], and sweep every [`Wake::sweep`](super::Wake::sweep) whatever poll says. One
    /// poller only: of two, one is woken. A descriptor changes when its ring is replaced.
    pub fn fds(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.rings.iter().filter_map(|ring| Some((ring.cpu, ring.live.as_ref()?.event.as_ref()?.as_fd())))
    }

    /// True where the last drain left unread records in a ring.
    pub fn more(&self) -> bool {
        self.rings.iter().any(|ring| ring.left_behind)
    }

    /// Hands over the records that are there now, ring by ring, each ring in its order, within the budget;
    /// starts at another ring each time, and goes on where a budget ended. Never waits; allocates nothing. Records written meanwhile are the
    /// next drain's, so that it always ends.
    ///
    /// The handler ends it by a break. What it was given counts as read, also when it breaks or panics; the set
    /// is good after either.
    pub fn drain(&mut self, budget: Budget, f: impl FnMut(Item<'_>) -> ControlFlow<()>) -> Drained {
        self.walk(None, budget, &mut Items { format: self.attr.format, f })
    }

    /// As [`Set::drain`], the ring of one CPU only.
    pub fn drain_cpu(
        &mut self,
        cpu: u32,
        budget: Budget,
        f: impl FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> Drained {
        self.walk(Some(cpu), budget, &mut Items { format: self.attr.format, f })
    }

    /// As [`Set::drain`], but records are handed over as they lie, with the CPU, and are not told apart: LOST
    /// and unknown ones are not counted.
    pub fn drain_records(
        &mut self,
        budget: Budget,
        f: impl FnMut(u32, Entry<'_>) -> ControlFlow<()>,
    ) -> Drained {
        self.walk(None, budget, &mut Entries(f))
    }

    /// As [`Set::drain`], but samples that are alike and lie in one piece come together: for those who hand bytes on
    /// in blocks, or add up what each sample holds. A budget of time is looked at once a run.
    pub fn drain_runs(&mut self, budget: Budget, f: impl FnMut(Run<'_>) -> ControlFlow<()>) -> Drained {
        self.walk(None, budget, &mut Runs { format: self.attr.format, f })
    }

    fn walk(&mut self, only: Option<u32>, budget: Budget, hand: &mut impl Hand) -> Drained {
        let mut left = Left::new(budget);
        let mut stopped = false;
        let count = self.rings.len();
        let start = self.start.min(count);
        self.start = if start + 1 < count { start + 1 } else { 0 };
        let mut cut = None;
        for i in (start..count).chain(0..start) {
            let ring = &mut self.rings[i];
            if only.is_some_and(|cpu| cpu != ring.cpu) {
                continue;
            }
            if stopped || left.spent() {
                ring.skip();
                cut.get_or_insert(i);
            } else {
                stopped = ring.drain(&mut left, hand).is_break();
            }
        }
        // Where a budget ended the next goes on: no ring waits longer than one round of all.
        self.start = cut.unwrap_or(self.start);
        left.drained(self.more(), stopped)
    }

    /// What was read from the rings of `cpu`; `None` where it never had one.
    pub fn stats(&self, cpu: u32) -> Option<Stats> {
        self.ring(cpu).map(CpuRing::stats)
    }

    /// What the kernel counts as lost on `cpu`, over all its output events and those that were replaced:
    /// losses that no LOST record has told yet included. One system call. `None` where it does not count
    /// (before 6.0, unless backported) or the CPU never had a ring.
    pub fn kernel_lost(&self, cpu: u32) -> Option<u64> {
        self.ring(cpu)?.kernel_lost()
    }

    /// The ids of the live output events of `cpu`, two where the wake rule follows the rate: what LOST records
    /// and `PERF_SAMPLE_IDENTIFIER` call them.
    pub fn event_ids(&self, cpu: u32) -> impl Iterator<Item = u64> {
        self.ring(cpu).and_then(|ring| ring.live.as_ref()).into_iter().flat_map(Ring::ids)
    }

    /// Stops (or goes on) writing into the ring of `cpu` (`PERF_EVENT_IOC_PAUSE_OUTPUT`): outputs are lost
    /// meanwhile, and told as such.
    ///
    /// # Errors
    ///
    /// Usage, where the CPU has no ring; Runtime, where the kernel refuses.
    pub fn pause(&mut self, cpu: u32, pause: bool) -> Result<()> {
        let event = self.ring(cpu).and_then(|ring| ring.live.as_ref()?.event.as_ref());
        let event = event.ok_or_else(|| Error::usage(format!("CPU {cpu} has no ring")))?;
        event.pause(pause).map_err(|e| {
            Error::caused(crate::ErrorKind::Runtime, format!("pausing the ring of CPU {cpu}"), e)
        })
    }

    /// Ends every pause. A ring that somebody else has unmapped has none.
    pub fn resume(&mut self) {
        for event in self.rings.iter().filter_map(|ring| ring.live.as_ref()?.event.as_ref()) {
            let _ = event.pause(false);
        }
    }

    /// Empties the slots of the CPUs that are `ours`, and lets go of the others: programs that go on output nothing
    /// more into these rings, which stay to be drained.
    pub fn unset(&mut self, ours: impl Fn(u32) -> bool) {
        let Some(slots) = self.slots.take() else { return };
        for ring in self.rings.iter().filter(|ring| ours(ring.cpu)) {
            // What is left is emptied with the last descriptor of the map that filled it.
            let _ = slots.remove(ring.cpu);
        }
    }

    /// Empties the slots, unmaps and closes every ring. What is still unread is gone: drain first. Counts stay
    /// readable. Twice is fine, and dropping the set does it too.
    ///
    /// # Errors
    ///
    /// Runtime, the first slot that could not be emptied; everything else is done all the same.
    pub fn close(&mut self) -> Result<()> {
        let slots = self.slots.take();
        let mut result = Ok(());
        for ring in &mut self.rings {
            if let (Some(slots), Some(_)) = (&slots, &ring.live) {
                result = result.and(slots.remove(ring.cpu));
            }
            ring.close();
        }
        self.wanted.clear();
        result
    }

    pub(super) fn put(&self, cpu: u32) -> Result<()> {
        let event = self.ring(cpu).and_then(|ring| ring.live.as_ref()?.writer(self.prompt));
        match (&self.slots, event) {
            (Some(slots), Some(event)) => slots.put(cpu, event.as_fd()),
            _ => Ok(()),
        }
    }

    fn ring(&self, cpu: u32) -> Option<&CpuRing> {
        let at = self.rings.binary_search_by_key(&cpu, |ring| ring.cpu).ok()?;
        self.rings.get(at)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.close();
    }
}

//! Rings in overwrite mode: the newest records of each CPU, kept until somebody asks for them.
//!
//! Each CPU has two. One stands in the slot and is written; a snapshot puts the other there, waits for the programs that
//! took the first, and copies what that one holds. So there is no moment without a ring, and each
//! record is in one snapshot or overwritten. A snapshot tells what was written since the last one; what comes within
//! a CPU stands in its order.

use std::{collections::VecDeque, ops::ControlFlow, os::fd::AsFd};

use super::{
    Array, Item, ItemKind, Options, Stats,
    attr::{Attr, Event},
    backward::{self, Past},
    cpus,
    entry::Corruption,
    forward::Place,
    item::tell,
    mapping::Window,
    size::{explain_mmap, explain_open, round},
    slots::Slots,
    sys,
    wake::Rule,
};
use crate::{
    error::{Error, ErrorKind, Result},
    record::SampleFormat,
};

/// One ring.
struct Overwrite {
    event: Event,
    window: Window,
    /// Where `data_head` was when it was last read.
    since: u64,
}

/// The rings of one CPU.
struct CpuFlight {
    cpu: u32,
    /// The one in the slot, then the other; none where they are closed.
    pair: Option<[Overwrite; 2]>,
    /// Those that they replaced, not read yet.
    old: Vec<Overwrite>,
    /// What rings that are closed had lost by the kernel's count.
    retired_lost: Option<u64>,
    stats: Stats,
}

impl CpuFlight {
    /// Keeps what a ring lost that is about to be closed.
    fn retire(&mut self, ring: &Overwrite) {
        self.retired_lost = self.retired_lost.zip(ring.event.lost()).map(|(sum, lost)| sum + lost);
    }
}

/// What one ring held, copied, and not all handed over yet.
struct Copied {
    /// Which of the CPUs.
    at: usize,
    data: Vec<u8>,
    past: Past,
}

/// What was done for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// No moment was without a ring. Where the right to write slots has been given up, each ring had to be paused while
    /// it was copied: outputs failed meanwhile, and are told as lost.
    pub covered: bool,
}

/// Rings in overwrite mode, two a CPU, in the slots of a perf event array.
pub struct Flight {
    attr: Attr,
    size: usize,
    slots: Slots,
    wanted: Vec<u32>,
    /// By CPU, ascending.
    cpus: Vec<CpuFlight>,
    copied: VecDeque<Copied>,
}

impl Flight {
    /// Opens two rings on every CPU that is online, or on those of `options.cpus` that are, and puts one of each into its
    /// slot. `options.size` is that of one ring; the wake rule means nothing here, since nothing wakes anybody.
    ///
    /// # Errors
    ///
    /// As [`Set::open`](super::Set::open).
    pub fn open(options: &Options, array: Array<'_>) -> Result<Flight> {
        let size = round(options.size)?;
        let wake = Rule::Bytes(u32::try_from(size).unwrap_or(u32::MAX));
        let attr = Attr { wake, backward: true, ..options.attr()? };
        let (possible, online) = (cpus::possible()?, cpus::online()?);
        let mut wanted = options.cpus.clone().unwrap_or_else(|| possible.clone());
        if let Some(cpu) = wanted.iter().find(|cpu| !possible.contains(cpu)) {
            return Err(Error::usage(format!("there is no CPU {cpu} on this machine"))
                .with_help(format!("its CPUs are {possible:?}")));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let slots = Slots::new(array.fd())?;
        let mut flight = Flight { attr, size, slots, wanted, cpus: Vec::new(), copied: VecDeque::new() };
        for cpu in flight.wanted.clone() {
            if online.contains(&cpu) {
                flight.replace(cpu)?;
            }
        }
        Ok(flight)
    }

    /// How the records are to be read.
    pub fn format(&self) -> SampleFormat {
        self.attr.format
    }

    /// Bytes of data of each ring.
    pub fn ring_size(&self) -> usize {
        self.size
    }

    /// The CPUs that have or had rings, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.iter().map(|of| of.cpu)
    }

    /// What was handed over of a CPU; `None` where it never had a ring.
    pub fn stats(&self, cpu: u32) -> Option<Stats> {
        self.of(cpu).map(|of| of.stats)
    }

    /// What the kernel counts as lost on a CPU, as [`Set::kernel_lost`](super::Set::kernel_lost): what is overwritten
    /// is not.
    pub fn kernel_lost(&self, cpu: u32) -> Option<u64> {
        let of = self.of(cpu)?;
        let all = of.pair.iter().flatten().chain(&of.old);
        all.map(|ring| ring.event.lost()).try_fold(of.retired_lost?, |sum, lost| Some(sum + lost?))
    }

    /// Takes what the rings hold, to be handed over by [`Flight::drain`]. Waits for programs that are running, some
    /// tens of milliseconds; copies every ring.
    ///
    /// # Errors
    ///
    /// Runtime, where a slot cannot be filled; what is in the rings stays there.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let mut covered = true;
        for of in self.cpus.iter_mut() {
            let Some(pair) = &mut of.pair else { continue };
            match self.slots.put(of.cpu, pair[1].event.as_fd()) {
                Ok(()) => pair.swap(0, 1),
                Err(e) if e.os_error() == Some(libc::EPERM) => covered = false,
                Err(e) => return Err(e),
            }
        }
        sys::wait_for_programs();
        for (at, of) in self.cpus.iter_mut().enumerate() {
            for mut ring in std::mem::take(&mut of.old) {
                self.copied.push_back(ring.copy(at));
                of.retire(&ring);
            }
            // Without a swap both may hold records; the other's are older.
            for ring in
                of.pair.iter_mut().flat_map(|pair| pair.iter_mut().rev()).take(if covered { 1 } else { 2 })
            {
                self.copied.push_back(ring.copy(at));
            }
        }
        Ok(Snapshot { covered })
    }

    /// Hands over what snapshots took, CPU by CPU, each in its order, oldest first. The handler ends it by a break; what it
    /// was given counts as read, also when it panics, and the rest is handed over next time. True when all is.
    pub fn drain(&mut self, mut f: impl FnMut(Item<'_>) -> ControlFlow<()>) -> bool {
        while let Some(copied) = self.copied.front_mut() {
            let of = &mut self.cpus[copied.at];
            let (cpu, stats, format) = (of.cpu, &mut of.stats, &self.attr.format);
            let item = if std::mem::take(&mut copied.past.overwritten) {
                let position = copied.past.records.last().copied().unwrap_or_default();
                Item { cpu, position, record: None, kind: ItemKind::Overwritten }
            } else if let Some((position, cause, bytes)) = copied.past.corruption.take() {
                stats.corruptions += 1;
                stats.corrupt_bytes += bytes;
                let header = backward::record(&copied.data, position).map(|record| record.header.to_bytes());
                let kind = ItemKind::Corruption(Corruption { cpu, position, header, bytes, cause });
                Item { cpu, position, record: None, kind }
            } else if let Some(position) = copied.past.records.pop() {
                let Some(record) = backward::record(&copied.data, position) else { continue };
                stats.records += 1;
                stats.bytes += u64::from(record.header.size);
                let kind = match format.sample(&record) {
                    Some(sample) => ItemKind::Sample(sample),
                    None => tell(format, stats, Place { cpu, position }, &record),
                };
                Item { cpu, position, record: Some(record), kind }
            } else {
                self.copied.pop_front();
                continue;
            };
            if f(item).is_break() {
                return false;
            }
        }
        true
    }

    /// Gives CPUs that came online since new rings. Says which.
    ///
    /// # Errors
    ///
    /// As [`Flight::open`].
    pub fn rescan(&mut self) -> Result<Vec<u32>> {
        let online = cpus::online()?;
        let due = |cpu: &u32| online.contains(cpu) && self.of(*cpu).is_none();
        let due: Vec<u32> = self.wanted.iter().copied().filter(due).collect();
        due.iter().try_for_each(|cpu| self.replace(*cpu).map(drop))?;
        Ok(due)
    }

    /// Gives a CPU new rings, since the old ones' events are dead; what these hold is the next snapshot's. False where the
    /// CPU is offline.
    ///
    /// # Errors
    ///
    /// As [`Flight::open`].
    pub fn replace(&mut self, cpu: u32) -> Result<bool> {
        if self.wanted.binary_search(&cpu).is_err() {
            return Err(Error::usage(format!("CPU {cpu} is not one of these rings'")));
        }
        let rings = self.wanted.len();
        let (Some(one), Some(other)) = (
            Overwrite::open(cpu, self.attr, self.size, rings)?,
            Overwrite::open(cpu, self.attr, self.size, rings)?,
        ) else {
            return Ok(false);
        };
        self.slots.put(cpu, one.event.as_fd())?;
        let at = self.cpus.binary_search_by_key(&cpu, |of| of.cpu).unwrap_or_else(|at| {
            let stats = Stats::default();
            self.cpus.insert(at, CpuFlight { cpu, pair: None, old: vec![], retired_lost: Some(0), stats });
            // What was copied and not handed over yet says by number whose it is.
            self.copied.iter_mut().filter(|copied| copied.at >= at).for_each(|copied| copied.at += 1);
            at
        });
        if let Some([live, spare]) = self.cpus[at].pair.replace([one, other]) {
            self.cpus[at].old.extend([spare, live]);
        }
        Ok(true)
    }

    /// Empties the slots, unmaps and closes every ring. Counts stay readable; twice is fine.
    ///
    /// # Errors
    ///
    /// Runtime, the first slot that could not be emptied; everything else is done all the same.
    pub fn close(&mut self) -> Result<()> {
        let mut result = Ok(());
        for of in &mut self.cpus {
            let rings = of.pair.take();
            if rings.is_some() {
                result = result.and(self.slots.remove(of.cpu));
            }
            let old = std::mem::take(&mut of.old);
            rings.iter().flatten().chain(&old).for_each(|ring| of.retire(ring));
        }
        self.wanted.clear();
        result
    }

    fn of(&self, cpu: u32) -> Option<&CpuFlight> {
        self.cpus.binary_search_by_key(&cpu, |of| of.cpu).ok().map(|at| &self.cpus[at])
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.close();
    }
}

impl Overwrite {
    /// `None` where the CPU is offline.
    fn open(cpu: u32, attr: Attr, size: usize, rings: usize) -> Result<Option<Overwrite>> {
        let event = match attr.open(cpu) {
            Ok(event) => event,
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
            Err(e) => return Err(explain_open(e, "an overwrite ring", cpu, rings, 2 * rings)),
        };
        let map =
            sys::Map::overwrite(event.as_fd(), size).map_err(|e| explain_mmap(e, cpu, size, 2 * rings))?;
        let window = Window::new(map)?;
        event.enable().map_err(|e| {
            Error::caused(ErrorKind::Runtime, format!("enabling an overwrite ring of CPU {cpu}"), e)
        })?;
        Ok(Some(Overwrite { event, window, since: 0 }))
    }

    /// Copies what was written since the last time. Paused meanwhile, for writers that nobody could wait for; one that
    /// somebody else has unmapped has no pause.
    fn copy(&mut self, at: usize) -> Copied {
        let _ = self.event.pause(true);
        let (head, data) = (self.window.head(), self.window.copy());
        let past = backward::find(&data, head, self.since);
        self.since = head;
        let _ = self.event.pause(false);
        Copied { at, data, past }
    }
}

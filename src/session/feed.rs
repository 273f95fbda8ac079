//! One map of programs that are not ours: its rings or its ringbuf, its events by their shapes, and its counts.
//!
//! Such programs number nothing and keep no accounts. Events are numbered here, ring by ring, what LOST records tell
//! included, so that a hole shows in the numbers too.

use std::{
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd},
};

use super::lane::{Lane, Taker, Way};
use crate::{
    Error, ErrorKind, Result,
    event::NO_CPU,
    ledger::{FeedCpu, FeedReport, Tail},
    probe::foreign::{ForeignMap, MapReading, Marker, Ringbuf, taken},
    record::{Body, sample_type},
    ring::{self, Array, Budget, Drained, Set},
    schema::{Schema, Shapes},
    sink::Sink,
};

/// A map that is pinned, and so is others' as well.
#[derive(Clone, Copy)]
pub struct Pin {
    /// Slots that somebody else has filled are taken.
    pub steal: bool,
}

/// One map that is read.
pub struct Feed {
    /// The map's name.
    pub map: String,
    /// The spec that it belongs to.
    pub spec: String,
    /// How its events are decoded, for a message.
    pub how: String,
    /// What it is and how it is decoded, for a header.
    pub attached: String,
    /// Whether its programs go on after us.
    pub pinned: bool,
    shapes: Shapes,
    /// Where its events' numbers count.
    level: u8,
    source: Source,
    lanes: Vec<Lane>,
    told: Vec<usize>,
    tail: Tail,
}

enum Source {
    Rings(Set, Marker),
    Ringbuf(Ringbuf),
}

impl Feed {
    /// Puts rings into the slots of a map, or takes its ringbuf. Slots that somebody else has filled are refused
    /// unless they are to be stolen; their reader gets nothing any more then.
    ///
    /// # Errors
    ///
    /// Precondition: a slot is taken; no ring is to be had.
    pub fn open(
        map: ForeignMap,
        spec: String,
        level: u8,
        rings: &ring::Options,
        pin: Option<Pin>,
    ) -> Result<Feed> {
        let ForeignMap { name, shapes, how, reading } = map;
        let kind = if matches!(reading, MapReading::Array(..)) { "perf event array" } else { "ringbuf" };
        let attached = format!("{kind} '{name}', level {level}: {how}");
        let source = match reading {
            MapReading::Ringbuf(ringbuf) => Source::Ringbuf(ringbuf),
            MapReading::Array(fd, slots) => {
                let within = |cpu: &u32| *cpu < slots;
                let cpus: Vec<u32> = match &rings.cpus {
                    Some(cpus) => cpus.iter().copied().filter(within).collect(),
                    None => ring::cpus::possible()?.into_iter().filter(within).collect(),
                };
                let marker = Marker::new(fd.as_fd(), RandomState::new().hash_one(std::process::id()))?;
                if !pin.is_some_and(|pin| pin.steal) {
                    all_free(&marker, &cpus, &name, &spec)?;
                }
                let options = ring::Options {
                    cpus: Some(cpus),
                    sample_type: rings.sample_type | sample_type::TIME | sample_type::TID,
                    max_raw: 0,
                    ..rings.clone()
                };
                let array = Array::foreign(fd.as_fd());
                // Another may take the slots of a pinned map at any time, and is to keep them.
                let array = if pin.is_some() { array.shared() } else { array };
                Source::Rings(Set::open(&options, Some(array))?, marker)
            }
        };
        let lanes = match &source {
            Source::Ringbuf(_) => 1,
            Source::Rings(set, _) => {
                set.options().cpus.iter().flatten().max().map_or(0, |cpu| *cpu as usize + 1)
            }
        };
        let lanes = vec![Lane::default(); lanes];
        let tail = Tail::Derived("the session is running".into());
        let (pinned, told) = (pin.is_some(), Vec::new());
        Ok(Feed { map: name, spec, how, attached, pinned, shapes, level, source, lanes, told, tail })
    }

    /// What its events may be.
    pub fn schemas(&self) -> &[Schema] {
        self.shapes.schemas()
    }

    /// The same, to give them names of their own.
    pub fn schemas_mut(&mut self) -> &mut [Schema] {
        self.shapes.schemas_mut()
    }

    /// What to poll for input.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match &self.source {
            Source::Rings(set, _) => set.fds().map(|(_, fd)| fd).collect(),
            Source::Ringbuf(ringbuf) => vec![ringbuf.as_fd()],
        }
    }

    /// Changes the wake rule of its rings; see [`Set::set_prompt`].
    pub fn set_prompt(&mut self, prompt: bool) -> Result<()> {
        match &mut self.source {
            Source::Rings(set, _) => set.set_prompt(prompt).map(drop),
            Source::Ringbuf(_) => Ok(()),
        }
    }

    /// Gives rings to CPUs that came, or came back; says how many.
    pub fn rescan(&mut self) -> Result<usize> {
        match &mut self.source {
            Source::Rings(set, _) => set.rescan().map(|made| made.len()),
            Source::Ringbuf(_) => Ok(0),
        }
    }

    /// Hands on what is there, within the budget.
    ///
    /// # Errors
    ///
    /// What the sink said first.
    pub fn drain(&mut self, budget: Budget, way: &mut Way<'_>) -> Result<Drained> {
        let Feed { map, shapes, level, source, lanes, told, .. } = self;
        let mut taker = Taker { map, shapes, level: *level, lanes, told, way };
        let mut failed = Ok(());
        let drained = match source {
            Source::Rings(set, marker) => set.drain(budget, |item| {
                failed = taker.item(marker.word(), &item);
                if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }),
            Source::Ringbuf(ringbuf) => {
                let mut drained = Drained::default();
                drained.more = ringbuf.drain(|record| {
                    drained.records += 1;
                    drained.bytes += record.len() as u64;
                    // What the batch holds is read whatever the sink says of its first.
                    let taken = taker.event(NO_CPU, None, None, Body::new(record));
                    failed = std::mem::replace(&mut failed, Ok(())).and(taken);
                });
                drained
            }
        };
        failed.map(|()| drained)
    }

    /// Writes end markers.
    pub fn mark_ends(&mut self) {
        let Source::Rings(set, marker) = &mut self.source else {
            self.tail = Tail::Derived("a BPF ringbuf has no end".into());
            return;
        };
        set.resume();
        self.tail = Tail::Proved;
        for cpu in set.cpus() {
            if let Err(e) = marker.mark_end(cpu) {
                self.tail = Tail::Derived(format!("no end marker on CPU {cpu}: {e}"));
            }
        }
    }

    /// Lets go of the slots whose end marker came back: of an array whose programs go on, another slot is not ours
    /// any more.
    pub fn let_go(&mut self) {
        if let (Source::Rings(set, _), true) = (&mut self.source, self.pinned) {
            set.unset(|cpu| self.lanes.get(cpu as usize).is_some_and(|lane| lane.markers > 0));
        }
    }

    /// Tells what was lost after each ring's last record, which no LOST record tells.
    pub fn end(&mut self, sink: &mut dyn Sink) {
        let Source::Rings(set, _) = &self.source else { return };
        for cpu in set.cpus() {
            let told = set.stats(cpu).map_or(0, |s| s.lost + s.untold);
            let untold = set.kernel_lost(cpu).and_then(|lost| lost.checked_sub(told)).unwrap_or(0);
            if let (Some(lane), true) = (self.lanes.get_mut(cpu as usize), untold > 0) {
                // A sink that fails now has its counts.
                let _ = sink.gap(&lane.lost(cpu, self.level, untold, None));
            }
        }
    }

    /// Its counts as they stand.
    pub fn report(&self) -> FeedReport {
        let of = |cpu: Option<u32>, lane: &Lane| FeedCpu {
            cpu,
            decoded: lane.decoded,
            as_bytes: lane.as_bytes,
            undecoded: lane.undecoded,
            markers: lane.markers,
            ..FeedCpu::default()
        };
        let cpus = match &self.source {
            Source::Ringbuf(_) => self.lanes.iter().map(|lane| of(None, lane)).collect(),
            Source::Rings(set, _) => {
                let one = |cpu: u32| {
                    let (stats, lane) = (set.stats(cpu)?, self.lanes.get(cpu as usize)?);
                    Some(FeedCpu {
                        samples: Some(stats.samples()),
                        lost: Some(stats.lost + stats.untold),
                        kernel_lost: set.kernel_lost(cpu),
                        corruptions: stats.corruptions,
                        corrupt_bytes: stats.corrupt_bytes,
                        unknown: stats.unknown,
                        high_water: stats.high_water,
                        ..of(Some(cpu), lane)
                    })
                };
                set.cpus().filter_map(one).collect()
            }
        };
        FeedReport { map: self.map.clone(), spec: self.spec.clone(), cpus, tail: self.tail.clone() }
    }

    /// Events after the last that was asked for.
    pub fn beyond(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.beyond).sum()
    }

    /// Empties the slots and closes the rings.
    ///
    /// # Errors
    ///
    /// Runtime, the first slot that could not be emptied.
    pub fn close(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Rings(set, _) => set.close(),
            Source::Ringbuf(_) => Ok(()),
        }
    }
}

/// Refuses slots that hold somebody's ring.
fn all_free(marker: &Marker, slots: &[u32], map: &str, spec: &str) -> Result<()> {
    let full = taken(marker, slots)?;
    let Some(slot) = full.first() else { return Ok(()) };
    let (taken, all) = (full.len(), slots.len());
    let why =
        format!("{spec}: slot {slot} of '{map}' holds somebody's ring: {taken} of {all} slots are taken");
    Err(Error::new(ErrorKind::Precondition, why).with_help(
        "stop its reader first; tracer read --map PIN --steal takes its place, and it gets nothing from then on",
    ))
}

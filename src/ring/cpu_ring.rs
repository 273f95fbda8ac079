//! The rings of one CPU: the one that is written now, and those that it replaced.

use std::{ops::ControlFlow, os::fd::AsFd};

use super::{
    array::Reading,
    attr::{Attr, Event},
    budget::Left,
    forward::{Forward, Hand, Place},
    mapping::Mapping,
    size::{explain_mmap, explain_open},
    stats::Stats,
    sys,
};
use crate::{
    error::{Error, ErrorKind, Result},
    record::Lost,
};

/// One event and its ring.
pub(super) struct Ring {
    /// `None` of a mock.
    pub event: Option<Event>,
    /// What writes into the same ring and wakes for each record, where there is one.
    pub prompt: Option<Event>,
    pub reader: Forward,
}

impl Ring {
    /// Opens, maps and enables one; `None` where the CPU is offline. `rings`: of how many, for the arithmetic.
    pub(super) fn open(
        cpu: u32,
        attr: Attr,
        size: usize,
        reading: Reading,
        rings: usize,
    ) -> Result<Option<Ring>> {
        let descriptors = attr.descriptors();
        let open = |attr: Attr| match attr.open(cpu) {
            Ok(event) => Ok(Some(event)),
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(e) => Err(explain_open(e, attr.what.name(), cpu, rings, rings.saturating_mul(descriptors))),
        };
        let Some(event) = open(attr)? else { return Ok(None) };
        let map = sys::Map::new(event.as_fd(), size).map_err(|e| explain_mmap(e, cpu, size, rings))?;
        let failed = |doing: &str, e| {
            let what = attr.what.name();
            Error::caused(ErrorKind::Runtime, format!("{doing} {what} of CPU {cpu}"), e)
        };
        let reader = Forward::new(cpu, Mapping::new(map, reading)?);
        event.enable().map_err(|e| failed("enabling", e))?;
        let mut prompt = None;
        if attr.prompt {
            // The ring's watermark is that of the event that is mapped (`ring_buffer_attach` and `rb_alloc`,
            // kernel/events), so that one is the event with a watermark.
            let Some(second) = open(attr.for_each())? else { return Ok(None) };
            second.write_into(&event).map_err(|e| failed("joining with another", e))?;
            second.enable().map_err(|e| failed("enabling", e))?;
            prompt = Some(second);
        }
        Ok(Some(Ring { event: Some(event), prompt, reader }))
    }

    /// The event that goes into the slot.
    pub(super) fn writer(&self, prompt: bool) -> Option<&Event> {
        self.prompt.as_ref().filter(|_| prompt).or(self.event.as_ref())
    }

    /// The ids that LOST records may say.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.event.iter().chain(&self.prompt).filter_map(|event| event.id().ok())
    }

    /// What was lost, by the kernel's count: each event has its own.
    pub(super) fn lost(&self) -> Option<u64> {
        let more = self.prompt.as_ref().map_or(Some(0), Event::lost)?;
        Some(self.event.as_ref()?.lost()? + more)
    }

    /// Of a ring that is read to its end and not written any more: what was lost after its last record. A LOST
    /// record tells that only before a record that follows, and none will.
    fn untold(&self) -> Option<Lost> {
        let lost = self.lost()?.checked_sub(self.reader.stats.lost).filter(|lost| *lost != 0)?;
        Some(Lost { id: self.ids().next().unwrap_or(0), lost, sample_id: None })
    }
}

pub(super) struct CpuRing {
    pub cpu: u32,
    /// `None` once closed.
    pub live: Option<Ring>,
    /// Rings that were replaced and hold records still; no program writes them any more.
    pub retiring: Vec<Ring>,
    /// What rings that are closed had read, and lost by the kernel's count.
    retired: Stats,
    retired_lost: Option<u64>,
    /// Seen offline since its ring was opened.
    pub away: bool,
    /// The last drain left unread records here.
    pub left_behind: bool,
}

impl CpuRing {
    pub(super) fn new(cpu: u32, live: Option<Ring>) -> CpuRing {
        CpuRing {
            cpu,
            live,
            retiring: Vec::new(),
            retired: Stats::default(),
            retired_lost: Some(0),
            away: false,
            left_behind: false,
        }
    }

    #[cfg(any(test, feature = "test-utils"))]
    pub(super) fn mock(reader: Forward) -> CpuRing {
        CpuRing::new(reader.cpu(), Some(Ring { event: None, prompt: None, reader }))
    }

    /// Drains the old rings, then the live one; closes old ones that are empty.
    pub(super) fn drain(&mut self, left: &mut Left, hand: &mut impl Hand) -> ControlFlow<()> {
        // Holds if the handler panics: more may be there.
        self.left_behind = true;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && !self.retiring.is_empty() && !left.spent() {
            let old = &mut self.retiring[0];
            flow = old.reader.drain(left, hand);
            if flow.is_continue() && old.reader.unread() == 0 {
                let old = self.retiring.remove(0);
                let place = Place { cpu: self.cpu, position: old.reader.position() };
                let untold = old.untold();
                self.retire(&old);
                self.retired.replaced += 1;
                if let Some(lost) = untold {
                    flow = hand.untold(&mut self.retired, place, lost);
                }
            }
        }
        if let Some(live) = &mut self.live
            && self.retiring.is_empty()
            && flow.is_continue()
            && !left.spent()
        {
            flow = live.reader.drain(left, hand);
            self.left_behind = live.reader.unread() != 0;
        } else {
            self.skip();
        }
        flow
    }

    /// Notes, without draining, whether there is something to drain.
    pub(super) fn skip(&mut self) {
        self.left_behind =
            !self.retiring.is_empty() || self.live.as_ref().is_some_and(|live| live.reader.waiting());
    }

    pub(super) fn stats(&self) -> Stats {
        let mut sum = self.retired;
        self.rings().for_each(|ring| sum += &ring.reader.stats);
        sum
    }

    pub(super) fn kernel_lost(&self) -> Option<u64> {
        self.rings().try_fold(self.retired_lost?, |sum, ring| Some(sum + ring.lost()?))
    }

    pub(super) fn close(&mut self) {
        while let Some(ring) = self.retiring.pop().or_else(|| self.live.take()) {
            self.retire(&ring);
        }
        self.left_behind = false;
    }

    fn retire(&mut self, ring: &Ring) {
        self.retired += &ring.reader.stats;
        let lost = ring.lost();
        self.retired_lost = self.retired_lost.zip(lost).map(|(sum, lost)| sum + lost);
    }

    fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.retiring.iter().chain(&self.live)
    }
}

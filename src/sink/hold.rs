//! The gaps that wait for room, by CPU: kept in order and in bounded memory, told before that CPU's next event.

use crate::event::{Cause, Event, Gap};

/// CPUs with a lane of their own; those above share the last.
const LANES: usize = 1 << 14;

/// Gaps kept apart on one lane. More than these are added up by cause: no event of their CPU stands between
/// them, so only their sequence numbers are given up.
const APART: usize = 16;

/// What waits for room, by CPU.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    held: usize,
}

#[derive(Debug, Default)]
struct Lane {
    /// The time of the last event written.
    last: Option<u64>,
    held: Vec<Held>,
    /// Flushes since the first of them was held.
    age: u32,
}

#[derive(Debug)]
struct Held {
    gap: Gap,
}

impl Lanes {
    #[inline]
    fn lane(&mut self, cpu: u32) -> &mut Lane {
        let at = (cpu as usize).min(LANES - 1);
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, Lane::default);
        }
        &mut self.lanes[at]
    }

    /// True where a gap of this CPU waits.
    #[inline]
    pub fn holds(&self, cpu: u32) -> bool {
        self.held != 0 && self.lanes.get((cpu as usize).min(LANES - 1)).is_some_and(|l| !l.held.is_empty())
    }

    /// True where any gap waits.
    pub fn any_held(&self) -> bool {
        self.held != 0
    }

    /// Notes an event that was written.
    #[inline]
    pub fn wrote(&mut self, event: &Event<'_>) {
        self.lane(event.cpu).last = event.time;
    }

    /// Holds a gap for an event that there was no room for.
    pub fn dropped(&mut self, event: &Event<'_>) {
        let gap = Gap {
            cpu: event.cpu,
            count: Some(1),
            cause: Cause::Dropped,
            seq: Some((event.wire.seq, event.wire.seq)),
            level: Some(event.wire.level),
            after: self.lane(event.cpu).last,
            before: None,
        };
        self.add(Held { gap });
    }

    /// Holds a gap that there was no room for.
    pub fn hold(&mut self, gap: Gap) {
        self.add(Held { gap });
    }

    fn add(&mut self, new: Held) {
        let lane = self.lane(new.gap.cpu);
        if lane.held.is_empty() {
            lane.age = 0;
        }
        if let Some(last) = lane.held.last_mut().filter(|last| last.continues_with(&new)) {
            last.merge(&new);
            return;
        }
        let full = lane.held.len() >= APART;
        let alike = |h: &&mut Held| {
            let (a, b) = (&h.gap, &new.gap);
            (a.cpu, a.cause, a.count.is_some()) == (b.cpu, b.cause, b.count.is_some())
        };
        match lane.held.iter_mut().rev().find(alike).filter(|_| full) {
            Some(old) => old.merge(&new),
            None => {
                lane.held.push(new);
                self.held += 1;
            }
        }
    }

    /// Says when the first record after what waits on this CPU was.
    pub fn close(&mut self, cpu: u32, time: Option<u64>) {
        for held in &mut self.lane(cpu).held {
            held.gap.before = held.gap.before.or(time);
        }
    }

    /// The next gap of this CPU.
    pub fn take_of(&mut self, cpu: u32) -> Option<Gap> {
        let lane = self.lane(cpu);
        if lane.held.is_empty() {
            return None;
        }
        let gap = lane.held.remove(0).gap;
        self.held -= 1;
        Some(gap)
    }

    /// The next gap of any CPU whose gaps have waited for as many flushes.
    pub fn take(&mut self, age: u32) -> Option<Gap> {
        let at = self.lanes.iter().position(|l| !l.held.is_empty() && l.age >= age)?;
        self.take_of(at as u32)
    }

    /// Counts a flush.
    pub fn grow_older(&mut self) {
        for lane in &mut self.lanes {
            lane.age = lane.age.saturating_add(1);
        }
    }
}

impl Held {
    /// True where `next` lengthens the same hole with nothing in between.
    fn continues_with(&self, next: &Held) -> bool {
        let (a, b) = (&self.gap, &next.gap);
        a.cause == Cause::Dropped
            && (a.cpu, a.cause) == (b.cpu, b.cause)
            && a.level == b.level
            && matches!((a.seq, b.seq), (Some((_, end)), Some((start, _))) if end.wrapping_add(1) == start)
    }

    fn merge(&mut self, next: &Held) {
        let continued = self.continues_with(next);
        let (a, b) = (&mut self.gap, &next.gap);
        a.seq = match (a.seq, b.seq) {
            (Some((first, _)), Some((_, last))) if continued => Some((first, last)),
            _ => None,
        };
        a.level = a.level.filter(|level| a.seq.is_some() && b.level == Some(*level));
        a.count = a.count.zip(b.count).map(|(a, b)| a + b);
        a.before = b.before;
    }
}

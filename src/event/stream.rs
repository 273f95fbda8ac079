//! One CPU's stream: sequence numbers and LOST records put together into holes with a cause and a place.
//!
//! Every attempt to emit takes a number, per CPU and scratch level, so what is missing shows as a hole. A LOST
//! record tells how many of the missing found no room; the rest failed in ways that no record tells.

use super::{Cause, Gap};
use crate::schema::LEVELS;

/// The gaps that one step can make known: what was overwritten, what was lost, and what failed otherwise.
pub type Gaps = [Option<Gap>; 3];

/// What is known of one CPU's stream so far.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    cpu: u32,
    /// The last number seen of each level; the kernel's first is 1.
    last: [u32; LEVELS],
    /// Losses told by a LOST record whose place is before the next record.
    pending: Option<(u64, Option<u64>)>,
    /// Losses told that no hole has shown yet: they are of a level that has been silent since.
    credit: u64,
    /// Events share records: a LOST record tells of records, and how many events they held the numbers alone do.
    gathers: bool,
    /// Bytes were given up; what is missing next went with them.
    corrupt: bool,
    /// Records of which newer ones were written over: what a level misses next was among them, or failed then.
    overwritten_before: [bool; LEVELS],
    overwritten: u64,
    /// The time of the last event.
    time: Option<u64>,
    events: u64,
    holes: u64,
}

impl Stream {
    /// The stream of a CPU that has emitted nothing yet.
    pub fn new(cpu: u32) -> Stream {
        Stream { cpu, ..Stream::default() }
    }

    /// The same, where events share records.
    pub fn gathering(cpu: u32) -> Stream {
        Stream { gathers: true, ..Stream::new(cpu) }
    }

    /// A LOST record stands here: `count` records before the next one found no room.
    pub fn lost(&mut self, count: u64, time: Option<u64>) {
        let before = self.pending.map_or(0, |(n, _)| n);
        self.pending = Some((before + count, time));
    }

    /// Bytes were given up here.
    pub fn corrupt(&mut self) -> Gap {
        self.corrupt = true;
        let (cpu, after) = (self.cpu, self.time);
        Gap { cpu, count: None, cause: Cause::Corrupt, seq: None, level: None, after, before: None }
    }

    /// Older records stood here that were overwritten: what each level misses before its next event went with them.
    pub fn overwritten_here(&mut self) {
        self.overwritten_before = [true; LEVELS];
    }

    /// An event stands here; the gaps come before it. `None` where no program of ours has so many levels.
    #[inline]
    pub fn event(&mut self, level: u8, seq: u32, time: Option<u64>) -> Option<Gaps> {
        let last = self.last.get_mut(usize::from(level))?;
        let missing = seq.wrapping_sub(*last).wrapping_sub(1);
        let first = last.wrapping_add(1);
        *last = seq;
        self.events += 1;
        let over = std::mem::take(&mut self.overwritten_before[usize::from(level)]);
        let gaps = if missing == 0 && self.pending.is_none() {
            [None; 3]
        } else {
            let over = if over { u64::from(missing) } else { 0 };
            self.gaps(u64::from(missing), over, Some((level, first, seq.wrapping_sub(1))), time)
        };
        self.time = time;
        Some(gaps)
    }

    /// The stream has ended: `attempts` are the numbers that each level has given out.
    pub fn end(&mut self, attempts: [u32; LEVELS]) -> Gaps {
        let (mut missing, mut over, mut range) = (0, 0, None);
        let before = std::mem::take(&mut self.overwritten_before);
        for (level, (last, given)) in (0..).zip(self.last.iter_mut().zip(attempts)) {
            let tail = given.wrapping_sub(*last);
            if tail > 0 {
                // One level's hole has a place; those of several have none in common.
                range = if missing == 0 { Some((level, last.wrapping_add(1), given)) } else { None };
            }
            missing += u64::from(tail);
            over += if before[usize::from(level)] { u64::from(tail) } else { 0 };
            *last = given;
        }
        self.gaps(missing, over, range, None)
    }

    /// `over`: how many of the missing were overwritten. `range`: a level, and its first and last missing number.
    fn gaps(&mut self, missing: u64, over: u64, range: Option<(u8, u32, u32)>, time: Option<u64>) -> Gaps {
        let range = range.filter(|_| missing > 0);
        let missing = missing - over;
        self.holes += missing;
        self.overwritten += over;
        let (level, seq) = (range.map(|(level, ..)| level), range.map(|(_, first, last)| (first, last)));
        let gap = |count, cause, before| Gap {
            cpu: self.cpu,
            count: Some(count),
            cause,
            seq,
            level,
            after: self.time,
            before,
        };
        let overwritten = (over > 0).then(|| gap(over, Cause::Overwritten, time));
        let mut gaps = [overwritten, None, None];
        if self.gathers {
            if missing > 0 {
                let cause = match (self.pending, self.corrupt) {
                    (_, true) => Cause::Corrupt,
                    (Some(_), _) => Cause::Lost,
                    _ => Cause::Failed,
                };
                let told = self.pending.take().and_then(|(_, told)| told);
                gaps[1] = Some(gap(missing, cause, told.or(time)));
                self.corrupt = false;
            }
            return gaps;
        }
        if let Some((count, told)) = self.pending.take() {
            self.credit += count;
            gaps[1] = Some(gap(count, Cause::Lost, told.or(time)));
        }
        let explained = missing.min(self.credit);
        if missing > explained {
            let cause = if self.corrupt { Cause::Corrupt } else { Cause::Failed };
            gaps[2] = Some(gap(missing - explained, cause, time));
        }
        self.credit -= explained;
        if missing > 0 {
            self.corrupt = false;
        }
        gaps
    }

    /// Events seen.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Sequence numbers that no event carried, up to the last event or, once ended, to the last attempt; but for
    /// those that were overwritten.
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Sequence numbers that went with what was overwritten.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Losses told for which the sequence shows no hole; not 0 after the end means that something is wrong.
    pub fn unplaced(&self) -> u64 {
        self.credit + self.pending.filter(|_| self.gathers).map_or(0, |(count, _)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(gaps: Gaps) -> Vec<(Cause, u64)> {
        gaps.into_iter().flatten().map(|g| (g.cause, g.count.unwrap_or(u64::MAX))).collect()
    }

    #[test]
    fn a_loss_and_its_hole_are_one_gap_at_one_place() {
        let mut s = Stream::new(3);
        assert_eq!(counts(s.event(0, 1, Some(10)).unwrap()), []);
        s.lost(5, Some(19));
        let gaps = s.event(0, 7, Some(20)).unwrap();
        let expected = Gap {
            cpu: 3,
            count: Some(5),
            cause: Cause::Lost,
            seq: Some((2, 6)),
            level: Some(0),
            after: Some(10),
            before: Some(19),
        };
        assert_eq!(gaps, [None, Some(expected), None]);
        assert_eq!((s.events(), s.holes(), s.unplaced()), (2, 5, 0));
    }

    #[test]
    fn failures_that_no_record_tells_show_as_holes() {
        let mut s = Stream::new(0);
        assert_eq!(counts(s.event(0, 4, None).unwrap()), [(Cause::Failed, 3)]);
        s.lost(2, None);
        assert_eq!(counts(s.event(0, 10, None).unwrap()), [(Cause::Lost, 2), (Cause::Failed, 3)]);
        assert_eq!(counts(s.end([15, 0, 0, 0])), [(Cause::Failed, 5)]);
        assert_eq!(s.holes(), 13);
    }

    #[test]
    fn a_loss_of_another_level_is_told_once() {
        let mut s = Stream::new(0);
        s.event(0, 1, None);
        s.event(1, 1, None);
        s.lost(2, None);
        assert_eq!(counts(s.event(0, 2, None).unwrap()), [(Cause::Lost, 2)]);
        assert_eq!(s.unplaced(), 2);
        assert_eq!(counts(s.event(1, 4, None).unwrap()), []);
        assert_eq!((s.holes(), s.unplaced()), (2, 0));
    }

    #[test]
    fn trailing_losses_are_placed_by_the_counters() {
        let mut s = Stream::new(0);
        s.event(0, 1, Some(5));
        s.lost(18, Some(9));
        let gaps = s.end([19, 0, 0, 0]);
        assert_eq!(counts(gaps), [(Cause::Lost, 18)]);
        assert_eq!(gaps[1].and_then(|g| g.seq), Some((2, 19)));
        assert_eq!((s.holes(), s.unplaced()), (18, 0));
    }

    #[test]
    fn an_ignored_loss_or_an_invented_one_does_not_pass() {
        let mut s = Stream::new(0);
        s.lost(3, None);
        s.event(0, 1, None);
        s.end([1, 0, 0, 0]);
        assert_eq!(s.unplaced(), 3);
    }

    #[test]
    fn lost_records_that_held_several_events() {
        let mut s = Stream::gathering(0);
        s.event(0, 1, None);
        s.lost(2, Some(9));
        // Of another level, and so no hole yet.
        assert_eq!(counts(s.event(1, 1, None).unwrap()), []);
        assert_eq!(s.unplaced(), 2);
        assert_eq!(counts(s.event(0, 18, None).unwrap()), [(Cause::Lost, 16)]);
        assert_eq!((s.events(), s.holes(), s.unplaced()), (3, 16, 0));
        assert_eq!(counts(s.event(0, 20, None).unwrap()), [(Cause::Failed, 1)]);
        s.lost(1, None);
        assert_eq!(counts(s.end([28, 1, 0, 0])), [(Cause::Lost, 8)]);
        assert_eq!(s.unplaced(), 0);
    }

    #[test]
    fn what_was_overwritten_is_no_hole() {
        let mut s = Stream::new(0);
        s.event(0, 1, Some(1));
        s.overwritten_here();
        assert_eq!(counts(s.event(0, 101, Some(9)).unwrap()), [(Cause::Overwritten, 99)]);
        assert_eq!(counts(s.event(0, 104, None).unwrap()), [(Cause::Failed, 2)]);
        // A level that is silent since ends so; another's failures are its own.
        assert_eq!(counts(s.end([105, 7, 0, 0])), [(Cause::Overwritten, 7), (Cause::Failed, 1)]);
        assert_eq!((s.events(), s.holes(), s.overwritten()), (3, 3, 106));
        let mut s = Stream::new(0);
        s.overwritten_here();
        s.lost(2, None);
        assert_eq!(counts(s.event(0, 5, None).unwrap()), [(Cause::Overwritten, 4), (Cause::Lost, 2)]);
    }

    #[test]
    fn numbers_wrap() {
        let mut s = Stream::new(0);
        s.last = [u32::MAX - 1, 0, 0, 0];
        assert_eq!(counts(s.event(0, u32::MAX, None).unwrap()), []);
        assert_eq!(counts(s.event(0, 0, None).unwrap()), []);
        assert_eq!(counts(s.event(0, 2, None).unwrap()), [(Cause::Failed, 1)]);
        assert!(s.event(4, 1, None).is_none());
    }
}

//! The holes that dropped batches leave: each is told by the next batch that is opened.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Batch;
use crate::{event::Gap, sink::hold::Lanes};

/// The holes of batches that were dropped before anybody took them.
///
/// Whoever drops one holds the lock from before it takes the batch out of the queue until its holes are in here, so
/// a batch behind it, once it is out of the queue too, finds them.
#[derive(Clone, Default)]
pub(crate) struct Missed(Arc<Mutex<VecDeque<Run>>>);

/// Batches one behind another.
struct Run {
    last: u64,
    lanes: Lanes,
}

impl Missed {
    /// Takes a batch out of its queue by `take` and drops it; how many events it held.
    #[cfg(feature = "channel")]
    pub fn drop_one(&self, take: impl FnOnce() -> Option<Batch>) -> u64 {
        use super::{
            Item,
            iter::{Cursor, Iter},
        };
        let mut runs = self.lock();
        let Some(batch) = take() else { return 0 };
        let serial = batch.contents.serial;
        if runs.back().is_none_or(|run| run.last + 1 != serial) {
            runs.push_back(Run { last: serial, lanes: Lanes::default() });
        }
        let Some(Run { last, lanes }) = runs.back_mut() else { return 0 };
        *last = serial;
        // It was opened by nobody, so the holes before it are in here still.
        for item in (Iter { batch: &batch, cursor: Cursor::default() }) {
            match item {
                Item::Event(event) => lanes.dropped(&event),
                Item::Gap(gap) => lanes.hold(gap),
                // Notes are no part of the books.
                _ => {}
            }
        }
        batch.len() as u64
    }

    /// The holes before a batch, each CPU's in order.
    pub fn take_before(&self, batch: &Batch) -> Vec<Gap> {
        let (mut runs, mut gaps) = (self.lock(), Vec::new());
        while runs.front().is_some_and(|run| run.last < batch.contents.serial) {
            let Some(mut run) = runs.pop_front() else { break };
            gaps.extend(std::iter::from_fn(|| run.lanes.take(0)));
        }
        for gap in &mut gaps {
            let next = batch.contents.heads.iter().find(|head| head.cpu == gap.cpu);
            gap.before = gap.before.or(next.and_then(|head| head.time));
        }
        gaps
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

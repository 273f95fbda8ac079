//! The reading loops of a benchmark: over rings by one thread or several, over a BPF ringbuf.

use std::{
    cell::RefCell,
    ops::ControlFlow,
    os::fd::AsFd,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use super::{seen::Seen, workload::thread_cpu};
use crate::{
    Result,
    frontend::{Control, Pace, Poller},
    probe::bench::RingbufReader,
    ring::{Budget, Drained, ItemKind, Set},
};

/// How long one pass may take.
const PASS: Budget = Budget { time: Some(Duration::from_millis(50)), ..Budget::ALL };

/// Reads each set by a thread, the first by this one, while `on`: CPU time of them all.
pub(super) fn rings(sets: &mut [Set], seen: &mut Seen, on: &(impl Fn() -> bool + Sync)) -> Result<Duration> {
    let Some((first, others)) = sets.split_first_mut() else { return Ok(Duration::ZERO) };
    thread::scope(|scope| {
        let read_by_another = |set| {
            let mut theirs = seen.another();
            scope.spawn(move || one(set, &mut theirs, on).map(|used| (used, theirs)))
        };
        let threads: Vec<_> = others.iter_mut().map(read_by_another).collect();
        let mut used = one(first, seen, on)?;
        for thread in threads {
            let (theirs, them) = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            used += theirs;
            seen.add(&them);
        }
        Ok(used)
    })
}

/// Reads and waits in turn.
fn one(set: &mut Set, seen: &mut Seen, on: &impl Fn() -> bool) -> Result<Duration> {
    let (control, mut poller, mut pace) = (Control::new()?, Poller::new()?, Pace::new(set));
    poller.register(set, 0, &control)?;
    let cpu_started = thread_cpu();
    while on() {
        let drained = pass(set, PASS, seen);
        pace.count(&drained, |prompt| set.set_prompt(prompt))?;
        if !drained.more {
            poller.wait(pace.sweep(), &control)?;
            seen.woke();
        }
    }
    Ok(thread_cpu() - cpu_started)
}

/// The same of a BPF ringbuf, whose records `seen` is handed by itself.
pub(super) fn ringbuf(
    ringbuf: &RingbufReader<'_>,
    sweep: Duration,
    seen: &RefCell<Seen>,
    on: &impl Fn() -> bool,
) -> Result<Duration> {
    let control = Control::new()?;
    let poller = Poller::on(&control)?;
    poller.also(std::iter::once(ringbuf.as_fd()))?;
    let cpu_started = thread_cpu();
    while on() {
        ringbuf.drain();
        poller.wait(sweep, &control)?;
        seen.borrow_mut().woke();
    }
    Ok(thread_cpu() - cpu_started)
}

/// What is there now.
#[inline]
pub(super) fn pass(set: &mut Set, budget: Budget, seen: &mut Seen) -> Drained {
    set.drain(budget, |item| {
        match item.kind {
            ItemKind::Sample(sample) => seen.take(sample.raw().unwrap_or_default()),
            ItemKind::Lost(lost) => seen.lost += lost.lost,
            _ => seen.wrong += 1,
        }
        ControlFlow::Continue(())
    })
}

/// All that is there.
pub(super) fn drain_out(sets: &mut [Set], seen: &mut Seen) {
    for set in sets {
        while pass(set, Budget::ALL, seen).more {}
    }
}

/// Seconds that `read` took, and the share of a CPU that it says it used.
pub(super) fn share(read: impl FnOnce() -> Result<Duration>) -> Result<(f64, f64)> {
    let started = Instant::now();
    let used = read()?;
    let seconds = started.elapsed().as_secs_f64();
    Ok((seconds, used.as_secs_f64() / seconds))
}

//! One pass at a time: what every front end does between two waits, and what it may wait for then.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use super::{Control, Pace, Poller};
use crate::{
    Result,
    ring::{Budget, Drained, Set},
    session::Session,
    sink::Sink,
};

/// Drives a session from an event loop of one's own: epoll, mio, calloop, or the loop of a toolkit.
///
/// The loop polls the driver's descriptor ([`AsFd`], readable when a pass is due), waits at most [`Driver::timeout`],
/// and calls [`Driver::pass`] after every wait, woken or not. That is all: readiness of a ring is one-shot, and what a
/// pass leaves in one is remembered here, as is a ring that was replaced: the time-out is zero then. The descriptor
/// stays the same for as long as the driver lives.
///
/// ```no_run
/// use std::os::fd::AsFd;
/// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
/// use tracer::{frontend::{Control, Driver}, ring::Budget, session::Session, sink::Memory};
///
/// fn serve(mut session: Session, control: &Control) -> tracer::Result<()> {
///     let mut driver = Driver::new(&session, control)?;
///     let mut sink = Memory::new();
///     session.header(&mut sink)?;
///     while !control.stopping() {
///         driver.pass(&mut session, Budget::records(4096), &mut sink)?;
///         let millis = driver.timeout().as_nanos().div_ceil(1_000_000);
///         let millis = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
///         // Beside it: the daemon's own sockets and timers.
///         let _ = poll(&mut [PollFd::new(driver.as_fd(), PollFlags::POLLIN)], millis);
///     }
///     println!("balanced: {}", session.stop(&mut sink)?.balanced());
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Driver {
    /// Holds the descriptor of `poller`, which is another whenever a ring is.
    outer: Poller,
    poller: Poller,
    pace: Pace,
    control: Control,
    /// Something may be there that nothing will signal.
    more: bool,
    /// Wake-ups were heard after the last pass.
    heard: bool,
    /// When the last pass was.
    passed: Instant,
}

impl Driver {
    /// A driver of this session. No pass was made yet, so the time-out is zero.
    ///
    /// # Errors
    ///
    /// Runtime, where no descriptor is to be had.
    pub fn new(session: &Session, control: &Control) -> Result<Driver> {
        control.begin();
        let (outer, poller) = (Poller::new()?, Poller::new()?);
        let (pace, control) = (Pace::new(session.rings()), control.clone());
        Ok(Driver { outer, poller, pace, control, more: true, heard: false, passed: Instant::now() })
    }

    /// Whether a stop was asked for.
    pub fn stopping(&self) -> bool {
        self.control.stopping()
    }

    /// Registers rings that are new. What stands in them already is not signalled.
    fn register(&mut self, session: &Session) -> Result<()> {
        if self.poller.register(session.rings(), session.generation(), &self.control)? {
            let others = session.shard_rings().iter().skip(1).flat_map(Set::fds);
            self.poller.also(others.map(|(_, fd)| fd).chain(session.further_fds()))?;
            self.outer.also(std::iter::once(self.poller.as_fd()))?;
            self.more = true;
        }
        Ok(())
    }

    /// Drains what is there now, within the budget; never waits for anything. Then the sink is flushed, and whoever
    /// asked for the ledger ([`Control::stats`]) is told it.
    ///
    /// # Errors
    ///
    /// What the sink said, and Runtime, where polling fails. Either ends the run, by [`Session::stop`].
    pub fn pass(&mut self, session: &mut Session, budget: Budget, sink: &mut dyn Sink) -> Result<Drained> {
        self.register(session)?;
        // A wake-up is forgotten before what it was for is looked at, never after.
        if !std::mem::take(&mut self.heard) {
            self.poller.wait(Duration::ZERO, &self.control)?;
        }
        self.more = true;
        let drained = session.drain(budget, sink)?;
        self.more = drained.more;
        self.register(session)?;
        self.passed = Instant::now();
        self.pace.count(&drained, |prompt| session.set_prompt(prompt))?;
        sink.flush()?;
        self.control.tell(|| session.report(sink));
        Ok(drained)
    }

    /// How long to wait at most before the next pass: zero where records are left that nothing will signal.
    pub fn timeout(&self) -> Duration {
        if self.more { Duration::ZERO } else { self.pace.sweep().saturating_sub(self.passed.elapsed()) }
    }

    /// Waits on this thread until a pass is due, at most `longest`.
    ///
    /// # Errors
    ///
    /// Runtime; never because of a signal.
    pub fn wait(&mut self, longest: Duration) -> Result<()> {
        self.heard = !self.more;
        if self.heard {
            self.poller.wait(self.timeout().min(longest), &self.control)?;
        }
        Ok(())
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outer.as_fd()
    }
}

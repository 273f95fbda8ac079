//! One pass over the rings a poll, when one is due; and the others' turn after each that brought something.

use std::{
    collections::VecDeque,
    future::Future,
    mem,
    os::fd::{AsFd, OwnedFd},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    task::yield_now,
    time::{Instant, Sleep, sleep_until},
};

use super::{Control, Options, filled::Filled};
use crate::{
    Error, ErrorKind, Result, frontend::Driver, ring::Budget, session::Session, sink::Batch, sink::Sink,
};

/// A session that is read as it is polled.
pub struct Passes {
    driver: Driver,
    /// The driver's descriptor.
    watched: AsyncFd<OwnedFd>,
    session: Session,
    sink: Filled,
    budget: Budget,
    sweep: Pin<Box<Sleep>>,
    /// It is the others' turn.
    yields: bool,
}

impl Passes {
    pub fn new(session: Session, options: Options, control: &Control) -> Result<Passes> {
        let mut sink = Filled::new(options.batch);
        session.header(&mut sink)?;
        let driver = Driver::new(&session, control)?;
        let (watched, sweep) = (watch(&driver)?, Box::pin(sleep_until(Instant::now())));
        Ok(Passes { driver, watched, session, sink, budget: options.budget, sweep, yields: false })
    }

    /// The session and what takes its last events.
    pub fn into_parts(self) -> (Session, Filled) {
        (self.session, self.sink)
    }

    pub fn limit_reached(&self) -> bool {
        self.session.limit_reached()
    }

    /// Swaps the batches that were filled for none.
    pub fn swap(&mut self, ready: &mut VecDeque<Batch>) {
        mem::swap(self.sink.ready(), ready);
    }

    /// Ready when a pass has brought something, or a stop was asked for.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if mem::take(&mut self.yields) {
            // It has the runtime wake this task after the others, and after it has looked at its own descriptors.
            ready!(pin!(yield_now()).poll(cx));
        }
        loop {
            if !self.driver.timeout().is_zero() {
                // Both, so that either wakes this task.
                let woken = self.watched.poll_read_ready_mut(cx).map_err(cannot_wait)?;
                let due = self.sweep.as_mut().poll(cx).is_ready();
                match woken {
                    Poll::Ready(mut guard) => guard.clear_ready(),
                    Poll::Pending if due => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
            let drained = self.driver.pass(&mut self.session, self.budget, &mut self.sink)?;
            self.sweep.as_mut().reset(Instant::now() + self.driver.timeout());
            let brought = !self.sink.ready().is_empty();
            self.yields = brought || drained.more;
            if brought || self.driver.stopping() || self.session.limit_reached() {
                return Poll::Ready(Ok(()));
            }
            if self.yields {
                self.yields = false;
                ready!(pin!(yield_now()).poll(cx));
            }
        }
    }
}

/// The driver's descriptor in this runtime: one of its own for the same epoll.
fn watch(driver: &Driver) -> Result<AsyncFd<OwnedFd>> {
    let fd = driver.as_fd().try_clone_to_owned().map_err(cannot_wait)?;
    // What is to be called instead is unsafe, for types whose descriptor may become another; an OwnedFd's does not.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, Interest::READABLE).map_err(cannot_wait)
}

fn cannot_wait(e: std::io::Error) -> Error {
    Error::caused(ErrorKind::Runtime, "waiting for rings in a runtime", e)
}

impl std::fmt::Debug for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passes").field("sink", &self.sink.name()).field("budget", &self.budget).finish()
    }
}

//! The tokio front end: a session as a stream of batches or events, read by whichever task polls it.
//!
//! ```text
//!   rings' epoll ─► AsyncFd ─┐
//!   sweep ─► timer ──────────┼─► poll: one pass within its budget ─► batch, batch ─► next_batch().await
//!   Control ─► eventfd ──────┘         then the others' turn
//! ```
//!
//! There is no thread behind it and no queue: while nobody polls, nothing is read, and what the rings have no room for
//! is lost in the kernel and told as such. Where a task may be held up for longer than rings last, let
//! `frontend::channel` read, whose thread is held up by nobody, and receive its batches in `spawn_blocking`.
//!
//! **Cancellation.** Dropping a future of [`Batches::next_batch`] or [`Batches::stop`] at any time loses nothing: what was
//! read stands in the stream itself.
//!
//! **Other tasks.** A pass takes at most [`Options::budget`]. After each that brought something the task yields, so that
//! however fast rings fill up, others run in between, and the runtime looks after its own descriptors and timers.
//!
//! **Threads.** The stream may move between the threads of a runtime from one poll to the next, as a session is [`Send`].
//! The end of a run waits for programs to end and reads rings to their ends: tokio's blocking threads do that.
//!
//! ```no_run
//! use tracer::{frontend::tokio::{Batches, Options}, session::{self, Session}};
//!
//! # async fn service() -> tracer::Result<()> {
//! let session = Session::start(session::Options::default(), &["s:write".parse()?])?;
//! let mut batches = Batches::new(session, Options::default())?;
//! let control = batches.control().clone(); // stop(), flush(), stats() from any thread or task
//! tokio::spawn(async move {
//!     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
//!     control.stop();
//! });
//! while let Some(batch) = batches.next_batch().await {
//!     println!("{} events", batch?.len());
//! }
//! println!("balanced: {}", batches.stop().await?.balanced());
//! # Ok(())
//! # }
//! ```

mod events;
mod filled;
mod pass;

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use tokio::{runtime::Handle, task::JoinHandle};

use self::{filled::Filled, pass::Passes};
use super::Control;
use crate::{Error, ErrorKind, Result, ledger::Report, ring::Budget, session::Session, sink::Batch};

pub use events::{Events, Piece};

/// How a stream is read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At how many bytes a batch is full, what it knows of each event included. One that is not full is given at the
    /// end of its pass.
    pub batch: usize,
    /// The most that one poll reads.
    pub budget: Budget,
}

impl Default for Options {
    /// Batches of 64 KiB; 4096 records, 1 MiB or 1 ms a poll.
    fn default() -> Options {
        let budget = Budget { records: 4096, bytes: 1 << 20, time: Some(Duration::from_millis(1)) };
        Options { batch: 64 << 10, budget }
    }
}

/// A session's events as batches: a [`Stream`] that ends after the last of a run that was stopped.
///
/// Dropping it detaches the probes and closes the rings on the spot, without a last pass; [`Batches::stop`] is the
/// orderly end.
#[derive(Debug)]
pub struct Batches {
    state: State,
    /// Batches that nobody has taken yet.
    ready: VecDeque<Batch>,
    control: Control,
    runtime: Handle,
    /// The final ledger.
    report: Option<Report>,
    /// What ended the run, until it is told.
    error: Option<Error>,
}

#[derive(Debug)]
enum State {
    Running(Box<Passes>),
    Stopping(JoinHandle<Stopped>),
    Ended,
}

/// What an orderly end leaves.
#[derive(Debug)]
struct Stopped {
    report: Result<Report>,
    sink: Filled,
}

impl Batches {
    /// Reads a session whose probes are attached.
    ///
    /// # Errors
    ///
    /// Precondition, outside of a tokio runtime; Runtime, where no descriptor is to be had.
    ///
    /// # Panics
    ///
    /// In a runtime whose I/O or time is not enabled: `Builder::enable_all` does both.
    pub fn new(session: Session, options: Options) -> Result<Batches> {
        let runtime = Handle::try_current().map_err(|e| {
            Error::caused(ErrorKind::Precondition, "reading a session as a stream", e)
                .with_help("call it from a task, or between Runtime::enter and the guard's end")
        })?;
        let control = Control::new()?;
        let state = State::Running(Box::new(Passes::new(session, options, &control)?));
        Ok(Batches { state, ready: VecDeque::new(), control, runtime, report: None, error: None })
    }

    /// The stream's handle, to be cloned: stops it, flushes it, and reads its ledger from any thread or task.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The next batch; `None` once the run has ended and all were taken. Waits for rings, for the handle, and at most a
    /// sweep for a pass. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// Once, what has ended the run: Runtime, where polling failed.
    pub async fn next_batch(&mut self) -> Option<Result<Batch>> {
        poll_fn(|cx| self.poll_next_batch(cx)).await
    }

    /// Ends the run in order and gives the final ledger. The batches that were not taken yet, with all that was in the
    /// rings, still are there for [`Batches::next_batch`]. Twice is fine, and so is dropping the future.
    ///
    /// # Errors
    ///
    /// What has ended the run before, unless that was told; Runtime, as [`Session::stop`].
    pub async fn stop(&mut self) -> Result<Report> {
        self.control.stop();
        poll_fn(|cx| self.poll_end(cx)).await;
        match (self.error.take(), &self.report) {
            (None, Some(report)) => Ok(report.clone()),
            (Some(error), _) => Err(error),
            (None, None) => {
                Err(Error::new(ErrorKind::Runtime, "the run has ended with an error, told before"))
            }
        }
    }

    /// The same events one by one.
    pub fn into_events(self) -> Events {
        Events::new(self)
    }

    /// As [`Batches::next_batch`], for futures of one's own.
    pub fn poll_next_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch>>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(batch)));
            }
            match &mut self.state {
                State::Running(passes) if !(self.control.stopping() || passes.limit_reached()) => {
                    let passed = ready!(passes.poll(cx));
                    passes.swap(&mut self.ready);
                    if let Err(error) = passed {
                        self.error = Some(error);
                        self.end();
                    }
                }
                State::Running(_) => self.end(),
                State::Stopping(_) => ready!(self.poll_end(cx)),
                State::Ended => return Poll::Ready(self.error.take().map(Err)),
            }
        }
    }

    /// Ready once the run has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Running(_) = self.state {
            self.end();
        }
        if let State::Stopping(thread) = &mut self.state {
            let stopped = ready!(Pin::new(thread).poll(cx));
            self.state = State::Ended;
            let gone = |e| Error::caused(ErrorKind::Runtime, "stopping a session", e);
            match stopped.map_err(gone).and_then(|Stopped { report, mut sink }| {
                self.ready.append(sink.ready());
                report
            }) {
                Ok(report) => {
                    self.control.tell_last(&report);
                    self.report = Some(report);
                }
                Err(error) => _ = self.error.get_or_insert(error),
            }
        }
        Poll::Ready(())
    }

    /// Has the session stopped, on a thread that may be held up.
    fn end(&mut self) {
        match mem::replace(&mut self.state, State::Ended) {
            State::Running(passes) => {
                let (mut session, mut sink) = passes.into_parts();
                let thread = self.runtime.spawn_blocking(move || {
                    let report = session.stop(&mut sink);
                    Stopped { report, sink }
                });
                self.state = State::Stopping(thread);
            }
            other => self.state = other,
        }
    }
}

impl Stream for Batches {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Batch>>> {
        self.get_mut().poll_next_batch(cx)
    }
}

/// That a task may be moved between threads with a stream in it.
const _: () = {
    const fn may_move<T: Send + Unpin>() {}
    may_move::<Batches>();
    may_move::<Events>();
};

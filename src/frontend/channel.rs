//! The channel front end: a thread of its own reads a session, and hands on batches by a bounded channel. It starts
//! more where the session was prepared with several readers ([`Options::reader_threads`](crate::session::Options)).
//!
//! What becomes of events when nobody takes them fast enough is [`Options::on_full`]'s to say. Unless it is
//! [`OnFull::Block`], the reader never waits for a receiver, so what the kernel emits is read
//! however slow that is.
//!
//! ```no_run
//! use tracer::{frontend::channel, session::{self, Session}, sink::batch::Item};
//!
//! # fn main() -> tracer::Result<()> {
//! let session = Session::start(session::Options::default(), &["s:write".parse()?])?;
//! let (reader, batches) = channel::spawn(session, channel::Options::default())?;
//! let control = reader.control().clone(); // stop(), flush(), stats() from any thread
//! std::thread::spawn(move || {
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//!     control.stop();
//! });
//! for batch in &batches {
//!     for item in &batch {
//!         match item {
//!             Item::Event(event) => println!("{}: {}", event.cpu, event.schema.name),
//!             Item::Gap(gap) => println!("{}: {:?} missing", gap.cpu, gap.count),
//!             _ => {}
//!         }
//!     }
//! }
//! println!("balanced: {}", reader.join()?.report.balanced());
//! # Ok(())
//! # }
//! ```

use std::{
    ops::ControlFlow,
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::{Control, blocking::Ended, threads};
use crate::{
    Error, ErrorKind, Result,
    session::Session,
    sink::channel::{self, Batches},
};

pub use crate::sink::{OnFull, channel::Receiver};

/// How the channel is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many batches it holds.
    pub batches: usize,
    /// At how many bytes a batch is full, what it knows of each event included. One that is not full is handed on
    /// after each pass over the rings, unless some wait already.
    pub batch: usize,
    /// What becomes of events where it is full.
    pub on_full: OnFull,
}

impl Default for Options {
    /// 64 batches of 64 KiB; what comes when they are full is dropped.
    fn default() -> Options {
        let channel::Options { batches, batch, on_full, .. } = channel::Options::default();
        Options { batches, batch, on_full }
    }
}

/// A running reader thread.
///
/// Dropping it stops the run and waits for its end, as [`Reader::join`] does.
#[derive(Debug)]
pub struct Reader {
    control: Control,
    thread: Option<JoinHandle<Result<Ended>>>,
}

/// Starts a thread that reads a session whose probes are attached, until it is stopped, its limit is reached, or the
/// last receiver is dropped; each ends it in order.
///
/// # Errors
///
/// Runtime, where a descriptor or a thread is not to be had; the session is dropped then.
pub fn spawn(session: Session, options: Options) -> Result<(Reader, Receiver)> {
    let control = Control::new()?;
    let (gone, stopping) = (control.clone(), control.clone());
    let (mut batches, receiver) = Batches::new(channel::Options {
        batches: options.batches,
        batch: options.batch,
        on_full: options.on_full,
        on_gone: Some(Box::new(move || gone.stop())),
        stopping: Some(Arc::new(move || stopping.stopping())),
        stop_bound: session.stop_bound(),
        ..channel::Options::default()
    });
    session.header(&mut batches)?;
    let theirs = control.clone();
    let thread = thread::Builder::new()
        .name("tracer-reader".into())
        .spawn(move || run(session, batches, &theirs))
        .map_err(|e| Error::caused(ErrorKind::Runtime, "starting a reader thread", e))?;
    Ok((Reader { control, thread: Some(thread) }, receiver))
}

fn run(mut session: Session, mut batches: Batches, control: &Control) -> Result<Ended> {
    threads::run(&mut session, &mut batches, control, None, |_, _| ControlFlow::Continue(()))
}

impl Reader {
    /// Its handle, to be cloned: stops it, flushes it, and reads its ledger from any thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits for the end of the run, which somebody else has to bring about: [`Control::stop`], the session's limit,
    /// or the last receiver being dropped. What is in the channel then can still be received.
    ///
    /// The end waits for a receiver that takes nothing at most as long as
    /// [`session::Options::stop_bound`](crate::session::Options::stop_bound) says.
    ///
    /// # Errors
    ///
    /// Runtime, where the reader failed or panicked.
    pub fn join(mut self) -> Result<Ended> {
        self.wait()
    }

    /// Whether the run has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn wait(&mut self) -> Result<Ended> {
        let gone = || Error::new(ErrorKind::Runtime, "the reader thread has panicked");
        let thread = self.thread.take().ok_or_else(gone)?;
        thread.join().map_err(|_| gone())?
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.control.stop();
            // Who wants to know how it ended asks by `join`.
            let _ = self.wait();
        }
    }
}

//! Bytes to a descriptor by a thread of its own, so that no slow reader holds up whoever hands over events.
//!
//! ```text
//!   room() ─► batch in hand ─► queue ─► writer ─► descriptor
//!      ▲                                  │
//!      └────────────── free ◄─────────────┘     a bounded number of batches goes round
//! ```

use std::{
    fs::{File, OpenOptions},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use super::{
    Counts,
    target::Target,
    writer::{self, Batch, Failure, MOST, Progress, Shared, Transform, Work},
};
use crate::{Error, ErrorKind, Result};

/// A batch is handed over when less room than this is left in it: about a line.
const SLACK: usize = 512;

/// For how many flushes a batch of one of several ways in stays in hand.
const KEPT: u32 = 8;

/// How long a writer may take to end once told so. It is at once unless a file system holds its write.
const GRACE: Duration = Duration::from_millis(100);

/// How long the last bytes may take after everything else went out.
const MOMENT: Duration = Duration::from_millis(250);

/// How an [`Outlet`] is set up.
pub struct Options {
    /// How many batches there are. Those in the queue and the one in the writer's hand all come out of these.
    pub buffers: usize,
    /// Bytes a batch, at most 64 KiB; one event that is larger makes its batch as large as itself.
    pub batch: usize,
    /// Called once from the writer thread when the descriptor fails or its reader goes away, also while
    /// nothing is written: enough to wake the owner, who learns the cause from the next call to the sink.
    pub on_failure: Option<Box<dyn Fn() + Send + Sync>>,
    /// What the writer makes of the bytes of events.
    pub transform: Option<Box<dyn Transform>>,
}

impl Default for Options {
    /// 64 batches of 64 KiB.
    fn default() -> Options {
        Options { buffers: 64, batch: MOST, on_failure: None, transform: None }
    }
}

/// The bounded way to a descriptor.
///
/// Nothing here waits but [`Outlet::settle`] and [`Outlet::finish`], up to their bounds. Dropping it ends the
/// writer and gives up what is not written.
pub struct Outlet {
    name: String,
    batch: usize,
    current: Option<Batch>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The batch in hand was the last that there was.
    tight: bool,
    settled: bool,
    /// One of several ways in: the writer is another's.
    arm: bool,
    /// Flushes in a row for which the batch stayed in hand.
    kept: u32,
    /// How often it was sent elsewhere.
    reopened: u64,
}

impl Outlet {
    /// Writes to `fd`, which stays the caller's; `name` stands for it in errors and in the ledger.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Runtime`] where descriptors or threads cannot be had.
    pub fn new(name: &str, fd: BorrowedFd<'_>, options: Options) -> Result<Outlet> {
        let runtime =
            |e: Errno| Error::caused(ErrorKind::Runtime, format!("{name}: cannot be written to"), e);
        Outlet::start(name, Target::new(fd).map_err(runtime)?, options)
    }

    fn start(name: &str, target: Target, options: Options) -> Result<Outlet> {
        let buffers = options.buffers.max(2);
        let batch = options.batch.clamp(2 * SLACK, MOST);
        let empty =
            || Batch { bytes: Vec::with_capacity(batch), ends: Vec::with_capacity(batch / 64), plain: false };
        let free = std::iter::repeat_with(empty).take(buffers).collect();
        let shared = Arc::new(
            Shared::new(free, options.on_failure)
                .map_err(|e| Error::caused(ErrorKind::Runtime, "cannot have an eventfd", e))?,
        );
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("tracer-writer".into())
            .spawn(move || writer::run(&theirs, target, options.transform))
            .map_err(|e| Error::caused(ErrorKind::Runtime, "cannot start a writer thread", e))?;
        Ok(Outlet {
            name: name.into(),
            batch,
            current: None,
            tight: false,
            shared,
            thread: Some(thread),
            settled: false,
            arm: false,
            kept: 0,
            reopened: 0,
        })
    }

    /// Another way in, for a thread of its own: its batches go to the same writer, whole and between others', and its
    /// events are in the same counts. [`Options::buffers`] are shared, so there should be a few for each.
    #[must_use]
    pub fn arm(&self) -> Outlet {
        let (name, shared) = (self.name.clone(), self.shared.clone());
        let (batch, reopened) = (self.batch, 0);
        Outlet {
            name,
            batch,
            current: None,
            tight: false,
            shared,
            thread: None,
            settled: false,
            arm: true,
            kept: 0,
            reopened,
        }
    }

    /// Writes to a file, which is created, or emptied where it exists.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`] where it cannot be opened.
    pub fn create(path: &Path, options: Options) -> Result<Outlet> {
        let file = open(OpenOptions::new().write(true).truncate(true), path)?;
        Outlet::new(&path.to_string_lossy(), file.as_fd(), options)
    }

    /// Opens `path` again, as after a rotation, and sends all that follows there; a file that is still in its
    /// place is appended to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`] where it cannot be opened: everything goes on to where it went.
    pub fn reopen(&mut self, path: &Path) -> Result<()> {
        let file = open(OpenOptions::new().append(true), path)?;
        let target = Target::new(file.as_fd()).map_err(|e| cannot_open(path, e.into()))?;
        self.hand_over()?;
        self.reopened += 1;
        self.send(Work::Reopen(target));
        Ok(())
    }

    /// Sends all that follows to `file`, once `then` was done behind all that came before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`] where nothing more is written.
    #[cfg(feature = "perf-data")]
    pub(super) fn switch(
        &mut self,
        file: BorrowedFd<'_>,
        then: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let target = Target::new(file).map_err(|e| Failure::Errno(e).error(&self.name))?;
        self.hand_over()?;
        self.send(Work::Then(Box::new(then)));
        self.reopened += 1;
        self.send(Work::Reopen(target));
        Ok(())
    }

    /// Writes bytes as they are behind all that came before, whatever [`Options::transform`] makes of events.
    pub(super) fn plain(&mut self, bytes: &[u8]) -> Result<()> {
        self.hand_over()?;
        self.send(Work::Batch(Batch { bytes: bytes.to_vec(), ends: Vec::new(), plain: true }));
        self.check()
    }

    /// Bytes written so far to where it writes now: none while it still writes to where it wrote before.
    #[cfg(feature = "perf-data")]
    pub(super) fn written(&self) -> u64 {
        let p = self.shared.lock();
        if p.reopened == self.reopened { p.written } else { 0 }
    }

    /// Bytes up to the end of what is whole where it writes now; `None` while the writer may still write.
    #[cfg(feature = "perf-data")]
    pub(super) fn whole(&self) -> Option<u64> {
        let p = self.shared.lock();
        (p.done && p.reopened == self.reopened).then_some(p.whole)
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where to append the next lines, or nothing while every batch is on its way. After each event appended
    /// there, call [`Outlet::event_ends`]; after anything else, [`Outlet::appended`].
    #[inline]
    pub fn room(&mut self) -> Option<&mut Vec<u8>> {
        if self.current.is_none() {
            self.begin();
        }
        self.current.as_mut().map(|b| &mut b.bytes)
    }

    fn begin(&mut self) {
        let mut p = self.shared.lock();
        self.current = p.free.pop();
        self.tight = p.free.is_empty();
    }

    /// True while there is no room but what is left in the batch in hand.
    pub(super) fn is_tight(&mut self) -> bool {
        if self.tight {
            self.tight = self.shared.lock().free.is_empty();
        }
        self.tight
    }

    /// Says that an event ends here.
    #[inline]
    pub fn event_ends(&mut self) -> Result<()> {
        if let Some(b) = &mut self.current {
            b.ends.push(b.bytes.len() as u32);
        }
        self.appended()
    }

    /// Hands the batch over if it is full.
    #[inline]
    pub fn appended(&mut self) -> Result<()> {
        match &self.current {
            Some(b) if b.bytes.len() + SLACK > self.batch => self.hand_over(),
            _ => Ok(()),
        }
    }

    /// Counts an event that there was no room for.
    pub fn no_room(&mut self) {
        self.shared.no_room.fetch_add(1, Relaxed);
    }

    /// Counts an event that came after the end.
    pub fn too_late(&mut self) {
        self.give_up(1);
    }

    fn give_up(&self, events: usize) {
        self.shared.too_late.fetch_add(events as u64, Relaxed);
    }

    /// What has gone wrong, if anything: cheap enough to ask for every event.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.shared.down.load(Relaxed) || self.settled { self.failure() } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> Result<()> {
        let failed = self.shared.lock().failed;
        match failed {
            None if !self.settled => Ok(()),
            failed => Err(failed.unwrap_or(Failure::Stopped).error(&self.name)),
        }
    }

    /// What the writer failed with by itself.
    fn verdict(&self) -> Result<()> {
        let failed = self.shared.lock().failed;
        if matches!(failed, None | Some(Failure::Stopped)) { Ok(()) } else { self.failure() }
    }

    /// Starts writing what is in hand, without waiting.
    ///
    /// While the writer is behind, it stays in hand and fills up: small batches would use up all there are. Where
    /// others keep the writer behind, it does not for long.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.current.as_ref().is_some_and(|b| !b.bytes.is_empty()) {
            self.kept += 1;
            if self.shared.lock().outstanding < 4 || (self.arm && self.kept > KEPT) {
                self.kept = 0;
                self.hand_over()?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        match self.current.take() {
            Some(b) if b.bytes.is_empty() => self.current = Some(b),
            Some(b) => self.send(Work::Batch(b)),
            None => {}
        }
        self.check()
    }

    fn send(&mut self, work: Work) {
        let mut p = self.shared.lock();
        if p.failed.is_some() {
            if let Work::Batch(b) = work {
                self.give_up(b.ends.len());
            }
            return;
        }
        p.outstanding += usize::from(matches!(work, Work::Batch(_)));
        p.queue.push_back(work);
        drop(p);
        // Fails only where the count would overflow: the writer is awake then anyway.
        let _ = self.shared.work.write(1);
    }

    /// Waits for room until `deadline`.
    pub(super) fn wait_room(&mut self, deadline: Instant) -> bool {
        if self.current.is_none() {
            self.wait_until(deadline, |p| p.failed.is_some() || !p.free.is_empty());
            self.begin();
        }
        self.current.is_some()
    }

    /// Waits until everything is written or `deadline` has passed; then gives up what is left and counts it. An
    /// [arm](Outlet::arm) hands over what it has, and waits for nothing.
    ///
    /// # Errors
    ///
    /// What the writer failed with. Giving up is no error: the counts tell it.
    pub fn settle(&mut self, deadline: Instant) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        if self.arm {
            let result = self.hand_over().and_then(|()| self.verdict());
            self.settled = true;
            self.shared.lock().free.extend(self.current.take());
            return result;
        }
        let result = self.hand_over();
        if !self.wait(deadline) {
            self.stop();
        }
        let result = result.and_then(|()| self.verdict());
        self.settled = true;
        result
    }

    /// Writes `bytes` after all else has settled, and ends; waits at most a moment. Where the writer was
    /// given up nothing is written: it would stand behind half a line.
    pub fn finish(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.shared.lock().failed.is_none() && self.room().is_some() {
            if let Some(b) = &mut self.current {
                append(&mut b.bytes);
            }
            if let Some(b) = self.current.take() {
                self.send(Work::Batch(b));
            }
            self.wait(Instant::now() + MOMENT);
        }
        let result = self.verdict();
        self.stop();
        result
    }

    /// True when nothing is outstanding.
    fn wait(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, |p| p.failed.is_some() || p.outstanding == 0)
    }

    fn wait_until(&self, deadline: Instant, reached: impl Fn(&Progress) -> bool) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let (p, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), left, |p| !reached(p))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        reached(&p)
    }

    /// Ends the writer; one that is held in a write is left behind, and its accounts closed.
    fn stop(&mut self) {
        if let Some(b) = self.current.take() {
            self.give_up(b.ends.len());
        }
        let Some(thread) = self.thread.take() else { return };
        self.shared.stopping.store(true, Relaxed);
        let _ = self.shared.stop.write(1);
        if self.wait_until(Instant::now() + GRACE, |p| p.done) {
            let _ = thread.join();
        } else {
            self.shared.lock().give_up(Failure::Stopped);
            self.shared.down.store(true, Relaxed);
        }
    }

    /// The counts so far. Events on their way are in none of them.
    pub fn counts(&self) -> Counts {
        let p = self.shared.lock();
        Counts {
            delivered: p.delivered,
            dropped_queue: self.shared.no_room.load(Relaxed),
            dropped_sink: p.dropped + self.shared.too_late.load(Relaxed),
            late: 0,
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens or creates; a FIFO that nobody reads is an error at once, where it would hold us until somebody did.
fn open(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let opened = options.create(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|e| match e.raw_os_error() {
        Some(libc::ENXIO) => cannot_open(path, e).with_help("it is a FIFO: start its reader first"),
        _ => cannot_open(path, e),
    })
}

fn cannot_open(path: &Path, e: std::io::Error) -> Error {
    Error::caused(ErrorKind::Sink, format!("{}: cannot be opened for writing", path.display()), e)
}

#[cfg(test)]
mod tests;

//! The thread behind an outlet: takes batches, writes them, and says how many events went out whole.
//!
//! **Invariants.** A batch is accounted for under one lock, by the writer or, where the writer is held in a
//! write that nothing can break off, by whoever gave it up; never by both.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use nix::{
    errno::Errno,
    sys::eventfd::{EfdFlags, EventFd},
};

use super::target::{Ready, Target};
use crate::{Error, ErrorKind};

/// The most bytes in one write.
pub(super) const MOST: usize = 64 << 10;

/// Bytes of some lines, and where in them each event ends.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// What is to be written.
    pub bytes: Vec<u8>,
    /// The offset behind each event's last byte; what is no event has none.
    pub ends: Vec<u32>,
    /// It is written as it is, whatever the writer makes of others, and is none of those that go round.
    pub plain: bool,
}

impl Batch {
    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Makes other bytes of what is written, in the writer's thread: compresses it, say.
pub trait Transform: Send {
    /// What follows goes to another descriptor, and stands by itself.
    ///
    /// # Errors
    ///
    /// What makes it impossible to go on.
    fn restart(&mut self) -> io::Result<()>;

    /// Replaces the bytes of some events.
    ///
    /// # Errors
    ///
    /// What makes it impossible to go on.
    fn apply(&mut self, bytes: &mut Vec<u8>) -> io::Result<()>;
}

/// What a writer is given.
pub(super) enum Work {
    /// Bytes to write.
    Batch(Batch),
    /// Another descriptor for all that follows.
    Reopen(Target),
    /// Something to be done when all before it is written.
    #[cfg(feature = "perf-data")]
    Then(Box<dyn FnOnce() -> io::Result<()> + Send>),
}

/// Why nothing more is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Whoever read has gone.
    Closed,
    /// A write failed.
    Errno(Errno),
    /// It was told to stop.
    Stopped,
}

impl Failure {
    /// The same as an error about the output called `name`.
    pub fn error(self, name: &str) -> Error {
        let errno = match self {
            Failure::Closed => return Error::new(ErrorKind::Closed, format!("{name}: its reader has gone")),
            Failure::Stopped => {
                return Error::new(ErrorKind::Sink, format!("{name}: nothing is written after the end"));
            }
            Failure::Errno(errno) => errno,
        };
        let cause = io::Error::from(errno);
        let error = Error::caused(ErrorKind::Sink, format!("{name}: cannot write"), cause);
        match errno {
            Errno::ENOSPC | Errno::EDQUOT => error.with_help("make room there, or write elsewhere: -o FILE"),
            Errno::EFBIG => error.with_help("raise the limit on file sizes: ulimit -f unlimited"),
            _ => error,
        }
    }
}

/// The writer's accounts, and what the two sides tell each other.
#[derive(Default)]
pub(super) struct Progress {
    /// Batches with nothing in them. The one used last is taken first: its memory is still in the cache.
    pub free: Vec<Batch>,
    /// Work in order.
    pub queue: VecDeque<Work>,
    /// Batches handed over and not yet done with, the one in hand included.
    pub outstanding: usize,
    /// Of the batch in hand: events that have not gone out whole.
    pub in_hand: u64,
    /// Events that went out whole.
    pub delivered: u64,
    /// Events given up.
    pub dropped: u64,
    /// Bytes written to the descriptor in use, and how many there were before it.
    pub written: u64,
    pub reopened: u64,
    /// How many of them end with a whole event, or a whole batch.
    pub whole: u64,
    /// Set once, when the writer ends.
    pub failed: Option<Failure>,
    /// The thread touches no account any more.
    pub done: bool,
}

impl Progress {
    /// Gives up all that is not written. No account changes after it.
    pub fn give_up(&mut self, why: Failure) {
        self.dropped += std::mem::take(&mut self.in_hand);
        for work in self.queue.drain(..) {
            if let Work::Batch(b) = work {
                self.dropped += b.ends.len() as u64;
            }
        }
        self.outstanding = 0;
        self.failed.get_or_insert(why);
    }
}

/// What both sides share.
pub(super) struct Shared {
    progress: Mutex<Progress>,
    /// Signalled when a batch was written, and at the end.
    pub changed: Condvar,
    /// Work was queued.
    pub work: EventFd,
    /// The writer is to end now: wakes it from any wait.
    pub stop: EventFd,
    /// The same, to be asked between writes.
    pub stopping: AtomicBool,
    /// The same as `failed`, to be asked for every event.
    pub down: AtomicBool,
    /// Events that there was no room for, and that came after the end, over all ways in.
    pub no_room: AtomicU64,
    pub too_late: AtomicU64,
    /// Called once when the writer fails by itself.
    pub on_failure: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub fn new(free: Vec<Batch>, on_failure: Option<Box<dyn Fn() + Send + Sync>>) -> nix::Result<Shared> {
        let queue = VecDeque::with_capacity(free.len() + 2);
        let progress = Progress { free, queue, ..Progress::default() };
        Ok(Shared {
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            work: eventfd()?,
            stop: eventfd()?,
            stopping: AtomicBool::new(false),
            down: AtomicBool::new(false),
            no_room: AtomicU64::new(0),
            too_late: AtomicU64::new(0),
            on_failure,
        })
    }

    /// The accounts. A panic elsewhere leaves them whole: each change is one assignment.
    pub fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn eventfd() -> nix::Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
}

/// Writes until it is told to stop or cannot go on.
pub(super) fn run(shared: &Shared, mut target: Target, mut transform: Option<Box<dyn Transform>>) {
    let errno = |e: io::Error| Failure::Errno(e.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
    let why = loop {
        let work = {
            let mut p = shared.lock();
            let work = p.queue.pop_front();
            if let Some(Work::Batch(b)) = &work {
                p.in_hand = b.ends.len() as u64;
            }
            work
        };
        match work {
            Some(Work::Batch(mut batch)) => {
                if let Some(transform) = transform.as_mut().filter(|_| !batch.plain) {
                    if let Err(e) = transform.apply(&mut batch.bytes) {
                        break errno(e);
                    }
                    let end = batch.bytes.len() as u32;
                    batch.ends.fill(end);
                }
                if let Err(why) = write_batch(shared, &target, &batch) {
                    break why;
                }
                let mut p = shared.lock();
                if p.failed.is_some() {
                    break Failure::Stopped;
                }
                p.outstanding -= 1;
                p.whole = p.written;
                if !batch.plain {
                    batch.clear();
                    p.free.push(batch);
                }
                // Costs nothing where nobody waits.
                shared.changed.notify_all();
            }
            Some(Work::Reopen(other)) => {
                target = other;
                let mut p = shared.lock();
                (p.written, p.whole, p.reopened) = (0, 0, p.reopened + 1);
                drop(p);
                if let Some(Err(e)) = transform.as_mut().map(|transform| transform.restart()) {
                    break errno(e);
                }
            }
            #[cfg(feature = "perf-data")]
            Some(Work::Then(act)) => {
                if let Err(e) = act() {
                    break errno(e);
                }
            }
            None => match target.wait_idle(&shared.stop, &shared.work) {
                Ok(Ready::Go) => {
                    let _ = shared.work.read();
                }
                Ok(Ready::Stop) => break Failure::Stopped,
                Ok(Ready::Closed) => break Failure::Closed,
                Err(e) => break Failure::Errno(e),
            },
        }
    };
    let mut p = shared.lock();
    p.give_up(why);
    p.done = true;
    drop(p);
    shared.down.store(true, Relaxed);
    shared.changed.notify_all();
    if let (Some(call), true) = (&shared.on_failure, why != Failure::Stopped) {
        call();
    }
}

fn write_batch(shared: &Shared, target: &Target, batch: &Batch) -> Result<(), Failure> {
    let (bytes, ends) = (&batch.bytes[..], &batch.ends[..]);
    let (mut done, mut whole, mut refused) = (0, 0, 0);
    while done < bytes.len() {
        if shared.stopping.load(Relaxed) {
            return Err(Failure::Stopped);
        }
        let rest = &bytes[done..];
        let n = if target.is_terminal() {
            rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1)
        } else {
            rest.len()
        };
        match target.write(&rest[..n.min(MOST)]) {
            // A device that takes nothing and says nothing would hold us in this loop.
            Ok(0) => return Err(Failure::Errno(Errno::EIO)),
            Ok(n) => {
                done += n;
                refused = 0;
                let now = whole + ends[whole..].partition_point(|&end| end as usize <= done);
                let mut p = shared.lock();
                if p.failed.is_some() {
                    return Err(Failure::Stopped);
                }
                p.delivered += (now - whole) as u64;
                p.written += n as u64;
                if let Some(last) = now.checked_sub(1) {
                    p.whole = p.written - done as u64 + u64::from(ends[last]);
                }
                p.in_hand -= (now - whole) as u64;
                whole = now;
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                refused += 1;
                match target.wait_writable(&shared.stop, refused > 1) {
                    Ok(Ready::Stop) => return Err(Failure::Stopped),
                    Ok(_) => {}
                    Err(e) => return Err(Failure::Errno(e)),
                }
            }
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Failure::Closed),
            // A terminal that was hung up.
            Err(Errno::EIO) if target.is_terminal() => return Err(Failure::Closed),
            Err(e) => return Err(Failure::Errno(e)),
        }
    }
    Ok(())
}

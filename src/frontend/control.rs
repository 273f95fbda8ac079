//! A handle on a running front end: stop it, flush it, read its ledger, from any thread or from inside a sink.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{Error, ErrorKind, Result, ledger::Report};

/// Asks a front end to stop, to flush or for its ledger; clones are the same handle. All are wake-ups; none waits but
/// [`Control::stats_within`].
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wake: EventFd,
    stop: AtomicBool,
    /// The ledger is asked for.
    asked: AtomicBool,
    told: Mutex<Told>,
    /// Signalled when it was told.
    retold: Condvar,
}

/// The ledger as it was told last, and how often it was.
#[derive(Debug, Default)]
struct Told {
    times: u64,
    report: Option<Arc<Report>>,
    /// No other will be.
    last: bool,
}

impl Control {
    /// A new handle.
    ///
    /// # Errors
    ///
    /// Runtime, where no descriptor is to be had.
    pub fn new() -> Result<Control> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| Error::caused(ErrorKind::Runtime, "making an eventfd", e))?;
        let (stop, asked) = (AtomicBool::new(false), AtomicBool::new(false));
        let (told, retold) = (Mutex::default(), Condvar::new());
        Ok(Control { shared: Arc::new(Shared { wake, stop, asked, told, retold }) })
    }

    /// Ends the front end's run: it returns after its orderly stop.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Has everything that is in the rings now handed to the sink, and the sink flushed.
    pub fn flush(&self) {
        self.wake();
    }

    /// The ledger as it was told last, and asks for another: the front end's next pass tells it. `None` before the
    /// first; once the run has ended, the final one. Never waits, so it may be called from inside a sink, and in tasks.
    pub fn stats(&self) -> Option<Arc<Report>> {
        let told = self.told();
        if !told.last {
            self.ask();
        }
        told.report.clone()
    }

    /// The ledger as it stands now, or the final one. Waits at most `bound` for the front end to tell it, and gives the
    /// last that was told where it does not. Not for where the front end itself runs: from inside a sink, or in a task
    /// beside a stream on one thread, that is a wait in vain.
    pub fn stats_within(&self, bound: Duration) -> Option<Arc<Report>> {
        let told = self.told();
        let times = told.times;
        if !told.last {
            self.ask();
        }
        let retold = self.shared.retold.wait_timeout_while(told, bound, |t| t.times == times && !t.last);
        let (told, _) = retold.unwrap_or_else(PoisonError::into_inner);
        told.report.clone()
    }

    /// A run begins: there will be other ledgers than that of the run before.
    pub(super) fn begin(&self) {
        self.told().last = false;
    }

    fn ask(&self) {
        self.shared.asked.store(true, Ordering::Release);
        self.wake();
    }

    /// Tells the ledger, if it was asked for.
    pub(super) fn tell(&self, report: impl FnOnce() -> Report) {
        if self.shared.asked.swap(false, Ordering::AcqRel) {
            self.retell(report(), false);
        }
    }

    /// Tells the final one.
    pub(super) fn tell_last(&self, report: &Report) {
        self.retell(report.clone(), true);
    }

    fn retell(&self, report: Report, last: bool) {
        let mut told = self.told();
        told.times += 1;
        (told.report, told.last) = (Some(Arc::new(report)), last);
        drop(told);
        self.shared.retold.notify_all();
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.shared.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the front end for another pass, and so for another look at whatever its caller looks at in between.
    pub fn wake(&self) {
        // A counter that is full has woken it already.
        let _ = self.shared.wake.write(1);
    }

    /// Whether a stop was asked for.
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Forgets the wake-ups so far; whether there were any.
    pub(super) fn drain_wakes(&self) -> bool {
        self.shared.wake.read().is_ok()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

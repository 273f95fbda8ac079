//! A handle on a running front end: stop it or flush it, from any thread or from inside a sink.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{Error, ErrorKind, Result};

/// Asks a front end to stop or flush; clones are the same handle. Both are wake-ups, and never wait.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wake: EventFd,
    stop: AtomicBool,
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
        Ok(Control { shared: Arc::new(Shared { wake, stop: AtomicBool::new(false) }) })
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

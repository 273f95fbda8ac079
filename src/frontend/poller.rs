//! Waits for any ring, a control handle, or time.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
};

use super::Control;
use crate::{Error, ErrorKind, Result, ring::Set};

/// An epoll set over rings and a control handle.
///
/// Readiness of a ring is one-shot and says nothing of what stood in it before it was registered, so whoever
/// waits here drains every ring after registering and after every wait, woken or not.
///
/// Its descriptor ([`AsFd`]) is readable when one of them is ready, for a loop of one's own around it: see
/// [`Driver`](super::Driver), which keeps these rules by itself.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    generation: Option<u64>,
}

impl Poller {
    /// A poller with nothing registered.
    ///
    /// # Errors
    ///
    /// Runtime, where no descriptor is to be had.
    pub fn new() -> Result<Poller> {
        Ok(Poller { epoll: create()?, generation: None })
    }

    /// A poller for a control handle alone, where there are no rings.
    ///
    /// # Errors
    ///
    /// As [`Poller::new`].
    pub fn on(control: &Control) -> Result<Poller> {
        let poller = Poller::new()?;
        poller.add(control.as_fd(), "the control handle")?;
        Ok(poller)
    }

    /// Registers the rings, if `generation` says that they are others than last time. True if so: drain before
    /// waiting.
    ///
    /// # Errors
    ///
    /// Runtime, with the descriptor that was refused.
    pub fn register(&mut self, rings: &Set, generation: u64, control: &Control) -> Result<bool> {
        if self.generation == Some(generation) {
            return Ok(false);
        }
        self.epoll = create()?;
        for (cpu, fd) in rings.fds() {
            self.add(fd, &format!("the ring of CPU {cpu}"))?;
        }
        self.add(control.as_fd(), "the control handle")?;
        self.generation = Some(generation);
        Ok(true)
    }

    /// Registers more: descriptors that stay the same until the next generation.
    ///
    /// # Errors
    ///
    /// Runtime, where one is refused.
    pub fn also<'a>(&self, mut fds: impl Iterator<Item = BorrowedFd<'a>>) -> Result<()> {
        fds.try_for_each(|fd| self.add(fd, "what is read beside the rings"))
    }

    fn add(&self, fd: BorrowedFd<'_>, what: &str) -> Result<()> {
        self.epoll
            .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(|e| Error::caused(ErrorKind::Runtime, format!("polling {what}"), e))
    }

    /// Waits until something is ready, at most `timeout`. True if something was, or a signal came.
    ///
    /// # Errors
    ///
    /// Runtime; never because of a signal.
    pub fn wait(&self, timeout: Duration, control: &Control) -> Result<bool> {
        self.ready(timeout).inspect(|ready| {
            if *ready {
                control.drain_wakes();
            }
        })
    }

    /// As `wait`; true if it was `control` that woke us.
    pub(super) fn wait_asked(&self, timeout: Duration, control: &Control) -> Result<bool> {
        Ok(self.ready(timeout)? && control.drain_wakes())
    }

    fn ready(&self, timeout: Duration) -> Result<bool> {
        // Rounded up, or the last fraction of a millisecond would spin.
        let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128);
        let timeout = EpollTimeout::try_from(millis as u64).unwrap_or(EpollTimeout::MAX);
        let mut events = [EpollEvent::empty(); 64];
        match self.epoll.wait(&mut events, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(true),
            Err(e) => Err(Error::caused(ErrorKind::Runtime, "waiting for rings", e)),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

fn create() -> Result<Epoll> {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
        .map_err(|e| Error::caused(ErrorKind::Runtime, "making an epoll descriptor", e))
}

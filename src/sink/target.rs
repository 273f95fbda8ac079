//! A descriptor that is written to without being held up: what it is decides how.
//!
//! The file description of our standard output is shared with the shell and with whoever else was started
//! from it, so `O_NONBLOCK` is never set there. A pipe or a terminal is opened once more through
//! `/proc/self/fd`, which gives a description of our own; a socket takes the flag by the call; what is left
//! is asked first whether it has room.

use std::{
    io::IsTerminal,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::EventFd,
        socket::{MsgFlags, send},
        stat::{Mode, SFlag, fstat, major, minor},
    },
    unistd::write,
};

/// The most bytes in one write where nothing but poll keeps us from being held up: `PIPE_BUF`, which a pipe
/// that polls writable takes whole.
const POLLED: usize = 4096;

/// How bytes get into a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A description of our own with `O_NONBLOCK`.
    NonBlocking,
    /// `MSG_DONTWAIT`.
    Socket,
    /// Poll, then a small write: nobody else may fill it in between.
    Polled,
    /// Files and devices that are always ready.
    Plain,
}

/// Where a writer's bytes go.
#[derive(Debug)]
pub(super) struct Target {
    fd: OwnedFd,
    way: Way,
    terminal: bool,
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// There is room, or for an idle wait: there is work.
    Go,
    /// The stop descriptor was written to.
    Stop,
    /// The other end has gone.
    Closed,
}

impl Target {
    /// Finds out what `fd` is; the target holds a descriptor of its own.
    pub fn new(fd: BorrowedFd<'_>) -> nix::Result<Target> {
        let stat = fstat(fd)?;
        let terminal = fd.is_terminal();
        let (way, opened) = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFSOCK => (Way::Socket, None),
            SFlag::S_IFIFO => reopened(fd),
            // A pseudo-terminal's master opened once more is the master of another pair.
            SFlag::S_IFCHR if terminal && (major(stat.st_rdev), minor(stat.st_rdev)) == (5, 2) => {
                (Way::Polled, None)
            }
            SFlag::S_IFCHR if terminal => reopened(fd),
            _ => (Way::Plain, None),
        };
        let fd = match opened {
            Some(own) => own,
            None => fd.try_clone_to_owned().map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))?,
        };
        Ok(Target { fd, way, terminal })
    }

    /// Written to as a file is, whatever it is.
    #[cfg(test)]
    pub fn plain(fd: BorrowedFd<'_>) -> std::io::Result<Target> {
        Ok(Target { fd: fd.try_clone_to_owned()?, way: Way::Plain, terminal: false })
    }

    /// Taken for a terminal, whatever it is.
    #[cfg(test)]
    pub fn terminal(fd: BorrowedFd<'_>) -> nix::Result<Target> {
        Ok(Target { terminal: true, ..Target::new(fd)? })
    }

    /// Polled before each small write, as where `/proc` is missing.
    #[cfg(test)]
    pub fn polled(fd: BorrowedFd<'_>) -> std::io::Result<Target> {
        Ok(Target { fd: fd.try_clone_to_owned()?, way: Way::Polled, terminal: false })
    }

    /// True of a terminal: it gets one line a write.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes what there is room for; `EAGAIN` where there is none.
    pub fn write(&self, bytes: &[u8]) -> nix::Result<usize> {
        match self.way {
            Way::NonBlocking | Way::Plain => write(&self.fd, bytes),
            Way::Socket => send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL),
            Way::Polled => {
                let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
                if poll(&mut fds, PollTimeout::ZERO)? == 0 {
                    return Err(Errno::EAGAIN);
                }
                write(&self.fd, &bytes[..bytes.len().min(POLLED)])
            }
        }
    }

    /// Waits until there is room; an error of the other end counts as room, as the next write tells it.
    ///
    /// `again`: the last wait said that there was room and the write found none. A terminal with one byte of
    /// room polls writable and cannot take a newline, which it writes as two: without a pause that is a loop.
    pub fn wait_writable(&self, stop: &EventFd, again: bool) -> nix::Result<Ready> {
        if again {
            let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
            let stopped = poll(&mut fds, PollTimeout::from(10u8)).or_else(interrupted)? > 0;
            return Ok(if stopped { Ready::Stop } else { Ready::Go });
        }
        let mut fds =
            [PollFd::new(stop.as_fd(), PollFlags::POLLIN), PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        forever(&mut fds)?;
        Ok(if fds[0].any() == Some(true) { Ready::Stop } else { Ready::Go })
    }

    /// Waits for work while nothing is to be written, and watches the other end meanwhile.
    pub fn wait_idle(&self, stop: &EventFd, work: &EventFd) -> nix::Result<Ready> {
        let mut fds = [
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(work.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.fd.as_fd(), PollFlags::empty()),
        ];
        // A regular file has no other end.
        let watched = if self.way == Way::Plain { 2 } else { 3 };
        forever(&mut fds[..watched])?;
        Ok(if fds[0].any() == Some(true) {
            Ready::Stop
        } else if fds[1].any() == Some(true) {
            Ready::Go
        } else {
            Ready::Closed
        })
    }
}

/// A description of our own, or none where that may not be had: no `/proc`, no right, no reader any more.
fn reopened(fd: BorrowedFd<'_>) -> (Way, Option<OwnedFd>) {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match open(path.as_str(), flags, Mode::empty()) {
        Ok(own) => (Way::NonBlocking, Some(own)),
        Err(_) => (Way::Polled, None),
    }
}

fn interrupted(e: Errno) -> nix::Result<i32> {
    if e == Errno::EINTR { Ok(0) } else { Err(e) }
}

fn forever(fds: &mut [PollFd<'_>]) -> nix::Result<()> {
    loop {
        match poll(fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

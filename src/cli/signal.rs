//! Signals, taken by a thread of their own and turned into requests to the running front end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use nix::sys::signal::{SigSet, Signal};
use tracer::{Error, ErrorKind, Result, frontend::Control};

/// What signals ask for beside a stop.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    stats: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    rotate: Arc<AtomicBool>,
}

impl Requests {
    /// Whether USR1 came since the last call.
    pub fn take_stats(&self) -> bool {
        self.stats.swap(false, Ordering::AcqRel)
    }

    /// Whether HUP came since the last call.
    pub fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::AcqRel)
    }

    /// Whether USR2 came since the last call.
    pub fn take_rotate(&self) -> bool {
        self.rotate.swap(false, Ordering::AcqRel)
    }
}

fn ours() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2] {
        set.add(signal);
    }
    set
}

/// Blocks our signals in this thread and in those it will start.
pub fn block() {
    // It fails for a bad request alone.
    let _ = ours().thread_block();
}

/// Lets this thread have them again, as a program that we start expects.
pub fn unblock() {
    let _ = ours().thread_unblock();
}

/// Starts the thread. INT and TERM stop the run in order, and a second one at once; USR1 asks for a stats line;
/// USR2 for a file to be finished and another begun; HUP asks for files to be reopened where `files` are written, and
/// is a stop where not.
pub fn listen(control: Control, files: bool) -> Result<Requests> {
    let requests = Requests::default();
    let theirs = requests.clone();
    let turn = move || {
        let mut stopping = false;
        loop {
            match ours().wait() {
                Ok(Signal::SIGUSR1) => theirs.stats.store(true, Ordering::Release),
                Ok(Signal::SIGHUP) if files => theirs.reopen.store(true, Ordering::Release),
                Ok(Signal::SIGUSR2) => theirs.rotate.store(true, Ordering::Release),
                Err(_) => continue,
                Ok(signal) => {
                    if stopping {
                        std::process::exit(128 + signal as i32);
                    }
                    stopping = true;
                    control.stop();
                }
            }
            control.wake();
        }
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(turn)
        .map_err(|e| Error::caused(ErrorKind::Runtime, "starting the thread that takes signals", e))?;
    Ok(requests)
}

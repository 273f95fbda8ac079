//! A thread that calls write(2) as fast as it can, pinned to one CPU.

use std::{
    fs::File,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::{Error, ErrorKind, Result};

/// How many calls are made between two looks at the stop flag.
const ROUND: u64 = 64;

/// The running thread.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Written>>,
}

/// What it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub calls: u64,
    pub time: Duration,
}

impl Written {
    /// Nanoseconds a call, the loop around it included.
    pub fn ns_a_call(&self) -> f64 {
        self.time.as_nanos() as f64 / self.calls.max(1) as f64
    }
}

impl Writer {
    /// Starts writing single bytes to /dev/null on `cpu`.
    pub fn start(cpu: u32) -> Result<Writer> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .map_err(|e| Error::caused(ErrorKind::Runtime, "opening /dev/null", e))?;
        let thread = thread::Builder::new()
            .name("bench-writer".into())
            .spawn(move || write(cpu, null, &told))
            .map_err(|e| Error::caused(ErrorKind::Runtime, "starting the writing thread", e))?;
        Ok(Writer { stop, thread })
    }

    /// Ends it.
    pub fn stop(self) -> Written {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that could not be pinned has written nothing, which the identities show.
        self.thread.join().ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Lets it run for a while, then ends it.
    pub fn stop_after(self, time: Duration) -> Written {
        thread::sleep(time);
        self.stop()
    }
}

fn write(cpu: u32, mut null: File, stop: &AtomicBool) -> Result<Written> {
    pin(cpu)?;
    let started = Instant::now();
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..ROUND {
            calls += u64::from(null.write(b"x").is_ok());
        }
    }
    Ok(Written { calls, time: started.elapsed() })
}

fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|e| Error::caused(ErrorKind::Usage, format!("running the writer on CPU {cpu}"), e))
}

/// Keeps this thread off `cpu` where there is another; what it starts later inherits that until it is pinned.
pub fn keep_off(cpu: u32) -> Result<()> {
    let this = Pid::from_raw(0);
    let cannot = |e| Error::caused(ErrorKind::Runtime, "keeping the reader off the writer's CPU", e);
    let mut set = sched_getaffinity(this).map_err(cannot)?;
    set.unset(cpu as usize).map_err(cannot)?;
    let others = (0..CpuSet::count()).any(|c| set.is_set(c).unwrap_or(false));
    if others { sched_setaffinity(this, &set).map_err(cannot) } else { Ok(()) }
}

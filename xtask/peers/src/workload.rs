//! A thread that calls write(2) on /dev/null as fast as it can, pinned to one CPU.

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The running thread.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Duration)>,
}

impl Writer {
    /// Starts it.
    pub fn start(cpu: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let mut null = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
        let mut set = CpuSet::new();
        set.set(cpu as usize).context("no such CPU")?;
        let thread = std::thread::spawn(move || {
            if sched_setaffinity(Pid::from_raw(0), &set).is_err() {
                return (0, Duration::ZERO);
            }
            let (started, mut calls) = (Instant::now(), 0);
            while !told.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    calls += u64::from(null.write(b"x").is_ok());
                }
            }
            (calls, started.elapsed())
        });
        Ok(Self { stop, thread })
    }

    /// Ends it; how often it wrote, and for how long.
    pub fn stop(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Nanoseconds a write that nobody traces.
pub fn untraced(cpu: u32) -> Result<f64> {
    let writer = Writer::start(cpu)?;
    std::thread::sleep(Duration::from_millis(200));
    let (calls, time) = writer.stop();
    Ok(time.as_nanos() as f64 / calls.max(1) as f64)
}

/// Keeps this thread off `cpu` where there is another.
pub fn keep_off(cpu: u32) -> Result<()> {
    let this = Pid::from_raw(0);
    let mut set = sched_getaffinity(this)?;
    set.unset(cpu as usize)?;
    if (0..CpuSet::count()).any(|c| set.is_set(c).unwrap_or(false)) {
        sched_setaffinity(this, &set)?;
    }
    Ok(())
}

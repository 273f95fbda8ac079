//! A thread that calls write(2) on /dev/null as fast as it can, or at a rate, pinned to one CPU.

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a writer did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Calls.
    pub calls: u64,
    /// For how long.
    pub time: Duration,
    /// The thread's CPU time: on a busy machine others take their share of its CPU.
    pub cpu_time: Duration,
}

impl Written {
    /// Nanoseconds of CPU time a call, the loop around it included.
    pub fn ns(&self) -> f64 {
        self.cpu_time.as_nanos() as f64 / self.calls.max(1) as f64
    }
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The running thread.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Written>,
}

impl Writer {
    /// Starts it: each call writes these bytes.
    pub fn start(cpu: u32, bytes: &'static [u8]) -> Result<Self> {
        Self::with(cpu, bytes, None)
    }

    /// Starts it, with so much time between two calls; what was missed is not made up for.
    pub fn paced(cpu: u32, every: Duration) -> Result<Self> {
        Self::with(cpu, b"x", Some(every))
    }

    fn with(cpu: u32, bytes: &'static [u8], every: Option<Duration>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let mut null = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
        let thread = std::thread::spawn(move || {
            if pin(cpu).is_err() {
                return Written::default();
            }
            let (started, cpu_started, mut calls) = (Instant::now(), thread_cpu(), 0);
            while !told.load(Ordering::Relaxed) {
                let Some(every) = every else {
                    for _ in 0..64 {
                        calls += u64::from(null.write(bytes).is_ok());
                    }
                    continue;
                };
                let called = Instant::now();
                calls += u64::from(null.write(bytes).is_ok());
                // No sleep is short enough.
                while called.elapsed() < every {
                    std::hint::spin_loop();
                }
            }
            Written { calls, time: started.elapsed(), cpu_time: thread_cpu() - cpu_started }
        });
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub fn stop(self) -> Written {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Nanoseconds a write that nobody traces.
pub fn untraced(cpu: u32) -> Result<f64> {
    let writer = Writer::start(cpu, b"x")?;
    std::thread::sleep(Duration::from_millis(200));
    Ok(writer.stop().ns())
}

/// Runs `job` on this thread, bound to `cpu` meanwhile.
pub fn on_cpu<R>(cpu: u32, job: impl FnOnce() -> Result<R>) -> Result<R> {
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this)?;
    pin(cpu)?;
    let done = job();
    sched_setaffinity(this, &before)?;
    done
}

fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize).context("no such CPU")?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

/// How many CPUs there are to be read of.
pub fn online() -> Result<usize> {
    Ok(tracer::ring::cpus::online()?.len())
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

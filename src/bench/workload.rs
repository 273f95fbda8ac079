//! Who makes events: threads pinned to a CPU each.

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
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use crate::{Error, ErrorKind, Result, probe::bench::traced_function};

/// How many calls are made between two looks at the stop flag.
const ROUND: u64 = 64;

/// What a thread calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// write(2) of one byte to /dev/null.
    Write,
    /// A function of this program.
    Function,
}

/// Running threads.
pub(super) struct Producers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Made>>,
}

/// What they did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub calls: u64,
    /// Their CPU time: on a busy machine others take their share of a CPU.
    pub cpu_time: Duration,
}

impl Made {
    /// Nanoseconds of CPU time a call, the loop around it included.
    pub fn ns_a_call(&self) -> f64 {
        self.cpu_time.as_nanos() as f64 / self.calls.max(1) as f64
    }
}

impl Producers {
    /// Starts one on each of the CPUs, at `rate` calls a second each, or as fast as it can.
    pub fn start(cpus: impl Iterator<Item = u32>, call: Call, rate: Option<u32>) -> Result<Producers> {
        let mut all = Producers { stop: Arc::default(), threads: Vec::new() };
        for cpu in cpus {
            let told = all.stop.clone();
            let null = File::options()
                .write(true)
                .open("/dev/null")
                .map_err(|e| Error::caused(ErrorKind::Runtime, "opening /dev/null", e))?;
            let (one, fits) = (only(cpu), available(cpu)?);
            if !fits {
                return Err(Error::usage(format!("CPU {cpu} is not one that this process may run on")));
            }
            let thread = thread::Builder::new()
                .name("bench-producer".into())
                .spawn(move || produce(one, null, call, rate, &told))
                .map_err(|e| Error::caused(ErrorKind::Runtime, "starting a producer", e))?;
            all.threads.push(thread);
        }
        Ok(all)
    }

    /// Ends them.
    pub fn stop(self) -> Made {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Made::default();
        for thread in self.threads {
            // One that panicked has made nothing that is told, which the identities show.
            let Made { calls, cpu_time } = thread.join().unwrap_or_default();
            all.calls += calls;
            all.cpu_time += cpu_time;
        }
        all
    }
}

fn produce(cpu: CpuSet, null: File, call: Call, rate: Option<u32>, stop: &AtomicBool) -> Made {
    if sched_setaffinity(Pid::from_raw(0), &cpu).is_err() {
        return Made::default();
    }
    match call {
        Call::Write => make(rate, stop, || (&null).write(b"x").is_ok()),
        Call::Function => make(rate, stop, || {
            traced_function();
            true
        }),
    }
}

fn make(rate: Option<u32>, stop: &AtomicBool, mut call: impl FnMut() -> bool) -> Made {
    let (started, cpu_started) = (Instant::now(), thread_cpu());
    let mut calls = 0;
    // Once at least: a busy machine may start the thread when its time is up.
    loop {
        match rate {
            None => (0..ROUND).for_each(|_| calls += u64::from(call())),
            // Awake all the time, as a sleep of 50 us takes 100.
            Some(rate) if started.elapsed().as_secs_f64() * f64::from(rate) >= calls as f64 => {
                calls += u64::from(call());
            }
            Some(_) => std::hint::spin_loop(),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Made { calls, cpu_time: thread_cpu() - cpu_started }
}

/// CPU time of this thread.
pub(super) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn only(cpu: u32) -> CpuSet {
    let mut set = CpuSet::new();
    // One beyond what a set can hold was refused by `available`.
    let _ = set.set(cpu as usize);
    set
}

/// Whether this process may run on a CPU at all, whatever its threads are bound to now.
fn available(cpu: u32) -> Result<bool> {
    Ok(crate::ring::cpus::online()?.contains(&cpu))
}

/// Runs `job` on a thread bound to `cpu`, as test-runs of raw tracepoints are cheapest on the CPU they are meant for.
pub(super) fn on_cpu<R: Send>(cpu: u32, job: impl FnOnce() -> R + Send) -> Result<R> {
    thread::scope(|scope| {
        let bound = scope.spawn(move || sched_setaffinity(Pid::from_raw(0), &only(cpu)).map(|()| job()));
        match bound.join() {
            Ok(done) => done.map_err(|e| {
                Error::caused(ErrorKind::Usage, format!("running the producer on CPU {cpu}"), e)
            }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Keeps this thread off the producers' CPUs while it lives.
pub(super) struct KeptOff {
    before: Option<CpuSet>,
}

impl KeptOff {
    /// Off `count` CPUs from `first` on, where there are others.
    pub fn new(first: u32, count: u32) -> Result<KeptOff> {
        let this = Pid::from_raw(0);
        let cannot = |e| Error::caused(ErrorKind::Runtime, "keeping the reader off the producers' CPUs", e);
        let before = sched_getaffinity(this).map_err(cannot)?;
        let mut set = before;
        for cpu in first..first.saturating_add(count) {
            if (cpu as usize) < CpuSet::count() {
                set.unset(cpu as usize).map_err(cannot)?;
            }
        }
        let others = (0..CpuSet::count()).any(|c| set.is_set(c).unwrap_or(false));
        if !others {
            return Ok(KeptOff { before: None });
        }
        sched_setaffinity(this, &set).map_err(cannot)?;
        Ok(KeptOff { before: Some(before) })
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

//! The throughput benchmark behind `tracer bench`: trace_output's job of 2015, with its loss and its cost.
//!
//! In come [`Options`]; out comes an [`Outcome`]: records received a second, what was lost, and nanoseconds a
//! write(2) with and without the program.
//!
//! **Invariants.** No rate without its loss. Nothing here is faster than what a session does: the rings, the wake
//! rule and the pace are those of every other reader.

mod workload;

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};

use self::workload::Writer;
use crate::{
    Result,
    frontend::{Control, Pace, Poller},
    ledger::{Accounts, Identity},
    probe::Bench,
    record::{Body, sample_type},
    ring::{self, Budget, ItemKind, Set},
    session::arrays,
};

/// Bytes of a record's payload: thread ids and a cookie.
const PAYLOAD: usize = 16;
/// With the padding that the kernel adds.
const RAW: usize = 20;
/// An end marker, padded.
const MARKER_RAW: usize = 4;
/// How long the untraced call is measured.
const BASELINE: Duration = Duration::from_millis(200);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long.
    pub duration: Duration,
    /// The CPU that calls write(2).
    pub cpu: u32,
    /// The rings; what a sample carries and `max_raw` are set by the benchmark.
    pub rings: ring::Options,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    /// How write(2) was hooked.
    pub attached: String,
    /// Seconds measured.
    pub seconds: f64,
    /// Calls of write(2) made meanwhile.
    pub writes: u64,
    /// Records received.
    pub received: u64,
    /// Records received that were not what was sent.
    pub wrong: u64,
    /// Records that LOST records told of.
    pub lost: u64,
    /// The programs' accounts.
    pub accounts: Accounts,
    /// Nanoseconds a call without the program.
    pub untraced_ns: f64,
    /// Nanoseconds a call with it.
    pub traced_ns: f64,
    /// Of one CPU, by the reader.
    pub reader_cpu: f64,
    /// How often the reader slept and was woken or timed out.
    pub waits: u64,
    /// Bytes of each ring.
    pub ring_size: usize,
    /// The checks.
    pub identities: Vec<Identity>,
}

impl Outcome {
    /// Records received a second.
    pub fn rate(&self) -> f64 {
        self.received as f64 / self.seconds
    }

    /// True if no check failed.
    pub fn balanced(&self) -> bool {
        self.identities.iter().all(|i| i.holds != Some(false))
    }
}

/// Measures: a thread pinned to one CPU calls write(2) on /dev/null, this thread reads the rings from another.
///
/// Takes as long as was asked for and half a second.
///
/// # Errors
///
/// As [`Bench::attach`] and [`Set::open`].
pub fn run(options: &Options) -> Result<Outcome> {
    workload::keep_off(options.cpu)?;
    let untraced_ns = Writer::start(options.cpu)?.stop_after(BASELINE).ns_a_call();

    let rings = ring::Options { sample_type: sample_type::RAW, max_raw: PAYLOAD, ..options.rings.clone() };
    let (mut bench, attached) = Bench::attach(std::process::id())?;
    let mut set = Set::open(&rings, Some(arrays::of_bench(&bench)))?;
    let mut seen = Seen::default();
    let control = Control::new()?;
    let mut poller = Poller::new()?;
    let mut pace = Pace::new(&set);
    poller.register(&set, 0, &control)?;

    let cpu_before = thread_cpu();
    let started = Instant::now();
    let writer = Writer::start(options.cpu)?;
    while started.elapsed() < options.duration {
        let drained = set.drain(Budget { time: Some(Duration::from_millis(50)), ..Budget::ALL }, |item| {
            seen.take(&item.kind)
        });
        pace.count(&drained, |prompt| set.set_prompt(prompt))?;
        if !drained.more {
            seen.waits += 1;
            poller.wait(pace.sweep(), &control)?;
        }
    }
    let written = writer.stop();
    let seconds = started.elapsed().as_secs_f64();
    let reader_cpu = (thread_cpu() - cpu_before).as_secs_f64() / seconds;

    bench.detach();
    ring::wait_for_programs();
    drain_out(&mut set, &mut seen);
    let marked = bench.output(options.cpu, MARKER_RAW, 1, false);
    drain_out(&mut set, &mut seen);
    let accounts: Accounts = (0..bench.possible_cpus()).map(|cpu| bench.accounts(cpu)).sum();
    let mut outcome = Outcome {
        attached,
        seconds,
        writes: written.calls,
        received: seen.received,
        wrong: seen.wrong,
        lost: seen.lost,
        accounts,
        untraced_ns,
        traced_ns: written.ns_a_call(),
        reader_cpu,
        waits: seen.waits,
        ring_size: set.ring_size(),
        identities: Vec::new(),
    };
    outcome.identities = check(&outcome, &set, seen.markers, marked.err());
    Ok(outcome)
}

#[derive(Default)]
struct Seen {
    received: u64,
    wrong: u64,
    lost: u64,
    markers: u64,
    waits: u64,
}

impl Seen {
    #[inline]
    fn take(&mut self, kind: &ItemKind<'_>) -> ControlFlow<()> {
        match kind {
            ItemKind::Sample(sample) => {
                let raw: Body<'_> = sample.raw().unwrap_or_default();
                if raw.len() == RAW && raw.u64_at(8) == Some(Bench::COOKIE) {
                    self.received += 1;
                } else if raw.len() == MARKER_RAW {
                    self.markers += 1;
                } else {
                    self.wrong += 1;
                }
            }
            ItemKind::Lost(lost) => self.lost += lost.lost,
            _ => self.wrong += 1,
        }
        ControlFlow::Continue(())
    }
}

fn drain_out(set: &mut Set, seen: &mut Seen) {
    while set.drain(Budget::ALL, |item| seen.take(&item.kind)).more {}
}

fn check(o: &Outcome, set: &Set, markers: u64, unmarked: Option<std::io::Error>) -> Vec<Identity> {
    let a = &o.accounts;
    let mut accounts = Identity::new("accounts", "fired = filtered + emitted + failed");
    accounts.check("all CPUs", a.fired, a.filtered + a.emitted + a.failed.total());
    let mut calls = Identity::new("calls", "writes = emitted + failed, the end marker aside");
    calls.check(
        "all CPUs",
        o.writes,
        (a.emitted + a.failed.total()).saturating_sub(u64::from(unmarked.is_none())),
    );
    let mut records = Identity::new("records", "emitted = received + end markers");
    records.check("all CPUs", a.emitted, o.received + markers);
    let mut lost = Identity::new("lost", "ENOSPC = sum of LOST records = PERF_FORMAT_LOST");
    match unmarked {
        None => lost.check("ENOSPC and LOST records", a.failed.enospc, o.lost),
        Some(e) => lost.unknown(format!("no end marker: {e}")),
    }
    match set.cpus().map(|cpu| set.kernel_lost(cpu)).sum::<Option<u64>>() {
        Some(kernel) => lost.check("ENOSPC and PERF_FORMAT_LOST", a.failed.enospc, kernel),
        None => lost.unknown("this kernel does not count what it lost".into()),
    }
    let mut payload = Identity::new("payload", "every record carries the cookie");
    payload.check("records that do not", o.wrong, 0);
    vec![accounts, calls, records, lost, payload]
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

//! One round of one case: producers run, this thread reads, and every event must be accounted for.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    Age, Case, Options, Reader, Round, Workload,
    noise::Before,
    readers::{self, drain_out, share},
    seen::{MARKER, Seen},
    workload::{Call, Made, Producers, on_cpu, thread_cpu},
};
use crate::{
    Error, ErrorKind, Result,
    ledger::{Accounts, Identity},
    probe::bench::{Bench, Hook, RingbufReader},
    ring::{self, Set},
    session::arrays,
};

/// What part of a ring is filled before it is read, where only reading is timed.
const FILL: f64 = 0.9;

/// Measures.
pub(super) fn measure(options: &Options, case: &Case) -> Result<Round> {
    let emit = case.emit(ring::cpus::online()?.len());
    let cpus = options.cpu..options.cpu.saturating_add(case.producers);
    let call = if case.hook == Some(Hook::Uprobe) { Call::Function } else { Call::Write };
    let untraced_ns = match case.workload.calls() {
        true => Some(untraced(options, cpus.clone(), call)?),
        false => None,
    };
    let before = Before::now();
    let (mut bench, attached) = match case.workload.calls() {
        true => {
            let (bench, _, how) = Bench::attach(std::process::id(), case.hook, &emit)?;
            (bench, how)
        }
        false => (Bench::by_hand(&emit)?, "test-run".to_owned()),
    };
    let seen = RefCell::new(Seen::new(emit));
    let mut rings = match case.reader {
        Reader::Rings => Set::open(&case.rings(), Some(arrays::of_bench(&bench)))?
            .into_shards(case.reader_threads as usize)?,
        _ => Vec::new(),
    };
    let ran = {
        let ringbuf = match case.reader {
            Reader::Rings => None,
            _ => Some(bench.ringbuf(|record| seen.borrow_mut().take(crate::record::Body::new(record)))?),
        };
        let mut reading = Reading { rings: &mut rings, ringbuf, seen: &seen, case };
        match case.workload {
            Workload::Write => reading.calls(options, cpus.clone(), call, None)?,
            Workload::Paced(rate) => reading.calls(options, cpus.clone(), call, Some(rate))?,
            Workload::Burst => reading.burst(options, &bench)?,
            Workload::Drain => reading.filled(options, &bench)?,
        }
    };
    bench.detach();
    ring::wait_for_programs();
    let unmarked = end(&bench, &mut rings, &seen, case, cpus)?;
    let accounts: Accounts = (0..bench.possible_cpus()).map(|cpu| bench.accounts(cpu)).sum();
    let seen = seen.into_inner();
    let failed = if case.gather > 1 { accounts.unsent } else { accounts.failed.total() };
    let mut round = Round {
        attached,
        seconds: ran.seconds,
        calls: ran.made.calls,
        received: seen.events,
        records: seen.records,
        wrong: seen.wrong,
        lost: seen.lost,
        failed,
        accounts,
        untraced_ns,
        traced_ns: ran.made.ns_a_call(),
        drain_ns: ran.drain_ns,
        reader_cpu: ran.reader_cpu,
        waits: seen.waits,
        age: seen.ages.as_ref().map(|ages| Age {
            p50: ages.value_at_quantile(0.5),
            p99: ages.value_at_quantile(0.99),
            max: ages.max(),
        }),
        ring_size: rings.first().map_or(case.ring_size, Set::ring_size),
        noise: before.since(),
        identities: Vec::new(),
    };
    round.identities = check(case, &round, &rings, seen.markers, unmarked);
    Ok(round)
}

/// What a run of the workload gave.
struct Ran {
    made: Made,
    seconds: f64,
    reader_cpu: f64,
    drain_ns: Option<f64>,
}

/// What a call takes that nobody traces.
fn untraced(options: &Options, cpus: std::ops::Range<u32>, call: Call) -> Result<f64> {
    let producers = Producers::start(cpus, call, None)?;
    thread::sleep((options.duration / 5).min(Duration::from_millis(200)));
    Ok(producers.stop().ns_a_call())
}

/// What reads, and what it counts.
struct Reading<'a> {
    /// One for each thread; none where a ringbuf is read.
    rings: &'a mut [Set],
    ringbuf: Option<RingbufReader<'a>>,
    seen: &'a RefCell<Seen>,
    case: &'a Case,
}

impl Reading<'_> {
    fn calls(
        &mut self,
        options: &Options,
        cpus: std::ops::Range<u32>,
        call: Call,
        rate: Option<u32>,
    ) -> Result<Ran> {
        let producers = Producers::start(cpus, call, rate)?;
        let until = Instant::now() + options.duration;
        let (seconds, reader_cpu) = self.read(|| Instant::now() < until)?;
        Ok(Ran { made: producers.stop(), seconds, reader_cpu, drain_ns: None })
    }

    fn burst(&mut self, options: &Options, bench: &Bench) -> Result<Ran> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let made = on_cpu(options.cpu, || {
                    let (until, cpu_started) = (Instant::now() + options.duration, thread_cpu());
                    let mut calls = 0;
                    while Instant::now() < until {
                        bench.burst(options.cpu, 256)?;
                        calls += 256;
                    }
                    Ok(Made { calls, cpu_time: thread_cpu() - cpu_started })
                });
                over.store(true, Ordering::Relaxed);
                made
            });
            let read = self.read(|| !over.load(Ordering::Relaxed));
            let made = producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let (seconds, reader_cpu) = read?;
            Ok(Ran { made: made.map_err(refused)?, seconds, reader_cpu, drain_ns: None })
        })
    }

    fn filled(&mut self, options: &Options, bench: &Bench) -> Result<Ran> {
        let record = match self.rings.first() {
            Some(rings) => rings.format().sample_size(self.case.emit(1).record()),
            // A ringbuf's record has a head of eight bytes.
            None => self.case.emit(1).record().next_multiple_of(8) + 8,
        };
        let room = self.case.ring_size as f64 * FILL / record as f64;
        let events = (room.max(1.0) as u64) * u64::from(self.case.gather);
        let until = Instant::now() + options.duration;
        let (mut made, mut reading, cpu_started) = (Made::default(), Duration::ZERO, thread_cpu());
        while Instant::now() < until {
            let filled = on_cpu(options.cpu, || {
                let started = thread_cpu();
                bench.burst(options.cpu, events).map(|()| thread_cpu() - started)
            })?;
            made.cpu_time += filled.map_err(refused)?;
            made.calls += events;
            let started = Instant::now();
            match &self.ringbuf {
                Some(ringbuf) => _ = ringbuf.drain(),
                None => drain_out(self.rings, &mut self.seen.borrow_mut()),
            }
            reading += started.elapsed();
        }
        let records = self.seen.borrow().records.max(1);
        let reader_cpu = (thread_cpu() - cpu_started).as_secs_f64() / options.duration.as_secs_f64();
        let drain_ns = Some(reading.as_nanos() as f64 / records as f64);
        Ok(Ran { made, seconds: reading.as_secs_f64(), reader_cpu, drain_ns })
    }

    /// Reads and waits in turn while `on`; seconds, and of a CPU how much.
    fn read(&mut self, on: impl Fn() -> bool + Sync) -> Result<(f64, f64)> {
        share(|| match &self.ringbuf {
            Some(ringbuf) => readers::ringbuf(ringbuf, self.case.wake().sweep(), self.seen, &on),
            None => readers::rings(self.rings, &mut self.seen.borrow_mut(), &on),
        })
    }
}

/// Puts out what is held, and in rings an end marker on each producer's CPU, and reads to the end. What kept a
/// marker from being written.
fn end(
    bench: &Bench,
    rings: &mut [Set],
    seen: &RefCell<Seen>,
    case: &Case,
    cpus: std::ops::Range<u32>,
) -> Result<Option<std::io::Error>> {
    let mut drain_out = || drain_out(rings, &mut seen.borrow_mut());
    drain_out();
    let mut unmarked = None;
    for cpu in cpus {
        if case.gather > 1 {
            bench.flush(cpu).map_err(refused)?;
        }
        drain_out();
        if case.reader == Reader::Rings {
            unmarked = unmarked.or(bench.output(cpu, MARKER, 1, false).err());
        }
    }
    drain_out();
    if case.reader != Reader::Rings {
        // Whoever mapped it last has read nothing yet of what came after its last pass.
        bench.ringbuf(|record| seen.borrow_mut().take(crate::record::Body::new(record)))?.drain();
    }
    Ok(unmarked)
}

fn refused(error: std::io::Error) -> Error {
    Error::caused(ErrorKind::Runtime, "running the benchmark's program by test-run", error)
}

fn check(
    case: &Case,
    o: &Round,
    rings: &[Set],
    markers: u64,
    unmarked: Option<std::io::Error>,
) -> Vec<Identity> {
    let a = &o.accounts;
    let marks = if !rings.is_empty() && unmarked.is_none() { u64::from(case.producers) } else { 0 };
    let mut accounts = Identity::new("accounts", "fired = filtered + gathered + emitted + failed");
    let mut gathered = Identity::new("gathered", "gathered = in records emitted + in records failed");
    if case.gather > 1 {
        accounts.check("all CPUs", a.fired, a.filtered + a.gathered + marks);
        gathered.check("all CPUs", a.gathered, a.sent + a.unsent);
    } else {
        accounts.check("all CPUs", a.fired, a.filtered + a.emitted + a.failed.total());
    }
    let mut calls = Identity::new("calls", "calls = events received + failed");
    calls.check("all CPUs", o.calls, o.received + o.failed);
    let mut records = Identity::new("records", "emitted = received + end markers");
    records.check("all CPUs", a.emitted, o.records + markers);
    let mut lost = Identity::new("lost", "ENOSPC = sum of LOST records = PERF_FORMAT_LOST");
    match (rings, unmarked) {
        ([], _) => lost.unknown("a BPF ringbuf tells no losses: they are the program's own count".into()),
        (_, Some(e)) => lost.unknown(format!("no end marker: {e}")),
        (rings, None) => {
            let each = rings.iter().flat_map(|set| set.cpus().map(|cpu| set.kernel_lost(cpu)));
            lost.check("ENOSPC and LOST records", a.failed.enospc, o.lost);
            match each.sum::<Option<u64>>() {
                Some(kernel) => lost.check("ENOSPC and PERF_FORMAT_LOST", a.failed.enospc, kernel),
                None => lost.unknown("this kernel does not count what it lost".into()),
            }
        }
    }
    let mut payload = Identity::new("payload", "every event carries the cookie");
    payload.check("records that do not", o.wrong, 0);
    let mut all = vec![accounts, calls, records, lost, payload];
    if case.gather > 1 {
        all.push(gathered);
    }
    all
}

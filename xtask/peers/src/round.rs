//! One round of one reader: events are made, the reader reads, and every event must be accounted for.

use crate::peer::{Peer, Reader};
use crate::scene::{Scene, Workload};
use crate::seen::{MARKER, Seen};
use crate::workload::{Writer, Written, on_cpu, thread_cpu};
use anyhow::{Result, ensure};
use libbpf_rs::MapHandle;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracer::ledger::Accounts;
use tracer::probe::bench::{Bench, Emit};

/// What part of a ring is filled before it is read, where only reading is timed.
const FILL: f64 = 0.9;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Events received.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
    /// Seconds in which events were made.
    pub seconds: f64,
    /// Nanoseconds of the writer's CPU time an event.
    pub ns: f64,
    /// The same of a write that nobody traces.
    pub untraced: f64,
    /// Of one CPU, by the reader.
    pub cpu: f64,
    /// How often the reader waited.
    pub waits: u64,
    /// Nanoseconds of the reader's CPU time an event, where only reading is timed.
    pub drain: f64,
    /// How old events were when they were read, microseconds: of half of them, of all but one in a hundred, of all;
    /// where they carry their time.
    pub ages: [f64; 3],
}

/// What a reader runs on.
pub struct Stage<'a> {
    /// The loaded programs.
    pub bench: &'a Bench,
    /// What they put out.
    pub emit: Emit,
    /// The CPU that makes events.
    pub cpu: u32,
    /// Pages of each ring, but where a reader's own habit is meant.
    pub pages: usize,
    /// What counts what is read.
    pub seen: Rc<Seen>,
}

impl Stage<'_> {
    /// The array that the programs output into, by an open file of the reader's own: its slots go with it.
    pub fn array(&self) -> Result<MapHandle> {
        let path = format!("/proc/self/fdinfo/{}", self.bench.array().as_raw_fd());
        let text = std::fs::read_to_string(path)?;
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:")).unwrap_or_default();
        Ok(MapHandle::from_map_id(id.trim().parse()?)?)
    }
}

/// What the making of events came to.
#[derive(Default)]
struct Made {
    written: Written,
    cpu: f64,
    reading: Duration,
}

/// Runs one round. An error where an event is not accounted for: no rate without its loss.
pub fn measure(
    peer: &Peer,
    stage: &Stage<'_>,
    scene: &Scene,
    duration: Duration,
    untraced: f64,
) -> Result<Round> {
    let Stage { bench, cpu, emit, .. } = *stage;
    let before = accounts(bench);
    let mut reader = (peer.open)(stage)?;
    let made = match scene.workload {
        Workload::Live => written(&mut *reader, Writer::start(cpu, b"x")?, duration)?,
        Workload::Paced(rate) => {
            written(&mut *reader, Writer::paced(cpu, Duration::from_secs(1) / rate)?, duration)?
        }
        Workload::Burst => burst(&mut *reader, stage, duration)?,
        Workload::Drain => drain(&mut *reader, stage, duration)?,
    };
    reader.all()?;
    if emit.gather > 1 {
        bench.flush(cpu)?;
        reader.all()?;
    }
    if emit.ringbuf.is_none() {
        // The kernel tells its last loss with the next record.
        bench.output(cpu, MARKER, 1, false)?;
        reader.all()?;
    }
    drop(reader);
    let lost = check(&before, &accounts(bench), &made, stage)?;
    let (seen, calls) = (&stage.seen, made.written.calls);
    let mut ages = seen.ages.take();
    ages.sort_unstable();
    let age =
        |part: f64| ages.get(((ages.len() as f64 - 1.0) * part) as usize).map_or(f64::NAN, |ns| *ns as f64);
    Ok(Round {
        events: seen.events.get(),
        lost,
        seconds: made.written.time.as_secs_f64(),
        ns: made.written.cpu_time.as_nanos() as f64 / calls.max(1) as f64,
        untraced,
        cpu: made.cpu / made.written.time.as_secs_f64(),
        waits: seen.waits.get(),
        drain: made.reading.as_nanos() as f64 / seen.events.get().max(1) as f64,
        ages: [0.5, 0.99, 1.0].map(|part| age(part) / 1000.0),
    })
}

/// Every event by the programs' accounts against what the reader saw; how many were lost.
fn check(before: &Accounts, after: &Accounts, made: &Made, stage: &Stage<'_>) -> Result<u64> {
    let (seen, calls) = (&*stage.seen, made.written.calls);
    let (events, records) = (seen.events.get(), seen.records.get());
    let emitted = after.emitted - before.emitted;
    let refused = after.failed.total() - before.failed.total();
    let lost = if stage.emit.gather > 1 { after.unsent - before.unsent } else { refused };
    ensure!(seen.wrong.get() == 0, "{} records are not what was sent", seen.wrong.get());
    ensure!(emitted == records + seen.markers.get(), "{emitted} emitted, and seen: {records} records");
    ensure!(calls == events + lost, "{calls} calls, {events} events received, {lost} lost");
    if stage.emit.ringbuf.is_none() {
        ensure!(refused == seen.lost.get(), "{refused} refused, {} told as lost", seen.lost.get());
    }
    Ok(lost)
}

fn written(reader: &mut dyn Reader, writer: Writer, duration: Duration) -> Result<Made> {
    let (until, cpu) = (Instant::now() + duration, thread_cpu());
    while Instant::now() < until {
        reader.turn()?;
    }
    let cpu = (thread_cpu() - cpu).as_secs_f64();
    Ok(Made { written: writer.stop(), cpu, reading: Duration::ZERO })
}

fn burst(reader: &mut dyn Reader, stage: &Stage<'_>, duration: Duration) -> Result<Made> {
    let (over, bench, on) = (AtomicBool::new(false), stage.bench, stage.cpu);
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let written = on_cpu(on, || {
                let (started, cpu, mut calls) = (Instant::now(), thread_cpu(), 0);
                while started.elapsed() < duration {
                    bench.burst(on, 256)?;
                    calls += 256;
                }
                Ok(Written { calls, time: started.elapsed(), cpu_time: thread_cpu() - cpu })
            });
            over.store(true, Ordering::Relaxed);
            written
        });
        let cpu = thread_cpu();
        while !over.load(Ordering::Relaxed) {
            reader.turn()?;
        }
        let cpu = (thread_cpu() - cpu).as_secs_f64();
        let written = producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Made { written, cpu, reading: Duration::ZERO })
    })
}

fn drain(reader: &mut dyn Reader, stage: &Stage<'_>, duration: Duration) -> Result<Made> {
    let head = if stage.emit.ringbuf.is_some() { 8 } else { 12 };
    let record = (head + stage.emit.record()).next_multiple_of(8);
    let records = (reader.ring_size() as f64 * FILL / record as f64).max(1.0) as u64;
    let events = records * u64::from(stage.emit.gather);
    // Where it was filled what is read is in a cache: the reading is timed, and not the way between two CPUs.
    on_cpu(stage.cpu, || {
        let (mut made, started) = (Made::default(), Instant::now());
        while started.elapsed() < duration {
            let before = thread_cpu();
            stage.bench.burst(stage.cpu, events)?;
            let filled = thread_cpu();
            reader.all()?;
            made.written.cpu_time += filled - before;
            made.reading += thread_cpu() - filled;
            made.written.calls += events;
        }
        made.written.time = started.elapsed();
        made.cpu = made.reading.as_secs_f64();
        Ok(made)
    })
}

fn accounts(bench: &Bench) -> Accounts {
    (0..bench.possible_cpus()).map(|cpu| bench.accounts(cpu)).sum()
}

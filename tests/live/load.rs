//! What the tests of front ends share: threads that keep rings busy, and what was told of them added up.

use anyhow::{Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid, write};
use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tracer::event::{Cause, Event, Gap};
use tracer::ledger::Report;
use tracer::session::{Options, Session};
use tracer::sink::Batch;
use tracer::sink::batch::Item;

/// So many bytes are in each write, so that no other process's is among them, another test's neither.
fn bytes() -> usize {
    100_000 + std::process::id() as usize
}

/// A session that sees these writes alone, with rings of so many bytes.
pub fn session(ring: usize, change: impl FnOnce(&mut Options)) -> Result<Session> {
    let mut options = Options::default();
    options.rings.size = ring;
    change(&mut options);
    Ok(Session::start(options, &[format!("s:write/count=={}/", bytes()).parse()?])?)
}

/// Where this thread stands, and those that it starts: 0 is where others do, -20 before them. What is timed is then the
/// reader, and not what else this machine does meanwhile.
pub fn nice(nice: i32) -> Result<()> {
    let thread = gettid().to_string();
    let said = Command::new("renice").args(["-n", &nice.to_string(), "-p", &thread]).output()?;
    ensure!(said.status.success(), "renice: {}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

/// Threads that write, each on a CPU.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    /// They stand where others do, whoever starts them.
    usual: bool,
    threads: Vec<JoinHandle<u64>>,
}

impl Load {
    /// No thread yet.
    pub fn new() -> Self {
        Self { stop: Arc::default(), usual: false, threads: Vec::new() }
    }

    /// The same, of threads that stand where others do, whoever starts them.
    pub fn usual() -> Self {
        Self { usual: true, ..Self::new() }
    }

    /// One more, that writes at most `most` times, waiting in between where `pause` says so.
    pub fn on(mut self, cpu: u32, most: u64, pause: Duration) -> Self {
        let (stop, usual) = (Arc::clone(&self.stop), self.usual);
        self.threads.push(std::thread::spawn(move || {
            if usual {
                nice(0).expect("the usual priority");
            }
            let mut cpus = CpuSet::new();
            cpus.set(cpu as usize).expect("a CPU that is there");
            sched_setaffinity(Pid::from_raw(0), &cpus).expect("pinning to a CPU");
            let (null, bytes) = (File::create("/dev/null").expect("/dev/null"), vec![0; bytes()]);
            for n in 0..most {
                if stop.load(Ordering::Relaxed) {
                    return n;
                }
                write(&null, &bytes).expect("a write to /dev/null");
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
            most
        }));
        self
    }

    /// Waits for them; how many writes there were.
    pub fn wait(self) -> u64 {
        self.threads.into_iter().map(|thread| thread.join().expect("a thread that writes")).sum()
    }

    /// Ends those that go on.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }
}

/// What was told, added up.
#[derive(Debug, Default)]
pub struct Told {
    pub events: u64,
    pub dropped: u64,
    /// By CPU: events and what is missing.
    cpus: BTreeMap<u32, u64>,
    /// The last number of each CPU and level.
    last: BTreeMap<(u32, u8), u32>,
}

impl Told {
    /// Adds an event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        *self.cpus.entry(event.cpu).or_default() += 1;
        let last = self.last.insert((event.cpu, event.wire.level), event.wire.seq).unwrap_or(0);
        assert!(event.wire.seq > last, "{last} before {}", event.wire.seq);
    }

    /// Adds a hole.
    pub fn gap(&mut self, gap: &Gap) {
        let count = gap.count.expect("a hole of a known size");
        *self.cpus.entry(gap.cpu).or_default() += count;
        self.dropped += if gap.cause == Cause::Dropped { count } else { 0 };
        if let (Some((first, last)), Some(level)) = (gap.seq, gap.level) {
            let before = self.last.insert((gap.cpu, level), last).unwrap_or(0);
            assert!(first > before && last >= first, "{before} before {gap:?}");
        }
    }

    /// Adds what an item tells.
    pub fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => self.event(event),
            Item::Gap(gap) => self.gap(gap),
            _ => {}
        }
    }

    /// Adds all of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        batch.iter().for_each(|item| self.item(&item));
    }

    /// That the books balance, and that each number that was given out was told: as an event or in a hole.
    pub fn whole(&self, report: &Report) -> Result<()> {
        crate::kit::balanced(report)?;
        let sink = &report.sinks[0];
        ensure!(self.events == sink.delivered, "{} events of {sink:?}", self.events);
        // What was dropped at the very end has nothing behind it that would tell of it.
        let told = self.dropped == sink.dropped_queue || sink.dropped_sink > 0;
        ensure!(told && self.dropped <= sink.dropped_queue, "{} told dropped of {sink:?}", self.dropped);
        for cpu in report.cpus.iter().filter(|_| sink.dropped_sink == 0) {
            let told = self.cpus.get(&cpu.cpu).copied().unwrap_or(0);
            ensure!(told == cpu.decoded + cpu.holes, "{told} told of {cpu:?}");
        }
        Ok(())
    }
}

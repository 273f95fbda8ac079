//! One round of one reader: a writer runs, the reader reads, and every record must be accounted for.

use anyhow::{Result, ensure};
use libbpf_rs::MapHandle;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tracer::ledger::Accounts;
use tracer::probe::bench::Bench;

use crate::workload::{Writer, Written, thread_cpu};

/// A reader.
pub struct Peer {
    /// Its name in the table.
    pub name: &'static str,
    /// Opens its rings, calls [`Stage::begin`], reads until [`Stage::over`], calls [`Stage::end`], and reads what is left.
    pub run: fn(&mut Stage<'_>) -> Result<Seen>,
}

/// What a reader saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Records that were what was sent.
    pub received: u64,
    /// What LOST records told.
    pub lost: u64,
    /// End markers.
    pub markers: u64,
    /// Anything else.
    pub wrong: u64,
    /// How often it waited.
    pub waits: u64,
}

impl Seen {
    /// Counts a sample by its raw bytes.
    #[inline]
    pub fn sample(&mut self, raw_len: usize, cookie: Option<u64>) {
        if raw_len == 20 && cookie == Some(Bench::COOKIE) {
            self.received += 1;
        } else if raw_len == 4 {
            self.markers += 1;
        } else {
            self.wrong += 1;
        }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// What the reader saw.
    pub seen: Seen,
    /// Seconds of the writer's work.
    pub seconds: f64,
    /// Nanoseconds of the writer's CPU time a write.
    pub ns: f64,
    /// Of one CPU, by the reader.
    pub cpu: f64,
}

/// What a reader runs on.
pub struct Stage<'a> {
    /// The loaded programs.
    pub bench: &'a Bench,
    /// The CPU that writes.
    pub cpu: u32,
    duration: Duration,
    until: Option<Instant>,
    writer: Option<Writer>,
    written: Written,
    cpu_at: Duration,
    cpu_used: Duration,
}

impl Stage<'_> {
    /// The array that the programs output into, by an open file of the reader's own: its slots go with it.
    pub fn array(&self) -> Result<MapHandle> {
        let path = format!("/proc/self/fdinfo/{}", self.bench.array().as_raw_fd());
        let text = std::fs::read_to_string(path)?;
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:")).unwrap_or_default();
        Ok(MapHandle::from_map_id(id.trim().parse()?)?)
    }

    /// Starts the writer.
    pub fn begin(&mut self) -> Result<()> {
        self.writer = Some(Writer::start(self.cpu, b"x")?);
        self.cpu_at = thread_cpu();
        self.until = Some(Instant::now() + self.duration);
        Ok(())
    }

    /// Whether the time is up.
    pub fn over(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() >= until)
    }

    /// Stops the writer.
    pub fn end(&mut self) {
        self.cpu_used = thread_cpu() - self.cpu_at;
        self.written = self.writer.take().map(Writer::stop).unwrap_or_default();
    }

    /// Writes the marker that makes the kernel tell its last loss; the rings must have been read before.
    pub fn mark(&self) -> Result<()> {
        Ok(self.bench.output(self.cpu, 4, 1, false)?)
    }
}

/// Runs one round. An error where a record is not accounted for: no rate without its loss.
pub fn measure(peer: &Peer, bench: &Bench, cpu: u32, duration: Duration) -> Result<Round> {
    let mut stage = Stage {
        bench,
        cpu,
        duration,
        until: None,
        writer: None,
        written: Written::default(),
        cpu_at: Duration::ZERO,
        cpu_used: Duration::ZERO,
    };
    let before = accounts(bench);
    let seen = (peer.run)(&mut stage)?;
    let after = accounts(bench);
    let Written { calls, time, .. } = stage.written;
    let emitted = after.emitted - before.emitted;
    let refused = after.failed.enospc - before.failed.enospc;
    ensure!(seen.wrong == 0, "{} records are not what was sent", seen.wrong);
    ensure!(emitted == seen.received + seen.markers, "{emitted} emitted, and seen: {seen:?}");
    ensure!(refused == seen.lost, "{refused} refused, and seen: {seen:?}");
    ensure!(calls == seen.received + seen.lost, "{calls} writes, and seen: {seen:?}");
    Ok(Round {
        cpu: stage.cpu_used.as_secs_f64() / time.as_secs_f64(),
        seen,
        seconds: time.as_secs_f64(),
        ns: stage.written.ns(),
    })
}

fn accounts(bench: &Bench) -> Accounts {
    (0..bench.possible_cpus()).map(|cpu| bench.accounts(cpu)).sum()
}

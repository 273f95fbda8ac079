//! From the traced call to a file in memory: the tracer in its formats, bpftrace and `perf record`.

use crate::args::Asked;
use crate::table::median;
use crate::targets::{self, Target};
use crate::tool::{Tool, told};
use crate::workload::{self, Writer};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where files are in memory.
const MEMORY: &str = "/dev/shm";
const PERF_SAMPLE: u32 = 9;
const PERF_LOST: u32 = 2;
const PERF_LOST_SAMPLES: u32 = 13;

/// Who writes, and what; the tracer's first.
const WRITERS: [Writes; 7] = [
    Writes::Run("tracer text", &["-f", "text"]),
    Writes::Run("tracer text, 8 gathered", &["-f", "text", "--gather", "8"]),
    Writes::Run("tracer json", &["-f", "json"]),
    Writes::Run("tracer raw", &["-f", "raw"]),
    Writes::Record,
    Writes::Bpftrace,
    Writes::Perf,
];
const TEXT: usize = 0;
const RECORD: usize = 4;
const BPFTRACE: usize = 5;
const PERF: usize = 6;

/// A program, and how it writes.
enum Writes {
    /// `tracer run` with options; its name in the table.
    Run(&'static str, &'static [&'static str]),
    /// `tracer record`
    Record,
    /// bpftrace's printf
    Bpftrace,
    /// `perf record`
    Perf,
}

impl Writes {
    fn name(&self) -> &'static str {
        match self {
            Writes::Run(name, _) => name,
            Writes::Record => "tracer record",
            Writes::Bpftrace => "bpftrace printf",
            Writes::Perf => "perf record",
        }
    }
}

/// One round of one of them.
#[derive(Clone, Copy)]
struct Round {
    calls: u64,
    /// In the file.
    events: u64,
    /// Told as lost.
    lost: u64,
    seconds: f64,
    /// Nanoseconds of the writer's CPU time a call.
    ns: f64,
    bytes: u64,
}

impl Round {
    fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    fn untold(&self) -> u64 {
        self.calls.saturating_sub(self.events + self.lost)
    }
}

/// Where rounds take place.
struct Stage<'a> {
    tracer: &'a Path,
    asked: &'a Asked,
    scratch: PathBuf,
}

/// Measures all in turns, and prints the medians.
pub fn run(tracer: &Path, asked: &Asked) -> Result<()> {
    workload::keep_off(asked.cpu)?;
    let scratch = PathBuf::from(format!("{MEMORY}/tracer-onward-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let measured = measure(&Stage { tracer, asked, scratch: scratch.clone() });
    let _ = std::fs::remove_dir_all(&scratch);
    let rounds = measured?;
    let to = |which: usize, other: usize| {
        median(rounds[which].iter().zip(&rounds[other]).map(|(a, b)| a.rate() / b.rate()))
    };
    let targets = [
        Target::at_least("text to a file, events/s to bpftrace", 12.0, to(TEXT, BPFTRACE)),
        Target::at_least("text to a file, events/s to perf record", 1.5, to(TEXT, PERF)),
        Target::at_least("a recording, events/s to perf record", 1.5, to(RECORD, PERF)),
    ];
    if asked.json {
        let line = |(writes, its): (&Writes, &Vec<Round>)| {
            let of = |value: fn(&Round) -> f64| median(its.iter().map(value));
            json!({
                "writer": writes.name(),
                "events_per_second": of(Round::rate),
                "ns_per_write": of(|r| r.ns),
                "calls": of(|r| r.calls as f64),
                "events": of(|r| r.events as f64),
                "lost": of(|r| r.lost as f64),
                "untold": of(|r| r.untold() as f64),
                "bytes_per_event": of(|r| r.bytes as f64 / r.events.max(1) as f64),
            })
        };
        let all: Vec<_> = WRITERS.iter().zip(&rounds).map(line).collect();
        let targets: Vec<_> = targets.iter().map(Target::json).collect();
        println!("{:#}", json!({ "load": crate::load(), "writers": all, "targets": targets }));
        return Ok(());
    }
    println!(
        "write(2) of one byte to /dev/null on CPU {}, a call after the other; to a file in {MEMORY}; {} rounds of {:?}, \
         medians; load {}",
        asked.cpu,
        asked.rounds,
        asked.duration,
        crate::load(),
    );
    println!(
        "{:<24} {:>10} {:>9} {:>8} {:>9} {:>12} {:>10}",
        "writer", "events/s", "ns/write", "lost %", "untold %", "bytes/event", "text/this"
    );
    for (which, its) in rounds.iter().enumerate() {
        let of = |value: fn(&Round) -> f64| median(its.iter().map(value));
        println!(
            "{:<24} {:>10.0} {:>9.0} {:>8.2} {:>9.2} {:>12.0} {:>10.2}",
            WRITERS[which].name(),
            of(Round::rate),
            of(|r| r.ns),
            of(|r| 100.0 * r.lost as f64 / r.calls as f64),
            of(|r| 100.0 * r.untold() as f64 / r.calls as f64),
            of(|r| r.bytes as f64 / r.events.max(1) as f64),
            to(TEXT, which),
        );
    }
    targets::print(&targets);
    Ok(())
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Vec<Round>>> {
    let mut all = vec![Vec::new(); WRITERS.len()];
    for round in 0..stage.asked.rounds {
        for turn in 0..WRITERS.len() {
            let which = (round + turn) % WRITERS.len();
            let measured = stage
                .round(&WRITERS[which])
                .with_context(|| format!("{}, round {round}", WRITERS[which].name()))?;
            all[which].push(measured);
        }
    }
    Ok(all)
}

impl Stage<'_> {
    fn round(&self, which: &Writes) -> Result<Round> {
        let file = self.scratch.join("output");
        let _ = std::fs::remove_file(&file);
        let output = file.to_str().context("a path of plain characters")?;
        let spec = "s:write";
        let tool = match which {
            Writes::Run(_, words) => {
                let words = [&["run", "-o", output, spec], *words].concat();
                Tool::tracer(self.tracer, &words, &self.scratch)?
            }
            Writes::Record => Tool::tracer(self.tracer, &["record", "-o", output, spec], &self.scratch)?,
            Writes::Bpftrace => {
                let me = std::process::id();
                let probe = format!(
                    "tracepoint:syscalls:sys_enter_write /pid == {me}/ \
                     {{ printf(\"%d %d\\n\", args->fd, args->count); }}"
                );
                Tool::bpftrace(&probe, &["-o", output], &self.scratch)?
            }
            Writes::Perf => Tool::perf("syscalls:sys_enter_write", &file, &self.scratch)?,
        };
        let writer = Writer::start(self.asked.cpu, b"x")?;
        std::thread::sleep(self.asked.duration);
        let written = writer.stop();
        let said = tool.stop()?;
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {output}\n{said}"))?;
        let lines =
            |is: fn(&[u8]) -> bool| bytes.split(|b| *b == b'\n').filter(|line| is(line)).count() as u64;
        let (books, missing) = told(&said);
        let (events, lost) = match which {
            Writes::Run(_, ["-f", "text", ..]) => {
                (lines(|line| !line.is_empty() && !line.starts_with(b"-- ")), missing)
            }
            Writes::Run(_, ["-f", "json"]) => {
                (lines(|line| line.starts_with(b"{\"type\":\"event\"")), missing)
            }
            // Nobody else reads it: by its own books.
            Writes::Run(..) => (books, missing),
            Writes::Bpftrace => {
                let said_in_file = String::from_utf8_lossy(&bytes);
                let lost = |text: &str| -> u64 { text.lines().filter_map(bpftrace_lost).sum() };
                (
                    lines(|line| line.first().is_some_and(u8::is_ascii_digit)),
                    lost(&said_in_file) + lost(&said),
                )
            }
            Writes::Record | Writes::Perf => perf_data(&bytes).context("the file is no perf.data")?,
        };
        if matches!(which, Writes::Run(..) | Writes::Record) {
            ensure!(
                events + missing == written.calls && books == events,
                "{} calls, {events} events in the file, {books} told, {missing} told as missing\n{said}",
                written.calls
            );
        }
        Ok(Round {
            calls: written.calls,
            events,
            lost,
            seconds: written.time.as_secs_f64(),
            ns: written.ns(),
            bytes: bytes.len() as u64,
        })
    }
}

/// `Lost 12 events`
fn bpftrace_lost(line: &str) -> Option<u64> {
    line.strip_prefix("Lost ")?.split(' ').next()?.parse().ok()
}

/// Samples in a perf.data file, and how many its LOST records tell of.
fn perf_data(bytes: &[u8]) -> Option<(u64, u64)> {
    let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (start, size) = (u64_at(40)? as usize, u64_at(48)? as usize);
    let (mut at, mut samples, mut lost, mut lost_samples) = (start, 0, 0, 0);
    while at < start + size {
        let head = u64_at(at)?;
        let size = (head >> 48) as usize;
        match head as u32 {
            PERF_SAMPLE => samples += 1,
            PERF_LOST => lost += u64_at(at + 16)?,
            PERF_LOST_SAMPLES => lost_samples += u64_at(at + 8)?,
            _ => {}
        }
        at += size.max(8);
    }
    // The kernel's count at the end and the records in the stream tell of the same.
    Some((samples, lost.max(lost_samples)))
}

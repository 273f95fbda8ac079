//! Readers of perf rings against each other: one BPF object, loaded once, and rounds that take turns.
#![deny(unsafe_code)]

mod fields;
mod libbpf;
mod ours;
mod paced;
mod plain;
mod round;
mod table;
mod tool;
mod workload;

use anyhow::{Context, Result, bail};
use round::{Peer, Round};
use std::process::ExitCode;
use std::time::Duration;
use tracer::probe::bench::{Bench, Emit};

/// What was asked for.
struct Asked {
    duration: Duration,
    rounds: usize,
    cpu: u32,
    at_least: Option<f64>,
}

impl Asked {
    fn read(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut asked = Self { duration: Duration::from_secs(1), rounds: 5, cpu: 0, at_least: None };
        let mut args = args;
        while let Some(arg) = args.next() {
            let value = args.next().with_context(|| format!("{arg} takes a value"))?;
            let wrong = || format!("{arg} {value} is no value for it");
            match arg.as_str() {
                "--duration" => {
                    let seconds: f64 = value.trim_end_matches('s').parse().with_context(wrong)?;
                    asked.duration = Duration::try_from_secs_f64(seconds).with_context(wrong)?;
                }
                "--rounds" => asked.rounds = value.parse().with_context(wrong)?,
                "--cpu" => asked.cpu = value.parse().with_context(wrong)?,
                "--at-least" => asked.at_least = Some(value.parse().with_context(wrong)?),
                _ => bail!("there are --duration, --rounds, --cpu and --at-least, and no {arg}"),
            }
        }
        if asked.rounds == 0 || asked.duration.is_zero() {
            bail!("no rounds, or rounds of no time, measure nothing");
        }
        Ok(asked)
    }
}

/// The readers: ours first, then what it is compared with.
const PEERS: [Peer; 4] = [
    Peer { name: "ours, default options", run: ours::run },
    Peer { name: "2015 sample's manner, 256 pages", run: |at| plain::run(at, 256) },
    Peer { name: "2015 sample's manner, its 8 pages", run: |at| plain::run(at, 8) },
    Peer { name: "libbpf perf_buffer, 64 pages", run: |at| libbpf::run(at, 64) },
];

fn main() -> ExitCode {
    match measure() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq("fields").is_some() {
        let tracer = args.next().context("fields takes the path of the tracer")?;
        let asked = Asked::read(args)?;
        if asked.at_least.is_some() {
            bail!("fields judges nothing: it takes no --at-least");
        }
        fields::run(tracer.as_ref(), asked.cpu, asked.duration, asked.rounds)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paced = args.next_if_eq("paced").is_some();
    let asked = Asked::read(args)?;
    if paced {
        paced::run(asked.cpu, asked.duration)?;
        return Ok(ExitCode::SUCCESS);
    }
    workload::keep_off(asked.cpu)?;
    let untraced = workload::untraced(asked.cpu)?;
    let (bench, _, attached) = Bench::attach(std::process::id(), None, &Emit::default())?;
    let mut rounds: Vec<Vec<Round>> = PEERS.iter().map(|_| Vec::new()).collect();
    for round in 0..asked.rounds {
        for turn in 0..PEERS.len() {
            let which = (round + turn) % PEERS.len();
            let peer = &PEERS[which];
            let measured = round::measure(peer, &bench, asked.cpu, asked.duration);
            rounds[which].push(measured.with_context(|| format!("{}, round {round}", peer.name))?);
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "write(2) of one byte to /dev/null on CPU {}, {attached}; 16-byte records; {} rounds of {:?}, medians; \
         untraced {untraced:.0} ns; load {}",
        asked.cpu,
        asked.rounds,
        asked.duration,
        load.split(' ').take(3).collect::<Vec<_>>().join(" "),
    );
    let worst = table::print(&PEERS, &rounds);
    Ok(match asked.at_least {
        Some(least) if worst < least => {
            eprintln!(
                "ours is at {worst:.2} of the 2015 sample's manner by CPU time, and was to be at {least:.2} at least"
            );
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    })
}

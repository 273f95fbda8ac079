//! Readers of perf rings, and tracing programs, against each other in rounds that take turns.
#![deny(unsafe_code)]

mod args;
mod aya;
mod compare;
mod fields;
mod libbpf;
mod libbpf_rs_buffer;
mod onward;
mod ours;
mod paced;
mod peer;
mod plain;
mod ringbuf;
mod round;
mod scene;
mod seen;
mod table;
mod targets;
mod tool;
mod workload;

use anyhow::{Context, Result};
use args::Asked;
use peer::{OURS, PLAIN};
use std::process::ExitCode;

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
    let mut args = std::env::args().skip(1);
    let which = args.next().context("what is to be measured: peers, onward, paced or fields")?;
    match which.as_str() {
        "fields" => {
            let tracer = args.next().context("fields takes the path of the tracer")?;
            let asked = Asked::read(args, &[])?;
            fields::run(tracer.as_ref(), asked.cpu, asked.duration, asked.rounds)?;
        }
        "onward" => {
            let tracer = args.next().context("onward takes the path of the tracer")?;
            onward::run(tracer.as_ref(), &Asked::read(args, &["--json"])?)?;
        }
        "paced" => {
            let asked = Asked::read(args, &[])?;
            paced::run(asked.cpu, asked.duration)?;
        }
        _ => return peers(&Asked::read(args, &["--workload", "--at-least", "--json"])?),
    }
    Ok(ExitCode::SUCCESS)
}

fn peers(asked: &Asked) -> Result<ExitCode> {
    let outcomes = compare::run(asked)?;
    let targets = targets::of(&outcomes);
    if asked.json {
        let scenes: Vec<_> = outcomes.iter().map(table::json).collect();
        let targets: Vec<_> = targets.iter().map(targets::Target::json).collect();
        println!("{:#}", serde_json::json!({ "load": load(), "scenes": scenes, "targets": targets }));
    } else {
        println!(
            "events of 16 bytes made on CPU {}; {} rounds of {:?}, medians; rings of 256 pages, of 64 where reading alone is timed; in each \
             round a load of the object for all with one event a record, one for the gathered, and one for each \
             ringbuf; all events accounted for; load {}",
            asked.cpu,
            asked.rounds,
            asked.duration,
            load(),
        );
        outcomes.iter().for_each(table::print);
        targets::print(&targets);
    }
    Ok(judge(asked, &outcomes))
}

/// Fails where ours is behind the 2015 sample's manner by more than was allowed.
fn judge(asked: &Asked, outcomes: &[compare::Outcome]) -> ExitCode {
    let live = outcomes.iter().find(|o| o.scene.workload == scene::Workload::Live);
    let (Some(least), Some(live)) = (asked.at_least, live) else { return ExitCode::SUCCESS };
    let ratio = table::ratio(live.of(OURS), live.of(PLAIN), table::by_cpu);
    if ratio >= least {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "ours is at {ratio:.2} of the 2015 sample's manner by CPU time, and was to be at {least:.2} at least"
    );
    ExitCode::FAILURE
}

/// The machine's load averages.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

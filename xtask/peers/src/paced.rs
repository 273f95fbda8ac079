//! How old records grow, and what the reader costs, while they come at a rate: by each of our wake rules.

use crate::table::median;
use crate::workload::{Writer, keep_off, thread_cpu};
use anyhow::{Result, ensure};
use nix::time::{ClockId, clock_gettime};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tracer::frontend::{Control, Pace, Poller};
use tracer::probe::bench::{Bench, Emit};
use tracer::record::sample_type::{RAW, TIME};
use tracer::ring::{Budget, ItemKind, Options, Set, Wake};
use tracer::session::arrays;

/// Records a second.
const RATES: [u64; 6] = [100, 1_000, 4_000, 9_000, 20_000, 100_000];

/// A wake rule, and whether it may follow the rate.
struct Rule {
    name: &'static str,
    wake: Wake,
    follows: bool,
}

/// What one rate made of one rule.
struct Round {
    rate: f64,
    cpu: f64,
    waits: f64,
    /// Microseconds, ascending.
    ages: Vec<f64>,
}

/// Measures every rate under every rule, for so long each, and prints a line a pair.
pub fn run(cpu: u32, duration: Duration) -> Result<()> {
    keep_off(cpu)?;
    let rules = [
        Rule { name: "ours, default options", wake: Wake::default(), follows: true },
        Rule { name: "a quarter of the ring, or 100 ms", wake: Wake::default(), follows: false },
        Rule { name: "each record", wake: Wake::Records(1), follows: false },
    ];
    println!(
        "{:<34} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9}",
        "wake rule", "events/s", "waits/s", "CPU %", "p50 us", "p99 us", "max us"
    );
    let (bench, ..) = Bench::attach(std::process::id(), None, &Emit::default())?;
    for rate in RATES {
        for rule in &rules {
            let round = measure(&bench, cpu, duration, rate, rule)?;
            let at = |part: f64| round.ages[((round.ages.len() - 1) as f64 * part) as usize];
            println!(
                "{:<34} {:>9.0} {:>9.0} {:>6.1} {:>9.0} {:>9.0} {:>9.0}",
                rule.name,
                round.rate,
                round.waits,
                100.0 * round.cpu,
                median(round.ages.iter().copied()),
                at(0.99),
                at(1.0),
            );
        }
    }
    Ok(())
}

fn measure(bench: &Bench, cpu: u32, duration: Duration, rate: u64, rule: &Rule) -> Result<Round> {
    let options = Options { sample_type: RAW | TIME, max_raw: 16, wake: rule.wake, ..Options::default() };
    let mut set = Set::open(&options, Some(arrays::of_bench(bench)))?;
    let (control, mut poller, mut pace) = (Control::new()?, Poller::new()?, Pace::new(&set));
    poller.register(&set, 0, &control)?;
    let mut ages = Vec::with_capacity((2.0 * rate as f64 * duration.as_secs_f64()) as usize + 1024);
    let mut lost = 0;
    let writer = Writer::paced(cpu, Duration::from_secs(1) / rate as u32)?;
    let (started, cpu_at, mut waits) = (Instant::now(), thread_cpu(), 0.0);
    while started.elapsed() < duration {
        let now = nanoseconds();
        let drained = drain(&mut set, now, &mut ages, &mut lost);
        if rule.follows {
            pace.count(&drained, |prompt| set.set_prompt(prompt))?;
        }
        waits += 1.0;
        let sweep = if rule.follows { pace.sweep() } else { rule.wake.sweep() };
        poller.wait(sweep, &control)?;
    }
    let (used, seconds) = (thread_cpu() - cpu_at, started.elapsed().as_secs_f64());
    let written = writer.stop();
    let now = nanoseconds();
    drain(&mut set, now, &mut ages, &mut lost);
    let received = ages.len() as u64;
    ensure!(received + lost == written.calls, "{} writes, {received} received, {lost} lost", written.calls);
    ensure!(received > 0, "nothing was received");
    ages.sort_by(f64::total_cmp);
    Ok(Round {
        rate: received as f64 / seconds,
        cpu: used.as_secs_f64() / seconds,
        waits: waits / seconds,
        ages,
    })
}

fn drain(set: &mut Set, now: u64, ages: &mut Vec<f64>, lost: &mut u64) -> tracer::ring::Drained {
    set.drain(Budget::ALL, |item| {
        match item.kind {
            // Records written since are of age 0.
            ItemKind::Sample(sample) => {
                ages.push(now.saturating_sub(sample.time().unwrap_or(0)) as f64 / 1000.0);
            }
            ItemKind::Lost(told) => *lost += told.lost,
            _ => {}
        }
        ControlFlow::Continue(())
    })
}

fn nanoseconds() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

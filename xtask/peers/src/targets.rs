//! What was to be reached, and what was.

use crate::compare::Outcome;
use crate::peer::{AYA, GATHERED, LIBBPF, LIBBPF_RS, OURS, PLAIN, TUNED};
use crate::round::Round;
use crate::scene::{Scene, Workload};
use crate::table::{by_cpu, median, rate, ratio};
use serde_json::{Value, json};

/// What was to be reached.
pub struct Target {
    /// Of what.
    pub what: &'static str,
    /// By how much: at least, or at most.
    wanted: Wanted,
    /// What was measured.
    measured: f64,
}

enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

use Wanted::{AtLeast, AtMost};

/// Those that these scenes say something of.
pub fn of(outcomes: &[Outcome]) -> Vec<Target> {
    outcomes.iter().flat_map(of_scene).collect()
}

fn of_scene(outcome: &Outcome) -> Vec<Target> {
    let at = |name: &str, of: fn(&Round) -> f64| median(outcome.of(name).iter().map(of));
    let to = |name: &str, of: fn(&Round) -> f64| ratio(outcome.of(OURS), outcome.of(name), of);
    let target = |what, wanted, measured| Target { what, wanted, measured };
    match outcome.scene {
        Scene { workload: Workload::Live, .. } => vec![
            target("live, events/s to the 2015 sample's manner", AtLeast(0.95), to(PLAIN, rate)),
            target("the same, a second of the writer's CPU time", AtLeast(0.95), to(PLAIN, by_cpu)),
            target("live, events/s to libbpf-rs", AtLeast(10.0), to(LIBBPF_RS, rate)),
            target("live, events/s to aya", AtLeast(10.0), to(AYA, rate)),
            target("live, ns a write to untraced", AtMost(3.2), at(OURS, |r| r.ns / r.untraced)),
            target("the same, 8 gathered", AtMost(1.8), at(GATHERED, |r| r.ns / r.untraced)),
        ],
        Scene { workload: Workload::Paced(_), .. } => vec![
            target("paced, reader CPU %", AtMost(3.0), at(OURS, |r| 100.0 * r.cpu)),
            target("paced, p99 of the age, ms", AtMost(2.0), at(OURS, |r| r.ages[1] / 1000.0)),
        ],
        Scene { workload: Workload::Burst, .. } => vec![
            target("burst, events/s to libbpf tuned", AtLeast(0.97), to(TUNED, rate)),
            target("burst, events lost", AtMost(0.0), at(OURS, |r| r.lost as f64)),
            target("burst, 8 gathered, M events/s", AtLeast(20.0), at(GATHERED, |r| rate(r) / 1e6)),
        ],
        Scene { workload: Workload::Drain, size: 16 } => vec![
            target("drain of 16 bytes, ns an event to libbpf", AtMost(0.6), to(LIBBPF, |r| r.drain)),
            target("the same, to libbpf tuned", AtMost(0.6), to(TUNED, |r| r.drain)),
        ],
        Scene { workload: Workload::Drain, .. } => Vec::new(),
    }
}

impl Target {
    /// A target of a measurement elsewhere that is to be so high.
    pub fn at_least(what: &'static str, wanted: f64, measured: f64) -> Self {
        Self { what, wanted: AtLeast(wanted), measured }
    }

    fn met(&self) -> bool {
        match self.wanted {
            AtLeast(least) => self.measured >= least,
            AtMost(most) => self.measured <= most,
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let (bound, wanted) = match self.wanted {
            AtLeast(least) => ("at_least", least),
            AtMost(most) => ("at_most", most),
        };
        json!({ "target": self.what, bound: wanted, "measured": self.measured, "met": self.met() })
    }
}

/// Prints a line each.
pub fn print(targets: &[Target]) {
    println!("\n{:<46} {:>10} {:>10} {:>6}", "target", "wanted", "measured", "met");
    for target in targets {
        let wanted = match target.wanted {
            AtLeast(least) => format!(">= {least}"),
            AtMost(most) => format!("<= {most}"),
        };
        let met = if target.met() { "yes" } else { "no" };
        println!("{:<46} {wanted:>10} {:>10.2} {met:>6}", target.what, target.measured);
    }
}

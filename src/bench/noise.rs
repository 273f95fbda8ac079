//! What else the machine did while something was measured.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What disturbed a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Of all CPUs' time, what the hypervisor gave to others.
    pub stolen: f64,
    /// How often threads of this process were taken off their CPU for another.
    pub preempted: u64,
    /// The load average of the last minute at the end.
    pub load: f64,
}

/// The counters at one moment.
#[derive(Clone, Copy)]
pub(super) struct Before {
    stolen: u64,
    all: u64,
    preempted: u64,
}

impl Before {
    pub(super) fn now() -> Before {
        let (stolen, all) = stolen().unwrap_or((0, 0));
        Before { stolen, all, preempted: preempted() }
    }

    /// What has happened since.
    pub(super) fn since(self) -> Noise {
        let now = Before::now();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Noise {
            stolen: (now.stolen - self.stolen) as f64 / (now.all - self.all).max(1) as f64,
            preempted: now.preempted - self.preempted,
            load: load.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN),
        }
    }
}

/// Ticks that were stolen, and all ticks, of all CPUs.
fn stolen() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> = stat.lines().next()?.split(' ').filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal, and guests that are counted among the first two.
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

fn preempted() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.involuntary_context_switches().unsigned_abs())
}

//! What is measured of the readers: who makes events, and of what size.

use anyhow::{Result, bail};

/// Who makes events, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// write(2), a call after the other.
    Live,
    /// So many calls a second; events carry their time.
    Paced(u32),
    /// The program by test-run, 256 events a run.
    Burst,
    /// As `Burst` until the ring is nearly full, and only then read.
    Drain,
}

/// One table's worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Who makes events.
    pub workload: Workload,
    /// Bytes of an event, its time aside.
    pub size: usize,
}

/// Payloads of which reading alone is timed.
pub const DRAINED: [usize; 4] = [16, 64, 256, 1024];

impl Scene {
    /// Those of a list of names such as `live,drain`.
    pub fn list(names: &str) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for name in names.split(',') {
            let small = |workload| Self { workload, size: 16 };
            match name {
                "live" => all.push(small(Workload::Live)),
                "paced" => all.push(small(Workload::Paced(20_000))),
                "burst" => all.push(small(Workload::Burst)),
                "drain" => all.extend(DRAINED.map(|size| Self { workload: Workload::Drain, size })),
                _ => bail!("--workload takes live, paced, burst and drain, and no {name}"),
            }
        }
        Ok(all)
    }

    /// Whether calls of a hooked function make the events.
    pub fn calls(&self) -> bool {
        matches!(self.workload, Workload::Live | Workload::Paced(_))
    }

    /// Pages of each ring. Where only reading is timed, so few that what is read is still in a cache.
    pub fn pages(&self) -> usize {
        if self.workload == Workload::Drain { 64 } else { 256 }
    }

    /// Whether events carry their time.
    pub fn timed(&self) -> bool {
        matches!(self.workload, Workload::Paced(_))
    }
}

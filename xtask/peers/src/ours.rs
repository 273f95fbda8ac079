//! Our own reader: the set of rings with its default options, at the front end's pace.

use crate::round::{Seen, Stage};
use anyhow::Result;
use std::ops::ControlFlow;
use std::time::Duration;
use tracer::frontend::{Control, Pace, Poller};
use tracer::record::sample_type;
use tracer::ring::{Budget, ItemKind, Options, Set};
use tracer::session::arrays;

/// One round.
pub fn run(stage: &mut Stage<'_>) -> Result<Seen> {
    let options = Options { sample_type: sample_type::RAW, max_raw: 16, ..Options::default() };
    let mut set = Set::open(&options, Some(arrays::of_bench(stage.bench)))?;
    let (control, mut poller, mut pace) = (Control::new()?, Poller::new()?, Pace::new(&set));
    poller.register(&set, 0, &control)?;
    let mut seen = Seen::default();
    let budget = Budget { time: Some(Duration::from_millis(50)), ..Budget::ALL };
    stage.begin()?;
    while !stage.over() {
        let drained = drain(&mut set, budget, &mut seen);
        pace.count(&drained, |prompt| set.set_prompt(prompt))?;
        if !drained.more {
            seen.waits += 1;
            poller.wait(pace.sweep(), &control)?;
        }
    }
    stage.end();
    while drain(&mut set, Budget::ALL, &mut seen).more {}
    stage.mark()?;
    while drain(&mut set, Budget::ALL, &mut seen).more {}
    Ok(seen)
}

fn drain(set: &mut Set, budget: Budget, seen: &mut Seen) -> tracer::ring::Drained {
    set.drain(budget, |item| {
        match item.kind {
            ItemKind::Sample(sample) => {
                let raw = sample.raw().unwrap_or_default();
                seen.sample(raw.len(), raw.u64_at(8));
            }
            ItemKind::Lost(lost) => seen.lost += lost.lost,
            _ => seen.wrong += 1,
        }
        ControlFlow::Continue(())
    })
}

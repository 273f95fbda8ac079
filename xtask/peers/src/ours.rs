//! Our own reader: the set of rings with its default options, at the front end's pace.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::Result;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use tracer::frontend::{Control, Pace, Poller};
use tracer::record::sample_type;
use tracer::ring::{Budget, Drained, ItemKind, Options, Run, Set};
use tracer::session::arrays;

struct Ours {
    set: Set,
    control: Control,
    poller: Poller,
    pace: Pace,
    seen: Rc<Seen>,
}

/// Opens it.
pub fn open<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let options = Options {
        size: stage.pages * 4096,
        sample_type: sample_type::RAW,
        max_raw: stage.emit.record(),
        ..Options::default()
    };
    let set = Set::open(&options, Some(arrays::of_bench(stage.bench)))?;
    let (control, mut poller, pace) = (Control::new()?, Poller::new()?, Pace::new(&set));
    poller.register(&set, 0, &control)?;
    Ok(Box::new(Ours { set, control, poller, pace, seen: Rc::clone(&stage.seen) }))
}

impl Ours {
    fn drain(&mut self, budget: Budget) -> Drained {
        let seen = &*self.seen;
        self.set.drain_runs(budget, |run| {
            match run {
                // Raw bytes alone were asked for: behind the header and their size they are the whole of a record.
                Run::Alike(run) => run.bytes().chunks_exact(run.stride).for_each(|record| {
                    seen.bytes(record.get(12..).unwrap_or_default());
                }),
                Run::One(item) => match item.kind {
                    ItemKind::Sample(sample) => {
                        let raw = sample.raw().unwrap_or_default();
                        seen.sample(raw.len(), |at| raw.u64_at(at));
                    }
                    ItemKind::Lost(lost) => seen.told(lost.lost),
                    _ => seen.other(),
                },
            }
            ControlFlow::Continue(())
        })
    }
}

impl Reader for Ours {
    fn turn(&mut self) -> Result<()> {
        let drained = self.drain(Budget { time: Some(Duration::from_millis(50)), ..Budget::ALL });
        self.pace.count(&drained, |prompt| self.set.set_prompt(prompt))?;
        if !drained.more {
            self.seen.waited();
            self.poller.wait(self.pace.sweep(), &self.control)?;
        }
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        while self.drain(Budget::ALL).more {}
        Ok(())
    }
    fn ring_size(&self) -> usize {
        self.set.ring_size()
    }
}

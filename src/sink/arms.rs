//! One sink for several threads: a way into it for each, of its own where the sink has such, else by turns.
//!
//! ```text
//!   thread ─► Way ─► arm of the sink: formatted here ─► batch ──────┐
//!   thread ─► Way ─► …                                              ├─► one writer
//!                                                                   │
//!   thread ─► Way ─► copies, up to a batch of them ─► the lock ─► the sink: formatted there
//! ```

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{Counts, Header, Note, OnFull, Sink};
use crate::{
    Result,
    event::{Event, Gap, Wire},
    ledger::Report,
    record::Body,
    ring::TaskRecord,
    schema::Schema,
};

/// What is copied at most before it is handed over: bytes, and things told.
const BATCH: usize = 64 << 10;
const MOST: usize = 1024;

/// A sink with its ways in, one for each thread. It is a sink itself, for whoever has all of it: each event goes the
/// way of its CPU.
pub struct Arms<'s, S> {
    main: Mutex<&'s mut S>,
    arms: Vec<Arm>,
    /// Whose way a CPU's events go.
    of: Vec<usize>,
    name: String,
}

enum Arm {
    Own(Box<dyn Sink + Send>),
    Turns(Batch),
}

/// One thread's way in: a sink. What it was told is with the output once it is flushed.
pub struct Way<'w, 's, S> {
    arm: &'w mut Arm,
    main: &'w Mutex<&'s mut S>,
}

impl<'s, S: Sink> Arms<'s, S> {
    /// Ways for the threads that `of` names by CPU, from 0 on, into a sink that was told the header. `schemas` are
    /// those that the header told, in its order; `unhanded` counts events that no sink was handed as it panicked before.
    pub fn new(
        sink: &'s mut S,
        of: Vec<usize>,
        schemas: impl Iterator<Item = Schema>,
        unhanded: &Arc<AtomicU64>,
    ) -> Arms<'s, S> {
        let name = sink.name().to_owned();
        let count = of.iter().max().map_or(1, |most| most + 1);
        let schemas: Arc<[Schema]> = schemas.collect();
        let mut arm = || match sink.arm() {
            Some(own) => Arm::Own(own),
            None => Arm::Turns(Batch::new(schemas.clone(), unhanded.clone())),
        };
        let arms = (0..count).map(|_| arm()).collect();
        Arms { main: Mutex::new(sink), arms, of, name }
    }

    /// The sink itself, and a way for each thread.
    pub fn ways(&mut self) -> (&Mutex<&'s mut S>, Vec<Way<'_, 's, S>>) {
        let Arms { main, arms, .. } = self;
        let main = &*main;
        (main, arms.iter_mut().map(|arm| Way { arm, main }).collect())
    }

    /// The sink itself.
    pub fn main(&mut self) -> &mut S {
        self.main.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what threads that ended early have left.
    ///
    /// # Errors
    ///
    /// What the sink said first.
    pub fn rejoin(&mut self) -> Result<()> {
        let Arms { main, arms, .. } = self;
        let mut said = Ok(());
        for arm in arms {
            if let Arm::Turns(batch) = arm {
                said = said.and(batch.give(main));
            }
        }
        said
    }

    /// Whether each thread formats for itself.
    pub fn apart(&self) -> bool {
        self.arms.iter().all(|arm| matches!(arm, Arm::Own(_)))
    }

    fn way(&mut self, cpu: u32) -> &mut dyn Sink {
        let at = self.of.get(cpu as usize).copied().unwrap_or(0);
        let Arms { main, arms, .. } = self;
        match &mut arms[at] {
            Arm::Own(own) => &mut **own,
            Arm::Turns(_) => &mut **main.get_mut().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The sink of several threads. One that panicked while it was handed something is handed more all the same.
fn lock<'m, 's, S>(main: &'m Mutex<&'s mut S>) -> MutexGuard<'m, &'s mut S> {
    main.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Sink> Sink for Arms<'_, S> {
    fn name(&self) -> &str {
        &self.name
    }
    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.main().header(header)
    }
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.way(event.cpu).event(event)
    }
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.way(gap.cpu).gap(gap)
    }
    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        self.main().task(record)
    }
    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.main().note(note)
    }
    fn caught_up(&mut self) -> Result<()> {
        self.main().caught_up()
    }
    fn wait_room(&mut self, bound: Duration) -> bool {
        self.main().wait_room(bound)
    }
    fn on_full(&self) -> Option<OnFull> {
        lock(&self.main).on_full()
    }
    fn ending(&mut self, bound: Duration) {
        for arm in &mut self.arms {
            if let Arm::Own(own) = arm {
                own.ending(bound);
            }
        }
        self.main().ending(bound);
    }
    fn flush(&mut self) -> Result<()> {
        self.main().flush()
    }

    /// The ways first, all within the bound.
    fn settle(&mut self, bound: Duration) -> Result<()> {
        let until = Instant::now() + bound;
        let left = || until.saturating_duration_since(Instant::now());
        let mut said = Ok(());
        for arm in &mut self.arms {
            if let Arm::Own(own) = arm {
                said = said.and(own.settle(left()));
            }
        }
        said.and(self.main().settle(left()))
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        self.main().footer(report)
    }
    fn counts(&self) -> Counts {
        lock(&self.main).counts()
    }
}

impl<S: Sink> Sink for Way<'_, '_, S> {
    fn name(&self) -> &str {
        "way"
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        lock(self.main).header(header)
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        match self.arm {
            Arm::Own(own) => own.event(event),
            Arm::Turns(batch) => {
                batch.event(event);
                batch.give_if_full(self.main)
            }
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        match self.arm {
            Arm::Own(own) => own.gap(gap),
            Arm::Turns(batch) => {
                batch.held.push(Held::Gap(*gap));
                batch.give_if_full(self.main)
            }
        }
    }

    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        lock(self.main).task(record)
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        match self.arm {
            Arm::Own(own) => own.note(note),
            // Behind what was told before it.
            Arm::Turns(batch) => batch.give(self.main).and(lock(self.main).note(note)),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self.arm {
            Arm::Own(own) => own.flush(),
            Arm::Turns(batch) if batch.held.is_empty() => Ok(()),
            Arm::Turns(batch) => batch.give(self.main).and(lock(self.main).flush()),
        }
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        self.flush()
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        lock(self.main).footer(report)
    }

    fn counts(&self) -> Counts {
        lock(self.main).counts()
    }
}

/// What waits for its turn at the sink, in order.
struct Batch {
    held: Vec<Held>,
    bytes: Vec<u8>,
    /// How many of it were handed over.
    given: usize,
    /// By the place in the header.
    schemas: Arc<[Schema]>,
    unhanded: Arc<AtomicU64>,
}

enum Held {
    Event { cpu: u32, time: Option<u64>, wire: Wire, late: bool, end: usize },
    Gap(Gap),
}

impl Batch {
    fn new(schemas: Arc<[Schema]>, unhanded: Arc<AtomicU64>) -> Batch {
        let (held, bytes) = (Vec::with_capacity(MOST), Vec::with_capacity(BATCH));
        Batch { held, bytes, given: 0, schemas, unhanded }
    }

    fn event(&mut self, event: &Event<'_>) {
        event.raw.append_to(&mut self.bytes);
        let Event { cpu, time, wire, late, .. } = *event;
        self.held.push(Held::Event { cpu, time, wire, late, end: self.bytes.len() });
    }

    fn give_if_full(&mut self, main: &Mutex<&mut impl Sink>) -> Result<()> {
        let full = self.held.len() >= MOST || self.bytes.len() >= BATCH;
        if full { self.give(main) } else { Ok(()) }
    }

    /// Hands all over in one turn. What the sink says first is said, and it is handed the rest all the same.
    fn give(&mut self, main: &Mutex<&mut impl Sink>) -> Result<()> {
        let mut sink = lock(main);
        let (mut said, mut start) = (Ok(()), 0);
        while let Some(held) = self.held.get(self.given) {
            // Before the sink has it, as it is the sink's to count even where it panics.
            self.given += 1;
            match held {
                Held::Gap(gap) => said = said.and(sink.gap(gap)),
                Held::Event { cpu, time, wire, late, end } => {
                    let raw = Body::new(&self.bytes[mem::replace(&mut start, *end)..*end]);
                    let (cpu, time, wire, late) = (*cpu, *time, *wire, *late);
                    match self.schemas.get(usize::from(wire.probe).wrapping_sub(1)) {
                        Some(schema) => {
                            said = said.and(sink.event(&Event { cpu, time, wire, schema, raw, late }));
                        }
                        None => _ = self.unhanded.fetch_add(1, Relaxed),
                    }
                }
            }
        }
        drop(sink);
        self.held.clear();
        self.bytes.clear();
        self.given = 0;
        said
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let left = self.held[self.given..].iter().filter(|held| matches!(held, Held::Event { .. })).count();
        self.unhanded.fetch_add(left as u64, Relaxed);
    }
}

//! Events in the order of their times, before any sink: they are copied, and held until nothing older can come.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant},
};

use super::{Clock, Counts, Header, Note, OnFull, Sink};
use crate::{
    Error, ErrorKind, Result,
    event::{Event, Gap, Wire, order::Merge},
    ledger::Report,
    record::Body,
    ring::TaskRecord,
    schema::Schema,
};

/// In which order events are handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As rings are read: each CPU's as its ring holds them, nothing between CPUs.
    #[default]
    None,
    /// Each CPU's by time.
    Cpu,
    /// All by time. What comes too late is handed on and counted.
    Time,
    /// All by time, or not at all: what comes too late ends the run.
    Strict,
}

/// A sink behind an order.
///
/// What was written before a pass over the rings began is known to have been read when the pass ends
/// ([`Sink::caught_up`]), but for what a CPU that was held up had its time taken of and not yet written: for that
/// `hold` is waited. So an event waits for the next pass and `hold`, and a CPU that is silent or gone holds nobody up.
/// A gap stands behind the event that it follows on its CPU.
pub struct Ordered<S> {
    sink: S,
    order: Order,
    /// By the CPU, or all as CPU 0.
    merges: HashMap<u32, Merge<Entry>>,
    /// The schemas that the header told, by their place.
    schemas: Vec<Schema>,
    hold: Duration,
    most: usize,
    /// The end of the pass before this one, by CLOCK_MONOTONIC.
    pass: u64,
    /// The time of the last entry of a CPU: where stands what has none.
    last: HashMap<u32, u64>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    clock: fn() -> u64,
    /// The first event was late in an order that allows none.
    broken: Option<u64>,
    /// All that is held is to be handed on.
    ending: bool,
}

/// What is held.
enum Entry {
    Event { cpu: u32, time: Option<u64>, wire: Wire, raw: Vec<u8> },
    Gap(Gap),
}

impl<S: Sink> Ordered<S> {
    /// What `sink` is handed is in `order`. Events wait at least `hold`; at most `most` bytes of them are held.
    pub fn new(sink: S, order: Order, hold: Duration, most: usize) -> Ordered<S> {
        Ordered {
            sink,
            order,
            merges: HashMap::new(),
            schemas: Vec::new(),
            hold,
            most,
            pass: 0,
            last: HashMap::new(),
            spare: Vec::new(),
            clock: Clock::monotonic_now,
            broken: None,
            ending: false,
        }
    }

    /// The same with another clock, for tests.
    pub fn with_clock(self, clock: fn() -> u64) -> Ordered<S> {
        Ordered { clock, ..self }
    }

    /// The sink behind it.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The sink behind it.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// How many events came too late for their place.
    pub fn late(&self) -> u64 {
        self.merges.values().map(Merge::late).sum()
    }

    fn schema(&self, wire: Wire) -> Option<&Schema> {
        self.schemas.get(usize::from(wire.probe).wrapping_sub(1))
    }

    fn put(&mut self, cpu: u32, time: Option<u64>, bytes: usize, entry: Entry) {
        let last = self.last.entry(cpu).or_default();
        let time = time.unwrap_or(*last);
        *last = time;
        let merge = if self.order == Order::Cpu { cpu } else { 0 };
        let most = self.most;
        let merge = self.merges.entry(merge).or_insert_with(|| Merge::new(most));
        merge.put(time, bytes + size_of::<Entry>(), entry);
    }

    /// Hands on what can be, as far as the sink has room: what it has none for is held, while there is room for that
    /// here. At most `bound` is waited for it; what of that is left.
    fn give(&mut self, mut bound: Duration) -> (Duration, Result<()>) {
        let mut said = Ok(());
        for merge in self.merges.values_mut() {
            // With nothing to wait any more at the end, the sink is handed the rest, and counts what it drops.
            while merge.is_full() || self.ending || self.sink.wait_room(Duration::ZERO) {
                if self.ending && !bound.is_zero() {
                    let asked = Instant::now();
                    self.sink.wait_room(bound);
                    bound = bound.saturating_sub(asked.elapsed());
                }
                let Some(given) = merge.take() else { break };
                match given.entry {
                    Entry::Gap(gap) => said = said.and(self.sink.gap(&gap)),
                    Entry::Event { cpu, time, wire, raw } => {
                        if given.late && self.order == Order::Strict {
                            self.broken.get_or_insert(time.unwrap_or(0));
                        }
                        if let Some(schema) = self.schemas.get(usize::from(wire.probe).wrapping_sub(1)) {
                            let event =
                                Event { cpu, time, wire, schema, raw: Body::new(&raw), late: given.late };
                            said = said.and(self.sink.event(&event));
                        }
                        self.spare.push(raw);
                    }
                }
            }
        }
        let broken = self.broken.map_or(Ok(()), |time| {
            let what =
                format!("an event of {}.{:09} came after one that is younger", time / SECOND, time % SECOND);
            Err(Error::new(ErrorKind::Sink, what).with_help(
                "--order time tells of such events and goes on; a longer --latency waits longer for them",
            ))
        });
        (bound, said.and(broken))
    }
}

const SECOND: u64 = 1_000_000_000;

impl<S: Sink> Sink for Ordered<S> {
    fn name(&self) -> &str {
        self.sink.name()
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.schemas = header.probes.iter().map(|probe| probe.schema.clone()).collect();
        self.pass = (self.clock)();
        self.sink.header(header)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        // One of a probe that the header did not tell of could not be told again.
        if self.order == Order::None || self.schema(event.wire).is_none() {
            return self.sink.event(event);
        }
        let mut raw = self.spare.pop().unwrap_or_default();
        raw.clear();
        event.raw.append_to(&mut raw);
        let Event { cpu, time, wire, .. } = *event;
        self.put(cpu, time, raw.len(), Entry::Event { cpu, time, wire, raw });
        self.give(Duration::ZERO).1
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        if self.order == Order::None {
            return self.sink.gap(gap);
        }
        let time = gap.after.or(gap.before);
        self.put(gap.cpu, time, 0, Entry::Gap(*gap));
        self.give(Duration::ZERO).1
    }

    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        self.sink.task(record)
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.sink.note(note)
    }

    fn caught_up(&mut self) -> Result<()> {
        if self.order != Order::None {
            let hold = self.hold.as_nanos() as u64;
            let known = mem::replace(&mut self.pass, (self.clock)()).saturating_sub(hold);
            self.merges.values_mut().for_each(|merge| merge.advance(known));
            self.give(Duration::ZERO).1?;
        }
        self.sink.caught_up()
    }

    fn wait_room(&mut self, bound: Duration) -> bool {
        self.sink.wait_room(bound)
    }

    fn on_full(&self) -> Option<OnFull> {
        self.sink.on_full()
    }

    fn ending(&mut self, bound: Duration) {
        self.sink.ending(bound);
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.flush()
    }

    /// What is held is handed on first. Only waiting for room is within the bound: how long the rest takes is the
    /// sink's own work.
    fn settle(&mut self, bound: Duration) -> Result<()> {
        self.ending = true;
        self.merges.values_mut().for_each(|merge| merge.advance(u64::MAX));
        let (left, released) = self.give(bound);
        released.and(self.sink.settle(left))
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        self.sink.footer(report)
    }

    fn counts(&self) -> Counts {
        // What is held was neither handed on nor dropped, and at the end nothing is.
        Counts { late: self.late(), ..self.sink.counts() }
    }

    /// None where there is an order: all is merged here.
    fn arm(&mut self) -> Option<Box<dyn Sink + Send>> {
        if self.order == Order::None { self.sink.arm() } else { None }
    }
}

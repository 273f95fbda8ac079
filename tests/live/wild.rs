//! A sink that takes, fails or panics as it is told, and keeps its counts all the same.

use std::time::Duration;
use tracer::event::{Event, Gap};
use tracer::ledger::Report;
use tracer::sink::{Counts, Header, Memory, Note, Sink};
use tracer::{Error, ErrorKind, Result};

/// What the sink was handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Event,
    Gap,
}

/// What it does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Take,
    Fail,
    Panic,
}

/// Asks what to do for every event and gap.
pub struct Wild<'a> {
    pub memory: Memory,
    dropped: u64,
    act: Box<dyn FnMut(Told) -> Act + Send + 'a>,
}

impl<'a> Wild<'a> {
    pub fn new(act: impl FnMut(Told) -> Act + Send + 'a) -> Self {
        Self { memory: Memory::new(), dropped: 0, act: Box::new(act) }
    }

    /// Takes everything from now on.
    pub fn tame(&mut self) {
        self.act = Box::new(|_| Act::Take);
    }
}

/// Unwinds without the panic hook's words: there are many of these.
fn panic() -> ! {
    std::panic::resume_unwind(Box::new("told to panic"))
}

fn failed() -> Error {
    Error::new(ErrorKind::Sink, "told to fail")
}

impl Sink for Wild<'_> {
    fn name(&self) -> &str {
        "wild"
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.memory.header(header)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let act = (self.act)(Told::Event);
        if act == Act::Take {
            return self.memory.event(event);
        }
        self.dropped += 1;
        if act == Act::Panic { panic() } else { Err(failed()) }
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        match (self.act)(Told::Gap) {
            Act::Take => self.memory.gap(gap),
            Act::Fail => Err(failed()),
            Act::Panic => panic(),
        }
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.memory.note(note)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        self.memory.footer(report)
    }

    fn counts(&self) -> Counts {
        Counts { dropped_sink: self.dropped, ..self.memory.counts() }
    }
}

//! A sink that keeps what it is told: for tests, and for embedders that look at a short run as a whole.

use std::time::Duration;

use super::{Counts, Header, Note, Sink};
use crate::{
    Result,
    event::{Event, Gap, Wire},
    ledger::Report,
    record::{self, SampleId},
    ring::TaskRecord,
    schema::OwnedValue,
};

/// One thing that was told, with everything it borrowed copied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// The header; the names of the events it announced.
    Header(Vec<String>),
    /// An event.
    Event {
        /// The CPU whose ring held it.
        cpu: u32,
        /// CLOCK_MONOTONIC nanoseconds.
        time: Option<u64>,
        /// What every event carries.
        wire: Wire,
        /// The event's name.
        name: String,
        /// Its fields, in the schema's order.
        fields: Vec<(String, OwnedValue)>,
        /// Its raw bytes, padding included.
        raw: Vec<u8>,
    },
    /// A hole.
    Gap(Gap),
    /// A side-band record.
    Task {
        /// The CPU whose ring held it.
        cpu: u32,
        /// Its header.
        header: record::Header,
        /// Its body, the trailer included.
        body: Vec<u8>,
        /// Its trailer.
        id: SampleId,
    },
    /// An error or a word about a probe.
    Note(String),
    /// The ledger as it stood.
    Stats(Report),
    /// The final ledger.
    Footer(Report),
}

/// Keeps everything, without bound, in the order it came.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What was told so far.
    pub items: Vec<Item>,
    delivered: u64,
}

impl Memory {
    /// An empty one.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The holes, in order.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.items.iter().filter_map(|i| match i {
            Item::Gap(gap) => Some(gap),
            _ => None,
        })
    }
}

impl Sink for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.items.push(Item::Header(header.probes.iter().map(|p| p.schema.name.clone()).collect()));
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.delivered += 1;
        self.items.push(Item::Event {
            cpu: event.cpu,
            time: event.time,
            wire: event.wire,
            name: event.schema.name.clone(),
            fields: event.fields().map(|(f, v)| (f.name.clone(), v.into())).collect(),
            raw: event.raw.to_contiguous().into_owned(),
        });
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.items.push(Item::Gap(*gap));
        Ok(())
    }

    fn task(&mut self, task: &TaskRecord<'_>) -> Result<()> {
        let TaskRecord { cpu, record, id } = *task;
        let body = record.body.to_contiguous().into_owned();
        self.items.push(Item::Task { cpu, header: record.header, body, id });
        Ok(())
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.items.push(match note {
            Note::Error(message) | Note::Probe(message) => Item::Note((*message).into()),
            Note::Stats(report) => Item::Stats((*report).clone()),
        });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        self.items.push(Item::Footer(report.clone()));
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts { delivered: self.delivered, ..Counts::default() }
    }
}

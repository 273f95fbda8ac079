//! The sink of a stream: batches that wait to be taken, as many as passes and their budgets let come.

use std::{collections::VecDeque, time::Duration};

use crate::{
    Result,
    event::{Event, Gap},
    ledger::Report,
    ring::TaskRecord,
    sink::{Batch, Counts, Header, Note, Sink, batch::Fill},
};

/// How many batches' memory is kept to be filled again.
const KEPT: usize = 16;

/// Fills batches. It has room for what a pass brings, and for what is in the rings at the end.
#[derive(Debug)]
pub struct Filled {
    fill: Fill,
    ready: VecDeque<Batch>,
    delivered: u64,
    dropped: u64,
}

impl Filled {
    pub fn new(batch: usize) -> Filled {
        Filled { fill: Fill::new(batch, KEPT, None), ready: VecDeque::new(), delivered: 0, dropped: 0 }
    }

    /// The batches that are to be taken, in order.
    pub fn ready(&mut self) -> &mut VecDeque<Batch> {
        &mut self.ready
    }

    fn hand_over(&mut self) {
        if !self.fill.is_empty() {
            self.ready.push_back(self.fill.take());
        }
    }
}

impl Sink for Filled {
    fn name(&self) -> &str {
        "stream"
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.hand_over();
        self.fill.header(header);
        Ok(())
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if self.fill.is_full() {
            self.hand_over();
        }
        let taken = self.fill.event(event);
        self.delivered += u64::from(taken.is_ok());
        self.dropped += u64::from(taken.is_err());
        taken
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.fill.gap(gap);
        Ok(())
    }

    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        self.fill.task(record);
        Ok(())
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.fill.note(note);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hand_over();
        Ok(())
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        self.flush()
    }

    fn footer(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts { delivered: self.delivered, dropped_sink: self.dropped, ..Counts::default() }
    }
}

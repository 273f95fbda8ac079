//! A sink that has no bytes and keeps nothing: it counts.

use std::time::Duration;

use super::{Counts, Header, Note, Sink};
use crate::{
    Result,
    event::{Event, Gap},
    ledger::Report,
};

/// Counts the events that it is told.
#[derive(Clone, Debug, Default)]
pub struct Count {
    events: u64,
}

impl Count {
    /// How many there were.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl Sink for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn header(&mut self, _: &Header<'_>) -> Result<()> {
        Ok(())
    }

    fn event(&mut self, _: &Event<'_>) -> Result<()> {
        self.events += 1;
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        Ok(())
    }

    fn note(&mut self, _: &Note<'_>) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn footer(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts { delivered: self.events, ..Counts::default() }
    }
}

//! A pipe: all that is known stands before the records.

use std::io::{self, Write};

use super::Opening;

/// Writes a pipe record by record.
#[derive(Debug)]
pub struct PipeWriter<W> {
    to: W,
}

impl<W: Write> PipeWriter<W> {
    /// Writes all that comes before the first record.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn new(mut to: W, opening: &Opening) -> io::Result<PipeWriter<W>> {
        to.write_all(&opening.pipe())?;
        Ok(PipeWriter { to })
    }

    /// Appends whole records.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.to.write_all(records)
    }

    /// Gives back what was written to.
    pub fn into_inner(self) -> W {
        self.to
    }
}

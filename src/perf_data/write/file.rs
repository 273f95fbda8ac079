//! A file: its head first, its feature table and its sizes when it is finished.

use std::io::{self, Seek, SeekFrom, Write};

use super::{Opening, opening::FILE_HEADER};
use crate::perf_data::{Endian, Feature};

/// Where the parts of a file lie that was begun.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) endian: Endian,
    /// Where its records begin.
    pub data_at: u64,
    /// Features that were too large for the prologue.
    pub(super) late: Vec<Feature>,
    /// Number, offset and size of each that stands in the prologue.
    pub(super) placed: Vec<(u32, u64, u64)>,
}

/// The offset in the header of the data section's size.
const DATA_SIZE: u64 = 48;
/// The offset in the header of the event types and the bits of features behind them.
const EVENT_TYPES: u64 = 56;

impl Layout {
    /// Finishes a file whose records end at `end`: puts the features there that are not in it yet, those of `more`
    /// too (they stand for others alike), then says in the header that all is there. What stood behind `end` is
    /// written over.
    ///
    /// # Errors
    ///
    /// Those of `file`: it stays as it was, without sizes.
    pub fn finish(&self, file: &mut (impl Write + Seek), end: u64, more: &[Feature]) -> io::Result<()> {
        let endian = self.endian;
        let late = || more.iter().chain(self.late.iter().filter(|f| !more.iter().any(|m| m.id() == f.id())));
        let placed = self.placed.iter().filter(|(id, ..)| !late().any(|f| f.id() == *id));
        let mut sections: Vec<(u32, u64, u64)> = placed.copied().collect();
        let count = sections.len() + late().count();
        let mut bytes = Vec::new();
        for feature in late() {
            let at = end + 16 * count as u64 + bytes.len() as u64;
            let before = bytes.len();
            feature.write(endian, &mut bytes);
            sections.push((feature.id(), at, (bytes.len() - before) as u64));
        }
        sections.sort_unstable();
        let mut table = Vec::new();
        let mut bits = [0u64; 4];
        for (id, offset, size) in sections {
            bits[id as usize / 64 % 4] |= 1 << (id % 64);
            endian.put_u64(&mut table, offset);
            endian.put_u64(&mut table, size);
        }
        file.seek(SeekFrom::Start(end))?;
        file.write_all(&table)?;
        file.write_all(&bytes)?;

        let mut head = Vec::new();
        [0, 0].iter().chain(&bits).for_each(|n| endian.put_u64(&mut head, *n));
        debug_assert_eq!(EVENT_TYPES + head.len() as u64, FILE_HEADER);
        file.seek(SeekFrom::Start(EVENT_TYPES))?;
        file.write_all(&head)?;
        // Last of all: with its size the file says that it is finished.
        let mut size = Vec::new();
        endian.put_u64(&mut size, end - self.data_at);
        file.seek(SeekFrom::Start(DATA_SIZE))?;
        file.write_all(&size)?;
        file.flush()
    }
}

/// Writes a file record by record.
///
/// ```
/// use std::io::Cursor;
/// use tracer::perf_data::{Attr, Endian, feature::EventDesc, kind, records, write::{FileWriter, Opening}};
///
/// let event = EventDesc { attr: Attr::default(), name: b"mine".to_vec(), ids: vec![1] };
/// let opening = Opening { endian: Endian::NATIVE, events: vec![event], features: vec![] };
/// let mut file = FileWriter::new(Cursor::new(Vec::new()), &opening)?;
/// let mut round = Vec::new();
/// records::put(kind::FINISHED_ROUND, 0, Endian::NATIVE, &mut round, |_| {});
/// file.write(&round)?;
/// let bytes = file.finish(&[])?.into_inner();
/// assert!(bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP"));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileWriter<W> {
    to: W,
    layout: Layout,
    end: u64,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Begins a file at the start of `to`.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn new(mut to: W, opening: &Opening) -> io::Result<FileWriter<W>> {
        let (head, layout) = opening.file();
        to.seek(SeekFrom::Start(0))?;
        to.write_all(&head)?;
        let end = layout.data_at;
        Ok(FileWriter { to, layout, end })
    }

    /// Appends whole records.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.to.write_all(records)?;
        self.end += records.len() as u64;
        Ok(())
    }

    /// Finishes the file with what has become known meanwhile, and gives it back.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn finish(mut self, more: &[Feature]) -> io::Result<W> {
        self.layout.finish(&mut self.to, self.end, more)?;
        Ok(self.to)
    }
}

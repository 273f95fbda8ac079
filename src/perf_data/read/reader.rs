//! A recording as a whole: what it says of itself, and its records in the order in which they lie.

use std::io::Read;

use super::{
    FileHead, Head, Info, Note, Record,
    part::{Part, Place},
    source::Source,
};
use crate::error::{Error, ErrorKind, Result};
use crate::perf_data::{Attr, Endian, feature::id};

/// Reads a recording: a file, a pipe, or a directory of files.
///
/// Nothing is read twice and no record is copied; what it holds of a pipe is a record and what came with it.
/// Whatever the bytes are, it ends: what cannot be read is in the [`Info::notes`].
pub struct Reader<'a> {
    info: Info,
    parts: Vec<Part<'a>>,
    current: usize,
}

impl<'a> Reader<'a> {
    /// Reads what is all there: a file, mapped or read, or what was written to a pipe.
    ///
    /// # Errors
    ///
    /// Bytes that are no perf.data, or one of the first version.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>> {
        let head = Head::parse(&bytes[..bytes.len().min(Head::FILE_SIZE)])?;
        let endian = head.endian;
        let mut info = Info::new(endian, head.file);
        let source = match info.file.clone() {
            None => Source::slice(bytes, Head::PIPE_SIZE),
            Some(file) => open_file(bytes, &file, &mut info),
        };
        Ok(Reader { info, parts: vec![Part::new(0, source, endian)], current: 0 })
    }

    /// Reads what comes through a pipe, as it comes.
    ///
    /// # Errors
    ///
    /// As of [`Reader::new`]; a file (its features stand at its end); what `read` fails with.
    pub fn pipe(mut read: impl Read + Send + 'a) -> Result<Reader<'a>> {
        let mut first = [0; Head::FILE_SIZE];
        let count = fill(&mut read, &mut first[..Head::PIPE_SIZE])?;
        // A file's head is longer; what it says comes first, so that the refusal below is of the right thing.
        let more = if count == Head::PIPE_SIZE
            && first[8..16] != 16u64.to_le_bytes()
            && first[8..16] != 16u64.to_be_bytes()
        {
            fill(&mut read, &mut first[Head::PIPE_SIZE..])?
        } else {
            0
        };
        let head = Head::parse(&first[..count + more])?;
        if head.file.is_some() {
            return Err(Error::new(
                ErrorKind::Runtime,
                "a file of perf.data comes through a pipe, and its features stand at its end",
            )
            .with_help("name the file, or record with `-o -`"));
        }
        let source = Source::stream(Box::new(read), Head::PIPE_SIZE as u64);
        let part = Part::new(0, source, head.endian);
        Ok(Reader { info: Info::new(head.endian, None), parts: vec![part], current: 0 })
    }

    /// Reads the directory of `perf record --threads`: its file `data`, and `data.0`, `data.1` … in that order.
    ///
    /// # Errors
    ///
    /// As of [`Reader::new`] for `data`.
    pub fn directory(data: &'a [u8], others: impl IntoIterator<Item = &'a [u8]>) -> Result<Reader<'a>> {
        let mut reader = Reader::new(data)?;
        for (bytes, index) in others.into_iter().zip(1..) {
            reader.parts.push(Part::new(index, Source::slice(bytes, 0), reader.info.endian));
        }
        Ok(reader)
    }

    /// What is known of the recording so far.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The next record, in the order in which they lie. A COMPRESSED one comes before what it holds.
    ///
    /// # Errors
    ///
    /// What reading a pipe fails with.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Next<'_>>> {
        Ok(match self.step()? {
            Some((part, place)) => {
                Some(Next { record: self.parts[part].record(&place), info: &self.info, time: None })
            }
            None => None,
        })
    }

    /// The next record's part and place.
    #[inline]
    pub(super) fn step(&mut self) -> Result<Option<(usize, Place)>> {
        while let Some(part) = self.parts.get_mut(self.current) {
            let place = part.next(&mut self.info);
            let place = place.map_err(|e| Error::caused(ErrorKind::Runtime, "reading a recording", e))?;
            if let Some(place) = place {
                // Only perf's own records tell of the recording, and kinds that are not known want counting.
                if place.header.kind >= crate::perf_data::kind::USER || place.header.kind > LAST_OF_KERNEL {
                    self.info.take(&self.parts[self.current].record(&place));
                }
                return Ok(Some((self.current, place)));
            }
            self.current += 1;
        }
        Ok(None)
    }

    pub(super) fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }
}

/// A record, with what is known of the recording by then.
#[derive(Clone, Copy, Debug)]
pub struct Next<'r> {
    /// The record.
    pub record: Record<'r>,
    /// What is known.
    pub info: &'r Info,
    /// The time that it was put in order by; `None` of one that was not.
    pub time: Option<u64>,
}

/// The last of the kernel's kinds that is known.
const LAST_OF_KERNEL: u32 = crate::perf_data::kind::CALLCHAIN_DEFERRED;

fn fill(read: &mut impl Read, out: &mut [u8]) -> Result<usize> {
    let mut at = 0;
    while at < out.len() {
        match read.read(&mut out[at..]) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::caused(ErrorKind::Runtime, "reading a recording", e)),
        }
    }
    Ok(at)
}

/// Takes a file's attributes and features, and gives the place of its records.
fn open_file<'a>(bytes: &'a [u8], file: &FileHead, info: &mut Info) -> Source<'a> {
    let len = bytes.len() as u64;
    take_attrs(bytes, file, info);
    let start = file.data.offset.min(len);
    if file.data.size == 0 {
        take_prologue(bytes, file, info);
        info.notes.add(Note::Unfinished);
        return Source::slice(bytes, start as usize);
    }
    let end = start.saturating_add(file.data.size);
    if end > len {
        info.notes.add(Note::Short { missing: end - len });
    }
    let end = end.min(len) as usize;
    take_features(bytes, end, file, info);
    Source::slice(&bytes[..end], start as usize)
}

/// The section's bytes, or what of them lies within the file.
fn section(bytes: &[u8], offset: u64, size: u64) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len() - start);
    &bytes[start..start + size]
}

/// The features that an unfinished file has as records, before its data.
fn take_prologue(bytes: &[u8], file: &FileHead, info: &mut Info) {
    let own = section(bytes, file.prologue.offset, file.prologue.size);
    if own.len() as u64 == file.prologue.size && file.prologue.offset >= Head::FILE_SIZE as u64 {
        let mut part = Part::new(0, Source::slice(own, 0), info.endian);
        // A slice has no reading that could fail.
        while let Ok(Some(place)) = part.next(info) {
            info.take(&part.record(&place));
        }
    }
}

fn take_attrs(bytes: &[u8], file: &FileHead, info: &mut Info) {
    let endian = info.endian;
    let all = section(bytes, file.attrs.offset, file.attrs.size);
    let each = usize::try_from(file.attr_size).unwrap_or(usize::MAX);
    if each < Attr::MIN_SIZE + 16 {
        return info.notes.add(Note::Attribute);
    }
    // The ids of all attributes together cannot be more than the file's bytes hold.
    let mut left = bytes.len() / 8;
    for entry in all.chunks(each) {
        let parsed = entry.get(..each).and_then(|entry| {
            let (attr, ids) = entry.split_at(each - 16);
            let (attr, _) = sized(attr, endian)?;
            Some((attr, endian.u64_at(ids, 0)?, endian.u64_at(ids, 8)?))
        });
        let Some((attr, offset, size)) = parsed else {
            info.notes.add(Note::Attribute);
            break;
        };
        let ids = section(bytes, offset, size).chunks_exact(8).take(left);
        let ids: Vec<u64> = ids.filter_map(|id| endian.u64_at(id, 0)).collect();
        left -= ids.len();
        info.events.add(attr, ids);
    }
}

/// An attribute of the size of its place, whatever it says of its own: perf too goes by the place.
fn sized(bytes: &[u8], endian: Endian) -> Option<(Attr, usize)> {
    Attr::parse(bytes, endian).or_else(|| {
        let mut own = bytes.to_vec();
        own.get_mut(4..8)?.copy_from_slice(&match endian {
            Endian::Little => (bytes.len() as u32).to_le_bytes(),
            Endian::Big => (bytes.len() as u32).to_be_bytes(),
        });
        Attr::parse(&own, endian)
    })
}

fn take_features(bytes: &[u8], table: usize, file: &FileHead, info: &mut Info) {
    let mut places: Vec<(u32, u64, u64)> = Vec::new();
    for (number, at) in file.features().zip((table..).step_by(16)) {
        let word = |at| info.endian.u64_at(bytes, at);
        match (word(at), word(at + 8)) {
            (Some(offset), Some(size)) => places.push((number, offset, size)),
            _ => info.notes.add(Note::Feature(number)),
        }
    }
    // The number of CPUs first: others are read by it.
    places.sort_by_key(|(number, ..)| *number != id::NRCPUS);
    for (number, offset, size) in places {
        let own = section(bytes, offset, size);
        // Two sections in one place could make much of few bytes.
        if own.len() as u64 != size {
            info.notes.add(Note::Feature(number));
        } else {
            info.take_feature(number, own);
        }
    }
    info.features.sort_by_key(|feature| feature.id());
}

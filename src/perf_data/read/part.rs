//! The records of one file, one after another: those that are compressed too.

use std::{io, ops::Range};

use super::{
    Record,
    inflate::Inflate,
    info::{Info, Note},
    record::{extent, head},
    source::Source,
};
use crate::perf_data::{Endian, kind};
use crate::record::Header;

/// Where a record lies within a [`Part`] until the next is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub header: Header,
    pub offset: u64,
    /// Of the record itself, its head included.
    pub size: usize,
    /// Of what belongs to it beyond; 0 where it was passed over.
    pub payload: usize,
    /// Whether it was compressed.
    pub packed: bool,
}

/// One file's records.
pub(super) struct Part<'a> {
    pub index: u32,
    endian: Endian,
    source: Source<'a>,
    /// Bytes of the source to step over before the next record.
    behind: usize,
    /// Bytes of what is unpacked to step over before the next record.
    behind_packed: usize,
    inflate: Option<Box<Inflate>>,
    /// What of the COMPRESSED record ahead has not been unpacked.
    packed: Option<Range<usize>>,
    /// Where that record begins.
    packed_at: u64,
    done: bool,
}

impl<'a> Part<'a> {
    pub fn new(index: u32, source: Source<'a>, endian: Endian) -> Part<'a> {
        Part {
            index,
            endian,
            source,
            behind: 0,
            behind_packed: 0,
            inflate: None,
            packed: None,
            packed_at: 0,
            done: false,
        }
    }

    /// All bytes of the file, where all are there.
    pub fn all(&self) -> Option<&'a [u8]> {
        self.source.all()
    }

    /// Finds the next record.
    #[inline]
    pub fn next(&mut self, info: &mut Info) -> io::Result<Option<Place>> {
        if (self.packed.is_some() || self.behind_packed > 0)
            && let Some(place) = self.next_packed(info)?
        {
            return Ok(Some(place));
        }
        self.next_plain(info)
    }

    #[inline]
    fn next_plain(&mut self, info: &mut Info) -> io::Result<Option<Place>> {
        if self.done {
            return Ok(None);
        }
        if self.behind > 0 && !self.source.skip(std::mem::take(&mut self.behind))? {
            return self.cut(info, 0);
        }
        if !self.source.fill(Record::HEAD)? {
            return self.cut(info, 0);
        }
        let Some(first) = self.source.ahead().first_chunk() else { return self.cut(info, 0) };
        let header = head(first, self.endian);
        let offset = self.source.offset();
        if header.kind >= kind::USER {
            // What is more than its size is told by its first number.
            self.source.fill(Record::HEAD + 8)?;
        }
        let first = &self.source.ahead()[Record::HEAD..];
        let extent = extent(&header, &first[..first.len().min(8)], self.endian);
        if extent.size < Record::HEAD {
            return self.lost(info, Note::Size { offset, size: extent.size as u64 });
        }
        let whole = extent.size.saturating_add(extent.payload);
        // An AUX area may be larger than memory: of a pipe it is passed over.
        let passed = header.kind == kind::AUXTRACE && self.source.all().is_none();
        let need = if passed { extent.size } else { whole };
        if !self.source.fill(need)? {
            return self.cut(info, offset);
        }
        self.behind = whole;
        let payload = if passed { 0 } else { extent.payload };
        if matches!(header.kind, kind::COMPRESSED | kind::COMPRESSED2) {
            self.packed = Some(self.piece(&header, extent.size));
            self.packed_at = offset;
        }
        Ok(Some(Place { header, offset, size: extent.size, payload, packed: false }))
    }

    /// Where within a COMPRESSED record its piece of the stream lies.
    fn piece(&self, header: &Header, size: usize) -> Range<usize> {
        if header.kind == kind::COMPRESSED {
            return Record::HEAD..size;
        }
        let len = self.endian.u64_at(self.source.ahead(), Record::HEAD).unwrap_or(0);
        let end = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(16).min(size);
        16.min(end)..end
    }

    /// The next record of what has been unpacked, or can be of the COMPRESSED record ahead.
    fn next_packed(&mut self, info: &mut Info) -> io::Result<Option<Place>> {
        if self.inflate.is_none() {
            self.inflate = Some(Box::new(Inflate::new()?));
        }
        let Some(inflate) = &mut self.inflate else { return Ok(None) };
        inflate.skip(std::mem::take(&mut self.behind_packed));
        loop {
            if let Some(first) = inflate.ahead().first_chunk() {
                let header = head(first, self.endian);
                let (size, offset) = (usize::from(header.size), self.packed_at);
                if size < Record::HEAD {
                    self.packed = None;
                    return self.lost(info, Note::Size { offset, size: size as u64 });
                }
                if inflate.ahead().len() >= size {
                    self.behind_packed = size;
                    return Ok(Some(Place { header, offset, size, payload: 0, packed: true }));
                }
            }
            let Some(piece) = &mut self.packed else { return Ok(None) };
            let input = self.source.ahead().get(piece.clone()).unwrap_or_default();
            if input.is_empty() && !inflate.is_full() {
                self.packed = None;
                return Ok(None);
            }
            match inflate.take(input) {
                Ok(taken) => piece.start += taken,
                Err(e) => {
                    self.packed = None;
                    let note = Note::Packed { offset: self.packed_at, why: e.to_string() };
                    return self.lost(info, note);
                }
            }
        }
    }

    /// The end, in a record's midst where some bytes are left.
    fn cut(&mut self, info: &mut Info, offset: u64) -> io::Result<Option<Place>> {
        self.done = true;
        let bytes = self.source.ahead().len() as u64;
        let carried = self.inflate.as_ref().map_or(0, |inflate| inflate.ahead().len() as u64);
        if bytes > 0 || offset > 0 {
            info.notes.add(Note::Cut { offset: self.source.offset(), bytes });
        } else if carried > 0 {
            info.notes.add(Note::Cut { offset: self.packed_at, bytes: carried });
        }
        Ok(None)
    }

    fn lost(&mut self, info: &mut Info, note: Note) -> io::Result<Option<Place>> {
        self.done = true;
        info.notes.add(note);
        Ok(None)
    }

    /// The record of a place that [`Part::next`] gave last.
    #[inline]
    pub fn record(&self, place: &Place) -> Record<'_> {
        let ahead = match (&self.inflate, place.packed) {
            (Some(inflate), true) => inflate.ahead(),
            _ => self.source.ahead(),
        };
        self.at(place, ahead)
    }

    /// The same where all bytes of the file are there and it was not compressed: it stays as long as they do.
    #[inline]
    pub fn lasting(&self, place: &Place) -> Option<Record<'a>> {
        let all = self.source.all().filter(|_| !place.packed)?;
        Some(self.at(place, &all[place.offset as usize..]))
    }

    #[inline]
    fn at<'b>(&self, place: &Place, bytes: &'b [u8]) -> Record<'b> {
        let (own, behind) = bytes.split_at_checked(place.size).unwrap_or((bytes, &[]));
        Record {
            offset: place.offset,
            part: self.index,
            kind: place.header.kind,
            misc: place.header.misc,
            size: place.header.size,
            body: own.get(Record::HEAD..).unwrap_or_default(),
            payload: behind.get(..place.payload).unwrap_or_default(),
            endian: self.endian,
        }
    }
}

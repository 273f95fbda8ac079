//! One record as it lies in a file: its head, its body, and what its size does not count.

use crate::perf_data::{Endian, Fields, kind};
use crate::record::{Body, Header, Record as Native};

/// One record, borrowed from where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it begins in its file, from 0. What was compressed has the place of the COMPRESSED record it began in.
    pub offset: u64,
    /// Which file of a directory holds it: 0 is `data` itself, 1 is `data.0`.
    pub part: u32,
    /// `PERF_RECORD_*`, of [`kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// What its head says of its bytes, itself included.
    pub size: u16,
    /// Everything behind its head.
    pub body: &'a [u8],
    /// The bytes behind it that belong to it and are not in its size: of TRACING_DATA, and of AUXTRACE where the
    /// input is not a pipe.
    pub payload: &'a [u8],
    /// The byte order of the file.
    pub endian: Endian,
}

impl<'a> Record<'a> {
    /// Bytes of a head.
    pub const HEAD: usize = Header::SIZE;

    /// The numbers of the body, one after another.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.body, self.endian)
    }

    /// Whether the kernel wrote it, and so it may carry a time; all others are perf's own.
    pub fn is_kernels(&self) -> bool {
        self.kind < kind::USER
    }

    /// The same as the ring's rooms know it; its numbers are in the byte order of the file.
    pub fn native(&self) -> Native<'a> {
        let header = Header { kind: self.kind, misc: self.misc, size: self.size };
        Native { header, body: Body::new(self.body) }
    }

    /// Appends it as it lies, with what belongs to it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.endian.put_u32(out, self.kind);
        self.endian.put_u16(out, self.misc);
        self.endian.put_u16(out, self.size);
        out.extend_from_slice(self.body);
        out.extend_from_slice(self.payload);
    }
}

/// A head, in the byte order of its file.
#[inline]
pub(super) fn head(bytes: &[u8; Header::SIZE], endian: Endian) -> Header {
    if endian == Endian::NATIVE {
        return Header::parse(*bytes);
    }
    let [a, b, c, d, e, f, g, h] = *bytes;
    Header { kind: endian.u32([a, b, c, d]), misc: endian.u16([e, f]), size: endian.u16([g, h]) }
}

/// How many bytes there are from a record's first to the next record's; `None` where its head alone cannot tell.
///
/// `first` is what follows its head, at least eight bytes of it where there are so many.
pub(super) fn extent(header: &Header, first: &[u8], endian: Endian) -> Extent {
    let size = usize::from(header.size);
    match header.kind {
        kind::TRACING_DATA => {
            // perf writes it rounded up already.
            let len = endian.u32_at(first, 0).unwrap_or(0) as usize;
            Extent { size, payload: len.next_multiple_of(8) }
        }
        kind::AUXTRACE => {
            let len = endian.u64_at(first, 0).unwrap_or(0);
            Extent { size, payload: usize::try_from(len).unwrap_or(usize::MAX) }
        }
        // Of a large piece the size in the head has run over; then it is not padded either.
        kind::COMPRESSED2 => {
            let len = endian.u64_at(first, 0).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
            let own = len.saturating_add(16);
            let padded = own.checked_next_multiple_of(8).unwrap_or(usize::MAX);
            Extent { size: if padded > size { own } else { size }, payload: 0 }
        }
        _ => Extent { size, payload: 0 },
    }
}

/// The bytes that a record takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Of itself, its head included.
    pub size: usize,
    /// Of what follows and belongs to it.
    pub payload: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: u32, size: u16, first: &[u8]) -> Extent {
        extent(&Header { kind, misc: 0, size }, first, Endian::Little)
    }

    #[test]
    fn what_belongs_to_a_record_beyond_its_size() {
        assert_eq!(of(kind::SAMPLE, 40, &[9; 8]), Extent { size: 40, payload: 0 });
        assert_eq!(of(kind::TRACING_DATA, 16, &[9, 1, 0, 0, 0, 0, 0, 0]), Extent { size: 16, payload: 272 });
        assert_eq!(of(kind::AUXTRACE, 48, &[5, 0, 0, 0, 0, 0, 0, 0]), Extent { size: 48, payload: 5 });
        assert_eq!(of(kind::AUXTRACE, 48, &[0xff; 8]).payload, usize::MAX);
    }

    #[test]
    fn a_compressed_piece_that_its_size_cannot_say() {
        let len = |n: u64| n.to_le_bytes();
        assert_eq!(of(kind::COMPRESSED2, 24, &len(5)).size, 24, "padded");
        assert_eq!(of(kind::COMPRESSED2, 0, &len(65_520)).size, 65_536, "run over to 0");
        assert_eq!(of(kind::COMPRESSED2, 24, &len(70_001)).size, 70_017, "run over, not padded");
        assert_eq!(of(kind::COMPRESSED2, 24, &len(u64::MAX)).size, usize::MAX);
    }

    #[test]
    fn heads_in_both_orders() {
        let header = Header { kind: 9, misc: 2, size: 300 };
        assert_eq!(head(&[9, 0, 0, 0, 2, 0, 0x2c, 1], Endian::Little), header);
        assert_eq!(head(&[0, 0, 0, 9, 0, 2, 1, 0x2c], Endian::Big), header);
    }
}

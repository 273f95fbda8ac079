//! What lies in a ring: records, and what is none.

use crate::record::Record;

/// What lies at a position of a ring.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A record, borrowed from the ring.
    Record(Record<'a>),
    /// What no kernel writes on purpose; everything up to the head was given up.
    Corruption(Corruption),
}

/// Bytes in a ring that are no records, or a record that is not what its header says.
///
/// A healthy kernel makes them where a program outputs more than 65,516 bytes: the record's size overflows and
/// its bytes run over records that nobody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The CPU of the ring.
    pub cpu: u32,
    /// Where: the position that the next record was expected at, or that of a malformed record.
    pub position: u64,
    /// The eight bytes there, where they could be read.
    pub header: Option<[u8; 8]>,
    /// How many bytes were given up, records among them that can no longer be told apart.
    pub bytes: u64,
    /// What is wrong with them.
    pub cause: CorruptionCause,
}

/// What is wrong with the bytes of a [`Corruption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CorruptionCause {
    /// A record size below the eight bytes of its header.
    SizeTooSmall,
    /// A record size that is no multiple of eight.
    SizeUnaligned,
    /// A record size beyond what is unread.
    SizeBeyondUnread,
    /// `data_head` is more than the ring from `data_tail`, or at no record's alignment.
    Head,
    /// A sample, LOST or LOST_SAMPLES record too short for its own fields; that record alone was given up.
    Malformed,
}

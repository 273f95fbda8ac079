//! The records of a ring that is written backward and over what it held: newest first, by their bytes alone.
//!
//! ```text
//!           data_head: the newest        the last read before this, or `data_head + size`
//!                │                          │
//!   ┄┄┄┬─────────┼────────┬─────┬───────────┼┄┄┄    positions only fall; position & (size - 1)
//!      │  free   │ newest │ …   │ oldest    │       is the offset in the data
//!   ┄┄┄┴─────────┴────────┴─────┴───────────┴┄┄┄
//!    ◄── the kernel's          walk ──►
//! ```
//!
//! A record is written from its start up, and the next one ends where it starts. So from `data_head` on each header
//! leads to an older record, up to where the last reading began. Where more was written since than the ring
//! holds, the walk ends at the record whose end the newest ones lie on: it is gone, and whatever is older.

use super::entry::CorruptionCause;
use crate::record::{Body, Header, Record};

/// What a ring held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The positions of its records, newest first.
    pub records: Vec<u64>,
    /// Older records were written over.
    pub overwritten: bool,
    /// Where, and why, the walk ended before its end: what is older could not be told apart. The bytes given up.
    pub corruption: Option<(u64, CorruptionCause, u64)>,
}

/// Finds what was written to a ring since its `data_head` was at `since`: at first 0. `data` are its bytes, a power of
/// two, at least 8, and `head` its `data_head`, after its last writer has ended.
///
/// ```
/// # use tracer::{record::{Header, kind}, ring::backward};
/// // Two records of eight bytes, the newer one first.
/// let header = |misc| Header { kind: kind::SAMPLE, misc, size: 8 }.to_bytes();
/// let data = [[0; 8], [0; 8], header(2), header(1)].concat();
/// let past = backward::find(&data, 0_u64.wrapping_sub(16), 0);
/// let misc = |position| backward::record(&data, position).unwrap().header.misc;
/// assert_eq!(past.records.iter().map(|p| misc(*p)).collect::<Vec<_>>(), [2, 1]);
/// assert!(!past.overwritten);
/// ```
pub fn find(data: &[u8], head: u64, since: u64) -> Past {
    let size = data.len() as u64;
    let written = since.wrapping_sub(head);
    let mut past = Past { overwritten: written > size, ..Past::default() };
    let whole = written.min(size);
    if !head.is_multiple_of(8) || !written.is_multiple_of(8) || !size.is_power_of_two() || size < 8 {
        past.corruption = Some((head, CorruptionCause::Head, whole));
        return past;
    }
    let mut walked = 0;
    while walked < whole {
        let position = head.wrapping_add(walked);
        let (len, left) = (u64::from(header(data, position).size), whole - walked);
        let cause = if len < Header::SIZE as u64 {
            CorruptionCause::SizeTooSmall
        } else if !len.is_multiple_of(8) {
            CorruptionCause::SizeUnaligned
        } else if len > left && !past.overwritten {
            CorruptionCause::SizeBeyondUnread
        } else if len > left {
            // The oldest, whose end is written over.
            break;
        } else {
            past.records.push(position);
            walked += len;
            continue;
        };
        past.corruption = Some((position, cause, left));
        break;
    }
    past
}

/// The record at a position that [`find`] gave; `None` where there is none to be made out.
pub fn record(data: &[u8], position: u64) -> Option<Record<'_>> {
    let offset = offset(data, position);
    let header = Header::parse(*data.get(offset..)?.first_chunk()?);
    let len = usize::from(header.size).checked_sub(Header::SIZE)?;
    let after = &data[offset + Header::SIZE..];
    let body = match after.split_at_checked(len) {
        Some((body, _)) => Body::new(body),
        None => Body::wrapped(after, data.get(..len - after.len())?),
    };
    Some(Record { header, body })
}

fn offset(data: &[u8], position: u64) -> usize {
    (position & (data.len() as u64).wrapping_sub(1)) as usize
}

/// Eight aligned bytes, which never wrap.
fn header(data: &[u8], position: u64) -> Header {
    let bytes = data.get(offset(data, position)..).and_then(|rest| rest.first_chunk());
    Header::parse(bytes.copied().unwrap_or_default())
}

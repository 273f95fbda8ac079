//! The reader of one ring that the kernel writes forward.

use std::ops::ControlFlow;

use super::{
    budget::Left,
    entry::{Corruption, CorruptionCause, Entry},
    mapping::{Mapping, distance},
    run,
    stats::Stats,
};
use crate::record::{Body, Header, Lost, Record, kind};

/// How many records are handed over between two looks at the clock, where a drain has a time budget.
const TIME_CHECK: u64 = 16;

/// What a drain hands its records to. Several functions, so that the one that is called for every record is
/// called from one place, and can become part of the loop there.
pub(super) trait Hand {
    /// Whether samples that are alike come as one piece where they lie in one.
    const RUNS: bool = false;

    /// As many samples of this header as the bytes hold.
    fn run(&mut self, _: Place, _: Header, _: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn record(&mut self, stats: &mut Stats, place: Place, record: Record<'_>) -> ControlFlow<()>;
    fn corruption(&mut self, corruption: Corruption) -> ControlFlow<()>;
    /// A ring ends here that lost records after its last: no LOST record will tell it.
    fn untold(&mut self, stats: &mut Stats, place: Place, lost: Lost) -> ControlFlow<()>;
}

/// Where a record lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub cpu: u32,
    pub position: u64,
}

/// Reads one ring: [`snapshot`](Forward::snapshot) what is there, [`peek`](Forward::peek) at a record,
/// [`advance`](Forward::advance) over it, and [`commit`](Forward::commit) to give its bytes back;
/// a [`Set`](super::Set) does all four, fastest. Nothing here waits.
pub struct Forward {
    cpu: u32,
    mapping: Mapping,
    /// The position read up to; `tail..=head` of the mapping.
    read: u64,
    /// How many bytes are read between two commits: an eighth of the ring.
    stride: u64,
    pub(super) stats: Stats,
}

impl Forward {
    pub(super) fn new(cpu: u32, mapping: Mapping) -> Forward {
        let (read, stride) = (mapping.tail(), (mapping.size() as u64 / 8).max(8));
        Forward { cpu, mapping, read, stride, stats: Stats::default() }
    }

    /// The CPU whose ring this is.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Bytes of data.
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Bytes from the position read up to, to the head of the last snapshot.
    #[inline]
    pub fn unread(&self) -> u64 {
        distance(self.read, self.mapping.head())
    }

    /// The position read up to.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// True where the kernel has written beyond the position read up to, by a look at this moment.
    pub(super) fn waiting(&self) -> bool {
        self.mapping.look() != self.read
    }

    /// Looks how far the kernel has written, by one load; until the next snapshot nothing newer is read.
    /// What was stepped over is committed first. A head that cannot be is returned, and the ring is empty then.
    pub fn snapshot(&mut self) -> Option<Corruption> {
        self.commit();
        let Err(impossible) = self.mapping.snapshot() else {
            self.stats.high_water = self.stats.high_water.max(self.unread());
            return None;
        };
        let bytes = impossible.distance.min(self.mapping.size() as u64);
        let corruption = Corruption {
            cpu: self.cpu,
            position: self.read,
            header: None,
            bytes,
            cause: CorruptionCause::Head,
        };
        self.give_up(impossible.head, bytes);
        Some(corruption)
    }

    /// What lies at the position read up to; `None` at the head of the last snapshot.
    pub fn peek(&self) -> Option<Entry<'_>> {
        let [mut rest, mut next] = self.mapping.unread(self.read);
        let unread = (rest.len() + next.len()) as u64;
        Some(match take(&mut rest, &mut next, &mut Alike::default())? {
            Ok(record) => Entry::Record(record),
            Err((header, cause)) => Entry::Corruption(Corruption {
                cpu: self.cpu,
                position: self.read,
                header,
                bytes: unread,
                cause,
            }),
        })
    }

    /// Steps over what [`peek`](Forward::peek) shows. Its bytes stay ours until the next commit.
    pub fn advance(&mut self) {
        match self.peek() {
            None => {}
            Some(Entry::Record(record)) => {
                let size = u64::from(record.header.size);
                self.stats.records += 1;
                self.stats.bytes += size;
                self.read = self.read.wrapping_add(size);
            }
            Some(Entry::Corruption(corruption)) => self.give_up(self.mapping.head(), corruption.bytes),
        }
    }

    /// Gives the bytes stepped over back to the kernel.
    pub fn commit(&mut self) {
        if self.read != self.mapping.tail() {
            self.mapping.commit(self.read);
            self.stats.commits += 1;
        }
    }

    /// Hands over every record up to the head, as it was at the start, within the budget; commits every
    /// eighth of the ring and at the end. `hand` ends the drain by a break; what it was given counts as read,
    /// when it breaks and when it panics. Says how it ended; [`Forward::unread`] says what is left.
    pub(super) fn drain(&mut self, left: &mut Left, hand: &mut impl Hand) -> ControlFlow<()> {
        if let Some(corruption) = self.snapshot() {
            hand.corruption(corruption)?;
        }
        while self.unread() != 0 && !left.spent() {
            self.stretch(left, hand)?;
        }
        ControlFlow::Continue(())
    }

    /// As `drain`, up to the next commit.
    fn stretch<H: Hand>(&mut self, left: &mut Left, hand: &mut H) -> ControlFlow<()> {
        let (cpu, start) = (self.cpu, self.read);
        let (most, timed) = (left.records(), left.timed());
        let limit = self.stride.min(left.bytes());
        let mut stretch = Stretch { ring: self, left, bytes: 0, records: 0 };
        let [mut rest, mut next] = stretch.ring.mapping.unread(start);
        let unread = (rest.len() + next.len()) as u64;
        let mut alike = Alike::default();
        while stretch.bytes < limit && stretch.records < most {
            let place = Place { cpu, position: start.wrapping_add(stretch.bytes) };
            let before = rest;
            match take(&mut rest, &mut next, &mut alike) {
                None => break,
                Some(Ok(record))
                    if H::RUNS
                        && record.header.kind == kind::SAMPLE
                        && before.len() == rest.len() + usize::from(record.header.size) =>
                {
                    // Its own bytes, and those of the samples like it behind it.
                    let size = usize::from(record.header.size);
                    let fit = (most - stretch.records - 1).min((limit - stretch.bytes) / size as u64);
                    let like =
                        run::alike(&record.header.to_bytes(), rest, (fit as usize).saturating_mul(size));
                    rest = &rest[like..];
                    stretch.bytes += (size + like) as u64;
                    stretch.records += (1 + like / size) as u64;
                    hand.run(place, record.header, &before[..size + like])?;
                }
                Some(Ok(record)) => {
                    stretch.bytes += u64::from(record.header.size);
                    stretch.records += 1;
                    hand.record(&mut stretch.ring.stats, place, record)?;
                }
                Some(Err((header, cause))) => {
                    let bytes = unread - stretch.bytes;
                    drop(stretch);
                    self.give_up(self.mapping.head(), bytes);
                    let corruption = Corruption { cpu, position: place.position, header, bytes, cause };
                    return hand.corruption(corruption);
                }
            }
            if timed && stretch.records.is_multiple_of(TIME_CHECK) && stretch.left.late() {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// The same ring, read by copy: what [`Array::foreign`](super::Array::foreign) makes of a kernel's.
    #[cfg(any(test, feature = "test-utils"))]
    pub fn by_copy(mut self) -> Forward {
        self.commit();
        Forward { mapping: self.mapping.read(super::array::Reading::ByCopy), ..self }
    }

    #[cfg(any(test, feature = "test-utils"))]
    pub(super) fn mapping(&mut self) -> &mut Mapping {
        // What was stepped over is committed first, as the position must stay within what is lent.
        self.commit();
        &mut self.mapping
    }

    fn give_up(&mut self, head: u64, bytes: u64) {
        self.mapping.give_up(head);
        self.read = head;
        self.stats.corruptions += 1;
        self.stats.corrupt_bytes += bytes;
        self.stats.commits += 1;
    }
}

/// What is read between two commits: dropped, on unwinding too, it commits.
struct Stretch<'a> {
    ring: &'a mut Forward,
    left: &'a mut Left,
    bytes: u64,
    records: u64,
}

impl Drop for Stretch<'_> {
    fn drop(&mut self) {
        self.ring.stats.records += self.records;
        self.ring.stats.bytes += self.bytes;
        self.ring.read = self.ring.read.wrapping_add(self.bytes);
        self.left.take(self.records, self.bytes);
        self.ring.commit();
    }
}

/// The header before this one, found good: where headers are equal, the address of the next record does not
/// wait for the load of this one's size.
struct Alike {
    word: u64,
    /// Bytes of the body.
    body: usize,
}

impl Default for Alike {
    fn default() -> Alike {
        let header = Header { kind: 0, misc: 0, size: 8 };
        Alike { word: u64::from_ne_bytes(header.to_bytes()), body: 0 }
    }
}

type Taken<'a> = Result<Record<'a>, (Option<[u8; 8]>, CorruptionCause)>;

/// Takes the next record off the unread bytes, which are `rest` and then `next`.
#[inline(always)]
fn take<'a>(rest: &mut &'a [u8], next: &mut &'a [u8], alike: &mut Alike) -> Option<Taken<'a>> {
    if rest.is_empty() {
        *rest = std::mem::take(next);
        if rest.is_empty() {
            return None;
        }
    }
    let Some((bytes, after)) = rest.split_first_chunk::<8>() else {
        // Not reached: positions, sizes and the end of the data are all multiples of eight.
        return Some(Err((None, CorruptionCause::SizeUnaligned)));
    };
    let (word, header) = (u64::from_ne_bytes(*bytes), Header::parse(*bytes));
    if word != alike.word {
        let size = usize::from(header.size);
        if size < Header::SIZE {
            return Some(Err((Some(*bytes), CorruptionCause::SizeTooSmall)));
        }
        if !size.is_multiple_of(8) {
            return Some(Err((Some(*bytes), CorruptionCause::SizeUnaligned)));
        }
        *alike = Alike { word, body: size - Header::SIZE };
    }
    let body = if let Some((body, later)) = after.split_at_checked(alike.body) {
        *rest = later;
        Body::new(body)
    } else {
        let missing = alike.body - after.len();
        // What the fuzzer must find: the check that a record ends where the unread bytes do.
        #[cfg(planted_fault)]
        let (second, later) = next.split_at(missing);
        #[cfg(not(planted_fault))]
        let Some((second, later)) = next.split_at_checked(missing) else {
            return Some(Err((Some(*bytes), CorruptionCause::SizeBeyondUnread)));
        };
        (*rest, *next) = (later, &[]);
        Body::wrapped(after, second)
    };
    Some(Ok(Record { header, body }))
}

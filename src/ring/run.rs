//! Runs: samples that are alike and lie one behind another, handed over as one piece.

use std::ops::ControlFlow;

use super::{
    entry::Corruption,
    forward::{Hand, Place},
    item::{Item, Items},
    stats::Stats,
};
use crate::record::{Body, Header, Lost, Record, Sample, SampleFormat, kind};

/// Samples whose headers are equal, and so their sizes, one behind another in one piece of the ring.
///
/// The kernel's header of a sample tells all of its size: where a sample has no callchain, the raw bytes of equal
/// headers begin at the same offset and are as many. Each is a whole record; [`RawRun::samples`] takes them apart.
#[derive(Clone, Copy, Debug)]
pub struct RawRun<'a> {
    /// The CPU whose ring held them.
    pub cpu: u32,
    /// The position of the first in that ring.
    pub position: u64,
    /// Bytes from one to the next.
    pub stride: usize,
    format: SampleFormat,
    bytes: &'a [u8],
}

impl<'a> RawRun<'a> {
    /// How many there are: one at least.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.stride.max(Header::SIZE)
    }

    /// The records as they lie, headers included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Each sample. One that is not what its header says, which no kernel writes, is `None`.
    pub fn samples(&self) -> impl Iterator<Item = Option<Sample<'a>>> + use<'a> {
        let format = self.format;
        self.bytes.chunks_exact(self.stride.max(Header::SIZE)).map(move |record| {
            let (header, body) = record.split_first_chunk()?;
            format.sample(&Record { header: Header::parse(*header), body: Body::new(body) })
        })
    }
}

/// What a drain by runs hands over.
#[derive(Clone, Copy, Debug)]
pub enum Run<'a> {
    /// Samples that are alike.
    Alike(RawRun<'a>),
    /// Anything else: a sample that wraps, LOST, and what is none.
    One(Item<'a>),
}

/// Hands over runs, and single items as [`Items`] tells them.
pub(super) struct Runs<F> {
    pub format: SampleFormat,
    pub f: F,
}

impl<F: FnMut(Run<'_>) -> ControlFlow<()>> Runs<F> {
    fn items(&mut self) -> Items<impl FnMut(Item<'_>) -> ControlFlow<()>> {
        Items { format: self.format, f: |item: Item<'_>| (self.f)(Run::One(item)) }
    }
}

impl<F: FnMut(Run<'_>) -> ControlFlow<()>> Hand for Runs<F> {
    const RUNS: bool = true;

    fn record(&mut self, stats: &mut Stats, place: Place, record: Record<'_>) -> ControlFlow<()> {
        self.items().record(stats, place, record)
    }

    #[inline(always)]
    fn run(&mut self, place: Place, header: Header, bytes: &[u8]) -> ControlFlow<()> {
        let Place { cpu, position } = place;
        let stride = usize::from(header.size);
        (self.f)(Run::Alike(RawRun { cpu, position, stride, format: self.format, bytes }))
    }

    #[cold]
    fn corruption(&mut self, corruption: Corruption) -> ControlFlow<()> {
        self.items().corruption(corruption)
    }

    #[cold]
    fn untold(&mut self, stats: &mut Stats, place: Place, lost: Lost) -> ControlFlow<()> {
        self.items().untold(stats, place, lost)
    }
}

/// How many bytes at the start of `rest` are samples with this header, at most `most` bytes.
#[inline(always)]
pub(super) fn alike(header: &[u8; 8], rest: &[u8], most: usize) -> usize {
    let size = usize::from(Header::parse(*header).size);
    if Header::parse(*header).kind != kind::SAMPLE || size < Header::SIZE {
        return 0;
    }
    let most = most.min(rest.len());
    let mut at = 0;
    while at + size <= most && rest[at..].first_chunk() == Some(header) {
        at += size;
    }
    at
}

//! What a drain hands over, record by record.

use std::ops::ControlFlow;

use super::{
    entry::{Corruption, CorruptionCause, Entry},
    forward::{Hand, Place},
    stats::Stats,
};
use crate::record::{Body, Header, Lost, LostSamples, Record, Sample, SampleFormat, kind};

/// One record of one ring, or a place where there is none to be made out.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The CPU whose ring held it.
    pub cpu: u32,
    /// Its position in that ring: the bytes ever written before it.
    pub position: u64,
    /// The record as it lies in the ring; `None` of a corruption that is no record, of what was overwritten, and of a loss at the end of
    /// a ring that was replaced: the kernel's count told it.
    pub record: Option<Record<'a>>,
    /// What it is.
    pub kind: ItemKind<'a>,
}

/// What an [`Item`] is.
#[derive(Clone, Copy, Debug)]
pub enum ItemKind<'a> {
    /// One output of a BPF program.
    Sample(Sample<'a>),
    /// The kernel had no room for records that would stand exactly here.
    Lost(Lost),
    /// Samples were lost before they reached the ring.
    LostSamples(LostSamples),
    /// Bytes that are no record, given up.
    Corruption(Corruption),
    /// Records stood before here that newer ones were written over, in a ring in overwrite mode: the ring does not
    /// say how many.
    Overwritten,
    /// Any other kind of record; [`Item::record`] is it.
    Other,
}

/// Hands records over as they lie.
pub(super) struct Entries<F>(pub F);

impl<F: FnMut(u32, Entry<'_>) -> ControlFlow<()>> Hand for Entries<F> {
    #[inline(always)]
    fn record(&mut self, _: &mut Stats, place: Place, record: Record<'_>) -> ControlFlow<()> {
        self.0(place.cpu, Entry::Record(record))
    }

    #[cold]
    fn corruption(&mut self, corruption: Corruption) -> ControlFlow<()> {
        self.0(corruption.cpu, Entry::Corruption(corruption))
    }

    #[cold]
    fn untold(&mut self, _: &mut Stats, _: Place, _: Lost) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Tells records apart, counts what is no sample, and hands them over.
pub(super) struct Items<F> {
    pub format: SampleFormat,
    pub f: F,
}

impl<F: FnMut(Item<'_>) -> ControlFlow<()>> Hand for Items<F> {
    #[inline(always)]
    fn record(&mut self, stats: &mut Stats, place: Place, record: Record<'_>) -> ControlFlow<()> {
        let Place { cpu, position } = place;
        match self.format.sample(&record) {
            Some(sample) => {
                (self.f)(Item { cpu, position, record: Some(record), kind: ItemKind::Sample(sample) })
            }
            // By its parts: a record whose address is taken would be kept in memory by the whole loop.
            None => {
                let [first, second] = record.body.pieces();
                self.rarer(stats, place, record.header, first, second)
            }
        }
    }

    #[cold]
    fn corruption(&mut self, corruption: Corruption) -> ControlFlow<()> {
        let Corruption { cpu, position, .. } = corruption;
        (self.f)(Item { cpu, position, record: None, kind: ItemKind::Corruption(corruption) })
    }

    #[cold]
    fn untold(&mut self, stats: &mut Stats, place: Place, lost: Lost) -> ControlFlow<()> {
        let Place { cpu, position } = place;
        stats.untold += lost.lost;
        (self.f)(Item { cpu, position, record: None, kind: ItemKind::Lost(lost) })
    }
}

impl<F: FnMut(Item<'_>) -> ControlFlow<()>> Items<F> {
    #[cold]
    #[inline(never)]
    fn rarer(
        &mut self,
        stats: &mut Stats,
        place: Place,
        header: Header,
        first: &[u8],
        second: &[u8],
    ) -> ControlFlow<()> {
        let record = Record { header, body: Body::wrapped(first, second) };
        let kind = tell(&self.format, stats, place, &record);
        (self.f)(Item { cpu: place.cpu, position: place.position, record: Some(record), kind })
    }
}

/// Whatever is not a good sample.
pub(super) fn tell(
    format: &SampleFormat,
    stats: &mut Stats,
    place: Place,
    record: &Record<'_>,
) -> ItemKind<'static> {
    let told = match record.header.kind {
        kind::SAMPLE => None,
        kind::LOST => format.lost(record).map(|lost| {
            stats.lost_records += 1;
            stats.lost = stats.lost.saturating_add(lost.lost);
            ItemKind::Lost(lost)
        }),
        kind::LOST_SAMPLES => format.lost_samples(record).map(|lost| {
            stats.lost_samples_records += 1;
            stats.lost_samples = stats.lost_samples.saturating_add(lost.lost);
            ItemKind::LostSamples(lost)
        }),
        _ => {
            stats.unknown += 1;
            Some(ItemKind::Other)
        }
    };
    told.unwrap_or_else(|| {
        let bytes = u64::from(record.header.size);
        stats.corruptions += 1;
        stats.malformed += 1;
        stats.corrupt_bytes += bytes;
        ItemKind::Corruption(Corruption {
            cpu: place.cpu,
            position: place.position,
            header: Some(record.header.to_bytes()),
            bytes,
            cause: CorruptionCause::Malformed,
        })
    })
}

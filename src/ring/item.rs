//! What a drain hands over, record by record.

use std::ops::ControlFlow;

use super::{
    forward::{Corruption, CorruptionCause, Entry, Place},
    stats::Stats,
};
use crate::record::{Lost, LostSamples, Record, Sample, SampleFormat, kind};

/// One record of one ring, or a place where there is none to be made out.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The CPU whose ring held it.
    pub cpu: u32,
    /// Its position in that ring: the bytes ever written before it.
    pub position: u64,
    /// The record as it lies in the ring; `None` of a corruption that is no record.
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
    /// Any other kind of record; [`Item::record`] is it.
    Other,
}

/// Tells an entry apart, counts it, and hands it over.
#[inline]
pub(super) fn hand_over(
    format: &SampleFormat,
    stats: &mut Stats,
    place: Place,
    entry: Entry<'_>,
    f: &mut impl FnMut(Item<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Place { cpu, position } = place;
    if let Entry::Record(record) = entry
        && let Some(sample) = format.sample(&record)
    {
        return f(Item { cpu, position, record: Some(record), kind: ItemKind::Sample(sample) });
    }
    let (record, kind) = rarer(format, stats, place, entry);
    f(Item { cpu, position, record, kind })
}

/// Whatever is not a good sample.
#[cold]
fn rarer<'a>(
    format: &SampleFormat,
    stats: &mut Stats,
    place: Place,
    entry: Entry<'a>,
) -> (Option<Record<'a>>, ItemKind<'a>) {
    let record = match entry {
        Entry::Record(record) => record,
        Entry::Corruption(corruption) => return (None, ItemKind::Corruption(corruption)),
    };
    let told = match record.header.kind {
        kind::SAMPLE => None,
        kind::LOST => format.lost(&record).map(|lost| {
            stats.lost_records += 1;
            stats.lost = stats.lost.saturating_add(lost.lost);
            ItemKind::Lost(lost)
        }),
        kind::LOST_SAMPLES => format.lost_samples(&record).map(|lost| {
            stats.lost_samples_records += 1;
            stats.lost_samples = stats.lost_samples.saturating_add(lost.lost);
            ItemKind::LostSamples(lost)
        }),
        _ => {
            stats.unknown += 1;
            Some(ItemKind::Other)
        }
    };
    let kind = told.unwrap_or_else(|| {
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
    });
    (Some(record), kind)
}

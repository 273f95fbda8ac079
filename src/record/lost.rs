//! `PERF_RECORD_LOST` and `PERF_RECORD_LOST_SAMPLES`: what the kernel says it had no room for.

use super::{Body, SampleFormat, SampleId};

/// `PERF_RECORD_LOST`: records that did not fit into the ring, **immediately before the record that follows**.
///
/// The kernel writes it in front of the next record that succeeds (`__perf_output_begin`,
/// `kernel/events/ring_buffer.c`), so reading order gives the place of the gap; losses that no success follows
/// have no LOST record. Where several events share a ring, `id` is that of the event that succeeded next and
/// `lost` the losses of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The id of the event that wrote the record.
    pub id: u64,
    /// How many records were lost.
    pub lost: u64,
    /// The trailer, where the format has one; its time is that of the record that follows.
    pub sample_id: Option<SampleId>,
}

impl Lost {
    pub(super) fn parse(format: &SampleFormat, body: &Body<'_>) -> Option<Lost> {
        let trailer = format.trailer_size();
        if body.len() < 16 + trailer {
            return None;
        }
        Some(Lost { id: body.u64_at(0)?, lost: body.u64_at(8)?, sample_id: format.trailer(body) })
    }
}

/// `PERF_RECORD_LOST_SAMPLES`: samples lost before they reached the ring, by hardware mostly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// How many samples were lost.
    pub lost: u64,
    /// The trailer, where the format has one.
    pub sample_id: Option<SampleId>,
}

impl LostSamples {
    pub(super) fn parse(format: &SampleFormat, body: &Body<'_>) -> Option<LostSamples> {
        let trailer = format.trailer_size();
        if body.len() < 8 + trailer {
            return None;
        }
        Some(LostSamples { lost: body.u64_at(0)?, sample_id: format.trailer(body) })
    }
}

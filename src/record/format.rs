//! `sample_type`: which fields a record carries, and where they lie.

use super::{Body, Lost, LostSamples, Record, Sample, kind};

/// `enum perf_event_sample_format`: the bits of `sample_type` that this crate reads.
pub mod sample_type {
    /// `PERF_SAMPLE_IP`
    pub const IP: u64 = 1 << 0;
    /// `PERF_SAMPLE_TID`
    pub const TID: u64 = 1 << 1;
    /// `PERF_SAMPLE_TIME`
    pub const TIME: u64 = 1 << 2;
    /// `PERF_SAMPLE_ADDR`
    pub const ADDR: u64 = 1 << 3;
    /// `PERF_SAMPLE_READ`: not supported; no sample is read in a format that has it.
    pub const READ: u64 = 1 << 4;
    /// `PERF_SAMPLE_CALLCHAIN`
    pub const CALLCHAIN: u64 = 1 << 5;
    /// `PERF_SAMPLE_ID`
    pub const ID: u64 = 1 << 6;
    /// `PERF_SAMPLE_CPU`
    pub const CPU: u64 = 1 << 7;
    /// `PERF_SAMPLE_PERIOD`
    pub const PERIOD: u64 = 1 << 8;
    /// `PERF_SAMPLE_STREAM_ID`
    pub const STREAM_ID: u64 = 1 << 9;
    /// `PERF_SAMPLE_RAW`: the bytes that a BPF program put out.
    pub const RAW: u64 = 1 << 10;
    /// `PERF_SAMPLE_IDENTIFIER`
    pub const IDENTIFIER: u64 = 1 << 16;
}
use sample_type::*;

/// The eight-byte fields of a sample, in the order in which `perf_output_sample` (`kernel/events/core.c`)
/// writes them: all before the callchain and the raw bytes.
pub(super) const FIXED: [u64; 9] = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];

/// The fields of the trailer that `sample_id_all` puts behind every record that is not a sample, in the order
/// in which `__perf_event__output_id_sample` (`kernel/events/core.c`) writes them.
const TRAILER: [u64; 6] = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];

/// How the records of one event are to be read: the two fields of `perf_event_attr` that decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleFormat {
    /// Which fields a sample carries: bits of [`sample_type`].
    pub sample_type: u64,
    /// True where every record that is not a sample ends in a [`SampleId`].
    pub sample_id_all: bool,
}

impl SampleFormat {
    /// Raw bytes and nothing else, as `perf_buffer__new` of libbpf asks for.
    pub const RAW: SampleFormat = SampleFormat { sample_type: RAW, sample_id_all: false };

    /// Reads a sample; `None` of another kind, of bytes that no sample of this format has, and of every
    /// sample where the format has a field that is not supported ([`sample_type::READ`]).
    #[inline(always)]
    pub fn sample<'a>(&self, record: &Record<'a>) -> Option<Sample<'a>> {
        (record.header.kind == kind::SAMPLE).then(|| Sample::parse(self.sample_type, record.body))?
    }

    /// Reads a LOST record; `None` of another kind or of too few bytes.
    pub fn lost(&self, record: &Record<'_>) -> Option<Lost> {
        (record.header.kind == kind::LOST).then(|| Lost::parse(self, &record.body))?
    }

    /// Reads a LOST_SAMPLES record; `None` of another kind or of too few bytes.
    pub fn lost_samples(&self, record: &Record<'_>) -> Option<LostSamples> {
        (record.header.kind == kind::LOST_SAMPLES).then(|| LostSamples::parse(self, &record.body))?
    }

    /// Reads the trailer of any record that is not a sample; `None` where it has none.
    pub fn sample_id(&self, record: &Record<'_>) -> Option<SampleId> {
        (record.header.kind != kind::SAMPLE).then(|| self.trailer(&record.body))?
    }

    /// Bytes of the trailer of a record that is not a sample: 0 to 48.
    pub fn trailer_size(&self) -> usize {
        if self.sample_id_all { 8 * count(self.sample_type, &TRAILER) } else { 0 }
    }

    /// Bytes of the record whose raw bytes are `raw`, header and padding included, in a format without a
    /// callchain. The kernel pads the raw bytes to 4 mod 8 (`perf_prepare_sample`, `kernel/events/core.c`).
    pub fn sample_size(&self, raw: usize) -> usize {
        let fixed = 8 + 8 * count(self.sample_type, &FIXED);
        let raw =
            if self.sample_type & RAW != 0 { raw.saturating_add(4).div_ceil(8).saturating_mul(8) } else { 0 };
        fixed.saturating_add(raw)
    }

    /// Bytes of a LOST record: 24 to 72.
    pub fn lost_size(&self) -> usize {
        24 + self.trailer_size()
    }

    pub(super) fn trailer(&self, body: &Body<'_>) -> Option<SampleId> {
        let size = self.trailer_size();
        let start = body.len().checked_sub(size)?;
        if size == 0 {
            return None;
        }
        let at = |field| {
            let before = TRAILER.iter().take_while(|&&f| f != field);
            let before = before.filter(|&&f| self.sample_type & f != 0).count();
            (self.sample_type & field != 0).then_some(start + 8 * before)
        };
        let word = |field| at(field).and_then(|at| body.u64_at(at));
        let half = |field, which| at(field).and_then(|at| body.u32_at(at + which));
        Some(SampleId {
            tgid: half(TID, 0),
            pid: half(TID, 4),
            time: word(TIME),
            id: word(ID).or(word(IDENTIFIER)),
            stream_id: word(STREAM_ID),
            cpu: half(CPU, 0),
        })
    }
}

/// The trailer of a record that is not a sample (`struct sample_id` of `perf_event_open(2)`). A field is
/// `None` where the format leaves it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process id (the kernel's tgid).
    pub tgid: Option<u32>,
    /// Thread id (the kernel's pid).
    pub pid: Option<u32>,
    /// Nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// The event's id.
    pub id: Option<u64>,
    /// The id of the event itself where `id` is that of its group's leader or parent.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
}

fn count(sample_type: u64, fields: &[u64]) -> usize {
    fields.iter().filter(|&&f| sample_type & f != 0).count()
}

//! What stands before a sample's raw bytes, and the trailer of records that are no samples, as they are written.

use crate::{
    perf_data::Endian,
    record::{SampleId, sample_type::*},
};

/// The fields of a sample that stand before its callchain, as far as they are written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleHead {
    /// The event's id, by which perf knows the event.
    pub id: u64,
    /// The instruction pointer. Without the field perf's default output ends in an error.
    pub ip: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the clock that the attributes name.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// How many firings the sample stands for.
    pub period: u64,
}

impl SampleHead {
    /// The fields, as bits of `sample_type`; the raw bytes are one of them.
    pub const SAMPLE_TYPE: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | RAW;
    /// Bytes of them, without the header and the size of the raw bytes.
    pub const SIZE: usize = 48;

    /// The bytes of the fields before the callchain and the raw bytes.
    #[inline]
    pub fn to_bytes(self, endian: Endian) -> [u8; SampleHead::SIZE] {
        let mut out = [0; SampleHead::SIZE];
        let u64 =
            |n: u64| if endian == Endian::NATIVE { n.to_ne_bytes() } else { n.swap_bytes().to_ne_bytes() };
        let u32 =
            |n: u32| if endian == Endian::NATIVE { n.to_ne_bytes() } else { n.swap_bytes().to_ne_bytes() };
        out[0..8].copy_from_slice(&u64(self.id));
        out[8..16].copy_from_slice(&u64(self.ip));
        out[16..20].copy_from_slice(&u32(self.pid));
        out[20..24].copy_from_slice(&u32(self.tid));
        out[24..32].copy_from_slice(&u64(self.time));
        out[32..36].copy_from_slice(&u32(self.cpu));
        out[40..48].copy_from_slice(&u64(self.period));
        out
    }
}

/// Appends the trailer of a record that is no sample, of an event with this `sample_type` and `sample_id_all`.
/// Fields that `id` does not have are 0.
pub fn put_trailer(sample_type: u64, id: &SampleId, endian: Endian, out: &mut Vec<u8>) {
    let has = |field| sample_type & field != 0;
    if has(TID) {
        endian.put_u32(out, id.tgid.unwrap_or(0));
        endian.put_u32(out, id.pid.unwrap_or(0));
    }
    if has(TIME) {
        endian.put_u64(out, id.time.unwrap_or(0));
    }
    if has(ID) {
        endian.put_u64(out, id.id.unwrap_or(0));
    }
    if has(STREAM_ID) {
        endian.put_u64(out, id.stream_id.unwrap_or(0));
    }
    if has(CPU) {
        endian.put_u32(out, id.cpu.unwrap_or(0));
        endian.put_u32(out, 0);
    }
    if has(IDENTIFIER) {
        endian.put_u64(out, id.id.unwrap_or(0));
    }
}

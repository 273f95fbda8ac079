//! LOST and LOST_SAMPLES: what there was no room for.

use crate::perf_data::{Endian, Fields};

/// `PERF_RECORD_LOST`: so many records are missing before the next one of the same CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The event's id.
    pub id: u64,
    /// How many.
    pub lost: u64,
}

/// `PERF_RECORD_LOST_SAMPLES`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// How many.
    pub lost: u64,
}

impl Lost {
    /// Reads the body.
    pub fn parse(body: &[u8], endian: Endian) -> Option<Lost> {
        let mut f = Fields::new(body, endian);
        Some(Lost { id: f.u64()?, lost: f.u64()? })
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, self.id);
        endian.put_u64(out, self.lost);
    }
}

impl LostSamples {
    /// Reads the body.
    pub fn parse(body: &[u8], endian: Endian) -> Option<LostSamples> {
        Some(LostSamples { lost: endian.u64_at(body, 0)? })
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, self.lost);
    }
}

//! `PERF_RECORD_SAMPLE`: what one output of a BPF program carries.

use super::{
    Body,
    format::{FIXED, sample_type::*},
};

/// All bits of [`FIXED`].
const ALL_FIXED: u64 = {
    let (mut bits, mut i) = (0, 0);
    while i < FIXED.len() {
        bits |= FIXED[i];
        i += 1;
    }
    bits
};

/// One sample, borrowed from where it lies. A field is `None` where `sample_type` leaves it out.
///
/// Its sizes are checked when it is parsed; a field is read when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    sample_type: u64,
    body: Body<'a>,
    /// Addresses in the callchain.
    frames: u32,
    raw: Body<'a>,
}

impl<'a> Sample<'a> {
    /// Two formats have a path of their own, since it is the cost of the whole drain: raw bytes alone, and
    /// the time before them.
    #[inline]
    pub(super) fn parse(sample_type: u64, body: Body<'a>) -> Option<Sample<'a>> {
        const RAW_AND_TIME: u64 = RAW | TIME;
        let at = match sample_type {
            RAW => 0,
            RAW_AND_TIME => 8,
            _ => return Sample::parse_any(sample_type, body),
        };
        let raw = raw_at(&body, at)?;
        (at + 4 + raw.len() == body.len()).then_some(Sample { sample_type, body, frames: 0, raw })
    }

    fn parse_any(sample_type: u64, body: Body<'a>) -> Option<Sample<'a>> {
        if sample_type & READ != 0 {
            return None;
        }
        let mut at = 8 * (sample_type & ALL_FIXED).count_ones() as usize;
        if at > body.len() {
            return None;
        }
        let mut frames = 0;
        if sample_type & CALLCHAIN != 0 {
            let room = (body.len() - at).checked_sub(8)? / 8;
            let n = body.u64_at(at)?;
            frames = u32::try_from(n).ok().filter(|&n| n as usize <= room)?;
            at += 8 + 8 * frames as usize;
        }
        let mut raw = Body::default();
        if sample_type & RAW != 0 {
            raw = raw_at(&body, at)?;
            at += 4 + raw.len();
        }
        // Fields that this crate does not read come after the raw bytes; where there are none, nothing does.
        let later = sample_type & !(ALL_FIXED | CALLCHAIN | RAW);
        (at == body.len() || later != 0).then_some(Sample { sample_type, body, frames, raw })
    }

    /// The raw bytes: what the BPF program put out, then padding to 4 mod 8.
    ///
    /// The padding is up to seven **stale bytes** of the ring, not zeros, and the record does not say how
    /// many: the true length is the producer's to tell. The bytes begin at 4 mod 8 within the ring, so a u64
    /// in them is misaligned: read it by [`Body::u64_at`].
    #[inline]
    pub fn raw(&self) -> Option<Body<'a>> {
        (self.sample_type & RAW != 0).then_some(self.raw)
    }

    /// Nanoseconds of the event's clock (CLOCK_MONOTONIC for events opened by this crate).
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.word(TIME, IDENTIFIER | IP | TID)
    }

    /// Process id (the kernel's tgid), in the PID namespace of whoever opened the event.
    pub fn tgid(&self) -> Option<u32> {
        self.body.u32_at(self.offset(TID, IDENTIFIER | IP)?)
    }

    /// Thread id (the kernel's pid), in the PID namespace of whoever opened the event.
    pub fn pid(&self) -> Option<u32> {
        self.body.u32_at(self.offset(TID, IDENTIFIER | IP)? + 4)
    }

    /// The CPU that wrote the sample.
    pub fn cpu(&self) -> Option<u32> {
        self.body.u32_at(self.offset(CPU, IDENTIFIER | IP | TID | TIME | ADDR | ID | STREAM_ID)?)
    }

    /// The instruction pointer.
    pub fn ip(&self) -> Option<u64> {
        self.word(IP, IDENTIFIER)
    }

    /// The address that the event concerns.
    pub fn addr(&self) -> Option<u64> {
        self.word(ADDR, IDENTIFIER | IP | TID | TIME)
    }

    /// The event's id: `PERF_SAMPLE_IDENTIFIER` or `PERF_SAMPLE_ID`.
    pub fn id(&self) -> Option<u64> {
        self.word(IDENTIFIER, 0).or_else(|| self.word(ID, IDENTIFIER | IP | TID | TIME | ADDR))
    }

    /// The id of the event itself where [`Sample::id`] is that of its group's leader or parent.
    pub fn stream_id(&self) -> Option<u64> {
        self.word(STREAM_ID, IDENTIFIER | IP | TID | TIME | ADDR | ID)
    }

    /// The sampling period.
    pub fn period(&self) -> Option<u64> {
        self.word(PERIOD, ALL_FIXED & !PERIOD)
    }

    /// The callchain: addresses, and the marks between them (`PERF_CONTEXT_KERNEL` and the like).
    pub fn callchain(&self) -> Option<impl Iterator<Item = u64> + 'a> {
        let body = self.body;
        let start = 8 + 8 * (self.sample_type & ALL_FIXED).count_ones() as usize;
        let frames = self.frames as usize;
        (self.sample_type & CALLCHAIN != 0)
            .then(|| (0..frames).map_while(move |i| body.u64_at(start + 8 * i)))
    }

    /// Everything after the header, as it lies in the ring: for sinks that keep records whole.
    pub fn body(&self) -> Body<'a> {
        self.body
    }

    /// The offset in the body of a field of eight bytes, which those of `before` stand before.
    #[inline]
    fn offset(&self, field: u64, before: u64) -> Option<usize> {
        (self.sample_type & field != 0).then(|| 8 * (self.sample_type & before).count_ones() as usize)
    }

    #[inline]
    fn word(&self, field: u64, before: u64) -> Option<u64> {
        self.body.u64_at(self.offset(field, before)?)
    }
}

/// The u32 size at `at` and the bytes after it.
#[inline]
fn raw_at<'a>(body: &Body<'a>, at: usize) -> Option<Body<'a>> {
    let size = body.u32_at(at)?;
    body.range(at + 4, usize::try_from(size).ok()?)
}

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
    extent: Extent,
}

/// Where the parts of a sample lie that have no fixed size, in one word: how many addresses the callchain has,
/// where in the body the raw bytes begin, and how many they are (a record has at most 65,535 bytes). One word,
/// made from slices, so that it stays in a register: a sample that goes through memory costs more than the rest
/// of the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent(u64);

impl<'a> Sample<'a> {
    #[inline(always)]
    pub(super) fn parse(sample_type: u64, body: Body<'a>) -> Option<Sample<'a>> {
        let [first, second] = body.pieces();
        let mut extent = Extent::fast(sample_type, first, second.len());
        if extent == Extent::NONE {
            extent = Extent::any(sample_type, first, second);
        }
        (extent != Extent::NONE).then_some(Sample { sample_type, body, extent })
    }

    /// The raw bytes: what the BPF program put out, then padding to 4 mod 8.
    ///
    /// The padding is up to seven **stale bytes** of the ring, not zeros, and the record does not say how
    /// many: the true length is the producer's to tell. The bytes begin at 4 mod 8 within the ring, so a u64
    /// in them is misaligned: read it by [`Body::u64_at`].
    #[inline]
    pub fn raw(&self) -> Option<Body<'a>> {
        (self.sample_type & RAW != 0).then(|| self.body.range(self.extent.raw_at(), self.extent.raw_len()))?
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
        let frames = self.extent.frames();
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

impl Extent {
    /// Not a sample; no sample has so many frames.
    const NONE: Extent = Extent(u64::MAX);

    /// Sizes that a record's u16 can say.
    #[inline(always)]
    fn new(frames: usize, raw_at: usize, raw_len: usize) -> Extent {
        Extent((frames as u64) << 32 | (raw_at as u64) << 16 | raw_len as u64)
    }

    fn frames(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline(always)]
    fn raw_at(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    #[inline(always)]
    fn raw_len(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// The two formats that a drain is made of, raw bytes alone and the time before them, where the size of
    /// the raw bytes does not lie beyond the wrap. `NONE` says nothing: [`Extent::any`] does.
    #[inline(always)]
    fn fast(sample_type: u64, first: &[u8], more: usize) -> Extent {
        const RAW_AND_TIME: u64 = RAW | TIME;
        let at = match sample_type {
            RAW => 0,
            RAW_AND_TIME => 8,
            _ => return Extent::NONE,
        };
        let size = first.get(at..at + 4).and_then(|size| size.first_chunk::<4>());
        match size.map(|size| u32::from_ne_bytes(*size) as usize) {
            Some(len) if len <= 0xffff && at + 4 + len == first.len() + more => Extent::new(0, at + 4, len),
            _ => Extent::NONE,
        }
    }

    /// Any format; `NONE` where the bytes are no sample of it.
    #[inline(never)]
    fn any(sample_type: u64, first: &[u8], second: &[u8]) -> Extent {
        Extent::checked(sample_type, &Body::wrapped(first, second)).unwrap_or(Extent::NONE)
    }

    fn checked(sample_type: u64, body: &Body<'_>) -> Option<Extent> {
        if sample_type & READ != 0 || body.len() > 0xffff {
            return None;
        }
        let mut at = 8 * (sample_type & ALL_FIXED).count_ones() as usize;
        if at > body.len() {
            return None;
        }
        let (mut frames, mut raw_at, mut raw_len) = (0, 0, 0);
        if sample_type & CALLCHAIN != 0 {
            let room = (body.len() - at).checked_sub(8)? / 8;
            frames = usize::try_from(body.u64_at(at)?).ok().filter(|&n| n <= room)?;
            at += 8 + 8 * frames;
        }
        if sample_type & RAW != 0 {
            raw_len = usize::try_from(body.u32_at(at)?).ok().filter(|&n| n <= body.len())?;
            raw_at = at + 4;
            at = raw_at + raw_len;
        }
        // Fields that this crate does not read come after the raw bytes; where there are none, nothing does.
        let later = sample_type & !(ALL_FIXED | CALLCHAIN | RAW);
        let good = at == body.len() || (at < body.len() && later != 0);
        good.then(|| Extent::new(frames, raw_at, raw_len))
    }
}

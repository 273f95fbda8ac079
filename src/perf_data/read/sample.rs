//! A sample of a file: every field that `sample_type` can name, in either byte order.

use crate::perf_data::{Attr, Endian, Fields};
use crate::record::sample_type as bit;

/// Bits of `sample_type` that only a file's reader reads; the others are of [`crate::record::sample_type`].
pub mod more {
    /// `PERF_SAMPLE_BRANCH_STACK`
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// `PERF_SAMPLE_REGS_USER`
    pub const REGS_USER: u64 = 1 << 12;
    /// `PERF_SAMPLE_STACK_USER`
    pub const STACK_USER: u64 = 1 << 13;
    /// `PERF_SAMPLE_WEIGHT`
    pub const WEIGHT: u64 = 1 << 14;
    /// `PERF_SAMPLE_DATA_SRC`
    pub const DATA_SRC: u64 = 1 << 15;
    /// `PERF_SAMPLE_TRANSACTION`
    pub const TRANSACTION: u64 = 1 << 17;
    /// `PERF_SAMPLE_REGS_INTR`
    pub const REGS_INTR: u64 = 1 << 18;
    /// `PERF_SAMPLE_PHYS_ADDR`
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// `PERF_SAMPLE_AUX`
    pub const AUX: u64 = 1 << 20;
    /// `PERF_SAMPLE_CGROUP`
    pub const CGROUP: u64 = 1 << 21;
    /// `PERF_SAMPLE_DATA_PAGE_SIZE`
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    /// `PERF_SAMPLE_CODE_PAGE_SIZE`
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    /// `PERF_SAMPLE_WEIGHT_STRUCT`: the same eight bytes as `WEIGHT`, made of three numbers.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// `PERF_FORMAT_*`: bits of `read_format`.
mod read {
    pub const ENABLED: u64 = 1 << 0;
    pub const RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Bits of `branch_sample_type` that change what is written.
mod branch {
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
}

/// One sample. A field is `None` where the event's samples do not carry it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// The event's id: `IDENTIFIER` or `ID`.
    pub id: Option<u64>,
    /// The instruction.
    pub ip: Option<u64>,
    /// The process (the kernel's tgid).
    pub tgid: Option<u32>,
    /// The thread (the kernel's pid).
    pub pid: Option<u32>,
    /// Nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// The address that it is about.
    pub addr: Option<u64>,
    /// The id of the event itself, where `id` is that of its group's leader or parent.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Events since the last sample.
    pub period: Option<u64>,
    /// Counts of the event, or of its group.
    pub read: Option<Counts<'a>>,
    /// Addresses, and the marks between them.
    pub callchain: Option<Words<'a>>,
    /// The raw bytes, padding included.
    pub raw: Option<&'a [u8]>,
    /// Branches: from, to and flags of each, the latest first.
    pub branches: Option<Words<'a>>,
    /// The place in the hardware of the latest branch.
    pub branch_index: Option<u64>,
    /// Registers of the user; an ABI of 0 where the user was not running.
    pub regs_user: Option<Registers<'a>>,
    /// The user's stack, as many bytes of it as were readable.
    pub stack_user: Option<&'a [u8]>,
    /// `WEIGHT`, or the three numbers of `WEIGHT_STRUCT` as they lie in one.
    pub weight: Option<u64>,
    /// Where data came from: `union perf_mem_data_src`.
    pub data_src: Option<u64>,
    /// Why a transaction was given up.
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// The physical address of `addr`.
    pub phys_addr: Option<u64>,
    /// The id of the task's cgroup.
    pub cgroup: Option<u64>,
    /// The size of the page that `addr` lies in.
    pub data_page_size: Option<u64>,
    /// The size of the page that `ip` lies in.
    pub code_page_size: Option<u64>,
    /// Bytes of an AUX area.
    pub aux: Option<&'a [u8]>,
}

/// Numbers of eight bytes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Words<'a> {
    pub(in crate::perf_data) fn take(f: &mut Fields<'a>, count: u64) -> Option<Words<'a>> {
        let len = usize::try_from(count).ok()?.checked_mul(8)?;
        Some(Words { endian: f.endian(), bytes: f.bytes(len)? })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<u64> {
        self.endian.u64_at(self.bytes, index.checked_mul(8)?)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + 'a {
        let endian = self.endian;
        self.bytes.chunks_exact(8).map(move |word| endian.u64_at(word, 0).unwrap_or(0))
    }
}

/// Registers: how they are meant, and those that the event's mask names, lowest bit first.
#[derive(Clone, Copy, Debug)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`; 0 where there are none.
    pub abi: u64,
    /// Which they are.
    pub mask: u64,
    /// Their values.
    pub values: Words<'a>,
}

/// Counts of an event or a group (`PERF_SAMPLE_READ`).
#[derive(Clone, Copy, Debug)]
pub struct Counts<'a> {
    /// How long it was enabled, in nanoseconds.
    pub enabled: Option<u64>,
    /// How long it was counting, in nanoseconds.
    pub running: Option<u64>,
    words: Words<'a>,
    /// Words of each count, and where in them its id and its losses stand.
    each: usize,
    id: Option<usize>,
    lost: Option<usize>,
}

/// One count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub value: u64,
    /// Of which event.
    pub id: Option<u64>,
    /// How many samples of it were lost.
    pub lost: Option<u64>,
}

impl<'a> Counts<'a> {
    /// Reads them as `read_format` says; the READ record's are alike.
    pub(in crate::perf_data) fn take(f: &mut Fields<'a>, format: u64) -> Option<Counts<'a>> {
        let has = |bit: u64| usize::from(format & bit != 0);
        let group = format & read::GROUP != 0;
        let times = has(read::ENABLED) + has(read::RUNNING);
        let count = if group { f.u64()? } else { 1 };
        let head =
            if group { Words::take(f, times as u64)? } else { Words { bytes: &[], endian: f.endian() } };
        // An event alone has its times between its value and its id.
        let first = if group { 1 } else { 1 + times };
        let each = first + has(read::ID) + has(read::LOST);
        let words = Words::take(f, count.checked_mul(each as u64)?)?;
        let time = |at: usize| if group { head.get(at) } else { words.get(1 + at) };
        Some(Counts {
            enabled: (format & read::ENABLED != 0).then(|| time(0)).flatten(),
            running: (format & read::RUNNING != 0).then(|| time(has(read::ENABLED))).flatten(),
            words,
            each,
            id: (format & read::ID != 0).then_some(first),
            lost: (format & read::LOST != 0).then_some(first + has(read::ID)),
        })
    }

    /// Each of them; an event alone has one.
    pub fn iter(&self) -> impl Iterator<Item = Count> + 'a {
        let Counts { words, each, id, lost, .. } = *self;
        (0..words.len() / each).map(move |i| Count {
            value: words.get(i * each).unwrap_or(0),
            id: id.and_then(|at| words.get(i * each + at)),
            lost: lost.and_then(|at| words.get(i * each + at)),
        })
    }
}

impl<'a> Sample<'a> {
    /// Reads the body of a sample of an event; `None` where the bytes are none.
    ///
    /// Bits that are not known come last in a sample, so what stands before them is read all the same.
    pub fn parse(attr: &Attr, body: &'a [u8], endian: Endian) -> Option<Sample<'a>> {
        let mut sample = Sample::default();
        sample.fill(attr, body, endian)?;
        Some(sample)
    }

    /// Reads the body of a sample into one that is still empty, as [`Sample::parse`] does, where millions are read: a
    /// sample is large, and is not moved. `None` where the bytes are none; what it holds then is of no use.
    #[inline]
    pub fn fill(&mut self, attr: &Attr, body: &'a [u8], endian: Endian) -> Option<()> {
        let s = self;
        let f = &mut Fields::new(body, endian);
        let has = |bit: u64| attr.sample_type & bit != 0;
        // In the order of `perf_output_sample` (kernel/events/core.c).
        if has(bit::IDENTIFIER) {
            s.id = Some(f.u64()?);
        }
        if has(bit::IP) {
            s.ip = Some(f.u64()?);
        }
        if has(bit::TID) {
            (s.tgid, s.pid) = (Some(f.u32()?), Some(f.u32()?));
        }
        if has(bit::TIME) {
            s.time = Some(f.u64()?);
        }
        if has(bit::ADDR) {
            s.addr = Some(f.u64()?);
        }
        if has(bit::ID) {
            let id = f.u64()?;
            s.id.get_or_insert(id);
        }
        if has(bit::STREAM_ID) {
            s.stream_id = Some(f.u64()?);
        }
        if has(bit::CPU) {
            s.cpu = Some(f.u32()?);
            f.u32()?;
        }
        if has(bit::PERIOD) {
            s.period = Some(f.u64()?);
        }
        if has(bit::READ) {
            s.read = Some(Counts::take(f, attr.read_format)?);
        }
        if has(bit::CALLCHAIN) {
            let count = f.u64()?;
            s.callchain = Some(Words::take(f, count)?);
        }
        if has(bit::RAW) {
            let len = f.u32()? as usize;
            s.raw = Some(f.bytes(len)?);
        }
        if attr.sample_type >= more::BRANCH_STACK {
            s.rest(attr, f)?;
        }
        Some(())
    }

    fn rest(&mut self, attr: &Attr, f: &mut Fields<'a>) -> Option<()> {
        let has = |bit: u64| attr.sample_type & bit != 0;
        if has(more::BRANCH_STACK) {
            let count = f.u64()?;
            if attr.branch_sample_type & branch::HW_INDEX != 0 {
                self.branch_index = Some(f.u64()?);
            }
            self.branches = Some(Words::take(f, count.checked_mul(3)?)?);
            if attr.branch_sample_type & branch::COUNTERS != 0 {
                Words::take(f, count)?;
            }
        }
        if has(more::REGS_USER) {
            self.regs_user = Some(Registers::take(f, attr.sample_regs_user)?);
        }
        if has(more::STACK_USER) {
            let size = usize::try_from(f.u64()?).ok()?;
            let bytes = f.bytes(size)?;
            let used = if size > 0 { usize::try_from(f.u64()?).ok()? } else { 0 };
            self.stack_user = Some(&bytes[..used.min(size)]);
        }
        if has(more::WEIGHT | more::WEIGHT_STRUCT) {
            self.weight = Some(f.u64()?);
        }
        if has(more::DATA_SRC) {
            self.data_src = Some(f.u64()?);
        }
        if has(more::TRANSACTION) {
            self.transaction = Some(f.u64()?);
        }
        if has(more::REGS_INTR) {
            self.regs_intr = Some(Registers::take(f, attr.sample_regs_intr)?);
        }
        if has(more::PHYS_ADDR) {
            self.phys_addr = Some(f.u64()?);
        }
        if has(more::CGROUP) {
            self.cgroup = Some(f.u64()?);
        }
        if has(more::DATA_PAGE_SIZE) {
            self.data_page_size = Some(f.u64()?);
        }
        if has(more::CODE_PAGE_SIZE) {
            self.code_page_size = Some(f.u64()?);
        }
        if has(more::AUX) {
            let size = usize::try_from(f.u64()?).ok()?;
            self.aux = Some(f.bytes(size)?);
        }
        Some(())
    }
}

impl<'a> Registers<'a> {
    fn take(f: &mut Fields<'a>, mask: u64) -> Option<Registers<'a>> {
        let abi = f.u64()?;
        let count = if abi == 0 { 0 } else { mask.count_ones() };
        Some(Registers { abi, mask, values: Words::take(f, count.into())? })
    }
}

//! Features of a few numbers, and those that hold the kernel's own structures: build ids and BPF's.

use super::text::{list, put_list};
use crate::perf_data::{Endian, Fields, kind};

/// `CLOCK_DATA`: two clocks read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockData {
    /// Which clock the times of samples are of: `CLOCK_MONOTONIC` is 1.
    pub clockid: u32,
    /// Nanoseconds of the wall clock.
    pub wall: u64,
    /// Nanoseconds of the samples' clock at that moment.
    pub clock: u64,
}

/// `COMPRESSED`: how COMPRESSED records are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    /// 1 is zstd.
    pub kind: u32,
    /// The level that was asked for.
    pub level: u32,
    /// How much smaller it all became, rounded.
    pub ratio: u32,
    /// The most bytes that one record becomes; perf **drops what is beyond, without a word**.
    pub mmap_len: u32,
}

/// `BUILD_ID`: what a file that was executed is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildId {
    /// `PERF_RECORD_MISC_*`: the low three bits say whether it is the kernel's or a user's.
    pub misc: u16,
    /// The process, or -1: the host's.
    pub pid: i32,
    /// Up to 20 bytes.
    pub id: Vec<u8>,
    /// The file.
    pub file: Vec<u8>,
}

/// One of `BPF_PROG_INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfProgram {
    /// Which of the arrays are in `data`: bits by their number in perf's `bpf_prog_array_desc`.
    pub arrays: u64,
    /// `struct bpf_prog_info`; its pointers are offsets into `data`.
    pub info: Vec<u8>,
    /// The arrays.
    pub data: Vec<u8>,
}

impl ClockData {
    const VERSION: u32 = 1;

    pub(super) fn parse(f: &mut Fields<'_>) -> Option<ClockData> {
        f.u32().filter(|version| *version == ClockData::VERSION)?;
        Some(ClockData { clockid: f.u32()?, wall: f.u64()?, clock: f.u64()? })
    }

    pub(super) fn write(self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, ClockData::VERSION);
        endian.put_u32(out, self.clockid);
        endian.put_u64(out, self.wall);
        endian.put_u64(out, self.clock);
    }
}

impl Compressed {
    /// [`Compressed::kind`] of zstd.
    pub const ZSTD: u32 = 1;
    const VERSION: u32 = 0;

    pub(super) fn parse(f: &mut Fields<'_>) -> Option<Compressed> {
        f.u32().filter(|version| *version == Compressed::VERSION)?;
        Some(Compressed { kind: f.u32()?, level: f.u32()?, ratio: f.u32()?, mmap_len: f.u32()? })
    }

    pub(super) fn write(self, endian: Endian, out: &mut Vec<u8>) {
        for n in [Compressed::VERSION, self.kind, self.level, self.ratio, self.mmap_len] {
            endian.put_u32(out, n);
        }
    }
}

impl BuildId {
    /// The bytes that an id has room for.
    pub const ROOM: usize = 20;
    /// The bit of [`BuildId::misc`] that says that the size stands behind the id.
    pub const SIZED: u16 = 1 << 15;
    /// Bytes before the file's name.
    const HEAD: usize = 36;

    /// What stands behind a record's header, of a section or of a record of its own.
    pub fn parse_body(misc: u16, body: &[u8], endian: Endian) -> Option<BuildId> {
        let mut f = Fields::new(body, endian);
        let pid = f.u32()? as i32;
        let id = f.array::<{ BuildId::ROOM }>()?;
        let [size, ..] = f.array::<4>()?;
        // Older perf did not say how long it is: all its ids were as long as SHA-1's.
        let size = if misc & BuildId::SIZED != 0 { usize::from(size).min(id.len()) } else { id.len() };
        Some(BuildId { misc, pid, id: id[..size].to_vec(), file: f.c_string().to_vec() })
    }

    /// Appends the body that [`BuildId::parse_body`] reads; what of the id is beyond its room is left out.
    pub fn write_body(&self, endian: Endian, out: &mut Vec<u8>) {
        let start = out.len();
        endian.put_u32(out, self.pid as u32);
        let id = &self.id[..self.id.len().min(BuildId::ROOM)];
        out.extend_from_slice(id);
        out.resize(start + 4 + BuildId::ROOM, 0);
        out.extend_from_slice(&[id.len() as u8, 0, 0, 0]);
        out.extend_from_slice(&self.file);
        let len = (BuildId::HEAD + self.file.len() + 1).next_multiple_of(64);
        out.resize(start + len - 8, 0);
    }

    pub(super) fn parse_all(f: &mut Fields<'_>) -> Option<Vec<BuildId>> {
        let mut all = Vec::new();
        while !f.rest().is_empty() {
            let (_, misc, size) = (f.u32()?, f.u16()?, f.u16()?);
            let body = f.bytes(usize::from(size).checked_sub(8)?)?;
            all.push(BuildId::parse_body(misc, body, f.endian())?);
        }
        Some(all)
    }

    pub(super) fn write_all(all: &[BuildId], endian: Endian, out: &mut Vec<u8>) {
        for each in all {
            let start = out.len();
            endian.put_u32(out, kind::BUILD_ID);
            endian.put_u16(out, each.misc | BuildId::SIZED);
            let mut body = Vec::new();
            each.write_body(endian, &mut body);
            endian.put_u16(out, body.len() as u16 + 8);
            out.extend_from_slice(&body);
            debug_assert_eq!((out.len() - start) % 8, 0);
        }
    }
}

pub(super) fn parse_programs(f: &mut Fields<'_>) -> Option<Vec<BpfProgram>> {
    list(f, |f| {
        let (info, data, arrays) = (f.u32()? as usize, f.u32()? as usize, f.u64()?);
        Some(BpfProgram { arrays, info: f.bytes(info)?.to_vec(), data: f.bytes(data)?.to_vec() })
    })
}

pub(super) fn write_programs(all: &[BpfProgram], endian: Endian, out: &mut Vec<u8>) {
    put_list(all, endian, out, |program, out| {
        endian.put_u32(out, program.info.len() as u32);
        endian.put_u32(out, program.data.len() as u32);
        endian.put_u64(out, program.arrays);
        out.extend_from_slice(&program.info);
        out.extend_from_slice(&program.data);
    });
}

pub(super) fn parse_btf(f: &mut Fields<'_>) -> Option<Vec<(u32, Vec<u8>)>> {
    list(f, |f| {
        let (id, size) = (f.u32()?, f.u32()? as usize);
        Some((id, f.bytes(size)?.to_vec()))
    })
}

pub(super) fn write_btf(all: &[(u32, Vec<u8>)], endian: Endian, out: &mut Vec<u8>) {
    put_list(all, endian, out, |(id, data), out| {
        endian.put_u32(out, *id);
        endian.put_u32(out, data.len() as u32);
        out.extend_from_slice(data);
    });
}

/// `AUXTRACE`: where AUX records stand.
pub(super) fn parse_index(f: &mut Fields<'_>) -> Option<Vec<(u64, u64)>> {
    let count = f.u64()?;
    (0..count).map(|_| f.u64().zip(f.u64())).collect()
}

pub(super) fn write_index(all: &[(u64, u64)], endian: Endian, out: &mut Vec<u8>) {
    endian.put_u64(out, all.len() as u64);
    for (offset, size) in all {
        endian.put_u64(out, *offset);
        endian.put_u64(out, *size);
    }
}

//! MMAP and MMAP2: which file is mapped where, so that addresses have names.

use std::fmt;

use super::{Text, misc, put_string};
use crate::perf_data::{Attr, Endian, Fields, attr::flag, read::Record};

/// `PERF_RECORD_MMAP`. The kernel's own text is told by one of process -1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The first address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Where in the file it begins.
    pub pgoff: u64,
    /// The file.
    pub file: &'a [u8],
}

/// `PERF_RECORD_MMAP2`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// What MMAP tells too.
    pub map: Mmap<'a>,
    /// Which file it is.
    pub id: MapId,
    /// `PROT_*`
    pub prot: u32,
    /// `MAP_*`
    pub flags: u32,
}

/// What a mapped file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapId {
    /// Its inode.
    Inode {
        /// The device's major number.
        maj: u32,
        /// The device's minor number.
        min: u32,
        /// The inode.
        ino: u64,
        /// The inode's generation.
        generation: u64,
    },
    /// Its build id, where `misc` has [`misc::MMAP_BUILD_ID`], and has it by right.
    BuildId {
        /// How many bytes of it count: at most 20.
        size: u8,
        /// The id.
        id: [u8; 20],
    },
}

impl fmt::Debug for Mmap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmap")
            .field("pid", &(self.pid as i32))
            .field("tid", &self.tid)
            .field("addr", &format_args!("{:#x}", self.addr))
            .field("len", &format_args!("{:#x}", self.len))
            .field("pgoff", &format_args!("{:#x}", self.pgoff))
            .field("file", &Text(self.file))
            .finish()
    }
}

impl<'a> Mmap<'a> {
    /// Reads the body.
    pub fn parse(body: &'a [u8], endian: Endian) -> Option<Mmap<'a>> {
        let mut f = Fields::new(body, endian);
        let map = Mmap::head(&mut f)?;
        Some(Mmap { file: f.c_string(), ..map })
    }

    fn head(f: &mut Fields<'a>) -> Option<Mmap<'a>> {
        Some(Mmap { pid: f.u32()?, tid: f.u32()?, addr: f.u64()?, len: f.u64()?, pgoff: f.u64()?, file: b"" })
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        self.write_head(endian, out);
        put_string(self.file, out);
    }

    fn write_head(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, self.pid);
        endian.put_u32(out, self.tid);
        for n in [self.addr, self.len, self.pgoff] {
            endian.put_u64(out, n);
        }
    }
}

impl<'a> Mmap2<'a> {
    /// Reads the record, whose event has this attr.
    ///
    /// Where two events have the same mapping told to them and one asked for build ids, the kernel sets
    /// [`misc::MMAP_BUILD_ID`] for the other too, and gives it the inode (`perf_event_mmap_output()`, which sets the
    /// bit in what all events share). perf 6.1 ends on such a record if the device's number, taken for a size, is
    /// above 20.
    pub fn of(record: &Record<'a>, attr: Option<&Attr>) -> Option<Mmap2<'a>> {
        let map = Mmap2::parse(record.misc, record.body, record.endian)?;
        let asked = attr.is_none_or(|attr| attr.flags & flag::BUILD_ID != 0);
        match map.id {
            // Of 16 and more it is one for sure, whoever put it in: no disk has such a number.
            MapId::BuildId { size: ..16, .. } if !asked => {
                Mmap2::parse(record.misc & !misc::MMAP_BUILD_ID, record.body, record.endian)
            }
            _ => Some(map),
        }
    }

    /// Reads the body of a record with this `misc`; a build id only where there can be one.
    pub fn parse(misc: u16, body: &'a [u8], endian: Endian) -> Option<Mmap2<'a>> {
        let mut f = Fields::new(body, endian);
        let map = Mmap::head(&mut f)?;
        let mut sized = f;
        let id = match sized.array::<4>()? {
            [size @ 1..=20, 0, 0, 0] if misc & misc::MMAP_BUILD_ID != 0 => {
                f = sized;
                MapId::BuildId { size, id: f.array()? }
            }
            _ => MapId::Inode { maj: f.u32()?, min: f.u32()?, ino: f.u64()?, generation: f.u64()? },
        };
        let (prot, flags) = (f.u32()?, f.u32()?);
        Some(Mmap2 { map: Mmap { file: f.c_string(), ..map }, id, prot, flags })
    }

    /// The bit that `misc` must have, or 0.
    pub fn misc(&self) -> u16 {
        if let MapId::BuildId { .. } = self.id { misc::MMAP_BUILD_ID } else { 0 }
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        self.map.write_head(endian, out);
        match self.id {
            MapId::Inode { maj, min, ino, generation } => {
                endian.put_u32(out, maj);
                endian.put_u32(out, min);
                endian.put_u64(out, ino);
                endian.put_u64(out, generation);
            }
            MapId::BuildId { size, id } => {
                out.extend_from_slice(&[size, 0, 0, 0]);
                out.extend_from_slice(&id);
            }
        }
        endian.put_u32(out, self.prot);
        endian.put_u32(out, self.flags);
        put_string(self.map.file, out);
    }
}

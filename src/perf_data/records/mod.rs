//! What stands in records behind their headers, one kind or family a file: parsed by borrowing, written by appending.
//!
//! The kernel's records that are no samples end in a trailer where their event has `sample_id_all`: what is parsed
//! here stands before it ([`SampleFormat::sample_id`](crate::record::SampleFormat::sample_id) reads it), and
//! [`put_trailer`] appends it.

mod body;
mod kernel;
mod lost;
mod map;
mod own;
mod sample;
mod stat;
mod task;
#[cfg(test)]
mod tests;
mod trace;

pub use body::{Body, Text};
pub use kernel::{
    Aux, BpfEvent, Cgroup, DeferredChain, Ksymbol, Namespaces, Read, TextPoke, Thread, Throttle,
};
pub use lost::{Lost, LostSamples};
pub use map::{MapId, Mmap, Mmap2};
pub use own::{EventUpdate, HeaderAttr, HeaderFeature, IdEntry, IdIndex, TracingDataHead};
pub use sample::{SampleHead, put_trailer};
pub use stat::{CpuMap, Stat, StatConfig, StatRound, ThreadMap, TimeConv};
pub use task::{Comm, Task};
pub use trace::{Auxtrace, AuxtraceError, AuxtraceInfo};

use super::Endian;

/// Bits of a record's `misc` (`PERF_RECORD_MISC_*`, `include/uapi/linux/perf_event.h`).
pub mod misc {
    /// Of the kernel.
    pub const KERNEL: u16 = 1;
    /// Of a process.
    pub const USER: u16 = 2;
    /// MMAP: of data, not of code.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// COMM: an exec made it.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// MMAP2: a build id stands where the inode does else.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// Bytes of a record's header.
pub const HEADER: usize = 8;

/// Appends a record whose body `body` appends: to its size alone, without padding. False, and nothing is
/// appended, where it would be larger than a record can be.
pub fn put(kind: u32, misc: u16, endian: Endian, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    endian.put_u32(out, kind);
    endian.put_u16(out, misc);
    endian.put_u16(out, 0);
    body(out);
    let Ok(size) = u16::try_from(out.len() - start) else {
        out.truncate(start);
        return false;
    };
    let mut bytes = Vec::with_capacity(2);
    endian.put_u16(&mut bytes, size);
    out[start + 6..start + HEADER].copy_from_slice(&bytes);
    true
}

/// Appends a string with its NUL, and zeros up to a multiple of eight bytes of the string.
fn put_string(text: &[u8], out: &mut Vec<u8>) {
    let end = out.len() + (text.len() + 1).next_multiple_of(8);
    out.extend_from_slice(text);
    out.resize(end, 0);
}

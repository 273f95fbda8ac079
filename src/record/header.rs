//! `struct perf_event_header`, and the record kinds by the kernel's names.

/// The eight bytes that open every record (`include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `PERF_RECORD_*`; the kernel's word is `type`.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// Bytes of the whole record, header included. The kernel computes it in a u16 and lets it overflow
    /// silently (`perf_prepare_sample`, `kernel/events/core.c`): any value can be met.
    pub size: u16,
}

impl Header {
    /// Bytes of the header itself.
    pub const SIZE: usize = 8;

    /// Reads a header in the machine's byte order.
    #[inline(always)]
    pub fn parse(bytes: [u8; 8]) -> Header {
        // As one word and shifts, which compilers keep in a register.
        let word = u64::from_ne_bytes(bytes);
        if cfg!(target_endian = "little") {
            Header { kind: word as u32, misc: (word >> 32) as u16, size: (word >> 48) as u16 }
        } else {
            Header { kind: (word >> 32) as u32, misc: (word >> 16) as u16, size: word as u16 }
        }
    }

    /// The header as it lies in memory.
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.misc.to_ne_bytes());
        bytes[6..].copy_from_slice(&self.size.to_ne_bytes());
        bytes
    }
}

/// `enum perf_event_type`: the kinds that a ring of BPF output events can hold, and those beside them.
pub mod kind {
    /// `PERF_RECORD_MMAP`
    pub const MMAP: u32 = 1;
    /// `PERF_RECORD_LOST`: the kernel had no room for this many records before this place.
    pub const LOST: u32 = 2;
    /// `PERF_RECORD_COMM`
    pub const COMM: u32 = 3;
    /// `PERF_RECORD_EXIT`
    pub const EXIT: u32 = 4;
    /// `PERF_RECORD_THROTTLE`
    pub const THROTTLE: u32 = 5;
    /// `PERF_RECORD_UNTHROTTLE`
    pub const UNTHROTTLE: u32 = 6;
    /// `PERF_RECORD_FORK`
    pub const FORK: u32 = 7;
    /// `PERF_RECORD_READ`
    pub const READ: u32 = 8;
    /// `PERF_RECORD_SAMPLE`: what `bpf_perf_event_output` writes.
    pub const SAMPLE: u32 = 9;
    /// `PERF_RECORD_MMAP2`
    pub const MMAP2: u32 = 10;
    /// `PERF_RECORD_LOST_SAMPLES`: samples lost outside the ring, by hardware mostly.
    pub const LOST_SAMPLES: u32 = 13;
}

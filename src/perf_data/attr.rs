//! `perf_event_attr`: what an event was opened with, in any of its sizes and either byte order.

use super::{Endian, Fields};
use crate::record::SampleFormat;

/// `struct perf_event_attr` (`include/uapi/linux/perf_event.h`). Members that share a place in C have here the
/// name of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `PERF_TYPE_*`; the kernel's word is `type`.
    pub kind: u32,
    /// Which event of that type; a tracepoint's id.
    pub config: u64,
    /// `sample_period`, or `sample_freq` where [`flag::FREQ`] is set.
    pub period: u64,
    /// Which fields samples carry: bits of [`crate::record::sample_type`].
    pub sample_type: u64,
    /// `PERF_FORMAT_*`: what a READ record or field holds.
    pub read_format: u64,
    /// The bits of [`flag`].
    pub flags: u64,
    /// `wakeup_events`, or `wakeup_watermark` where [`flag::WATERMARK`] is set.
    pub wakeup: u32,
    /// `bp_type`: of a breakpoint.
    pub bp_type: u32,
    /// `config1`: of a breakpoint, its address.
    pub config1: u64,
    /// `config2`: of a breakpoint, its length.
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// Which registers of the user a sample carries.
    pub sample_regs_user: u64,
    /// Bytes of the user's stack in a sample.
    pub sample_stack_user: u32,
    /// The clock of times, where [`flag::USE_CLOCKID`] is set.
    pub clockid: i32,
    /// Which registers a sample carries.
    pub sample_regs_intr: u64,
    /// Bytes of AUX data until a wake-up.
    pub aux_watermark: u32,
    /// The most addresses of a callchain.
    pub sample_max_stack: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// `aux_action`: of Linux 6.14.
    pub aux_action: u32,
    /// What a signal carries.
    pub sig_data: u64,
    /// `config3`: of Linux 6.3.
    pub config3: u64,
    /// `config4`: of Linux 6.19.
    pub config4: u64,
}

/// Bits of [`Attr::flags`], as they are numbered on a little-endian machine.
pub mod flag {
    /// Starts switched off.
    pub const DISABLED: u64 = 1 << 0;
    /// Children inherit it.
    pub const INHERIT: u64 = 1 << 1;
    /// `mmap`: MMAP records.
    pub const MMAP: u64 = 1 << 8;
    /// `comm`: COMM records.
    pub const COMM: u64 = 1 << 9;
    /// `freq`: the period is a frequency.
    pub const FREQ: u64 = 1 << 10;
    /// `inherit_stat`
    pub const INHERIT_STAT: u64 = 1 << 11;
    /// `enable_on_exec`
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// `task`: FORK and EXIT records.
    pub const TASK: u64 = 1 << 13;
    /// `watermark`: wake-ups by bytes.
    pub const WATERMARK: u64 = 1 << 14;
    /// `mmap_data`: MMAP records of data too.
    pub const MMAP_DATA: u64 = 1 << 17;
    /// `sample_id_all`: records that are no samples end in a [`SampleId`](crate::record::SampleId).
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// `exclude_guest`
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    /// `mmap2`: MMAP2 records.
    pub const MMAP2: u64 = 1 << 23;
    /// `comm_exec`: COMM records say whether an exec made them.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// `use_clockid`: times are of [`clockid`](super::Attr::clockid).
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// `context_switch`: SWITCH records.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    /// `write_backward`: the ring is written from its end.
    pub const WRITE_BACKWARD: u64 = 1 << 27;
    /// `namespaces`: NAMESPACES records.
    pub const NAMESPACES: u64 = 1 << 28;
    /// `ksymbol`: KSYMBOL records.
    pub const KSYMBOL: u64 = 1 << 29;
    /// `bpf_event`: BPF_EVENT records.
    pub const BPF_EVENT: u64 = 1 << 30;
    /// `cgroup`: CGROUP records.
    pub const CGROUP: u64 = 1 << 32;
    /// `text_poke`: TEXT_POKE records.
    pub const TEXT_POKE: u64 = 1 << 33;
    /// `build_id`: MMAP2 records carry build ids.
    pub const BUILD_ID: u64 = 1 << 34;
}

impl Attr {
    /// The size of the first version, `PERF_ATTR_SIZE_VER0`: nothing smaller is one.
    pub const MIN_SIZE: usize = 64;
    /// The size that is written: of Linux 5.13. perf refuses a file whose attributes are larger than its own.
    pub const SIZE: usize = 128;
    /// `PERF_TYPE_SOFTWARE`
    pub const SOFTWARE: u32 = 1;
    /// `PERF_TYPE_TRACEPOINT`
    pub const TRACEPOINT: u32 = 2;

    /// Reads one, and says how many bytes it claims: its own size, or 64 where it says 0. Members beyond its size
    /// are 0; what lies beyond the members known here is passed over. `None` where there are fewer bytes than it
    /// claims, or where it claims fewer than 64.
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<(Attr, usize)> {
        let size = match endian.u32_at(bytes, 4)? as usize {
            0 => Attr::MIN_SIZE,
            size => size,
        };
        let own = bytes.get(..size).filter(|_| size >= Attr::MIN_SIZE)?;
        let mut whole = [0; 144];
        let known = size.min(whole.len());
        whole[..known].copy_from_slice(&own[..known]);
        Some((Attr::members(Fields::new(&whole, endian))?, size))
    }

    fn members(mut fields: Fields<'_>) -> Option<Attr> {
        let f = &mut fields;
        let kind = f.u32()?;
        f.u32()?;
        let mut attr = Attr {
            kind,
            config: f.u64()?,
            period: f.u64()?,
            sample_type: f.u64()?,
            read_format: f.u64()?,
            flags: bits(f.array()?, f.endian()),
            wakeup: f.u32()?,
            bp_type: f.u32()?,
            config1: f.u64()?,
            config2: f.u64()?,
            branch_sample_type: f.u64()?,
            sample_regs_user: f.u64()?,
            sample_stack_user: f.u32()?,
            clockid: f.u32()? as i32,
            sample_regs_intr: f.u64()?,
            aux_watermark: f.u32()?,
            sample_max_stack: f.u16()?,
            ..Attr::default()
        };
        f.u16()?;
        attr.aux_sample_size = f.u32()?;
        attr.aux_action = f.u32()?;
        attr.sig_data = f.u64()?;
        attr.config3 = f.u64()?;
        attr.config4 = f.u64()?;
        Some(attr)
    }

    /// Appends it in [`Attr::SIZE`] bytes: what came after Linux 5.13 is left out.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        let start = out.len();
        endian.put_u32(out, self.kind);
        endian.put_u32(out, Attr::SIZE as u32);
        for word in [self.config, self.period, self.sample_type, self.read_format] {
            endian.put_u64(out, word);
        }
        out.extend_from_slice(&flag_bytes(self.flags, endian));
        endian.put_u32(out, self.wakeup);
        endian.put_u32(out, self.bp_type);
        for word in [self.config1, self.config2, self.branch_sample_type, self.sample_regs_user] {
            endian.put_u64(out, word);
        }
        endian.put_u32(out, self.sample_stack_user);
        endian.put_u32(out, self.clockid as u32);
        endian.put_u64(out, self.sample_regs_intr);
        endian.put_u32(out, self.aux_watermark);
        endian.put_u16(out, self.sample_max_stack);
        endian.put_u16(out, 0);
        endian.put_u32(out, self.aux_sample_size);
        endian.put_u32(out, self.aux_action);
        endian.put_u64(out, self.sig_data);
        debug_assert_eq!(out.len() - start, Attr::SIZE);
    }

    /// How the records of the event are to be read.
    pub fn format(&self) -> SampleFormat {
        SampleFormat { sample_type: self.sample_type, sample_id_all: self.flags & flag::SAMPLE_ID_ALL != 0 }
    }
}

/// The flags as one number. They are bits of C: the first is the lowest of its byte on a little-endian machine, and
/// the highest of the same byte on a big-endian one.
fn bits(bytes: [u8; 8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_le_bytes(bytes.map(u8::reverse_bits)),
    }
}

fn flag_bytes(flags: u64, endian: Endian) -> [u8; 8] {
    match endian {
        Endian::Little => flags.to_le_bytes(),
        Endian::Big => flags.to_le_bytes().map(u8::reverse_bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Attr {
        Attr {
            kind: Attr::TRACEPOINT,
            config: 0x1234,
            period: 1,
            sample_type: 0x10587,
            read_format: 4,
            flags: flag::SAMPLE_ID_ALL | flag::DISABLED | flag::BUILD_ID,
            clockid: 1,
            sample_max_stack: 127,
            aux_action: 3,
            sig_data: u64::MAX,
            ..Attr::default()
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for endian in [Endian::Little, Endian::Big] {
            let mut out = Vec::new();
            some().write(endian, &mut out);
            assert_eq!(out.len(), Attr::SIZE);
            assert_eq!(Attr::parse(&out, endian), Some((some(), 128)));
            out.extend_from_slice(&[0xff; 8]);
            assert_eq!(Attr::parse(&out, endian), Some((some(), 128)), "not beyond its size");
        }
    }

    #[test]
    fn flags_of_a_big_endian_machine_are_mirrored_in_each_byte() {
        let mut out = Vec::new();
        some().write(Endian::Big, &mut out);
        assert_eq!(out[40..48], [0x80, 0, 0x20, 0, 0x20, 0, 0, 0]);
    }

    #[test]
    fn older_and_newer_sizes() {
        let mut out = Vec::new();
        some().write(Endian::Little, &mut out);
        out.resize(200, 7);
        for (size, reads) in [(0u32, 64), (64, 64), (72, 72), (112, 112), (136, 136), (144, 144), (200, 200)]
        {
            out[4..8].copy_from_slice(&size.to_le_bytes());
            let (attr, claimed) = Attr::parse(&out, Endian::Little).unwrap();
            assert_eq!(claimed, reads);
            assert_eq!(attr.clockid, if reads > 92 { 1 } else { 0 });
            assert_eq!(attr.config3 != 0, reads >= 136);
        }
        for size in [63u32, 201, u32::MAX] {
            out[4..8].copy_from_slice(&size.to_le_bytes());
            assert_eq!(Attr::parse(&out, Endian::Little), None);
        }
        assert_eq!(Attr::parse(&out[..63], Endian::Little), None);
    }
}

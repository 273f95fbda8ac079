//! Bodies of the kernel's records that a recorder hands on as they are: parsed only, but for KSYMBOL.

use super::{Text, put_string};
use crate::perf_data::{
    Attr, Endian, Fields,
    read::{Counts, Words},
};

/// `PERF_RECORD_THROTTLE` and `PERF_RECORD_UNTHROTTLE`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// When.
    pub time: u64,
    /// Of which event.
    pub id: u64,
    /// Its own id, where `id` is its parent's.
    pub stream_id: u64,
}

/// `PERF_RECORD_READ`
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The counts.
    pub counts: Counts<'a>,
}

/// `PERF_RECORD_AUX`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Where in the AUX area.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`
    pub flags: u64,
}

/// `PERF_RECORD_ITRACE_START` and `PERF_RECORD_SWITCH_CPU_WIDE`: a thread; of the latter the next or the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

/// `PERF_RECORD_NAMESPACES`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The device and the inode of each: net, uts, ipc, pid, user, mnt, cgroup.
    pub links: Vec<(u64, u64)>,
}

/// `PERF_RECORD_KSYMBOL`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// Its address.
    pub addr: u64,
    /// Its bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`
    pub kind: u16,
    /// 1 where it is gone.
    pub flags: u16,
    /// Its name.
    pub name: Text<'a>,
}

/// `PERF_RECORD_BPF_EVENT`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`
    pub kind: u16,
    /// None is known.
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// The program's tag.
    pub tag: [u8; 8],
}

/// `PERF_RECORD_CGROUP`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// Its id.
    pub id: u64,
    /// Its path.
    pub path: Text<'a>,
}

/// `PERF_RECORD_TEXT_POKE`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Where the kernel changed itself.
    pub addr: u64,
    /// What was there.
    pub old: &'a [u8],
    /// What is there.
    pub new: &'a [u8],
}

/// `PERF_RECORD_CALLCHAIN_DEFERRED`
#[derive(Clone, Copy, Debug)]
pub struct DeferredChain<'a> {
    /// What the samples say that it belongs to.
    pub cookie: u64,
    /// The user's addresses.
    pub chain: Words<'a>,
}

impl Throttle {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Throttle> {
        let mut f = Fields::new(body, endian);
        Some(Throttle { time: f.u64()?, id: f.u64()?, stream_id: f.u64()? })
    }
}

impl<'a> Read<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian, attr: &Attr) -> Option<Read<'a>> {
        let mut f = Fields::new(body, endian);
        Some(Read { pid: f.u32()?, tid: f.u32()?, counts: Counts::take(&mut f, attr.read_format)? })
    }
}

impl Aux {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Aux> {
        let mut f = Fields::new(body, endian);
        Some(Aux { offset: f.u64()?, size: f.u64()?, flags: f.u64()? })
    }
}

impl Thread {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Thread> {
        let mut f = Fields::new(body, endian);
        Some(Thread { pid: f.u32()?, tid: f.u32()? })
    }
}

impl Namespaces {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<Namespaces> {
        let mut f = Fields::new(body, endian);
        let (pid, tid, count) = (f.u32()?, f.u32()?, f.u64()?);
        let links = (0..count).map(|_| Some((f.u64()?, f.u64()?))).collect::<Option<_>>()?;
        Some(Namespaces { pid, tid, links })
    }
}

impl<'a> Ksymbol<'a> {
    /// Reads the body.
    pub fn parse(body: &'a [u8], endian: Endian) -> Option<Ksymbol<'a>> {
        let mut f = Fields::new(body, endian);
        let (addr, len, kind, flags) = (f.u64()?, f.u32()?, f.u16()?, f.u16()?);
        Some(Ksymbol { addr, len, kind, flags, name: Text(f.c_string()) })
    }

    /// [`Ksymbol::kind`] of BPF programs.
    pub const BPF: u16 = 1;

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u64(out, self.addr);
        endian.put_u32(out, self.len);
        endian.put_u16(out, self.kind);
        endian.put_u16(out, self.flags);
        put_string(self.name.0, out);
    }
}

impl BpfEvent {
    pub(super) fn parse(body: &[u8], endian: Endian) -> Option<BpfEvent> {
        let mut f = Fields::new(body, endian);
        Some(BpfEvent { kind: f.u16()?, flags: f.u16()?, id: f.u32()?, tag: f.array()? })
    }
}

impl<'a> Cgroup<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian) -> Option<Cgroup<'a>> {
        let mut f = Fields::new(body, endian);
        Some(Cgroup { id: f.u64()?, path: Text(f.c_string()) })
    }
}

impl<'a> TextPoke<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian) -> Option<TextPoke<'a>> {
        let mut f = Fields::new(body, endian);
        let (addr, old, new) = (f.u64()?, f.u16()?, f.u16()?);
        Some(TextPoke { addr, old: f.bytes(old.into())?, new: f.bytes(new.into())? })
    }
}

impl<'a> DeferredChain<'a> {
    pub(super) fn parse(body: &'a [u8], endian: Endian) -> Option<DeferredChain<'a>> {
        let mut f = Fields::new(body, endian);
        let (cookie, count) = (f.u64()?, f.u64()?);
        Some(DeferredChain { cookie, chain: Words::take(&mut f, count)? })
    }
}

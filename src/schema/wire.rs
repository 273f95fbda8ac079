//! The head of every event as it crosses the ring: `struct tracer_event` of `bpf/tracer.h`.

use crate::record::Body;

/// Scratch levels of one CPU: `TRACER_LEVELS` in `bpf/tracer.h`. Sequence numbers count per CPU and level.
pub const LEVELS: usize = 4;

/// How much of a [`Wire`] is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carries {
    /// All of it: our own programs fill it in.
    All,
    /// Of the task its ids and its name: a sample of a recording.
    Task,
    /// Of the task only its ids, from the sample's own fields: an event of a foreign program.
    Ids,
    /// Nothing of the task: a BPF ringbuf holds bytes and no more.
    Nothing,
}

/// What every event carries, whatever its probe; of our own programs' events it opens the raw bytes. Must match `struct tracer_event` in `bpf/tracer.h`.
///
/// The raw bytes open with a trace-entry head (`common_type`, `common_flags`, `common_preempt_count`,
/// `common_pid`), so that tools that know tracepoints can decode them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// How much of the rest is known; what is not is 0.
    pub carries: Carries,
    /// Which probe fired: the place of its schema in the session's header, from 1 on.
    pub probe: u16,
    /// The scratch level it was built in: sequence numbers count per CPU and level. Foreign arrays and ringbufs have
    /// a level each, from [`LEVELS`] on.
    pub level: u8,
    /// The number of this attempt to emit, per CPU and level; it wraps. Those of a foreign array are counted when it
    /// is read, what its LOST records tell included.
    pub seq: u32,
    /// Process id (the kernel's tgid), in the tracer's PID namespace.
    pub tgid: u32,
    /// Thread id (the kernel's pid), in the tracer's PID namespace.
    pub pid: u32,
    /// User id in the initial user namespace.
    pub uid: u32,
    /// The id of the task's cgroup v2 directory.
    pub cgroup: u64,
    /// The task's name, NUL-padded; any bytes.
    pub comm: [u8; 16],
}

impl Wire {
    /// Bytes of the head; the fields of the schema begin here.
    pub const SIZE: usize = 52;

    /// Reads the head; `None` where there are too few bytes.
    #[inline]
    pub fn parse(raw: &Body<'_>) -> Option<Wire> {
        let bytes: [u8; Wire::SIZE] = raw.array_at(0)?;
        let head = Body::new(&bytes);
        Some(Wire {
            carries: Carries::All,
            probe: head.u16_at(8)?,
            level: head.u8_at(10)?,
            seq: head.u32_at(12)?,
            tgid: head.u32_at(16)?,
            pid: head.u32_at(20)?,
            uid: head.u32_at(24)?,
            cgroup: head.u64_at(28)?,
            comm: head.array_at(36)?,
        })
    }

    /// Of a foreign event: where its schema stands, its number, and its task's ids (the kernel's tgid and pid) where
    /// they came with it.
    pub fn foreign(probe: u16, level: u8, seq: u32, ids: Option<(u32, u32)>) -> Wire {
        let carries = if ids.is_some() { Carries::Ids } else { Carries::Nothing };
        let (tgid, pid) = ids.unwrap_or_default();
        Wire { carries, probe, level, seq, tgid, pid, uid: 0, cgroup: 0, comm: [0; 16] }
    }

    /// The task's name up to its first NUL.
    pub fn comm(&self) -> &[u8] {
        let end = self.comm.iter().position(|&b| b == 0).unwrap_or(self.comm.len());
        &self.comm[..end]
    }
}

//! `perf_event_attr` of the events that own rings, and opening one on a CPU.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_COUNT_SW_DUMMY, PERF_FORMAT_ID, PERF_FORMAT_LOST, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};

use super::{sys, wake::Rule};
use crate::record::{SampleFormat, sample_type};

/// What an event is opened with. Must match what reads its records: [`SampleFormat`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Attr {
    pub what: What,
    pub format: SampleFormat,
    pub wake: Rule,
    /// A second output event a ring, which wakes for each record.
    pub prompt: bool,
    /// Written from the end of the data to its start, for overwrite mode.
    pub backward: bool,
}

/// What an event writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The outputs of BPF programs.
    Output,
    /// What becomes of tasks: COMM, FORK, EXIT, and MMAP2 if `mmaps`. Of one process and whatever descends from
    /// it, or of all.
    Tasks { mmaps: bool, process: Option<u32> },
}

/// What not every kernel knows.
#[derive(Clone, Copy)]
struct Newer {
    /// `PERF_FORMAT_LOST`, from 6.0.
    lost: bool,
    /// `build_id`, from 5.12.
    build_ids: bool,
}

impl What {
    /// Its name, for a message.
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Output => "an output event",
            What::Tasks { .. } => "a side-band event",
        }
    }

    /// True of an event that its CPU's going off line does not end: one of a process.
    pub(super) fn outlasts_its_cpu(self) -> bool {
        matches!(self, What::Tasks { process: Some(_), .. })
    }

    fn process(self) -> Option<u32> {
        match self {
            What::Output => None,
            What::Tasks { process, .. } => process,
        }
    }
}

impl Attr {
    /// As what wakes for each record.
    pub(super) fn for_each(self) -> Attr {
        Attr { wake: Rule::Records(1), prompt: false, ..self }
    }

    /// How many descriptors a ring has.
    pub(super) fn descriptors(self) -> usize {
        1 + usize::from(self.prompt)
    }

    /// A software event, not yet writing, on CLOCK_MONOTONIC.
    fn to_sys(self, newer: Newer) -> perf_event_attr {
        let read_format = match newer.lost {
            true => u64::from(PERF_FORMAT_ID | PERF_FORMAT_LOST),
            false => u64::from(PERF_FORMAT_ID),
        };
        let config = match self.what {
            What::Output => PERF_COUNT_SW_BPF_OUTPUT,
            What::Tasks { .. } => PERF_COUNT_SW_DUMMY,
        };
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: u64::from(config),
            sample_type: self.format.sample_type,
            read_format,
            ..perf_event_attr::default()
        };
        match self.what {
            What::Output => attr.__bindgen_anon_1.sample_period = 1,
            What::Tasks { mmaps, process } => {
                attr.set_comm(1);
                attr.set_comm_exec(1);
                attr.set_task(1);
                attr.set_mmap(u64::from(mmaps));
                attr.set_mmap2(u64::from(mmaps));
                // Where one event asks for build ids, `perf_event_mmap_output` (kernel/events/core.c) marks the same
                // record of everybody else as having one: of all tasks that would spoil every recording of the host.
                attr.set_build_id(u64::from(mmaps && process.is_some() && newer.build_ids));
                attr.set_inherit(u64::from(process.is_some()));
            }
        }
        attr.set_disabled(1);
        attr.set_write_backward(u64::from(self.backward));
        attr.set_sample_id_all(u64::from(self.format.sample_id_all));
        if self.format.sample_type & sample_type::TIME != 0 {
            attr.set_use_clockid(1);
            attr.clockid = libc::CLOCK_MONOTONIC;
        }
        match self.wake {
            Rule::Records(n) => attr.__bindgen_anon_2.wakeup_events = n,
            Rule::Bytes(n) => {
                attr.set_watermark(1);
                attr.__bindgen_anon_2.wakeup_watermark = n;
            }
        }
        attr
    }

    /// Opens it on `cpu`, disabled; without what the kernel does not know (EINVAL).
    pub(super) fn open(self, cpu: u32) -> io::Result<Event> {
        let with = |newer| sys::perf_event_open(&mut self.to_sys(newer), self.what.process(), cpu);
        let unknown = |e: &io::Error| e.raw_os_error() == Some(libc::EINVAL);
        match with(Newer { lost: true, build_ids: true }) {
            Ok(fd) => return Ok(Event { fd, counts_lost: true }),
            Err(e) if unknown(&e) => {}
            Err(e) => return Err(e),
        }
        let fd = match with(Newer { lost: false, build_ids: true }) {
            Err(e) if unknown(&e) => with(Newer { lost: false, build_ids: false })?,
            fd => fd?,
        };
        Ok(Event { fd, counts_lost: false })
    }
}

/// An open event that owns a ring.
#[derive(Debug)]
pub(super) struct Event {
    fd: OwnedFd,
    counts_lost: bool,
}

impl Event {
    /// What records call this event.
    pub(super) fn id(&self) -> io::Result<u64> {
        sys::id(self.fd.as_fd())
    }

    /// Has what it writes go into the ring of `other`, which is mapped.
    pub(super) fn write_into(&self, other: &Event) -> io::Result<()> {
        sys::set_output(self.fd.as_fd(), other.as_fd())
    }

    /// Lets it write.
    pub(super) fn enable(&self) -> io::Result<()> {
        sys::enable(self.fd.as_fd())
    }

    /// Makes what it writes fail, and count as lost, or no longer.
    pub(super) fn pause(&self, pause: bool) -> io::Result<()> {
        sys::pause_output(self.fd.as_fd(), pause)
    }

    /// What this event lost, by the kernel's own count since it was opened, losses that no LOST record has
    /// told yet included; `None` where the kernel does not count (before 6.0, unless backported).
    pub(super) fn lost(&self) -> Option<u64> {
        // `perf_read_one` (kernel/events/core.c): value, then id, then lost.
        let mut counts = [0; 3];
        let n = self.counts_lost.then(|| sys::read_counts(self.fd.as_fd(), &mut counts).ok())??;
        (n == 3).then_some(counts[2])
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

//! `perf_event_attr` of an output event, and opening it on a CPU.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_FORMAT_ID, PERF_FORMAT_LOST, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use super::{sys, wake::Rule};
use crate::record::{SampleFormat, sample_type};

/// What an output event is opened with. Must match what reads its records: [`SampleFormat`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Attr {
    pub format: SampleFormat,
    pub wake: Rule,
}

impl Attr {
    /// A `PERF_COUNT_SW_BPF_OUTPUT` event, not yet writing, on CLOCK_MONOTONIC.
    fn to_sys(self, read_format: u64) -> perf_event_attr {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: u64::from(PERF_COUNT_SW_BPF_OUTPUT),
            sample_type: self.format.sample_type,
            read_format,
            ..perf_event_attr::default()
        };
        attr.__bindgen_anon_1.sample_period = 1;
        attr.set_disabled(1);
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

    /// Opens it on `cpu`, disabled. Where the kernel does not know PERF_FORMAT_LOST (before 6.0), without it.
    pub(super) fn open(self, cpu: u32) -> io::Result<OutputEvent> {
        let with_lost = u64::from(PERF_FORMAT_ID | PERF_FORMAT_LOST);
        match sys::perf_event_open(&mut self.to_sys(with_lost), cpu) {
            Ok(fd) => Ok(OutputEvent { fd, counts_lost: true }),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                let fd = sys::perf_event_open(&mut self.to_sys(u64::from(PERF_FORMAT_ID)), cpu)?;
                Ok(OutputEvent { fd, counts_lost: false })
            }
            Err(e) => Err(e),
        }
    }
}

/// An open output event.
#[derive(Debug)]
pub(super) struct OutputEvent {
    fd: OwnedFd,
    counts_lost: bool,
}

impl OutputEvent {
    /// What records call this event.
    pub(super) fn id(&self) -> io::Result<u64> {
        sys::id(self.fd.as_fd())
    }

    /// Makes outputs fail, and count as lost, or no longer.
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

impl AsFd for OutputEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

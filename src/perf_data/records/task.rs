//! COMM, FORK and EXIT: which tasks there are, and their names.

use std::fmt;

use super::{Text, put_string};
use crate::perf_data::{Endian, Fields};

/// `PERF_RECORD_COMM`: a task has a name from here on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The name.
    pub comm: &'a [u8],
}

/// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`: a task begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: u32,
    /// The parent's process.
    pub ppid: u32,
    /// The task.
    pub tid: u32,
    /// Its parent.
    pub ptid: u32,
    /// When.
    pub time: u64,
}

impl fmt::Debug for Comm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comm { pid, tid, comm } = self;
        f.debug_struct("Comm").field("pid", pid).field("tid", tid).field("comm", &Text(comm)).finish()
    }
}

impl<'a> Comm<'a> {
    /// Reads the body.
    pub fn parse(body: &'a [u8], endian: Endian) -> Option<Comm<'a>> {
        let mut f = Fields::new(body, endian);
        Some(Comm { pid: f.u32()?, tid: f.u32()?, comm: f.c_string() })
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, self.pid);
        endian.put_u32(out, self.tid);
        put_string(self.comm, out);
    }
}

impl Task {
    /// Reads the body.
    pub fn parse(body: &[u8], endian: Endian) -> Option<Task> {
        let mut f = Fields::new(body, endian);
        Some(Task { pid: f.u32()?, ppid: f.u32()?, tid: f.u32()?, ptid: f.u32()?, time: f.u64()? })
    }

    /// Appends the body, without the trailer.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        for n in [self.pid, self.ppid, self.tid, self.ptid] {
            endian.put_u32(out, n);
        }
        endian.put_u64(out, self.time);
    }
}

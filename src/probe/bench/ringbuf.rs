//! The BPF ringbuf that the benchmark's programs can put out into, read by libbpf.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
};

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use super::super::preflight;
use crate::{Error, ErrorKind, Result};

/// A reader of the ringbuf that hands every record to one function, by reference.
pub struct RingbufReader<'a> {
    reader: RingBuffer<'a>,
    map: BorrowedFd<'a>,
}

impl fmt::Debug for RingbufReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingbufReader").field("epoll", &self.reader.epoll_fd()).finish_non_exhaustive()
    }
}

impl<'a> RingbufReader<'a> {
    pub(super) fn new(map: &'a dyn MapCore, mut f: impl FnMut(&[u8]) + 'a) -> Result<RingbufReader<'a>> {
        let mut builder = RingBufferBuilder::new();
        let hand = move |record: &[u8]| {
            f(record);
            0
        };
        let built = builder.add(map, hand).map(|_| ()).and_then(|()| builder.build());
        let reader = built.map_err(|e| {
            Error::caused(ErrorKind::Runtime, "mapping the benchmark's ringbuf", preflight::os_error(&e))
        })?;
        Ok(RingbufReader { reader, map: map.as_fd() })
    }

    /// Hands over what is there; how many records that was. Never waits.
    pub fn drain(&self) -> u64 {
        u64::try_from(self.reader.consume_raw()).unwrap_or(0)
    }
}

impl AsFd for RingbufReader<'_> {
    /// What to poll for input: the map.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map
    }
}

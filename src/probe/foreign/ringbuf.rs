//! A BPF ringbuf of a user's object, read by libbpf in batches.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex},
};

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use super::{super::preflight, marker::keep};
use crate::{Error, ErrorKind, Result};

/// The most records of one batch, and bytes after which none is begun.
const BATCH: usize = 1024;
const BYTES: usize = 1 << 20;

/// What a batch holds, record after record.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, record: &[u8]) -> i32 {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
        // Anything below 0 ends the batch.
        if self.bytes.len() < BYTES { 0 } else { -1 }
    }
}

/// A ringbuf and the batch that was read last.
pub struct Ringbuf {
    reader: RingBuffer<'static>,
    batch: Arc<Mutex<Batch>>,
    map: OwnedFd,
}

impl fmt::Debug for Ringbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ringbuf").field("map", &self.map).finish_non_exhaustive()
    }
}

impl Ringbuf {
    /// Maps it.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn new(map: &dyn MapCore) -> Result<Ringbuf> {
        let batch = Arc::new(Mutex::new(Batch::default()));
        let into = batch.clone();
        // It is called from C, so it must not panic: a lock that somebody's panic has poisoned holds good bytes.
        let push =
            move |record: &[u8]| into.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(record);
        let mut builder = RingBufferBuilder::new();
        let built = builder.add(map, push).map(|_| ()).and_then(|()| builder.build());
        let reader = built.map_err(|e| {
            Error::caused(ErrorKind::Runtime, "mapping a BPF ringbuf", preflight::os_error(&e))
        })?;
        Ok(Ringbuf { reader, batch, map: keep(&map.as_fd())? })
    }

    /// Hands over the records that are there, a batch at most; true where more may be there. Never waits.
    pub fn drain(&self, mut f: impl FnMut(&[u8])) -> bool {
        self.reader.consume_raw_n(BATCH);
        let Batch { bytes, ends } =
            std::mem::take(&mut *self.batch.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let mut start = 0;
        for &end in &ends {
            f(&bytes[start..end]);
            start = end;
        }
        ends.len() >= BATCH || bytes.len() >= BYTES
    }
}

impl AsFd for Ringbuf {
    /// What to poll for input.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

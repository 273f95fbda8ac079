//! The taking end of a channel of batches.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossbeam_channel::{RecvError, RecvTimeoutError, TryRecvError};

use crate::sink::batch::Batch;

/// Takes batches. Clones take from the same channel: each batch goes to one of them.
///
/// It is at its end once the reader has ended and all batches were taken. Dropping the last clone ends the run in
/// order; what is in the channel then counts as dropped.
#[derive(Clone)]
pub struct Receiver {
    receiver: crossbeam_channel::Receiver<Batch>,
    _alive: Arc<Alive>,
}

/// Says so when the last receiver goes.
pub(super) struct Alive {
    pub gone: Arc<AtomicBool>,
    pub on_gone: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
        self.on_gone.iter().for_each(|gone| gone());
    }
}

impl Receiver {
    pub(super) fn new(receiver: crossbeam_channel::Receiver<Batch>, alive: Alive) -> Receiver {
        Receiver { receiver, _alive: Arc::new(alive) }
    }

    /// Waits for a batch.
    ///
    /// # Errors
    ///
    /// At the end.
    pub fn recv(&self) -> Result<Batch, RecvError> {
        self.receiver.recv()
    }

    /// Waits for a batch, at most so long.
    ///
    /// # Errors
    ///
    /// Where there was none, and at the end.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Batch, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout)
    }

    /// A batch, if one is there.
    ///
    /// # Errors
    ///
    /// Where there is none, and at the end.
    pub fn try_recv(&self) -> Result<Batch, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Each batch to the end, waiting for each.
    pub fn iter(&self) -> crossbeam_channel::Iter<'_, Batch> {
        self.receiver.iter()
    }

    /// How many batches are in the channel.
    pub fn len(&self) -> usize {
        self.receiver.len()
    }

    /// Whether the channel is empty.
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// The channel's own receiver, for `crossbeam_channel::select!`. A clone of it does not keep the run going.
    pub fn inner(&self) -> &crossbeam_channel::Receiver<Batch> {
        &self.receiver
    }
}

impl<'a> IntoIterator for &'a Receiver {
    type Item = Batch;
    type IntoIter = crossbeam_channel::Iter<'a, Batch>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("batches", &self.len()).finish()
    }
}

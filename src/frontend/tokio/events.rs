//! A stream of single events: the batches of another, taken apart.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use super::{Batches, Control};
use crate::{
    Result,
    ledger::Report,
    sink::{
        Batch,
        batch::{Cursor, Item, Place},
    },
};

/// A session's events one by one, with holes and notes at their places: a [`Stream`]. Each costs a reference to its
/// batch, which is freed with the last of them; batches themselves are cheaper.
#[derive(Debug)]
pub struct Events {
    batches: Batches,
    batch: Option<Arc<Batch>>,
    cursor: Cursor,
}

/// One thing out of a batch, owned.
#[derive(Clone, Debug)]
pub struct Piece {
    batch: Arc<Batch>,
    place: Place,
}

impl Piece {
    /// What it is.
    pub fn item(&self) -> Item<'_> {
        self.batch.at(self.place)
    }
}

impl Events {
    pub(super) fn new(batches: Batches) -> Events {
        Events { batches, batch: None, cursor: Cursor::default() }
    }

    /// The stream's handle.
    pub fn control(&self) -> &Control {
        self.batches.control()
    }

    /// The next; `None` once the run has ended and all were taken. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// As [`Batches::next_batch`].
    pub async fn next_event(&mut self) -> Option<Result<Piece>> {
        std::future::poll_fn(|cx| self.poll_next_event(cx)).await
    }

    /// As [`Batches::stop`]: what was not taken yet still is there.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn stop(&mut self) -> Result<Report> {
        self.batches.stop().await
    }

    fn poll_next_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece>>> {
        loop {
            if let Some(batch) = &self.batch
                && let Some(place) = self.cursor.next(batch)
            {
                return Poll::Ready(Some(Ok(Piece { batch: batch.clone(), place })));
            }
            self.batch = None;
            match ready!(self.batches.poll_next_batch(cx)) {
                Some(Ok(batch)) => (self.batch, self.cursor) = (Some(Arc::new(batch)), Cursor::default()),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for Events {
    type Item = Result<Piece>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece>>> {
        self.get_mut().poll_next_event(cx)
    }
}

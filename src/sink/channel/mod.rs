//! A sink that hands batches to other threads by a bounded channel, and what becomes of events where that is full.
//!
//! ```text
//!   event ─► batch in hand ─► channel (so many batches) ─► Receiver, Receiver, …
//!               │                 │ drop-old takes the oldest out again
//!               │ drop-new        └─► told as a gap by the batch behind it
//!               └─► told as a gap before the CPU's next event
//! ```
//!
//! An event counts as delivered once its batch is in the channel, which is the receiver's: it can still take it when
//! the run is over. Those that are in it when the last receiver goes count as dropped.
//!
//! **Invariants.** But for [`OnFull::Block`] and the end of a run nothing here waits. A batch that was handed over is
//! never changed. Memory is bounded: the channel's batches, the one in hand, and those that receivers keep.

mod receiver;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::SendTimeoutError;

use self::receiver::Alive;
use super::{
    Counts, Header, Note, OnFull, Sink,
    batch::{Batch, Fill, Missed},
    hold::Lanes,
    on_full::{OneIn, Patience, Stopping},
};
use crate::{
    Error, ErrorKind, Result,
    event::{Event, Gap},
    ledger::Report,
    ring::TaskRecord,
};

pub use receiver::Receiver;

/// As long as no more batches than this wait, one that is not full is handed on by a flush.
const AHEAD: usize = 4;

/// How a channel is set up.
pub struct Options {
    /// Its name in the ledger.
    pub name: String,
    /// How many batches it holds.
    pub batches: usize,
    /// At how many bytes a batch is full, what it knows of each event included.
    pub batch: usize,
    /// What becomes of events where it is full.
    pub on_full: OnFull,
    /// What is called once, when the last receiver goes: enough to wake whoever runs the reader.
    pub on_gone: Option<Box<dyn Fn() + Send + Sync>>,
    /// Whether a stop was asked for: [`OnFull::Block`] waits no longer than `stop_bound` from then on.
    pub stopping: Option<Stopping>,
    /// The longest wait once a stop was asked for.
    pub stop_bound: Duration,
}

impl Default for Options {
    /// 64 batches of 64 KiB; what comes when they are full is dropped.
    fn default() -> Options {
        Options {
            name: "channel".into(),
            batches: 64,
            batch: 64 << 10,
            on_full: OnFull::default(),
            on_gone: None,
            stopping: None,
            stop_bound: Duration::from_secs(2),
        }
    }
}

/// Fills batches and hands them to a [`Receiver`].
pub struct Batches {
    name: String,
    fill: Fill,
    sender: crossbeam_channel::Sender<Batch>,
    /// To take the oldest out again.
    receiver: crossbeam_channel::Receiver<Batch>,
    gone: Arc<AtomicBool>,
    on_full: OnFull,
    missed: Missed,
    lanes: Lanes,
    one_in: OneIn,
    patience: Patience,
    counts: Counts,
    ending: bool,
    settled: bool,
}

impl Batches {
    /// A channel's two ends.
    pub fn new(options: Options) -> (Batches, Receiver) {
        let Options { name, batches, batch, on_full, on_gone, stopping, stop_bound } = options;
        let batches = batches.max(1);
        let (sender, receiver) = crossbeam_channel::bounded(batches);
        let (missed, gone) = (Missed::default(), Arc::new(AtomicBool::new(false)));
        let ours = Batches {
            name,
            fill: Fill::new(batch, batches + 2, Some(missed.clone())),
            sender,
            receiver: receiver.clone(),
            gone: gone.clone(),
            on_full,
            missed,
            lanes: Lanes::default(),
            one_in: OneIn::default(),
            patience: Patience::new(stopping, stop_bound),
            counts: Counts::default(),
            ending: false,
            settled: false,
        };
        (ours, Receiver::new(receiver, Alive { gone, on_gone }))
    }

    /// Fails where nobody takes batches any more.
    #[inline]
    fn check(&self) -> Result<()> {
        if self.settled || self.gone.load(Ordering::Acquire) { self.failure() } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> Result<()> {
        match self.settled {
            true => Err(Error::new(ErrorKind::Sink, format!("{}: the run is over", self.name))),
            false => Err(Error::new(ErrorKind::Closed, format!("{}: its receiver has gone", self.name))),
        }
    }

    /// Hands on what is in hand, if the channel has room. True if it had.
    fn hand_over(&mut self) -> bool {
        if self.sender.is_full() {
            return false;
        }
        let batch = self.fill.take();
        let events = batch.len() as u64;
        // Nobody else sends, and our own receiver keeps it open.
        match self.sender.try_send(batch) {
            Ok(()) => self.counts.delivered += events,
            Err(failed) => self.counts.dropped_sink += self.missed.drop_one(|| Some(failed.into_inner())),
        }
        true
    }

    /// Hands on what is in hand, waiting for room until `deadline`, or for as long as patience lasts. True if it went;
    /// else its events are dropped, and told as a hole should there be another batch.
    fn hand_over_by(&mut self, deadline: Option<Instant>) -> bool {
        let mut batch = self.fill.take();
        let events = batch.len() as u64;
        loop {
            let left = match deadline {
                Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
                None => self.patience.left(),
            };
            let left = left.filter(|_| !self.gone.load(Ordering::Acquire));
            // A receiver may go meanwhile: looked at now and then.
            let slice = left.unwrap_or(Duration::ZERO).min(Duration::from_millis(10));
            match self.sender.send_timeout(batch, slice) {
                Ok(()) => {
                    self.counts.delivered += events;
                    return true;
                }
                Err(SendTimeoutError::Timeout(back)) if left.is_some_and(|left| !left.is_zero()) => {
                    batch = back
                }
                Err(failed) => {
                    self.counts.dropped_sink += self.missed.drop_one(|| Some(failed.into_inner()));
                    return false;
                }
            }
        }
    }

    /// Takes the oldest out of the channel.
    fn drop_oldest(&mut self) {
        let dropped = self.missed.drop_one(|| self.receiver.try_recv().ok());
        self.counts.delivered -= dropped;
        self.counts.dropped_queue += dropped;
    }

    /// Makes room for an event where the batch in hand is full. False where there is none.
    fn make_room(&mut self) -> bool {
        if self.hand_over() {
            return true;
        }
        match self.on_full {
            OnFull::Block => {
                self.hand_over_by(None);
                true
            }
            OnFull::DropOld => {
                // Whoever takes one meanwhile makes room too.
                while !self.hand_over() {
                    self.drop_oldest();
                }
                true
            }
            OnFull::DropNew | OnFull::Sample(_) => false,
        }
    }

    /// Whether there is room for an event, and it is one that is kept.
    #[inline]
    fn takes(&mut self) -> bool {
        if let OnFull::Sample(n) = self.on_full
            && self.sender.is_full()
            && !self.one_in.keeps(n)
        {
            return false;
        }
        !self.fill.is_full() || self.make_room()
    }

    /// Puts gaps that wait, as `take` chooses them, into the batch in hand, while that has room.
    fn release(&mut self, take: impl Fn(&mut Lanes) -> Option<Gap>) {
        while !self.fill.is_full() {
            let Some(gap) = take(&mut self.lanes) else { break };
            self.fill.gap(&gap);
        }
    }

    /// What is in the channel was not taken and never will be.
    fn give_up(&mut self) {
        for batch in self.receiver.try_iter() {
            let events = batch.len() as u64;
            self.counts.delivered -= events;
            self.counts.dropped_sink += events;
        }
    }
}

impl Sink for Batches {
    fn name(&self) -> &str {
        &self.name
    }

    fn on_full(&self) -> Option<OnFull> {
        Some(self.on_full)
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.check()?;
        if !self.fill.is_empty() && !self.make_room() {
            let what = format!("{}: no room for a header behind events that wait", self.name);
            return Err(Error::new(ErrorKind::Sink, what));
        }
        self.fill.header(header);
        Ok(())
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if let Err(e) = self.check() {
            self.counts.dropped_sink += 1;
            // Once is enough where all that is in the rings is read to their ends.
            return if self.ending { Ok(()) } else { Err(e) };
        }
        if !self.takes() {
            self.lanes.dropped(event);
            self.counts.dropped_queue += 1;
            return Ok(());
        }
        if self.lanes.holds(event.cpu) {
            self.lanes.close(event.cpu, event.time);
            while let Some(gap) = self.lanes.take_of(event.cpu) {
                self.fill.gap(&gap);
            }
        }
        self.lanes.wrote(event);
        self.fill.event(event).inspect_err(|_| self.counts.dropped_sink += 1)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.check()?;
        self.lanes.close(gap.cpu, gap.before.or(gap.after));
        // What waits already stands before this one.
        self.lanes.hold(*gap);
        if !self.fill.is_full() || self.make_room() {
            self.release(|lanes| lanes.take_of(gap.cpu));
        }
        Ok(())
    }

    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        self.check()?;
        self.fill.task(record);
        Ok(())
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.check()?;
        self.fill.note(note);
        Ok(())
    }

    fn wait_room(&mut self, bound: Duration) -> bool {
        let deadline = self.patience.until(bound);
        while self.fill.is_full() && !self.hand_over() {
            match self.on_full {
                OnFull::Block | OnFull::DropOld => return true,
                OnFull::DropNew | OnFull::Sample(_) if Instant::now() >= deadline => return false,
                // Where it is taken from is another thread's: there is nothing to be woken by but a send.
                OnFull::DropNew | OnFull::Sample(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        true
    }

    /// A batch that is not full stays in hand while there are enough to take.
    fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.lanes.any_held() {
            self.lanes.grow_older();
            self.release(|lanes| lanes.take(2));
        }
        if !self.fill.is_empty() && self.sender.len() < AHEAD {
            self.hand_over();
        }
        Ok(())
    }

    fn ending(&mut self, bound: Duration) {
        self.ending = true;
        self.patience.ending(bound);
    }

    fn settle(&mut self, bound: Duration) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        let deadline = self.patience.until(bound);
        while let Some(gap) = self.lanes.take(0) {
            self.fill.gap(&gap);
        }
        if !self.fill.is_empty() {
            self.hand_over_by(Some(deadline));
        }
        let gone = self.check();
        if gone.is_err() {
            self.give_up();
        }
        self.settled = true;
        gone
    }

    fn footer(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

//! Where events go: the trait that takes them, and one file a sink.
//!
//! In come decoded events, gaps and notes in the order of their rings; out go bytes in some format.
//!
//! ```text
//!   event, gap, note ─► StreamSink ─► Encode ─► Outlet ─► writer thread ─► descriptor
//!                         │           text, json,            never held up by a slow reader
//!                         │           hex, raw
//!                         └ what there was no room for: a gap, told before its CPU's next event
//! ```
//!
//! Several threads go into one sink by [`Arms`]: each formats by itself where the format allows it, else they take
//! turns. A `Batch` is for other threads and tasks: events that are owned, many at a time. What becomes of events that
//! there is no room for is an [`OnFull`]. [`Memory`] and [`Count`] have no bytes: one keeps what it is told, the other
//! counts it.
//!
//! **Invariants.** A sink never knows a session. No event waits for a reader unless that was asked for, and
//! none allocates once the batches have grown to size. A gap is never hidden: every format has a line for it. Every
//! event that a sink was handed ends in exactly one of its three counts.

mod arms;
#[cfg(any(feature = "channel", feature = "tokio"))]
pub mod batch;
#[cfg(feature = "channel")]
pub mod channel;
mod clock;
mod column;
mod count;
pub mod escape;
pub mod folded;
mod frames;
pub mod hex;
mod hold;
pub mod json;
pub mod json_schema;
mod labels;
mod lines;
mod memory;
mod number;
mod on_full;
mod ordered;
mod outlet;
#[cfg(feature = "perf-data")]
pub mod perf_data;
pub mod raw;
mod shown;
pub mod stat;
mod stream;
mod target;
pub mod text;
mod when;
mod writer;

use std::time::Duration;

use crate::{
    Result,
    event::{Event, Gap},
    ledger::Report,
    ring::TaskRecord,
    schema::Schema,
};

pub use arms::{Arms, Way};
#[cfg(any(feature = "channel", feature = "tokio"))]
pub use batch::Batch;
pub use clock::Clock;
pub use count::Count;
pub use memory::{Item, Memory};
pub use on_full::{OnFull, Stopping};
pub use ordered::{Order, Ordered};
pub use outlet::{Options, Outlet};
#[cfg(feature = "perf-data")]
pub use perf_data::PerfData;
pub use shown::shown_instead;
pub use stream::{Encode, StreamSink};
pub use when::TimeFormat;
pub use writer::Transform;

/// What a sink is told before the first event.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// The host's name.
    pub host: &'a str,
    /// The kernel's release, as `uname -r` gives it.
    pub release: &'a str,
    /// This boot's id.
    pub boot_id: &'a str,
    /// CLOCK_MONOTONIC and CLOCK_REALTIME nanoseconds at one moment: wall time = time - monotonic + realtime.
    pub clock: Clock,
    /// Each probe: what its events carry, and how it was attached.
    pub probes: &'a [Probe<'a>],
}

/// One probe as a header tells it.
#[derive(Clone, Debug)]
pub struct Probe<'a> {
    /// What its events carry.
    pub schema: &'a Schema,
    /// How it was attached, for example `kprobe on __x64_sys_write`.
    pub attached: &'a str,
    /// Whether its events open with our head; those of users' objects do not.
    pub headed: bool,
}

/// Something a stream tells that is neither an event nor a hole.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// Something went wrong and the session goes on.
    Error(&'a str),
    /// A probe was attached or could not be.
    Probe(&'a str),
    /// The ledger as it stands.
    Stats(&'a Report),
}

/// What became of the events a sink was handed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed on whole.
    pub delivered: u64,
    /// Not taken, since its queue was full.
    pub dropped_queue: u64,
    /// Taken and not handed on: an error, or stuck at the stop.
    pub dropped_sink: u64,
    /// Of them all, those that came after one that is younger, where an order was asked for.
    pub late: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        let Counts { delivered, dropped_queue, dropped_sink, late } = other;
        self.delivered += delivered;
        self.dropped_queue += dropped_queue;
        self.dropped_sink += dropped_sink;
        self.late += late;
    }
}

/// Takes events.
///
/// No method waits for a slow reader: what there is no room for is dropped and counted. The exceptions are
/// [`Sink::settle`] and [`Sink::wait_room`], which wait up to their bounds, and a sink that was asked to
/// ([`OnFull::Block`]).
pub trait Sink {
    /// Its name in the ledger.
    fn name(&self) -> &str;

    /// Takes what comes before the first event.
    fn header(&mut self, header: &Header<'_>) -> Result<()>;

    /// Takes an event.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) when whoever reads the output has gone, and
    /// [`ErrorKind::Sink`](crate::ErrorKind::Sink) for what else can go wrong; the event is counted either way.
    fn event(&mut self, event: &Event<'_>) -> Result<()>;

    /// Takes a hole, at its place.
    fn gap(&mut self, gap: &Gap) -> Result<()>;

    /// Takes a side-band record: what became of a task. There are some where the session was asked for them
    /// ([`session::Options::sideband`](crate::session::Options)), and each pass tells those that are there before
    /// the events; a task can get its name between the two all the same, so their times are what puts the two
    /// in order. A sink that has no use for them ignores them.
    ///
    /// # Errors
    ///
    /// As [`Sink::event`].
    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        let _ = record;
        Ok(())
    }

    /// Takes a note.
    fn note(&mut self, note: &Note<'_>) -> Result<()>;

    /// Every ring has been read to an end that it had after the last call of this.
    ///
    /// # Errors
    ///
    /// As [`Sink::event`].
    fn caught_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits until there is room for an event, at most `bound`; whether there is. Who holds events back asks this
    /// before it hands over many at once: what there is no room for is dropped.
    fn wait_room(&mut self, bound: Duration) -> bool {
        let _ = bound;
        true
    }

    /// What it does where it has no room; `None` where it always has.
    fn on_full(&self) -> Option<OnFull> {
        None
    }

    /// The run is ending: from now on one that waits for room ([`OnFull::Block`]) waits at most `bound` in all.
    fn ending(&mut self, bound: Duration) {
        let _ = bound;
    }

    /// Starts handing on what is buffered; does not wait for it.
    fn flush(&mut self) -> Result<()>;

    /// Hands on what is buffered, waiting at most `bound`; what is left then is dropped and counted.
    ///
    /// After it the counts are final.
    fn settle(&mut self, bound: Duration) -> Result<()>;

    /// Takes the final ledger, after [`Sink::settle`]; waits at most a moment.
    fn footer(&mut self, report: &Report) -> Result<()>;

    /// The counts so far.
    fn counts(&self) -> Counts;

    /// Another way into the same output, for a thread of its own and after the header: what it is handed is made ready
    /// there, and stands in this sink's counts. It tells no footer; settled, it has handed on what it had, and this
    /// sink is settled after it. `None` where all has to go one way: threads take turns then.
    fn arm(&mut self) -> Option<Box<dyn Sink + Send>> {
        None
    }
}

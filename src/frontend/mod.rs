//! The only place that waits: a session under an epoll loop of its own, or several.
//!
//! In come wake-ups of rings, of a [`Control`] and of time; out go drains: by one thread ([`blocking`]), or each share
//! of the rings by its own ([`threads`]).
//!
//! | who waits | what is handed over |
//! |---|---|
//! | [`blocking`]: the calling thread | each event, to a sink on that thread |
//! | `channel` (feature `channel`): a thread of its own | batches, by a bounded channel, to any number of threads |
//! | `tokio` (feature `tokio`): whichever task polls | batches or events, as a stream |
//! | a loop of one's own, around a [`Driver`] | each event, to a sink |
//!
//! The same session is under each, the same [`Control`] stops and flushes it and reads its ledger, and each ends with
//! the same report. A [`Session`](crate::session::Session) may be sent to another thread at any time (libbpf's objects
//! may; nothing of ours is tied to a thread), but only one at a time has it.
//!
//! **Invariants.** Nothing is decoded or counted here. A wake-up is a hint: every pass sweeps every ring, since
//! `perf_poll` (kernel/events/core.c) is one-shot and a write that fails never wakes. No wait is unbounded.

pub mod blocking;
#[cfg(feature = "channel")]
pub mod channel;
mod control;
mod driver;
pub mod looks;
mod pace;
mod poller;
pub mod threads;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use control::Control;
pub use driver::Driver;
pub use pace::Pace;
pub use poller::Poller;

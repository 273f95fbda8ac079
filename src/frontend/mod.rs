//! The only place that waits: a session under an epoll loop of its own, or several.
//!
//! In come wake-ups of rings, of a [`Control`] and of time; out go drains: by one thread ([`blocking`]), or each share
//! of the rings by its own ([`threads`]).
//!
//! **Invariants.** Nothing is decoded or counted here. A wake-up is a hint: every pass sweeps every ring, since
//! `perf_poll` (kernel/events/core.c) is one-shot and a write that fails never wakes. No wait is unbounded.

pub mod blocking;
mod control;
pub mod looks;
mod pace;
mod poller;
pub mod threads;

pub use control::Control;
pub use pace::Pace;
pub use poller::Poller;

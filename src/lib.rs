//! Live BPF tracing whose numbers add up.
//!
//! A BPF program calls `bpf_perf_event_output` into a `BPF_MAP_TYPE_PERF_EVENT_ARRAY` of per-CPU
//! `PERF_COUNT_SW_BPF_OUTPUT` rings; this crate maps each ring, reads it, and accounts for every firing of
//! every probe to the unit.
//!
//! Data goes one way through five rooms, and each knows only what stands before it:
//! [`ring`] lends bytes, [`record`] says what they are, [`event`] what they mean by their [`schema`],
//! [`sink`] takes them onward.
#![deny(unsafe_code)]

#[cfg(feature = "probe")]
pub mod bench;
pub mod error;
pub mod event;
#[cfg(feature = "probe")]
pub mod frontend;
pub mod ledger;
#[cfg(feature = "perf-data")]
pub mod perf_data;
#[cfg(feature = "probe")]
pub mod probe;
/// Specs: what of this room needs no libbpf.
#[cfg(all(feature = "spec", not(feature = "probe")))]
pub mod probe {
    pub mod spec;
    pub use spec::{Provider, Spec};
}
pub mod record;
pub mod ring;
pub mod schema;
#[cfg(feature = "probe")]
pub mod session;
pub mod sink;
pub mod symbol;

pub use error::{Error, ErrorKind, Result};

/// The README's example is a test.
#[cfg(all(doctest, feature = "probe"))]
#[doc = include_str!("../README.md")]
struct Readme;

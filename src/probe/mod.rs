//! Specs in, attached BPF programs out: all that this crate has to do with libbpf.
//!
//! In come [`Spec`]s and a [`Filter`]; out come programs attached to the kernel, the descriptor of the perf
//! event array they emit into, the [`Schema`](crate::schema::Schema) of each one's events, and the kernel's side of the accounts.
//!
//! ```text
//!   Spec ─► resolve ─► [Hook, Hook, …] ─► object: configured, loaded ─► attach ─► Link
//!             names, BTF,  best first       one object a probe,           on failure: why, and
//!             formats                       maps shared with the base     the next hook
//! ```
//!
//! `debug` gives a program's own types in the terms of the kernel's: as BTF. [`catalogue`] knows what there is to probe, [`list`] shows it, [`doctor`] tells what this host allows; why something
//! was refused is told by `preflight` alone, to a run as to the doctor.
//!
//! **Invariants.** No ring is opened or read here; whoever has rings puts them into [`Probes::array`] before
//! it calls [`Probes::attach`]. Nothing here prints: what is worth a word is returned. An object is opened
//! per probe and its configuration frozen before the load, so a loaded program holds no code that its probe
//! does not use. Our own events never exceed [`MAX_RAW`] bytes, which is what makes borrowed reads of their
//! rings sound.

mod attach;
mod automaton;
pub mod bench;
mod boundary;
mod btf;
mod capture;
pub mod catalogue;
mod config;
mod core_types;
mod counters;
mod debug;
pub mod doctor;
pub mod elf;
mod fetch;
mod filter;
mod find;
pub mod foreign;
mod glob;
mod hints;
mod hook;
mod how;
mod judge;
mod keep;
mod libbpf;
pub mod list;
mod locate;
mod object;
mod preflight;
mod probes;
mod resolve;
mod shape;
mod signature;
pub mod spec;
mod tracefs;
mod usdt;
mod walk;

pub use filter::{Filter, Target};
pub use find::{Found, Refusal, find};
pub use keep::Keep;
pub use preflight::near;
pub use probes::{Attached, Loaded, Outcome, Probes, ProgramFacts, Row, types};
pub use resolve::servable;
pub use spec::{Provider, Spec};

/// The largest sample our programs emit: `struct tracer_event` in `bpf/tracer.h` up to `judged`, which is what
/// the end marker and the benchmark stay below.
pub const MAX_RAW: usize = 3260;

//! The per-CPU rings: opened, put into a perf event array's slots, read, given back and closed.
//!
//! In come the array's descriptor and [`Options`]; out go borrowed records, [`Item`] by item, and counts. One
//! thing flows back: commit, a store of `data_tail`.
//!
//! ```text
//!            data_tail       position          data_head at the snapshot
//!                │ read, ours    │ unread            │ written since: the next drain's
//!   ┄┄┄┬─────────┼──────┬────────┼───────┬───────┬───┼────────┬┄┄┄   both only grow; position & (size - 1)
//!      │  free   │ rec. │ record │ record│ LOST  │rec│ record │      is the offset in the data
//!   ┄┄┄┴─────────┴──────┴────────┴───────┴───────┴───┴────────┴┄┄┄
//!      the kernel's     advance ──►                      the kernel's
//!                commit ──►
//! ```
//!
//! [`Set`] holds a ring for each CPU; [`Sideband`] those of what becomes of tasks; `Forward` reads one; `Mapping` lends its bytes. A drain loads
//! `data_head` once, hands over what is below it, and commits every eighth of the ring, at the end, and when the
//! handler panics.
//!
//! **Invariants.** Nothing here waits for a record, and nothing is allocated while draining. Nothing here knows
//! of events, schemas or libbpf. No bytes in a ring make it panic, loop, or read outside `data_tail..data_head`:
//! what cannot be is a [`Corruption`]. The mmap page is never a reference, nor is any byte that the kernel may
//! write: the rings of a foreign [`Array`], whose programs may run over what is unread, are read by copy. Unsafe code is in `mapping`, `sys` and `slots` only, and in the mock's
//! `heap`.

mod array;
mod attr;
pub mod backward;
mod budget;
mod cpu_ring;
pub mod cpus;
mod entry;
mod flight;
mod forward;
#[cfg(any(test, feature = "test-utils"))]
mod heap;
mod hotplug;
mod item;
mod mapping;
#[cfg(any(test, feature = "test-utils"))]
pub mod mock;
mod options;
mod prompt;
mod run;
mod set;
mod shards;
pub mod sideband;
pub mod size;
mod slots;
mod stats;
mod sys;
mod wake;

pub use array::Array;
pub use budget::{Budget, Drained};
pub use entry::{Corruption, CorruptionCause, Entry};
pub use flight::{Flight, Snapshot};
pub use forward::Forward;
pub use item::{Item, ItemKind};
pub use options::Options;
pub use run::{RawRun, Run};
pub use set::Set;
pub use sideband::{Sideband, TaskRecord};
pub use size::lockable;
pub use stats::Stats;
pub use sys::wait_for_programs;
pub use wake::Wake;

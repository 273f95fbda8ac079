//! A recording read: a file, a pipe or a directory, of either byte order, whole, cut or never ended.
//!
//! ```text
//!   bytes or a pipe ─► Reader ─► records as they lie ─► Sorted ─► records by time ─► Sample::parse, records::Body
//!                        └─► Info: events, features, format texts, what was amiss
//! ```
//!
//! **Invariants.** No bytes make it panic or go on for ever; it holds no more than the input's size and a bound
//! justify. A record is lent, not copied, unless it was compressed or came through a pipe and has to wait. What
//! cannot be read is never hidden: it is one of the [`Info::notes`].

mod events;
mod head;
mod inflate;
mod info;
mod names;
mod part;
mod reader;
mod record;
mod sample;
mod sorted;
mod source;

pub use events::{EventInfo, Events};
pub use head::{FileHead, Head, Section};
pub use info::{Info, Note, Notes};
pub use reader::{Next, Reader};
pub use record::Record;
pub use sample::{Count, Counts, Registers, Sample, Words, more};
pub use sorted::{Limits, Sorted};

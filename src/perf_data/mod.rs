//! The perf.data format, read and written: what stock perf reads, and what perf cannot read any more.
//!
//! Pure over [`std::io`]: nothing here needs BPF, a kernel or Linux. A file holds records verbatim, in the byte
//! order of the machine that wrote it; what they mean is told by the attributes before them, and by `format` texts
//! that travel in the file ([`crate::schema::tracefs`], [`crate::schema::format`]).
//!
//! ```text
//!   file   magic │ sections: attributes, data, features │ ids │ attributes │ data: records │ feature table │ features
//!   pipe   magic │ HEADER_ATTR … │ HEADER_FEATURE … │ TRACING_DATA │ records
//! ```
//!
//! **Invariants.** No unsafe code. No bytes make it panic, hang, or allocate more than the input's size justifies.
//! Nothing here decodes an event: a sample's raw bytes are handed on as they lie.

mod attr;
mod endian;
pub mod feature;
pub mod kind;
pub mod read;
pub mod records;
pub mod rewrite;
mod tracing_data;
pub mod write;

pub use attr::{Attr, flag};
pub use endian::{Endian, Fields};
pub use feature::Feature;
pub use tracing_data::{System, TracingData};

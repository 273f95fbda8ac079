//! perf.data, written: a file that is sought in, or a pipe that is not.
//!
//! In come what is known at the start ([`Opening`]: events, features, format texts) and then records as they lie;
//! out goes what stock perf reads, in either byte order.
//!
//! ```text
//!   file   header │ ids │ attributes │ prologue │ data: records │ feature table │ features that came later
//!   pipe   header │ HEADER_ATTR … │ prologue │ EVENT_UPDATE … │ records
//!
//!   prologue = HEADER_FEATURE … │ TRACING_DATA
//! ```
//!
//! A file's feature table stands behind its data, so that of a recording that was cut short has none. Its prologue
//! is there: while the header's data section has size 0, its unused `event_types` section says where the prologue
//! lies, and it reads as the beginning of a pipe does. Once finished, the feature table points into it.
//!
//! **Invariants.** What perf cannot take is not written: no feature above 31, no kind of record above 81, no mark of
//! the last feature, no attributes larger than 128 bytes.

mod compress;
mod file;
mod opening;
mod pipe;

pub use compress::Compressor;
pub use file::{FileWriter, Layout};
pub use opening::Opening;
pub use pipe::PipeWriter;

//! One record as bytes: its header, its body in one or two pieces, and what a sample carries.
//!
//! In come bytes as they lie in a ring or a file; out come borrowed views of them. Nothing is copied.
//!
//! ```text
//!   position      +8                                    +header.size
//!   │ header      │ body                                │ next header
//!   ├─────────────┼─────────────────────┊───────────────┤
//!                   first               ┊ second         ┊ = the end of the ring's data; at any
//!                                                          8-byte boundary, or nowhere
//! ```
//!
//! **Invariants.** No unsafe code and no allocation. No input panics: what cannot be is `None`. Nothing here
//! knows of rings, events or the kernel's state; a u64 is read by copy, since raw data begins at 4 mod 8
//! within its record and so is misaligned, and may itself go round the end of the data.

mod body;
mod format;
mod header;
mod lost;
mod sample;

pub use body::Body;
pub use format::{SampleFormat, SampleId, sample_type};
pub use header::{Header, kind};
pub use lost::{Lost, LostSamples};
pub use sample::Sample;

/// One record: its header and the bytes after it, borrowed from where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// `struct perf_event_header`.
    pub header: Header,
    /// Everything after the header: `header.size - 8` bytes.
    pub body: Body<'a>,
}

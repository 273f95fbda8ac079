//! The tests that need no privilege, one crate of them.
//!
//! - `sink_outlet`: bytes to pipes, terminals, sockets and files that are slow, stuck, full or gone
//! - `sink_text`: the text form, line by line

mod sink_fixture;
mod sink_outlet;
mod sink_text;

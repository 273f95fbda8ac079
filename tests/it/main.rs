//! The tests that need no privilege, one crate of them.
//!
//! - `event_decode`: raw bytes by their schema, wrapped anywhere or too short
//! - `sink_escape`: strings of any bytes, made fit for a terminal and for JSON, and had back
//! - `sink_json`: NDJSON against golden lines
//! - `sink_outlet`: bytes to pipes, terminals, sockets and files that are slow, stuck, full or gone
//! - `sink_raw`: the hexadecimal and raw forms, and the reader of the latter
//! - `sink_text`: the text form, column by column

mod event_decode;
mod sink_escape;
mod sink_fixture;
mod sink_json;
mod sink_outlet;
mod sink_raw;
mod sink_text;

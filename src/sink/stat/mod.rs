//! What was counted in the kernel, as text and as JSON.

mod histogram;
mod json;
mod text;

pub use json::Json;
pub use text::Text;

use crate::{
    record::Body,
    schema::{Field, Kind, Stack, Value, tally::Key},
};

/// The time that counts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Nanoseconds from its beginning to its end.
    pub length: u64,
    /// When it ended, in nanoseconds since the start.
    pub end: u64,
    /// It is the whole run, and not a part of it.
    pub whole: bool,
}

impl Span {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / (self.length as f64 / 1e9).max(1e-9)
    }
}

/// The bytes of a key that is a name or a stack, for a value to borrow.
fn bytes(key: &Key) -> Vec<u8> {
    match key {
        Key::Comm(comm) => comm[..comm.iter().position(|&b| b == 0).unwrap_or(comm.len())].to_vec(),
        Key::Stack { addresses, .. } => addresses.iter().flat_map(|a| a.to_ne_bytes()).collect(),
        _ => Vec::new(),
    }
}

/// A key as a value of its field; `bytes` are the key's.
fn value<'a>(field: &Field, key: &Key, bytes: &'a [u8]) -> Value<'a> {
    match (key, field.kind) {
        (Key::Comm(_), _) => Value::Text(Body::new(bytes)),
        (Key::Stack { process, .. }, _) => Value::Stack(Stack::new(Body::new(bytes), process.is_some())),
        (Key::Number(n), Kind::Signed(_)) => Value::Signed(*n as i64),
        (Key::Number(n), Kind::Bool) => Value::Bool(*n != 0),
        (Key::Number(n), Kind::Pointer) => Value::Pointer(*n),
        (Key::Number(n), Kind::BigEndian(2)) => Value::Unsigned(u16::from_be(*n as u16).into()),
        (Key::Number(n), Kind::BigEndian(4)) => Value::Unsigned(u32::from_be(*n as u32).into()),
        (Key::Number(n), Kind::BigEndian(_)) => Value::Unsigned(u64::from_be(*n)),
        (Key::Number(n), _) => Value::Unsigned(*n),
        _ => Value::Fault,
    }
}

/// The process that a key's addresses are of.
fn process(key: &Key) -> u32 {
    match key {
        Key::Stack { process: Some(tgid), .. } => *tgid,
        _ => 0,
    }
}

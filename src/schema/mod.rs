//! What an event's bytes mean: the one description that decoding, text, JSON and file formats share.
//!
//! In come the kernel's own types; out comes a list of fields with their place in the raw bytes.
//!
//! **Invariants.** No second table of fields anywhere: whoever prints, writes or decodes an event asks here.
//! A schema never changes once its probe is attached. Nothing here reads a ring or calls the kernel.

pub mod format;
mod shapes;
mod wire;

pub use shapes::{Shape, Shapes};
pub use wire::{Carries, LEVELS, Wire};

use crate::record::Body;

/// One kind of event: a probe and what its events carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The name of its events: what stood before `=` in the spec, else made from the target.
    pub name: String,
    /// The spec as the user typed it.
    pub spec: String,
    /// The fields after the common ones, in order.
    pub fields: Vec<Field>,
}

/// One field: its name and type in the kernel's words, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The parameter's or member's name.
    pub name: String,
    /// Its C type as the kernel declares it, for example `const char *`.
    pub type_name: String,
    /// How its bytes are read.
    pub kind: Kind,
    /// Its first byte, counted from the first raw byte; of a string or buffer, that of its slot.
    pub offset: u32,
    /// Where it may have been impossible to read: the slot of such bits, and its bit there.
    pub fault: Option<(u32, u8)>,
}

/// How a field's bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// A signed integer of 1, 2, 4 or 8 bytes.
    Signed(u8),
    /// A C `bool`, one byte.
    Bool,
    /// An address, 8 bytes, shown in hexadecimal.
    Pointer,
    /// An unsigned integer of 1, 2, 4 or 8 bytes, shown in hexadecimal.
    Hex(u8),
    /// An unsigned integer of 2, 4 or 8 bytes in network order.
    BigEndian(u8),
    /// A string: its slot holds its offset << 32 and its length, the NUL included where there is one.
    Text,
    /// Bytes: a slot as a string's.
    Bytes,
    /// A `char` array of this many bytes that stands in the event itself, up to its first NUL.
    Chars(u16),
    /// This many bytes that stand in the event itself.
    Inline(u16),
    /// All bytes from there on, the kernel's padding included: what nothing is known of.
    Rest,
    /// A bitfield: its first bit, counted from the field's first byte, how many it has, and whether it is signed.
    Bits {
        /// Below 8.
        first: u8,
        /// From 1 to 64.
        width: u8,
        /// Whether its highest bit is a sign.
        signed: bool,
    },
}

impl Kind {
    /// How many bytes a field of this kind takes.
    pub fn size(self) -> usize {
        match self {
            Kind::Unsigned(n) | Kind::Signed(n) | Kind::Hex(n) | Kind::BigEndian(n) => usize::from(n),
            Kind::Bool => 1,
            Kind::Pointer | Kind::Text | Kind::Bytes => 8,
            Kind::Chars(n) | Kind::Inline(n) => usize::from(n),
            Kind::Rest => 0,
            Kind::Bits { first, width, .. } => (usize::from(first) + usize::from(width)).div_ceil(8),
        }
    }

    /// Of how many bytes the integer is that it shows; 0 of strings and bytes.
    pub fn integer_size(self) -> usize {
        match self {
            Kind::Text | Kind::Bytes | Kind::Chars(_) | Kind::Inline(_) | Kind::Rest => 0,
            Kind::Bits { width, .. } => usize::from(width).div_ceil(8).next_power_of_two(),
            other => other.size(),
        }
    }
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A truth.
    Bool(bool),
    /// An address.
    Pointer(u64),
    /// A string without its NUL; any bytes.
    Text(Body<'a>),
    /// Bytes.
    Bytes(Body<'a>),
    /// It could not be read: a bad pointer on the way, or memory that was not there.
    Fault,
}

/// A field's value that outlives its event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnedValue {
    /// As [`Value::Unsigned`].
    Unsigned(u64),
    /// As [`Value::Signed`].
    Signed(i64),
    /// As [`Value::Bool`].
    Bool(bool),
    /// As [`Value::Pointer`].
    Pointer(u64),
    /// As [`Value::Text`].
    Text(Vec<u8>),
    /// As [`Value::Bytes`].
    Bytes(Vec<u8>),
    /// As [`Value::Fault`].
    Fault,
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> OwnedValue {
        match value {
            Value::Unsigned(n) => OwnedValue::Unsigned(n),
            Value::Signed(n) => OwnedValue::Signed(n),
            Value::Bool(b) => OwnedValue::Bool(b),
            Value::Pointer(p) => OwnedValue::Pointer(p),
            Value::Text(bytes) => OwnedValue::Text(bytes.to_contiguous().into_owned()),
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_contiguous().into_owned()),
            Value::Fault => OwnedValue::Fault,
        }
    }
}

//! What an event's bytes mean: the one description that decoding, text, JSON and file formats share.
//!
//! In come the kernel's own types; out comes a list of fields with their place in the raw bytes: a [`Kind`] says
//! how the bytes are read, a [`Show`] how people see the value.
//!
//! **Invariants.** No second table of fields anywhere: whoever prints, writes or decodes an event asks here.
//! A schema never changes once its probe is attached. Nothing here reads a ring or calls the kernel.

pub mod btf;
pub(crate) mod by_name;
mod constant;
pub mod errno;
pub mod format;
mod names;
pub mod print;
mod print_fmt;
mod shapes;
#[cfg(feature = "probe")]
pub(crate) mod shared;
mod show;
pub mod tally;
pub mod tracefs;
mod value;
mod wire;

pub use names::{Bits, Names};
pub use shapes::{Shape, Shapes};
pub use show::Show;
pub use value::{OwnedValue, Stack, Value};
pub use wire::{Carries, LEVELS, Wire};

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
    /// How its value is shown.
    pub show: Show,
    /// Its first byte, counted from the first raw byte; of a string or buffer, that of its slot.
    pub offset: u32,
    /// Where it may have been impossible to read: the slot of such bits, and its bit there.
    pub fault: Option<(u32, u8)>,
}

impl Field {
    /// A field that is shown as its kind says, and can always be read.
    pub fn new(name: &str, type_name: &str, kind: Kind, offset: u32) -> Field {
        let (name, type_name) = (name.to_owned(), type_name.to_owned());
        Field { name, type_name, kind, show: Show::Plain, offset, fault: None }
    }
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
    /// An address, 8 bytes.
    Pointer,
    /// An unsigned integer of 2, 4 or 8 bytes in network order.
    BigEndian(u8),
    /// A string: its slot holds its length << 16 and its offset, the NUL included where there is one, as a
    /// tracepoint's `__data_loc` does in the slot's low half.
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
    /// A stack: a slot as a string's, whose bytes are addresses of eight bytes, innermost first.
    Stack {
        /// Whether they are addresses of the process, and not of the kernel.
        user: bool,
    },
}

impl Kind {
    /// How many bytes a field of this kind takes.
    pub fn size(self) -> usize {
        match self {
            Kind::Unsigned(n) | Kind::Signed(n) | Kind::BigEndian(n) => usize::from(n),
            Kind::Bool => 1,
            Kind::Pointer | Kind::Text | Kind::Bytes | Kind::Stack { .. } => 8,
            Kind::Chars(n) | Kind::Inline(n) => usize::from(n),
            Kind::Rest => 0,
            Kind::Bits { first, width, .. } => (usize::from(first) + usize::from(width)).div_ceil(8),
        }
    }

    /// Of how many bytes the integer is that it shows; 0 of strings, bytes and stacks.
    pub fn integer_size(self) -> usize {
        match self {
            Kind::Text | Kind::Bytes | Kind::Chars(_) | Kind::Inline(_) | Kind::Rest | Kind::Stack { .. } => {
                0
            }
            Kind::Bits { width, .. } => usize::from(width).div_ceil(8).next_power_of_two(),
            other => other.size(),
        }
    }
}

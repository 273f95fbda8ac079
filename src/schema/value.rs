//! A field's value, borrowed from its event or outliving it.

use crate::record::Body;

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
    /// The calls that led here.
    Stack(Stack<'a>),
    /// It could not be read: a bad pointer on the way, or memory that was not there.
    Fault,
}

/// The addresses of a stack, innermost first: the place of the probe, then what each call returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    bytes: Body<'a>,
    /// Whether they are addresses of the process, and not of the kernel.
    pub user: bool,
}

impl<'a> Stack<'a> {
    /// The addresses that lie in these bytes, eight each; what is left over at the end is none.
    pub fn new(bytes: Body<'a>, user: bool) -> Stack<'a> {
        Stack { bytes, user }
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// True of a stack that could not be walked at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each address, innermost first.
    pub fn addresses(&self) -> impl DoubleEndedIterator<Item = u64> + 'a {
        let bytes = self.bytes;
        (0..self.len()).map(move |i| bytes.u64_at(8 * i).unwrap_or(0))
    }
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
    /// As [`Value::Stack`]: the addresses, innermost first.
    Stack(Vec<u64>),
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
            Value::Stack(stack) => OwnedValue::Stack(stack.addresses().collect()),
            Value::Fault => OwnedValue::Fault,
        }
    }
}

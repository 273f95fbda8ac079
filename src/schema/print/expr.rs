//! What stands in a print fmt: expressions over the fields of a tracepoint.

/// A field as the expressions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub name: String,
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
    /// Of an array, the bytes of an element.
    pub element: Option<usize>,
    /// Whether it is a `char` array or string.
    pub text: bool,
    pub pointer: bool,
    /// Whether its type is some `long`: such are shown in hexadecimal where nothing says otherwise.
    pub long: bool,
    pub dynamic: Option<Dynamic>,
}

/// What the offset in a dynamic field counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dynamic {
    /// The first raw byte: `__data_loc`.
    Start,
    /// The end of the field itself: `__rel_loc`.
    Field,
}

/// An expression. Fields are indices of the format's slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    Number(u64),
    Text(Vec<u8>),
    Field(usize),
    /// The bytes of a dynamic field.
    Array(usize),
    /// How many they are.
    ArrayLen(usize),
    /// A dynamic field as a string.
    Str(usize),
    Bitmask(usize),
    /// Cut to so many bits.
    Cast(u32, Box<Expr>),
    /// An element of so many bytes, or of the array's own.
    Index(Box<Expr>, Box<Expr>, Option<usize>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    Flags(Box<Expr>, Vec<u8>, Vec<(u64, Vec<u8>)>),
    Symbolic(Box<Expr>, Vec<(u64, Vec<u8>)>),
    /// Bytes in hexadecimal, with spaces or without.
    Hex(Box<Expr>, Box<Expr>, bool),
    /// An array of numbers: how many, and of how many bytes.
    Ints(Box<Expr>, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
    Invert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Left,
    Right,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// The operators with two characters first, each with how strongly it binds.
pub(super) const BINARY: [(&str, Binary, u8); 18] = [
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("==", Binary::Equal, 6),
    ("!=", Binary::Unequal, 6),
    ("<<", Binary::Left, 8),
    (">>", Binary::Right, 8),
    ("<=", Binary::LessEqual, 7),
    (">=", Binary::GreaterEqual, 7),
    ("|", Binary::BitOr, 3),
    ("^", Binary::BitXor, 4),
    ("&", Binary::BitAnd, 5),
    ("<", Binary::Less, 7),
    (">", Binary::Greater, 7),
    ("+", Binary::Plus, 9),
    ("-", Binary::Minus, 9),
    ("*", Binary::Times, 10),
    ("/", Binary::Divide, 10),
    ("%", Binary::Modulo, 10),
];

impl Unary {
    pub fn of(self, n: u64) -> u64 {
        match self {
            Unary::Minus => n.wrapping_neg(),
            Unary::Not => u64::from(n == 0),
            Unary::Invert => !n,
        }
    }
}

impl Binary {
    /// On numbers without a sign, as libtraceevent reckons. Nothing is divided by 0: that is 0.
    pub fn of(self, a: u64, b: u64) -> u64 {
        let shift = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        match self {
            Binary::Or => u64::from(a != 0 || b != 0),
            Binary::And => u64::from(a != 0 && b != 0),
            Binary::BitOr => a | b,
            Binary::BitXor => a ^ b,
            Binary::BitAnd => a & b,
            Binary::Equal => u64::from(a == b),
            Binary::Unequal => u64::from(a != b),
            Binary::Less => u64::from(a < b),
            Binary::LessEqual => u64::from(a <= b),
            Binary::Greater => u64::from(a > b),
            Binary::GreaterEqual => u64::from(a >= b),
            Binary::Left => a.checked_shl(shift(b)).unwrap_or(0),
            Binary::Right => a.checked_shr(shift(b)).unwrap_or(0),
            Binary::Plus => a.wrapping_add(b),
            Binary::Minus => a.wrapping_sub(b),
            Binary::Times => a.wrapping_mul(b),
            Binary::Divide => a.checked_div(b).unwrap_or(0),
            Binary::Modulo => a.checked_rem(b).unwrap_or(0),
        }
    }
}

//! What a field is compared with: numbers, times, strings, globs, characters and names.

use std::fmt;

/// A constant of a predicate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// An integer, from the least `i64` to the greatest `u64`.
    Int(i128),
    /// A time in nanoseconds, written with its unit: `10ms`.
    Duration(u64),
    /// A string, as the bytes it stands for.
    Str(Vec<u8>),
    /// A string with an unescaped `*` or `?`.
    Glob(Vec<Piece>),
    /// A character: `'a'`, `'\n'`, `'\x7f'`.
    Char(u8),
    /// A name that is resolved later: an enum's value, `ENOENT`, `true`.
    Name {
        /// It stood behind a `-`.
        minus: bool,
        /// The name.
        name: String,
    },
}

/// A place in a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// This byte.
    Byte(u8),
    /// `?`: any one byte.
    One,
    /// `*`: any bytes, or none.
    Any,
}

/// Units of time in nanoseconds, the largest first.
pub(super) const TIMES: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units of size.
pub(super) const SIZES: [(&str, u64); 3] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Int(value) => write!(f, "{value}"),
            Literal::Duration(ns) => {
                let unit = TIMES.iter().find(|(_, unit)| *ns >= *unit && ns % unit == 0);
                let (name, unit) = unit.unwrap_or(&("ns", 1));
                write!(f, "{}{name}", ns / unit)
            }
            Literal::Str(bytes) => {
                f.write_str("\"")?;
                show_bytes(f, bytes)?;
                f.write_str("\"")
            }
            Literal::Glob(pieces) => {
                f.write_str("\"")?;
                for run in pieces.chunk_by(|a, b| a.byte().is_some() && b.byte().is_some()) {
                    match run[0] {
                        Piece::One => f.write_str("?")?,
                        Piece::Any => f.write_str("*")?,
                        Piece::Byte(_) => {
                            let bytes: Vec<u8> = run.iter().filter_map(|piece| piece.byte()).collect();
                            show_bytes(f, &bytes)?;
                        }
                    }
                }
                f.write_str("\"")
            }
            Literal::Char(byte @ (b'\'' | b'\\')) => write!(f, "'\\{}'", char::from(*byte)),
            Literal::Char(byte @ b' '..=b'~') => write!(f, "'{}'", char::from(*byte)),
            Literal::Char(byte) => write!(f, "'\\x{byte:02x}'"),
            Literal::Name { minus, name } => write!(f, "{}{name}", if *minus { "-" } else { "" }),
        }
    }
}

impl Piece {
    fn byte(self) -> Option<u8> {
        match self {
            Piece::Byte(byte) => Some(byte),
            Piece::One | Piece::Any => None,
        }
    }
}

/// The inside of a string literal that stands for exactly these bytes.
fn show_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '"' | '\\' | '*' | '?' => write!(f, "\\{c}")?,
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    let bytes = c.encode_utf8(&mut utf8).bytes();
                    bytes.into_iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
                }
                c => write!(f, "{c}")?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

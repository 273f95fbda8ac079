//! BTF as the bytes that it is: one pass over all types at a few instructions each, where libbpf takes a call for
//! each type and each name.

use super::btf::Parts;
pub(super) use crate::schema::btf::kind;
use crate::schema::btf::words_behind;

/// `struct btf_type`, and the words that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    pub id: u32,
    /// Where its name lies in the strings.
    name: u32,
    /// Kind, number of parts, and a flag.
    pub info: u32,
    /// Its size or the type that it refers to.
    pub last: u32,
    more: &'a [u8],
}

impl<'a> Raw<'a> {
    pub fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    /// The words behind its head.
    pub fn more(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.more.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
    }

    /// Its name; empty where it has none.
    pub fn name(&self, strings: &'a [u8]) -> &'a [u8] {
        string(strings, self.name)
    }
}

/// The string at an offset, without its NUL; empty where there is none.
pub fn string(strings: &[u8], at: u32) -> &[u8] {
    let from = strings.get(at as usize..).unwrap_or_default();
    &from[..memchr::memchr(0, from).unwrap_or(0)]
}

/// All types in the order of their ids, up to one that is cut off or of a kind that nobody knows.
pub fn types<'a>(parts: &Parts<'a>) -> impl Iterator<Item = Raw<'a>> + use<'a> {
    let (mut rest, mut id) = (parts.types, 0);
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
        let (name, info, last) = (word(0)?, word(4)?, word(8)?);
        let words = words_behind(info)?;
        let end = 12 + 4 * words;
        let more = rest.get(12..end)?;
        rest = &rest[end..];
        id += 1;
        Some(Raw { id, name, info, last, more })
    })
}

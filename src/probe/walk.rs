//! BTF as the bytes that it is: one pass over all types at a few instructions each, where libbpf takes a call for
//! each type and each name.

use super::btf::Parts;

/// `BTF_KIND_*` of include/uapi/linux/btf.h.
pub mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

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
        let parts = (info & 0xffff) as usize;
        let words = match info >> 24 & 0x1f {
            kind::INT | kind::VAR | kind::DECL_TAG => 1,
            kind::ARRAY => 3,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 3 * parts,
            kind::ENUM | kind::FUNC_PROTO => 2 * parts,
            kind::PTR | kind::FWD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
            _ => return None,
        };
        let end = 12 + 4 * words;
        let more = rest.get(12..end)?;
        rest = &rest[end..];
        id += 1;
        Some(Raw { id, name, info, last, more })
    })
}

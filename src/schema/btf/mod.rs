//! BTF of any bytes, in either byte order: what a recording's programs called their types, without libbpf.
//!
//! ```text
//!   header │ types, one behind the other: name, kind, size or type, and words by kind │ strings
//! ```
//!
//! In come bytes as a file has them; out come structs by name and size, and their members as [`Field`]s
//! ([`Btf::fields`]), the same that `probe` makes of a user's object.
//!
//! **Invariants.** No bytes make it panic or hang, or take more memory than their size justifies: chains of types,
//! types within each other, members and steps are all bounded.

mod layout;

use super::Field;

/// `BTF_KIND_*` of include/uapi/linux/btf.h.
pub(crate) mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// The words behind the head of a type, or `None` of a kind that is not known.
pub(crate) fn words_behind(info: u32) -> Option<usize> {
    let parts = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        kind::INT | kind::VAR | kind::DECL_TAG => 1,
        kind::ARRAY => 3,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 3 * parts,
        kind::ENUM | kind::FUNC_PROTO => 2 * parts,
        kind::PTR | kind::FWD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

/// The first two bytes.
const MAGIC: u16 = 0xeb9f;

/// Types and their names.
#[derive(Clone, Debug)]
pub struct Btf<'a> {
    /// The numbers are in the other byte order.
    swapped: bool,
    /// By id; 0 is void, which stands in no file.
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

#[derive(Clone, Copy, Debug, Default)]
struct Type<'a> {
    name: u32,
    info: u32,
    /// Its size, or the type that it refers to.
    last: u32,
    more: &'a [u8],
}

impl Type<'_> {
    fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    /// A bit that means something else with each kind.
    fn flag(&self) -> bool {
        self.info >> 31 == 1
    }
}

/// A struct that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct<'a> {
    /// What it is called.
    pub name: &'a str,
    /// `sizeof` it.
    pub size: usize,
    id: u32,
}

impl<'a> Btf<'a> {
    /// Reads it: all types up to one that is cut off or of a kind that is not known; `None` of what is no BTF.
    pub fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        let magic = bytes.first_chunk::<2>()?;
        let swapped = match u16::from_ne_bytes(*magic) {
            MAGIC => false,
            other if other.swap_bytes() == MAGIC => true,
            _ => return None,
        };
        let mut btf = Btf { swapped, types: vec![Type::default()], strings: &[] };
        let number = |at: usize| usize::try_from(btf.word(bytes, at)?).ok();
        let body = bytes.get(number(4)?..)?;
        let part = |at: usize| {
            let (from, length) = (number(at)?, number(at + 4)?);
            body.get(from..from.checked_add(length)?)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        while let Some((found, behind)) = btf.one(rest) {
            btf.types.push(found);
            rest = behind;
        }
        btf.strings = strings;
        Some(btf)
    }

    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(if self.swapped { word.swap_bytes() } else { word })
    }

    fn one(&self, rest: &'a [u8]) -> Option<(Type<'a>, &'a [u8])> {
        let (name, info, last) = (self.word(rest, 0)?, self.word(rest, 4)?, self.word(rest, 8)?);
        let (more, behind) = rest[12..].split_at_checked(4 * words_behind(info)?)?;
        Some((Type { name, info, last, more }, behind))
    }

    fn ty(&self, id: u32) -> Option<&Type<'a>> {
        self.types.get(id as usize)
    }

    /// The string at an offset; empty where there is none.
    fn string(&self, at: u32) -> &'a str {
        let from = self.strings.get(at as usize..).unwrap_or_default();
        let end = from.iter().position(|b| *b == 0).unwrap_or(0);
        str::from_utf8(&from[..end]).unwrap_or_default()
    }

    /// Words of `COUNT` behind the head of a type, part by part.
    fn parts<const COUNT: usize>(
        &self,
        ty: &Type<'a>,
    ) -> impl Iterator<Item = [u32; COUNT]> + use<'a, COUNT> {
        let (swapped, more) = (self.swapped, ty.more);
        more.chunks_exact(4 * COUNT).map(move |part| {
            let mut words = [0; COUNT];
            for (word, four) in words.iter_mut().zip(part.chunks_exact(4)) {
                let read = u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
                *word = if swapped { read.swap_bytes() } else { read };
            }
            words
        })
    }

    /// The name of a type by its id; empty where it has none.
    pub fn name(&self, id: u32) -> &'a str {
        self.ty(id).map_or("", |ty| self.string(ty.name))
    }

    /// Every struct that has a name.
    pub fn structs(&self) -> impl Iterator<Item = Struct<'a>> + '_ {
        let all = (0u32..).zip(&self.types).filter(|(_, ty)| ty.kind() == kind::STRUCT);
        let named = all.map(|(id, ty)| Struct { name: self.string(ty.name), size: ty.last as usize, id });
        named.filter(|of| !of.name.is_empty())
    }

    /// The name of a function, by its type's number as `struct bpf_func_info` has it; `None` where there is no such
    /// function.
    pub fn function(&self, id: u32) -> Option<&'a str> {
        self.ty(id).filter(|ty| ty.kind() == kind::FUNC).map(|ty| self.string(ty.name))
    }

    /// The tags of variables: each variable's name, and the text.
    pub fn tags(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.types.iter().filter(|ty| ty.kind() == kind::DECL_TAG).filter_map(|tag| {
            let of = self.ty(tag.last).filter(|of| of.kind() == kind::VAR)?;
            Some((self.string(of.name), self.string(tag.name)))
        })
    }

    /// The members of a struct as fields, at their places in it. A member of a struct within has its path as its name,
    /// `a.b`, an element of an array its index, `a[2]`, unless they are numbers: those are one field. What is no
    /// number, truth, address, string or array of numbers is shown as bytes.
    ///
    /// # Errors
    ///
    /// Why it cannot be shown: too many members, more within each other than any program has, or no end of them.
    pub fn fields(&self, of: &Struct<'_>) -> Result<Vec<Field>, String> {
        layout::fields(self, of.id)
    }
}

#[cfg(test)]
mod tests;

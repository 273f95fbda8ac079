//! Types written as BTF: the one language in which the rest of the room reads types.

use std::collections::HashMap;

use crate::probe::btf;

/// `BTF_KIND_*` of include/uapi/linux/btf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Int = 1,
    Ptr = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Fwd = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Func = 12,
    FuncProto = 13,
    Float = 16,
    Enum64 = 19,
}

/// `BTF_INT_SIGNED` and `BTF_INT_BOOL`.
pub const SIGNED: u32 = 1 << 24;
pub const BOOL: u32 = 1 << 26;

/// The most bytes of names: what comes after has none.
const STRINGS: usize = 32 << 20;
/// The longest name.
const NAME: usize = 4096;
/// The most parts that one type has.
const PARTS: usize = u16::MAX as usize;
/// Bits of a bitfield's place: a structure with one is no larger.
const PLACE: u64 = 1 << 24;

/// A member of a structure or union.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub ty: u32,
    /// Its first bit.
    pub bit: u64,
    /// How many bits it has, if it is a bitfield.
    pub width: Option<u8>,
}

/// BTF in the making: types are numbered from 1 as they are added.
#[derive(Debug)]
pub struct Blob {
    types: Vec<u8>,
    strings: Vec<u8>,
    known: HashMap<String, u32>,
}

impl Blob {
    pub fn new() -> Blob {
        Blob { types: Vec::new(), strings: vec![0], known: HashMap::new() }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() || name.len() > NAME || name.contains('\0') {
            return 0;
        }
        if let Some(&at) = self.known.get(name) {
            return at;
        }
        if self.strings.len() + name.len() > STRINGS {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        self.known.insert(name.to_owned(), at);
        at
    }

    /// `struct btf_type`: what follows it tells its size or the type that it refers to, and how many parts it has.
    fn head(&mut self, name: &str, kind: Kind, flag: bool, parts: usize, last: u32) {
        let name = self.name(name);
        let info = u32::from(flag) << 31 | (kind as u32) << 24 | parts as u32;
        self.words(&[name, info, last]);
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    /// A number of so many bytes.
    pub fn int(&mut self, name: &str, bytes: u32, encoding: u32) {
        self.head(name, Kind::Int, false, 0, bytes);
        self.words(&[encoding | (8 * bytes).min(255)]);
    }

    /// What has a name and no parts: a floating-point number by its size, a declaration, or one that refers to another
    /// type.
    pub fn plain(&mut self, kind: Kind, name: &str, last: u32) {
        self.head(name, kind, false, 0, last);
    }

    pub fn array(&mut self, element: u32, count: u32) {
        self.head("", Kind::Array, false, 0, 0);
        self.words(&[element, 0, count]);
    }

    /// A structure or union. Members that BTF has no way to place are left out.
    pub fn composite(&mut self, kind: Kind, name: &str, bytes: u32, members: &[Member]) {
        let bitfields = members.iter().any(|m| m.width.is_some());
        let most = if bitfields { PLACE } else { 1 << 32 };
        let members: Vec<&Member> = members.iter().filter(|m| m.bit < most).take(PARTS).collect();
        self.head(name, kind, bitfields, members.len(), bytes);
        for member in members {
            let name = self.name(&member.name);
            self.words(&[name, member.ty, u32::from(member.width.unwrap_or(0)) << 24 | member.bit as u32]);
        }
    }

    pub fn enumeration(&mut self, name: &str, bytes: u32, values: &[(String, i128)]) {
        let signed = values.iter().any(|(_, value)| *value < 0);
        let values = &values[..values.len().min(PARTS)];
        let kind = if bytes > 4 { Kind::Enum64 } else { Kind::Enum };
        self.head(name, kind, signed, values.len(), bytes);
        for (name, value) in values {
            let (name, value) = (self.name(name), *value as u64);
            match kind {
                Kind::Enum64 => self.words(&[name, value as u32, (value >> 32) as u32]),
                _ => self.words(&[name, value as u32]),
            }
        }
    }

    /// What a function takes, by name and type, and what it returns: 0 for void.
    pub fn prototype(&mut self, ret: u32, params: &[(String, u32)]) {
        self.head("", Kind::FuncProto, false, params.len(), ret);
        for (name, ty) in params {
            let name = self.name(name);
            self.words(&[name, *ty]);
        }
    }

    /// All of it as a file has it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut whole = 0xeb9f_u16.to_ne_bytes().to_vec();
        whole.extend([1, 0]);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for number in [btf::HEADER as u32, 0, types, types, strings] {
            whole.extend(number.to_ne_bytes());
        }
        whole.extend(&self.types);
        whole.extend(&self.strings);
        whole
    }
}

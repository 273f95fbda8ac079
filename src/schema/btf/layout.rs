//! A struct's members as fields; what is done by libbpf for users' objects in `probe::foreign` is done here of bytes.

use super::{Btf, Type, kind};
use crate::schema::{Field, Kind, Names, Show, by_name};

/// The most fields of one struct.
const FIELDS: usize = 256;
/// Structs, unions and arrays within each other.
const DEPTH: usize = 16;
/// Types of one chain.
const CHAIN: usize = 64;
/// Arrays of more elements than these, that are no numbers, are shown as bytes.
const ELEMENTS: u32 = 16;
/// The most members and elements that are looked at for one struct: some may add no field.
const STEPS: usize = 1 << 14;

const DEEP: &str = "its members lie too deep within each other";

/// The fields of the struct of this id.
pub(super) fn fields(btf: &Btf<'_>, id: u32) -> Result<Vec<Field>, String> {
    let mut walk = Walk { btf, fields: Vec::new(), steps: STEPS };
    let whole = *btf.ty(id).ok_or("it is no struct")?;
    walk.members("", 0, &whole, DEPTH)?;
    Ok(walk.fields)
}

struct Walk<'b, 'a> {
    btf: &'b Btf<'a>,
    fields: Vec<Field>,
    steps: usize,
}

impl<'a> Walk<'_, 'a> {
    fn step(&mut self) -> Result<(), String> {
        self.steps = self.steps.checked_sub(1).ok_or("it has no end of members")?;
        Ok(())
    }

    fn push(
        &mut self,
        name: &str,
        type_name: String,
        (kind, show): (Kind, Show),
        offset: usize,
    ) -> Result<(), String> {
        if self.fields.len() == FIELDS {
            return Err(format!("it has more than {FIELDS} fields"));
        }
        let offset = u32::try_from(offset).map_err(|_| "it is larger than any event")?;
        self.fields.push(Field { name: name.to_owned(), type_name, kind, show, offset, fault: None });
        Ok(())
    }

    /// The members of a struct or union that begins at this bit.
    fn members(&mut self, path: &str, bit: usize, of: &Type<'a>, depth: usize) -> Result<(), String> {
        let depth = depth.checked_sub(1).ok_or(DEEP)?;
        for [name, ty, offset] in self.btf.parts::<3>(of) {
            self.step()?;
            let name = match (path, self.btf.string(name)) {
                ("", name) => name.to_owned(),
                (path, "") => path.to_owned(),
                (path, name) => format!("{path}.{name}"),
            };
            let (offset, width) = match of.flag() {
                true => (offset & 0xff_ffff, (offset >> 24) as u8),
                false => (offset, 0),
            };
            let bit = bit + offset as usize;
            match width {
                0 => self.value(&name, bit / 8, ty, depth)?,
                width => self.bits(&name, bit, width, ty)?,
            }
        }
        Ok(())
    }

    fn bits(&mut self, name: &str, bit: usize, width: u8, ty: u32) -> Result<(), String> {
        if width > 64 || name.is_empty() {
            return Ok(());
        }
        let (kind, show) = self.btf.scalar(ty).unwrap_or((Kind::Unsigned(8), Show::Plain));
        let signed = matches!(kind, Kind::Signed(_));
        let kind = Kind::Bits { first: (bit % 8) as u8, width, signed };
        self.push(name, format!("{}:{width}", self.btf.c_name(ty)), (kind, show), bit / 8)
    }

    fn value(&mut self, name: &str, at: usize, ty: u32, depth: usize) -> Result<(), String> {
        let depth = depth.checked_sub(1).ok_or(DEEP)?;
        let (id, bare) = self.btf.bare(ty).ok_or("a member has no type")?;
        let composite = matches!(bare.kind(), kind::STRUCT | kind::UNION);
        if composite
            && let Some((size, show)) = by_name::structure(self.btf.string(bare.name))
            && bare.last == u32::from(size)
        {
            return self.push(name, self.btf.c_name(ty), (Kind::Inline(size), show), at);
        }
        if composite {
            return self.members(name, 8 * at, &bare, depth);
        }
        if bare.kind() == kind::ARRAY {
            return self.elements(name, at, id, depth);
        }
        if let Some(how) = self.btf.scalar(ty) {
            return self.push(name, self.btf.c_name(ty), how, at);
        }
        let size = match bare.kind() {
            kind::INT => usize::from(self.btf.int(&bare).1).div_ceil(8),
            kind::FLOAT => bare.last as usize,
            _ => 0,
        };
        self.inline(name, self.btf.c_name(ty), Show::Plain, at, size)
    }

    /// Bytes of which nothing better is known.
    fn inline(
        &mut self,
        name: &str,
        type_name: String,
        show: Show,
        at: usize,
        size: usize,
    ) -> Result<(), String> {
        match u16::try_from(size) {
            Ok(0) => Err(format!("'{name}' is a {type_name}, which has no size")),
            Ok(size) => self.push(name, type_name, (Kind::Inline(size), show), at),
            Err(_) => Err(format!("'{name}' is larger than any event")),
        }
    }

    fn elements(&mut self, name: &str, at: usize, array: u32, depth: usize) -> Result<(), String> {
        let (element, count) = self.btf.array(array).ok_or("an array has no type")?;
        let type_name = self.btf.c_name(element);
        if count == 0 {
            return self.push(name, format!("{type_name}[]"), (Kind::Rest, Show::Plain), at);
        }
        let type_name = format!("{type_name}[{count}]");
        let size = self.btf.size_of(element, DEPTH).ok_or_else(|| format!("'{name}' is too large"))?;
        let whole = size.checked_mul(count as usize).filter(|n| u16::try_from(*n).is_ok());
        let whole = whole.ok_or_else(|| format!("'{name}' is larger than any event"))?;
        if self.btf.is_char(element) {
            return self.push(name, type_name, (Kind::Chars(whole as u16), Show::Plain), at);
        }
        let show = self.btf.elements(element);
        if show.is_some() || count > ELEMENTS || size == 1 {
            return self.inline(name, type_name, show.unwrap_or_default(), at, whole);
        }
        for i in 0..count as usize {
            self.step()?;
            self.value(&format!("{name}[{i}]"), at + i * size, element, depth)?;
        }
        Ok(())
    }
}

impl<'a> Btf<'a> {
    /// The types of a chain of typedefs and modifiers, what they stand for last; none where that is too far away.
    fn chain(&self, id: u32) -> impl Iterator<Item = (u32, Type<'a>)> + '_ {
        let next = |(_, ty): &(u32, Type<'a>)| match ty.kind() {
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                Some((ty.last, *self.ty(ty.last)?))
            }
            _ => None,
        };
        std::iter::successors(self.ty(id).map(|ty| (id, *ty)), next).take(CHAIN)
    }

    /// A type without typedefs and modifiers.
    fn bare(&self, id: u32) -> Option<(u32, Type<'a>)> {
        self.chain(id).last().filter(|(_, ty)| {
            !matches!(
                ty.kind(),
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG
            )
        })
    }

    /// How an integer is encoded, and its bits.
    fn int(&self, ty: &Type<'a>) -> (u32, u8) {
        let word = self.parts::<1>(ty).next().map_or(0, |[word]| word);
        (word >> 24 & 0xf, word as u8)
    }

    /// The type of an array's elements, and how many there are.
    fn array(&self, id: u32) -> Option<(u32, u32)> {
        let [element, _, count] = self.parts::<3>(self.ty(id)?).next()?;
        Some((element, count))
    }

    /// How an integer, an enum or an address is read and shown; `None` for what is more than a number.
    fn scalar(&self, id: u32) -> Option<(Kind, Show)> {
        const SIGNED: u32 = 1;
        const BOOL: u32 = 4;
        let (_, bare) = self.bare(id)?;
        let (kind, show) = match bare.kind() {
            kind::PTR | kind::FUNC | kind::FUNC_PROTO => (Kind::Pointer, Show::Plain),
            kind::INT => match self.int(&bare) {
                (BOOL, _) => (Kind::Bool, Show::Plain),
                (encoding, bits) => (sized(bits.into(), encoding == SIGNED)?, Show::Plain),
            },
            kind::ENUM => {
                let value = |n: u32| if bare.flag() { n as i32 as i64 as u64 } else { n.into() };
                let names = self.parts::<2>(&bare).map(|[name, n]| (value(n), self.string(name).into()));
                (sized(bare.last.checked_mul(8)?, bare.flag())?, Show::of_names(Names::new(names)))
            }
            kind::ENUM64 => {
                let value = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
                let parts = self.parts::<3>(&bare);
                let names = parts.map(|[name, low, high]| (value(low, high), self.string(name).into()));
                (sized(bare.last.checked_mul(8)?, bare.flag())?, Show::of_names(Names::new(names)))
            }
            _ => return None,
        };
        let typedefs = self.chain(id).filter(|(_, ty)| ty.kind() == kind::TYPEDEF);
        let mut said = typedefs.filter_map(|(_, ty)| by_name::typedef(self.string(ty.name), kind));
        Some(said.next().unwrap_or((kind, show)))
    }

    /// How an array's elements are shown where they are numbers of more than a byte.
    fn elements(&self, element: u32) -> Option<Show> {
        let (mut id, mut ty) = self.bare(element)?;
        for _ in 0..DEPTH {
            if ty.kind() != kind::ARRAY {
                break;
            }
            (id, ty) = self.bare(self.array(id)?.0)?;
        }
        match self.scalar(id)?.0 {
            Kind::Unsigned(width) if width > 1 => Some(Show::Array { width, signed: false }),
            Kind::Signed(width) => Some(Show::Array { width, signed: true }),
            _ => None,
        }
    }

    /// `char`, or `unsigned char` by that name: what typedefs like `u8` make of it are numbers.
    fn is_char(&self, id: u32) -> bool {
        let last = self
            .chain(id)
            .find(|(_, ty)| !matches!(ty.kind(), kind::CONST | kind::VOLATILE | kind::TYPE_TAG));
        last.is_some_and(|(_, ty)| {
            ty.kind() == kind::INT
                && self.int(&ty).1 == 8
                && matches!(self.string(ty.name), "char" | "unsigned char")
        })
    }

    /// Bytes of a value of this type.
    fn size_of(&self, id: u32, depth: usize) -> Option<usize> {
        let (id, bare) = self.bare(id)?;
        match bare.kind() {
            kind::PTR => Some(8),
            kind::ARRAY => {
                let (element, count) = self.array(id)?;
                (count as usize).checked_mul(self.size_of(element, depth.checked_sub(1)?)?)
            }
            kind::INT => Some(usize::from(self.int(&bare).1) / 8),
            kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 => Some(bare.last as usize),
            _ => None,
        }
    }

    /// The type as C has it.
    fn c_name(&self, id: u32) -> String {
        self.c_name_within(id, CHAIN)
    }

    fn c_name_within(&self, id: u32, depth: usize) -> String {
        let (Some(ty), Some(depth)) = (self.ty(id), depth.checked_sub(1)) else { return "(unknown)".into() };
        let inner = || match ty.last {
            0 => "void".to_owned(),
            to => self.c_name_within(to, depth),
        };
        let named = |word: &str| {
            let name = self.string(ty.name);
            format!("{word}{}", if name.is_empty() { "(anonymous)" } else { name })
        };
        match ty.kind() {
            0 => "void".into(),
            kind::PTR => {
                let to = inner();
                if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
            }
            kind::CONST => format!("const {}", inner()),
            kind::VOLATILE => format!("volatile {}", inner()),
            kind::RESTRICT | kind::TYPE_TAG => inner(),
            kind::STRUCT | kind::FWD => named("struct "),
            kind::UNION => named("union "),
            kind::ENUM | kind::ENUM64 => named("enum "),
            kind::FUNC_PROTO => "void (*)()".into(),
            _ => named(""),
        }
    }
}

fn sized(bits: u32, signed: bool) -> Option<Kind> {
    match (bits / 8, signed) {
        (bytes @ (1 | 2 | 4 | 8), false) => Some(Kind::Unsigned(bytes as u8)),
        (bytes @ (1 | 2 | 4 | 8), true) => Some(Kind::Signed(bytes as u8)),
        _ => None,
    }
}

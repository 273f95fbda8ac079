//! A struct of an object's BTF to the fields of a schema.
//!
//! Members keep their places; a member of a struct within has its path as its name, `a.b`, an element of an array
//! its index, `a[2]`, unless they are numbers: those are one field. What is no number, truth, address, string or array
//! of numbers is shown as bytes.

use libbpf_rs::btf::{
    Btf, BtfKind, BtfType, HasSize, TypeId,
    types::{Array, Composite, Float, Int, MemberAttr, Struct},
};

use super::super::{
    shape::{self, is_char, scalar, size_of},
    signature::c_name,
};
use crate::schema::{Field, Kind, Show};

/// The most fields of one struct.
const FIELDS: usize = 256;
/// Structs, unions and arrays within each other.
const DEPTH: usize = 16;
/// Types of one chain.
const CHAIN: usize = 64;
/// Arrays of more elements than these, that are no numbers, are shown as bytes.
const ELEMENTS: usize = 16;

/// The most members and elements that are looked at for one struct: some may add no field.
const STEPS: usize = 1 << 14;

/// Whether every chain of typedefs, modifiers and pointers ends: whoever follows one does not ask.
pub fn ends(btf: &Btf<'_>) -> bool {
    let all = btf.type_by_kind::<BtfType<'_>>();
    all.into_iter().all(|ty| std::iter::successors(Some(ty), link).take(CHAIN + 1).count() <= CHAIN)
}

/// The next type of a chain of typedefs, modifiers and pointers.
fn link<'a>(ty: &BtfType<'a>) -> Option<BtfType<'a>> {
    let follows = ty.is_mod() || matches!(ty.kind(), BtfKind::Typedef | BtfKind::Ptr);
    if follows { ty.next_type() } else { None }
}

/// The fields of a struct.
///
/// # Errors
///
/// Why it cannot be shown: too many members, or more within each other than any program has.
pub fn fields(btf: &Btf<'_>, of: &Struct<'_>) -> Result<Vec<Field>, String> {
    let mut walk = Walk { btf, fields: Vec::new(), steps: STEPS };
    let whole = Composite::try_from(**of).map_err(|_| "it is no struct")?;
    walk.members("", 0, &whole, DEPTH)?;
    Ok(walk.fields)
}

struct Walk<'b, 'a> {
    btf: &'b Btf<'a>,
    fields: Vec<Field>,
    steps: usize,
}

impl<'b> Walk<'b, '_> {
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
    fn members(&mut self, path: &str, bit: usize, of: &Composite<'b>, depth: usize) -> Result<(), String> {
        let depth = depth.checked_sub(1).ok_or("its members lie too deep within each other")?;
        for member in of.iter() {
            self.step()?;
            let name = member.name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let name = match (path, &*name) {
                ("", name) => name.to_owned(),
                (path, "") => path.to_owned(),
                (path, name) => format!("{path}.{name}"),
            };
            match member.attr {
                MemberAttr::Normal { offset } => {
                    let bit = bit + offset as usize;
                    self.value(&name, bit / 8, member.ty, depth)?;
                }
                MemberAttr::BitField { size, offset } => {
                    self.bits(&name, bit + offset as usize, size, member.ty)?;
                }
            }
        }
        Ok(())
    }

    fn bits(&mut self, name: &str, bit: usize, width: u8, ty: TypeId) -> Result<(), String> {
        if !(1..=64).contains(&width) || name.is_empty() {
            return Ok(());
        }
        let ty = self.named(ty)?;
        let (kind, show) = scalar(&ty).unwrap_or((Kind::Unsigned(8), Show::Plain));
        let signed = matches!(kind, Kind::Signed(_));
        let kind = Kind::Bits { first: (bit % 8) as u8, width, signed };
        self.push(name, format!("{}:{width}", c_name(&ty)), (kind, show), bit / 8)
    }

    fn named(&self, ty: TypeId) -> Result<BtfType<'b>, String> {
        self.btf.type_by_id(ty).ok_or_else(|| "a member has no type".to_owned())
    }

    fn value(&mut self, name: &str, at: usize, ty: TypeId, depth: usize) -> Result<(), String> {
        let depth = depth.checked_sub(1).ok_or("its members lie too deep within each other")?;
        let ty = self.named(ty)?;
        let bare = ty.skip_mods_and_typedefs();
        if let Some((size, show)) =
            shape::structure(&ty).filter(|(n, _)| size_of(&bare) == Some(usize::from(*n)))
        {
            return self.push(name, c_name(&ty), (Kind::Inline(size), show), at);
        }
        if let Ok(whole) = Composite::try_from(bare) {
            return self.members(name, 8 * at, &whole, depth);
        }
        if let Ok(array) = Array::try_from(bare) {
            return self.elements(name, at, &array, depth);
        }
        if let Some(how) = scalar(&ty) {
            return self.push(name, c_name(&ty), how, at);
        }
        let size = match bare.kind() {
            BtfKind::Int => Int::try_from(bare).map(|i| usize::from(i.bits).div_ceil(8)).unwrap_or(0),
            BtfKind::Float => Float::try_from(bare).map(|f| f.size()).unwrap_or(0),
            _ => 0,
        };
        self.inline(name, c_name(&ty), Show::Plain, at, size)
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

    fn elements(&mut self, name: &str, at: usize, array: &Array<'b>, depth: usize) -> Result<(), String> {
        let element = array.contained_type();
        let count = array.capacity();
        let shown = |of: &str| format!("{}[{of}]", c_name(&element));
        if count == 0 {
            return self.push(name, shown(""), (Kind::Rest, Show::Plain), at);
        }
        let type_name = shown(&count.to_string());
        let size = bounded_size(&element, DEPTH).ok_or_else(|| format!("'{name}' is too large"))?;
        let whole = size.checked_mul(count).filter(|n| u16::try_from(*n).is_ok());
        let whole = whole.ok_or_else(|| format!("'{name}' is larger than any event"))?;
        if is_char(&element) {
            return self.push(name, type_name, (Kind::Chars(whole as u16), Show::Plain), at);
        }
        let show = shape::elements(array);
        if show.is_some() || count > ELEMENTS || size == 1 {
            return self.inline(name, type_name, show.unwrap_or_default(), at, whole);
        }
        (0..count).try_for_each(|i| {
            self.step()?;
            self.value(&format!("{name}[{i}]"), at + i * size, element.type_id(), depth)
        })
    }
}

/// The size of a type whose arrays are not within each other without end.
fn bounded_size(ty: &BtfType<'_>, depth: usize) -> Option<usize> {
    let bare = ty.skip_mods_and_typedefs();
    match Array::try_from(bare) {
        Ok(array) => {
            array.capacity().checked_mul(bounded_size(&array.contained_type(), depth.checked_sub(1)?)?)
        }
        Err(_) => size_of(&bare),
    }
}

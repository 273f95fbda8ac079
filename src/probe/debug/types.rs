//! A function's types from DWARF to BTF: itself as type 1, what it takes and returns as type 2, then all that those
//! lead to, the nearest first.

use std::collections::{HashMap, VecDeque};

use gimli::{AttributeValue, constants as dw};

use super::{
    blob::{BOOL, Blob, Kind, Member, SIGNED},
    units::{At, Die, Units, unreadable},
};

/// The most types of one function: what lies beyond is not told.
const TYPES: usize = 1 << 16;
/// The most members and values of all of them.
const PARTS: usize = 1 << 20;
/// The most parameters that are looked at.
const PARAMS: usize = 64;
/// The most dimensions of an array.
const DIMENSIONS: usize = 8;

/// What is to be written as the next type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    /// An entry of the file, whole, or of a structure no more than its name.
    Entry { at: At, whole: bool },
    /// What is left of an array behind so many of its dimensions.
    Rest { at: At, whole: bool, dimension: usize },
    /// A pointer to an entry: what is passed by a hidden reference.
    Reference { at: At, whole: bool },
}

/// A function's types as BTF, and what that has no word for.
#[derive(Clone, Debug)]
pub struct Translated {
    pub blob: Vec<u8>,
    pub rust: bool,
    /// The caller passes a hidden address before all else, for what is returned.
    pub hidden: bool,
}

/// The types of a function; where not all of it is wanted, structures behind pointers have names alone. `casts` are
/// names of types that are wanted too.
pub fn translate(
    units: &Units,
    function: At,
    symbol: &str,
    whole: bool,
    casts: &[&str],
) -> Result<Translated, String> {
    let mut all =
        Translator { units, blob: Blob::new(), ids: HashMap::new(), queue: VecDeque::new(), parts: 0, whole };
    let die = units.die(function)?;
    if let Some(AttributeValue::CallingConvention(dw::DW_CC_nocall)) =
        die.attr_value(dw::DW_AT_calling_convention)
    {
        return Err("the compiler gave it a way of its own to take its parameters".to_owned());
    }
    let (ret, hidden) = match all.origin_value(function, &die, dw::DW_AT_type)? {
        Some(at) if all.by_reference(at)? => (all.id(Item::Reference { at, whole })?, true),
        Some(at) => (all.id(Item::Entry { at, whole: true })?, false),
        None => (0, false),
    };
    let mut params = Vec::new();
    units.children(function, |at, die| {
        if die.tag() == dw::DW_TAG_formal_parameter && params.len() < PARAMS {
            let mut name = all.origin_text(at, die)?;
            if name.is_empty() {
                name = format!("arg{}", params.len());
            }
            let ty = match all.origin_value(at, die, dw::DW_AT_type)? {
                Some(at) if all.by_reference(at)? => all.id(Item::Reference { at, whole })?,
                Some(at) => all.id(Item::Entry { at, whole: true })?,
                None => 0,
            };
            params.push((name, ty));
        }
        Ok(true)
    })?;
    for cast in casts {
        if let Some(at) = units.type_by_name(function.unit, cast)? {
            all.id(Item::Entry { at, whole: true })?;
        }
    }
    all.blob.plain(Kind::Func, symbol, 2);
    all.blob.prototype(ret, &params);
    while let Some(item) = all.queue.pop_front() {
        units.step()?;
        all.write(item)?;
    }
    let unit = units.unit(function.unit)?;
    let root = units.die(At { unit: function.unit, offset: unit.header.root_offset() })?;
    let rust =
        matches!(root.attr_value(dw::DW_AT_language), Some(AttributeValue::Language(dw::DW_LANG_Rust)));
    Ok(Translated { blob: all.blob.bytes(), rust, hidden })
}

struct Translator<'a> {
    units: &'a Units,
    blob: Blob,
    ids: HashMap<Item, u32>,
    queue: VecDeque<Item>,
    parts: usize,
    whole: bool,
}

impl Translator<'_> {
    /// The number that a type has or will have; 0, which is void, where there is no room for more.
    fn id(&mut self, item: Item) -> Result<u32, String> {
        if let Some(&id) = self.ids.get(&item) {
            return Ok(id);
        }
        if self.ids.len() == TYPES {
            return Ok(0);
        }
        // After the function and its prototype.
        let id = self.ids.len() as u32 + 3;
        self.ids.insert(item, id);
        self.queue.push_back(item);
        Ok(id)
    }

    /// The type that an entry refers to.
    fn to(&mut self, at: At, die: &Die, whole: bool) -> Result<u32, String> {
        match self.units.target(at.unit, die.attr_value(dw::DW_AT_type)) {
            Some(at) => self.id(Item::Entry { at, whole }),
            None => Ok(0),
        }
    }

    /// What an entry refers to, or the entry that it is an instance of.
    fn origin_value(&self, at: At, die: &Die, name: gimli::DwAt) -> Result<Option<At>, String> {
        if let Some(to) = self.units.target(at.unit, die.attr_value(name)) {
            return Ok(Some(to));
        }
        match self.origin(at, die) {
            Some(origin) => {
                let die = self.units.die(origin)?;
                match self.units.target(origin.unit, die.attr_value(name)) {
                    Some(to) => Ok(Some(to)),
                    // An instance of a definition of a declaration.
                    None => match self.origin(origin, &die) {
                        Some(last) => {
                            Ok(self.units.target(last.unit, self.units.die(last)?.attr_value(name)))
                        }
                        None => Ok(None),
                    },
                }
            }
            None => Ok(None),
        }
    }

    fn origin(&self, at: At, die: &Die) -> Option<At> {
        let value = |name| self.units.target(at.unit, die.attr_value(name));
        value(dw::DW_AT_abstract_origin).or_else(|| value(dw::DW_AT_specification))
    }

    fn origin_text(&self, at: At, die: &Die) -> Result<String, String> {
        let own = self.units.text(at.unit, die.attr_value(dw::DW_AT_name))?;
        match self.origin(at, die).filter(|_| own.is_empty()) {
            Some(origin) => {
                let die = self.units.die(origin)?;
                self.units.text(origin.unit, die.attr_value(dw::DW_AT_name))
            }
            None => Ok(own),
        }
    }

    /// Whether values of a type are passed by a reference that its source does not show, as C++ has it.
    fn by_reference(&self, mut at: At) -> Result<bool, String> {
        for _ in 0..DIMENSIONS {
            let die = self.units.die(at)?;
            match die.tag() {
                dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type => {
                    let Some(to) = self.units.target(at.unit, die.attr_value(dw::DW_AT_type)) else { break };
                    at = to;
                }
                _ => {
                    let how = die.attr_value(dw::DW_AT_calling_convention);
                    let reference = dw::DW_CC_pass_by_reference;
                    return Ok(how == Some(AttributeValue::CallingConvention(reference)));
                }
            }
        }
        Ok(false)
    }

    fn write(&mut self, item: Item) -> Result<(), String> {
        match item {
            Item::Reference { at, whole } => {
                let to = self.id(Item::Entry { at, whole })?;
                self.blob.plain(Kind::Ptr, "", to);
                Ok(())
            }
            Item::Rest { at, whole, dimension } => {
                let die = self.units.die(at)?;
                self.array(at, &die, whole, dimension)
            }
            Item::Entry { at, whole } => self.entry(at, whole),
        }
    }

    fn entry(&mut self, at: At, whole: bool) -> Result<(), String> {
        let die = self.units.die(at)?;
        let name = self.units.text(at.unit, die.attr_value(dw::DW_AT_name))?;
        let bytes = number(&die, dw::DW_AT_byte_size).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        match die.tag() {
            dw::DW_TAG_base_type => self.number(&die, &name, bytes),
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type
            | dw::DW_TAG_ptr_to_member_type => {
                let to = self.to(at, &die, whole && self.whole)?;
                self.blob.plain(Kind::Ptr, "", to);
            }
            dw::DW_TAG_typedef => self.named(Kind::Typedef, &name, at, &die, whole)?,
            dw::DW_TAG_const_type => self.named(Kind::Const, "", at, &die, whole)?,
            dw::DW_TAG_volatile_type => self.named(Kind::Volatile, "", at, &die, whole)?,
            // What C writes before a type, and what does not change how it lies in memory.
            dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type
            | dw::DW_TAG_immutable_type
            | dw::DW_TAG_packed_type => self.named(Kind::Restrict, "", at, &die, whole)?,
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.composite(at, &die, &name, bytes, whole)?;
            }
            dw::DW_TAG_enumeration_type => self.enumeration(at, &name, bytes)?,
            dw::DW_TAG_array_type => return self.array(at, &die, whole, 0),
            dw::DW_TAG_subroutine_type => self.blob.prototype(0, &[]),
            // `decltype(nullptr)`, Rust's `!`, and what this version does not know.
            _ => self.blob.plain(Kind::Fwd, &name, 0),
        }
        Ok(())
    }

    fn named(&mut self, kind: Kind, name: &str, at: At, die: &Die, whole: bool) -> Result<(), String> {
        let to = self.to(at, die, whole)?;
        self.blob.plain(kind, name, to);
        Ok(())
    }

    fn number(&mut self, die: &Die, name: &str, bytes: u32) {
        let encoding = match die.attr_value(dw::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => dw::DW_ATE_unsigned,
        };
        match encoding {
            dw::DW_ATE_float
            | dw::DW_ATE_complex_float
            | dw::DW_ATE_imaginary_float
            | dw::DW_ATE_decimal_float => {
                self.blob.plain(Kind::Float, name, bytes);
            }
            // Of no size that is one of a number: its bytes alone are known.
            _ if !matches!(bytes, 1 | 2 | 4 | 8 | 16) => self.blob.composite(Kind::Struct, name, bytes, &[]),
            dw::DW_ATE_boolean => self.blob.int(name, bytes, BOOL),
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => self.blob.int(name, bytes, SIGNED),
            _ => self.blob.int(name, bytes, 0),
        }
    }

    fn composite(&mut self, at: At, die: &Die, name: &str, bytes: u32, whole: bool) -> Result<(), String> {
        let kind = if die.tag() == dw::DW_TAG_union_type { Kind::Union } else { Kind::Struct };
        let (mut at, mut bytes) = (at, bytes);
        if die.has_attr(dw::DW_AT_declaration) {
            let elsewhere = match self.units.small && whole && !name.is_empty() {
                true => self.units.type_by_name(at.unit, name)?,
                false => None,
            };
            let found = elsewhere.map(|at| Ok::<_, String>((at, self.units.die(at)?))).transpose()?;
            match found.filter(|(_, found)| found.tag() == die.tag()) {
                Some((definition, found)) => {
                    at = definition;
                    bytes = number(&found, dw::DW_AT_byte_size).and_then(|n| n.try_into().ok()).unwrap_or(0);
                }
                None => {
                    self.blob.plain(Kind::Fwd, name, 0);
                    return Ok(());
                }
            }
        } else if !whole {
            self.blob.plain(Kind::Fwd, name, 0);
            return Ok(());
        }
        let mut members = Vec::new();
        let units = self.units;
        units.children(at, |child, die| {
            let member = match die.tag() {
                dw::DW_TAG_member | dw::DW_TAG_inheritance => self.member(child, die, bytes)?,
                _ => None,
            };
            if let Some(member) = member {
                self.parts += 1;
                members.push(member);
            }
            Ok(self.parts < PARTS)
        })?;
        self.blob.composite(kind, name, bytes, &members);
        Ok(())
    }

    /// A member; `None` for what lies in no value (a static one), or is placed by a calculation.
    fn member(&mut self, at: At, die: &Die, whole: u32) -> Result<Option<Member>, String> {
        if die.has_attr(dw::DW_AT_external) || die.has_attr(dw::DW_AT_declaration) {
            return Ok(None);
        }
        let width = number(die, dw::DW_AT_bit_size).and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 64);
        let Some(byte) = location(die) else { return Ok(None) };
        let bit = match (number(die, dw::DW_AT_data_bit_offset), number(die, dw::DW_AT_bit_offset), width) {
            (Some(bit), ..) => bit,
            // Before DWARF 4: from the highest bit of the storage unit.
            (None, Some(from_top), Some(width)) => {
                let unit = number(die, dw::DW_AT_byte_size).unwrap_or(u64::from(whole)).min(8);
                let low = (8 * unit).checked_sub(from_top).and_then(|n| n.checked_sub(u64::from(width)));
                let Some(low) = low else { return Ok(None) };
                byte.saturating_mul(8).saturating_add(low)
            }
            _ => byte.saturating_mul(8),
        };
        let name = match die.tag() {
            // Its members are the derived one's own.
            dw::DW_TAG_inheritance => String::new(),
            _ => self.units.text(at.unit, die.attr_value(dw::DW_AT_name))?,
        };
        Ok(Some(Member { name, ty: self.to(at, die, true)?, bit, width }))
    }

    fn enumeration(&mut self, at: At, name: &str, bytes: u32) -> Result<(), String> {
        let mut values = Vec::new();
        let units = self.units;
        units.children(at, |child, die| {
            if die.tag() == dw::DW_TAG_enumerator
                && let Some(value) = die.attr_value(dw::DW_AT_const_value)
            {
                let value = match value {
                    AttributeValue::Sdata(value) => Some(i128::from(value)),
                    other => other.udata_value().map(i128::from),
                };
                let name = units.text(child.unit, die.attr_value(dw::DW_AT_name))?;
                values.extend(value.map(|value| (name, value)));
                self.parts += 1;
            }
            Ok(self.parts < PARTS)
        })?;
        self.blob.enumeration(name, bytes, &values);
        Ok(())
    }

    /// An array from one of its dimensions on: BTF has arrays of arrays.
    fn array(&mut self, at: At, die: &Die, whole: bool, dimension: usize) -> Result<(), String> {
        let mut counts = Vec::new();
        self.units.children(at, |_, die| {
            if die.tag() == dw::DW_TAG_subrange_type {
                let bound = |name| number(die, name);
                let upper = || bound(dw::DW_AT_upper_bound).map(|n| n.wrapping_add(1));
                let count = bound(dw::DW_AT_count).or_else(upper);
                counts.push(count.and_then(|n| u32::try_from(n).ok()).unwrap_or(0));
            }
            Ok(counts.len() < DIMENSIONS)
        })?;
        let element = match dimension + 1 < counts.len() {
            true => self.id(Item::Rest { at, whole, dimension: dimension + 1 })?,
            false => self.to(at, die, whole)?,
        };
        self.blob.array(element, counts.get(dimension).copied().unwrap_or(0));
        Ok(())
    }
}

fn number(die: &Die, name: gimli::DwAt) -> Option<u64> {
    die.attr_value(name)?.udata_value()
}

/// The byte at which a member begins.
fn location(die: &Die) -> Option<u64> {
    match die.attr_value(dw::DW_AT_data_member_location) {
        None => Some(0),
        // DWARF 2 has it as a calculation of one step.
        Some(AttributeValue::Exprloc(expression)) => {
            let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 2, address_size: 8 };
            let mut steps = expression.operations(encoding);
            match (steps.next().map_err(unreadable).ok()?, steps.next().map_err(unreadable).ok()?) {
                (Some(gimli::Operation::PlusConstant { value }), None) => Some(value),
                _ => None,
            }
        }
        Some(value) => value.udata_value(),
    }
}

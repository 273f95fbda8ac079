//! Where a function's parameters are when it begins: the calling conventions of x86-64 and arm64.

use libbpf_rs::btf::{
    Btf, BtfKind, BtfType, HasSize, ReferencesType,
    types::{Array, Composite, Float, FuncProto, MemberAttr},
};

use crate::probe::{
    hook::Hook,
    shape::{scalar, size_of},
    signature::{Param, c_name},
};
use crate::schema::{Kind, Show};

/// How many types are looked at for what a structure of sixteen bytes is made of.
const LOOKS: usize = 256;
/// Registers of parameters that the machine has.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// What a function takes and gives.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Each parameter, and the number of its register or why it is in none.
    pub params: Vec<(Param, Result<u8, String>)>,
    /// What it returns, and why that is not at hand if it is not; `None` for void.
    pub ret: Option<(Param, Result<(), String>)>,
}

/// How a value is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// In so many registers, if there are so many left.
    Registers(usize),
    /// In none: in those of floating-point numbers, or on the stack.
    Elsewhere,
    /// In a way that the compiler of Rust is free to choose.
    Unsure,
}

/// What a prototype says of registers. `rust`: its structures have no layout of C's; `hidden`: the first register has
/// the place for what is returned.
pub fn taken(btf: &Btf<'static>, proto: &FuncProto<'_>, rust: bool, hidden: bool) -> Option<Taken> {
    let ret = proto.referenced_type();
    let void = ret.kind() == BtfKind::Void;
    let in_memory =
        !void && cfg!(target_arch = "x86_64") && size_of(&ret).is_some_and(|n| n > 16) && is_whole(&ret);
    let mut next = usize::from(in_memory || hidden);
    let mut unsure: Option<String> = None;
    let mut params = Vec::new();
    for (i, param) in proto.iter().enumerate() {
        let ty: BtfType<'_> = btf.type_by_id(param.ty)?;
        let name = param.name.and_then(|n| n.to_str()).map_or_else(|| format!("arg{i}"), str::to_owned);
        let class = class(btf, &ty, rust);
        let (param, value) = param_of(name.clone(), &ty);
        let place = match (class, &unsure) {
            (_, Some(before)) => Err(format!(
                "'{name}' comes after '{before}', which the compiler may put into more registers than one"
            )),
            (Class::Registers(n), None) if next + n > REGISTERS => {
                // On arm64 nothing that comes later is in a register either.
                next = if cfg!(target_arch = "x86_64") { next } else { REGISTERS };
                Err(format!("'{name}' is passed on the stack"))
            }
            (Class::Registers(n), None) => {
                let first = next;
                next += n;
                match value {
                    Ok(()) if first >= Hook::MAX_ARGS => {
                        Err(format!("'{name}' is in a register that is not at hand"))
                    }
                    Ok(()) => Ok(first as u8),
                    Err(why) => Err(why),
                }
            }
            (Class::Elsewhere | Class::Unsure, None) => {
                Err(value.err().unwrap_or_else(|| format!("'{name}' is in no register")))
            }
        };
        if class == Class::Unsure && unsure.is_none() {
            unsure = Some(name.clone());
        }
        params.push((param, place));
    }
    Some(Taken { params, ret: (!void).then(|| param_of("ret".into(), &ret)) })
}

/// A value of a type, and why it cannot be read if it cannot.
fn param_of(name: String, ty: &BtfType<'_>) -> (Param, Result<(), String>) {
    let value = scalar(ty).ok_or_else(|| {
        let (what, is) = (c_name(ty), ty.skip_mods_and_typedefs().kind());
        match is {
            BtfKind::Float => {
                format!(
                    "'{name}' is a '{what}': floating-point numbers are in registers that BPF cannot read"
                )
            }
            BtfKind::Int => format!("'{name}' is a '{what}': a number of more than eight bytes"),
            _ => format!("'{name}' is a '{what}' by value: only what a pointer leads to can be looked into"),
        }
    });
    let known = value.as_ref().map(|_| ()).map_err(String::clone);
    let (kind, show) = value.unwrap_or((Kind::Pointer, Show::Plain));
    (Param { name, type_name: c_name(ty), kind, show, ty: Some(ty.type_id()) }, known)
}

/// Whether it is made of parts.
fn is_whole(ty: &BtfType<'_>) -> bool {
    matches!(ty.skip_mods_and_typedefs().kind(), BtfKind::Struct | BtfKind::Union | BtfKind::Array)
}

fn class(btf: &Btf<'static>, ty: &BtfType<'_>, rust: bool) -> Class {
    let bare = ty.skip_mods_and_typedefs();
    match bare.kind() {
        BtfKind::Float => Class::Elsewhere,
        // Pairs begin at an even register there, which nothing here knows.
        BtfKind::Int if size_of(&bare) == Some(16) && cfg!(target_arch = "aarch64") => Class::Unsure,
        BtfKind::Int if size_of(&bare) == Some(16) => Class::Registers(2),
        BtfKind::Struct | BtfKind::Union | BtfKind::Array => structure(btf, &bare, rust),
        _ => Class::Registers(1),
    }
}

fn structure(btf: &Btf<'static>, ty: &BtfType<'_>, rust: bool) -> Class {
    let Some(size) = size_of(ty) else { return Class::Unsure };
    if size > 16 {
        // By its address, but on x86-64 in C: there a copy of it is on the stack.
        return if rust || cfg!(target_arch = "aarch64") { Class::Registers(1) } else { Class::Elsewhere };
    }
    let mut all = Leaves { btf, found: Vec::new(), looks: LOOKS };
    if all.add(ty, 0).is_none() {
        return Class::Unsure;
    }
    let leaves = all.found;
    let floats = leaves.iter().filter(|leaf| leaf.float).count();
    if rust {
        // Where all ways to pass it come to the same.
        return match leaves[..] {
            [] if size == 0 => Class::Registers(0),
            [one] if !one.float && one.size <= 8 => Class::Registers(1),
            [a, b] if floats == 0 && (a.size, b.size) == (8, 8) => Class::Registers(2),
            _ => Class::Unsure,
        };
    }
    if cfg!(target_arch = "aarch64") {
        return match floats == leaves.len() && floats > 0 {
            true => Class::Elsewhere,
            false => Class::Registers(size.div_ceil(8)),
        };
    }
    // System V: an unaligned member puts all of it on the stack, and each eight bytes have a class.
    if leaves.iter().any(|leaf| leaf.size > 8) {
        return Class::Unsure;
    }
    if leaves.iter().any(|leaf| !leaf.at.is_multiple_of(leaf.size)) {
        return Class::Elsewhere;
    }
    let numbers = (0..size.div_ceil(8)).filter(|word| leaves.iter().any(|l| l.at / 8 == *word && !l.float));
    match numbers.count() {
        0 => Class::Elsewhere,
        n => Class::Registers(n),
    }
}

/// A number within a structure.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    at: usize,
    size: usize,
    float: bool,
}

/// The numbers that a small structure is made of.
struct Leaves<'b> {
    btf: &'b Btf<'static>,
    found: Vec<Leaf>,
    /// How many types may yet be looked at.
    looks: usize,
}

impl Leaves<'_> {
    /// Adds those of a type that begins at this byte; `None` where they are not known.
    fn add(&mut self, ty: &BtfType<'_>, at: usize) -> Option<()> {
        let bare = ty.skip_mods_and_typedefs();
        self.looks = self.looks.checked_sub(1)?;
        if let Ok(whole) = Composite::try_from(bare) {
            // Rust's enums with data are made of what BTF has no word for.
            if whole.is_empty() && whole.size() > 1 {
                return None;
            }
            for member in whole.iter() {
                match member.attr {
                    MemberAttr::Normal { offset } => {
                        self.add(&self.btf.type_by_id(member.ty)?, at + offset as usize / 8)?;
                    }
                    MemberAttr::BitField { offset, .. } => {
                        self.found.push(Leaf { at: at + offset as usize / 8, size: 1, float: false });
                    }
                }
            }
            return Some(());
        }
        if let Ok(array) = Array::try_from(bare) {
            let element = array.contained_type();
            let size = size_of(&element)?;
            return (0..array.capacity()).try_for_each(|i| self.add(&element, at + i * size));
        }
        let float = Float::try_from(bare).map(|float| float.size());
        let size = float.as_ref().map_or_else(|_| size_of(&bare), |size| Some(*size))?;
        self.found.push(Leaf { at, size: size.max(1), float: float.is_ok() });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::types::Func;

    use super::*;
    use crate::probe::{
        btf::{Blob as Bytes, Owner},
        debug::blob::{self, Blob, Member, SIGNED},
    };

    /// The registers of a function of these parameters: a long, a double, a structure of two ints, one of 32 bytes, one
    /// of a long and a double, one of two longs, and whatever is given beside.
    fn places(order: &[u32], rust: bool, hidden: bool, ret: u32) -> Vec<Option<u8>> {
        let mut b = Blob::new();
        b.int("long", 8, SIGNED);
        b.plain(blob::Kind::Float, "double", 8);
        b.int("int", 4, SIGNED);
        let member = |ty, bit| Member { name: format!("m{bit}"), ty, bit, width: None };
        b.composite(blob::Kind::Struct, "ints", 8, &[member(3, 0), member(3, 32)]);
        b.array(1, 4);
        b.composite(blob::Kind::Struct, "big", 32, &[member(5, 0)]);
        b.composite(blob::Kind::Struct, "mixed", 16, &[member(1, 0), member(2, 64)]);
        b.composite(blob::Kind::Struct, "longs", 16, &[member(1, 0), member(1, 64)]);
        let params: Vec<_> = order.iter().enumerate().map(|(i, ty)| (format!("p{i}"), *ty)).collect();
        b.plain(blob::Kind::Func, "f", 10);
        b.prototype(ret, &params);
        let owner = Owner::Program(std::sync::Arc::new(Bytes(b.bytes())));
        let taken = owner.ask(|btf| {
            let func: Func<'_> = btf.type_by_name("f")?;
            taken(btf, &func.referenced_type().try_into().ok()?, rust, hidden)
        });
        taken.unwrap().params.into_iter().map(|(_, place)| place.ok()).collect()
    }

    const LONG: u32 = 1;
    const DOUBLE: u32 = 2;
    const INTS: u32 = 4;
    const BIG: u32 = 6;
    const MIXED: u32 = 7;
    const LONGS: u32 = 8;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_of_system_v() {
        let c = |order: &[u32]| places(order, false, false, 0);
        assert_eq!(c(&[LONG, DOUBLE, LONG]), [Some(0), None, Some(1)]);
        assert_eq!(c(&[INTS, LONG, BIG, LONG]), [None, Some(1), None, Some(2)]);
        assert_eq!(c(&[MIXED, LONG, LONGS, LONG]), [None, Some(1), None, Some(4)]);
        // Two registers are not left for the structure, and the one that is serves what comes after.
        let all = [LONG, LONG, LONG, LONG, LONG, LONGS, LONG, LONG];
        assert_eq!(c(&all), [Some(0), Some(1), Some(2), Some(3), Some(4), None, Some(5), None]);
        assert_eq!(places(&[LONG], false, false, BIG), [Some(1)], "the place for what is returned");
        assert_eq!(places(&[LONG], false, true, LONG), [Some(1)]);
        assert_eq!(places(&[LONG], false, false, LONGS), [Some(0)]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_rust_is_free_to_choose_is_not_guessed() {
        let rust = |order: &[u32]| places(order, true, false, 0);
        assert_eq!(rust(&[LONGS, LONG, BIG, LONG]), [None, Some(2), None, Some(4)]);
        assert_eq!(rust(&[LONG, INTS, LONG]), [Some(0), None, None]);
    }
}

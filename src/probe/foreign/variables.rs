//! Global variables of a user's object, set by name before it is loaded.

use libbpf_rs::{
    OpenObject,
    btf::{
        Btf, BtfKind, BtfType, ReferencesType,
        types::{Array, DataSec, Enum, Enum64, Int, IntEncoding, Var},
    },
};

use super::super::{preflight::near, shape::is_char, signature::c_name, spec::Literal};

/// Where a variable lies.
struct Place<'b> {
    /// The name of its section, in which its map's name ends.
    section: String,
    offset: usize,
    size: usize,
    ty: BtfType<'b>,
}

/// Sets `name`; false where the object has no such variable.
///
/// # Errors
///
/// Why it cannot have this value.
pub fn set(open: &mut OpenObject, btf: &Btf<'_>, name: &str, value: &str) -> Result<bool, String> {
    let Some(place) = find(btf, name) else { return Ok(false) };
    let bytes = encode(&place.ty, place.size, value)?;
    let of_section = |name: &str| name.ends_with(&place.section);
    let mut maps = open.maps_mut();
    let map = maps.find(|m| m.name().to_str().is_some_and(of_section));
    let Some(mut map) = map else { return Err(format!("the object has no map for {}", place.section)) };
    let all = map.initial_value_mut().unwrap_or_default();
    match place.offset.checked_add(bytes.len()).and_then(|end| all.get_mut(place.offset..end)) {
        Some(to) => to.copy_from_slice(&bytes),
        None => return Err(format!("it does not lie within {}", place.section)),
    }
    Ok(true)
}

/// What there is instead of a variable that is not there.
pub fn others(btf: &Btf<'_>, name: &str) -> String {
    let all: Vec<String> = variables(btf).map(|(name, _)| name).collect();
    match all.is_empty() {
        true => "the object has no global variables".into(),
        false => format!("it has {}; {}", all.join(", "), near(name, all.clone(), str::to_owned)),
    }
}

fn find<'b>(btf: &'b Btf<'_>, name: &str) -> Option<Place<'b>> {
    variables(btf).find(|(n, _)| n == name).map(|(_, place)| place)
}

fn variables<'b>(btf: &'b Btf<'_>) -> impl Iterator<Item = (String, Place<'b>)> {
    let sections = btf.type_by_kind::<DataSec<'b>>().filter_map(|section| {
        let name = section.name()?.to_str()?.to_owned();
        matches!(&*name, ".rodata" | ".data" | ".bss").then_some((name, section))
    });
    sections.flat_map(move |(section, of)| {
        let all = of.iter().filter_map(|v| {
            let var: Var<'b> = btf.type_by_id(v.ty)?;
            let place = Place {
                section: section.clone(),
                offset: v.offset as usize,
                size: v.size,
                ty: var.referenced_type(),
            };
            Some((var.name()?.to_str()?.to_owned(), place))
        });
        all.collect::<Vec<_>>()
    })
}

/// A value's bytes by its type.
fn encode(ty: &BtfType<'_>, size: usize, value: &str) -> Result<Vec<u8>, String> {
    let bare = ty.skip_mods_and_typedefs();
    let number = || match value.parse::<Literal>() {
        Ok(Literal::Int(n)) => Ok(n),
        Ok(Literal::Duration(ns)) => Ok(i128::from(ns)),
        Ok(Literal::Char(c)) => Ok(i128::from(c)),
        _ => Err(format!("'{value}' is no number")),
    };
    match bare.kind() {
        BtfKind::Int => {
            let int = Int::try_from(bare).map_err(|_| "its type is not known")?;
            match int.encoding {
                IntEncoding::Bool => match value {
                    "true" | "1" => Ok(vec![1]),
                    "false" | "0" => Ok(vec![0]),
                    _ => Err(format!("'{value}' is neither true nor false")),
                },
                encoding => integer(number()?, size, matches!(encoding, IntEncoding::Signed), ty),
            }
        }
        BtfKind::Enum | BtfKind::Enum64 => {
            let (known, signed) = constants(bare);
            let named = known.iter().find(|(name, _)| name == value).map(|(_, n)| *n);
            let value = named.map_or_else(number, Ok).map_err(|_| {
                let names: Vec<String> = known.into_iter().map(|(name, _)| name).collect();
                format!("'{value}' is none of {}", names.join(", "))
            })?;
            integer(value, size, signed, ty)
        }
        BtfKind::Array => {
            let array = Array::try_from(bare).map_err(|_| "its type is not known")?;
            if !is_char(&array.contained_type()) {
                return Err("an array of other than char cannot be set".into());
            }
            let mut bytes = value.as_bytes().to_vec();
            if bytes.len() >= size {
                return Err(format!("{} bytes and a NUL do not fit into its {size}", bytes.len()));
            }
            bytes.resize(size, 0);
            Ok(bytes)
        }
        _ => Err(format!("a {} cannot be set: numbers, bool, enums and char arrays can", c_name(ty))),
    }
}

fn integer(value: i128, size: usize, signed: bool, ty: &BtfType<'_>) -> Result<Vec<u8>, String> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(format!("an integer of {size} bytes cannot be set"));
    }
    let bits = 8 * size as u32;
    let range = match signed {
        true => -(1 << (bits - 1))..=(1 << (bits - 1)) - 1,
        false => 0..=(1_i128 << bits) - 1,
    };
    if !range.contains(&value) {
        return Err(format!(
            "{value} is out of the range of {}: {} to {}",
            c_name(ty),
            range.start(),
            range.end()
        ));
    }
    let bytes = (value as u64).to_ne_bytes();
    Ok(if cfg!(target_endian = "little") { bytes[..size].to_vec() } else { bytes[8 - size..].to_vec() })
}

/// An enum's constants, and whether they have a sign.
fn constants(of: BtfType<'_>) -> (Vec<(String, i128)>, bool) {
    let name = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(of) = Enum::try_from(of) {
        let all = of.iter().map(|m| (name(m.name), i128::from(m.value)));
        return (all.collect(), of.is_signed());
    }
    let Ok(of) = Enum64::try_from(of) else { return (Vec::new(), false) };
    (of.iter().map(|m| (name(m.name), m.value)).collect(), of.is_signed())
}

//! Whether BTF that anybody may have written can be walked: no type holds itself, and none leads on for ever.

use crate::probe::btf::Parts;

/// How many types lead from one to what it is made of.
const DEEP: u32 = 64;
/// How many members a structure has with those of the ones in it.
const WIDE: u64 = 1 << 20;

/// What a type is made of, as far as it is walked without a step over a pointer.
#[derive(Debug, Default)]
struct Made {
    /// The one type that it refers to.
    chain: Option<u32>,
    /// The types that it holds.
    holds: Vec<u32>,
    /// How deep it goes and how many members it has in all, once that is known.
    known: Option<(u32, u64)>,
    /// It is being measured.
    open: bool,
}

/// Whether these bytes are BTF in which every walk ends, and soon. Sizes and references are libbpf's to check.
pub fn is_sound(bytes: &[u8]) -> bool {
    let Some(mut all) = Parts::of(bytes).and_then(|parts| read(parts.types)) else { return false };
    (0..all.len() as u32).all(|id| measure(&mut all, id, 0).is_some() && ends(&all, id))
}

fn read(mut types: &[u8]) -> Option<Vec<Made>> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    // Type 0 is void.
    let mut all = vec![Made::default()];
    while !types.is_empty() {
        let (info, last) = (word(types, 4)?, word(types, 8)?);
        let parts = (info & 0xffff) as usize;
        let (kind, body) = ((info >> 24) & 0x1f, types.get(12..)?);
        let mut made = Made::default();
        let size = match kind {
            // int, variable, declaration tag
            1 | 17 => 4,
            14 => {
                made.chain = Some(last);
                4
            }
            3 => {
                made.holds.push(word(body, 0)?);
                made.chain = Some(word(body, 0)?);
                12
            }
            4 | 5 => {
                for part in 0..parts {
                    made.holds.push(word(body, 12 * part + 4)?);
                }
                12 * parts
            }
            6 | 13 => 8 * parts,
            15 | 19 => 12 * parts,
            // typedef, volatile, const, restrict, type tag: what they name is walked through.
            8..=11 | 18 => {
                made.holds.push(last);
                made.chain = Some(last);
                0
            }
            // pointer, function
            2 | 12 => {
                made.chain = Some(last);
                0
            }
            7 | 16 => 0,
            _ => return None,
        };
        types = body.get(size..)?;
        all.push(made);
    }
    Some(all)
}

/// How deep a type goes and how many members it has, those of its members included.
fn measure(all: &mut [Made], id: u32, level: u32) -> Option<(u32, u64)> {
    let made = all.get_mut(id as usize)?;
    if made.known.is_some() {
        return made.known;
    }
    if level > DEEP || std::mem::replace(&mut made.open, true) {
        return None;
    }
    let holds = std::mem::take(&mut made.holds);
    let (mut deep, mut wide) = (0, holds.len() as u64);
    for part in holds {
        let (below, members) = measure(all, part, level + 1)?;
        deep = deep.max(below + 1);
        wide = wide.saturating_add(members);
    }
    all[id as usize].known = Some((deep, wide));
    (deep <= DEEP && wide <= WIDE).then_some((deep, wide))
}

/// Whether the types that one refers to come to an end.
fn ends(all: &[Made], id: u32) -> bool {
    let mut at = Some(id);
    for _ in 0..DEEP {
        let Some(id) = at else { return true };
        let Some(made) = all.get(id as usize) else { return false };
        at = made.chain;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::debug::blob::{Blob, Kind, Member};

    fn member(name: &str, ty: u32) -> Member {
        Member { name: name.into(), ty, bit: 0, width: None }
    }

    fn sound(build: impl FnOnce(&mut Blob)) -> bool {
        let mut blob = Blob::new();
        build(&mut blob);
        is_sound(&blob.bytes())
    }

    #[test]
    fn a_list_is_sound_and_a_snake_that_bites_its_tail_is_not() {
        assert!(sound(|b| {
            b.composite(Kind::Struct, "node", 8, &[member("next", 2)]);
            b.plain(Kind::Ptr, "", 1);
        }));
        assert!(!sound(|b| b.composite(Kind::Struct, "self", 8, &[member("me", 1)])));
        assert!(!sound(|b| b.plain(Kind::Typedef, "me", 1)));
        assert!(!sound(|b| b.plain(Kind::Ptr, "", 1)));
        assert!(!sound(|b| b.array(1, 2)));
        assert!(!sound(|b| {
            b.plain(Kind::Ptr, "", 2);
            b.plain(Kind::Const, "", 1);
        }));
        assert!(!sound(|b| b.plain(Kind::Ptr, "", 7)), "a type that is not there");
    }

    #[test]
    fn what_grows_without_bound_is_refused() {
        // Each holds two of the next.
        let doubling = |n: u32| {
            move |b: &mut Blob| {
                for i in 1..=n {
                    let next = if i == n { 0 } else { i + 1 };
                    b.composite(Kind::Struct, "", 8, &[member("", next), member("", next)]);
                }
            }
        };
        assert!(sound(doubling(8)) && !sound(doubling(40)));
        let chain = |n: u32| {
            move |b: &mut Blob| {
                (1..=n).for_each(|i| b.plain(Kind::Const, "", i + 1));
                b.int("int", 4, 0);
            }
        };
        assert!(sound(chain(20)) && !sound(chain(1000)));
    }

    #[test]
    fn what_ends_early_is_refused() {
        let mut blob = Blob::new();
        blob.composite(Kind::Struct, "s", 8, &[member("a", 0), member("b", 0)]);
        let whole = blob.bytes();
        assert!(is_sound(&whole));
        for cut in 0..whole.len() {
            assert!(!is_sound(&whole[..cut]), "{cut} bytes");
        }
    }
}

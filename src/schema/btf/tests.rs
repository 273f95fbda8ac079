//! Types by hand, and damaged ones.

use super::*;
use crate::schema::{Kind, Show};

/// BTF of these types and strings, in one of the byte orders.
fn blob(types: &[u32], strings: &[u8], swapped: bool) -> Vec<u8> {
    let word = |n: u32| if swapped { n.swap_bytes() } else { n }.to_ne_bytes();
    let magic = if swapped { MAGIC.swap_bytes() } else { MAGIC };
    let mut bytes = magic.to_ne_bytes().to_vec();
    bytes.extend([1, 0]);
    let lengths = [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
    lengths.iter().chain(types).for_each(|n| bytes.extend(word(*n)));
    bytes.extend(strings);
    bytes
}

const STRINGS: &[u8] = b"\0int\0char\0s\0a\0text\0row\0b\0evt\0event:struct s\0bits\0";

fn at(name: &str) -> u32 {
    let text = [b"\0", name.as_bytes(), b"\0"].concat();
    STRINGS.windows(text.len()).position(|w| w == text).unwrap() as u32 + 1
}

/// `struct s { int a; char text[5]; int row[2]; int b: 3; struct { … } }`, and a variable with a tag.
fn types() -> Vec<u32> {
    let head = |name: u32, kind: u32, parts: u32, flag: u32, last: u32| {
        [name, flag << 31 | kind << 24 | parts, last]
    };
    let mut all: Vec<u32> = Vec::new();
    all.extend(head(at("int"), kind::INT, 0, 0, 4));
    all.push(1 << 24 | 32);
    all.extend(head(at("char"), kind::INT, 0, 0, 1));
    all.push(8);
    all.extend(head(0, kind::ARRAY, 0, 0, 0));
    all.extend([2, 1, 5]);
    all.extend(head(0, kind::ARRAY, 0, 0, 0));
    all.extend([1, 1, 2]);
    all.extend(head(at("s"), kind::STRUCT, 4, 1, 24));
    all.extend([at("a"), 1, 0, at("text"), 3, 32, at("row"), 4, 96, at("bits"), 1, 3 << 24 | 163]);
    all.extend(head(at("evt"), kind::VAR, 0, 0, 5));
    all.push(1);
    all.extend(head(at("event:struct s"), kind::DECL_TAG, 0, 0, 6));
    all.push(u32::MAX);
    all
}

#[test]
fn members_are_fields_in_either_byte_order() {
    for swapped in [false, true] {
        let bytes = blob(&types(), STRINGS, swapped);
        let btf = Btf::parse(&bytes).unwrap();
        let all: Vec<_> = btf.structs().collect();
        assert_eq!((all.len(), all[0].name, all[0].size), (1, "s", 24));
        assert_eq!(btf.tags().collect::<Vec<_>>(), [("evt", "event:struct s")]);
        let fields = btf.fields(&all[0]).unwrap();
        let told: Vec<_> = fields.iter().map(|f| (&*f.name, &*f.type_name, f.kind, f.offset)).collect();
        assert_eq!(
            told,
            [
                ("a", "int", Kind::Signed(4), 0),
                ("text", "char[5]", Kind::Chars(5), 4),
                ("row", "int[2]", Kind::Inline(8), 12),
                ("bits", "int:3", Kind::Bits { first: 3, width: 3, signed: true }, 20),
            ]
        );
        assert_eq!(fields[2].show, Show::Array { width: 4, signed: true });
    }
}

#[test]
fn any_damage_is_no_more_than_other_fields() {
    let whole = blob(&types(), STRINGS, false);
    let mut seen = 0;
    for cut in 0..=whole.len() {
        seen += look(&whole[..cut]);
    }
    for at in 0..whole.len() {
        for flip in 1..=255 {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            seen += look(&bytes);
        }
    }
    assert!(seen > 10_000, "{seen} structs");
}

/// How many structs there are, once all is looked at.
fn look(bytes: &[u8]) -> usize {
    let Some(btf) = Btf::parse(bytes) else { return 0 };
    let all: Vec<_> = btf.structs().map(|of| btf.fields(&of).map_or(0, |fields| fields.len())).collect();
    assert!(all.iter().all(|fields| *fields <= 256));
    btf.tags().for_each(drop);
    all.len()
}

#[test]
fn what_has_no_end_is_refused() {
    let head = |kind: u32, parts: u32, last: u32| [at("s"), kind << 24 | parts, last];
    // A struct within itself; a typedef of itself; an array of itself.
    let own = [&head(kind::STRUCT, 1, 4)[..], &[at("a"), 1, 0]].concat();
    let typedef = [&head(kind::STRUCT, 1, 4)[..], &[at("a"), 2, 0], &head(kind::TYPEDEF, 0, 2)].concat();
    let array =
        [&head(kind::STRUCT, 1, 4)[..], &[at("a"), 2, 0], &head(kind::ARRAY, 0, 0), &[2, 2, 16]].concat();
    // Sixteen of sixteen of sixteen … of nothing.
    let mut empty = [&head(kind::STRUCT, 1, 4)[..], &[at("a"), 3, 0], &head(kind::STRUCT, 0, 0)].concat();
    for i in 0..14 {
        empty.extend(head(kind::ARRAY, 0, 0));
        empty.extend([if i == 13 { 2 } else { 4 + i }, 2, 16]);
    }
    for types in [own, typedef, array, empty] {
        let bytes = blob(&types, STRINGS, false);
        let btf = Btf::parse(&bytes).unwrap();
        let of = btf.structs().next().unwrap();
        assert!(btf.fields(&of).is_err(), "{types:?}");
    }
}

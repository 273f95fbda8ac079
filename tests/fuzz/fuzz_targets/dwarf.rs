//! Debug info that was damaged anywhere: an error, or a schema of what a function takes; no panic, and an end.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tracer::probe;

/// Where the function is.
const ADDRESS: u64 = 0x1000;

/// The abbreviations: a tag, whether it has children, and names and forms of attributes.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x13, 0x0b, 0x11, 0x01, 0x12, 0x06, 0, 0, // unit: language, low and high address
    2, 0x24, 0, 0x03, 0x08, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0, // base type: name, encoding, size
    3, 0x0f, 0, 0x49, 0x13, 0, 0, // pointer
    4, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // structure: name, size
    5, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0, // member: name, type, place
    6, 0x01, 1, 0x49, 0x13, 0, 0, // array
    7, 0x21, 0, 0x2f, 0x0b, 0, 0, // its upper bound
    8, 0x16, 0, 0x03, 0x08, 0x49, 0x13, 0, 0, // typedef
    9, 0x04, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // enum: name, size
    10, 0x28, 0, 0x03, 0x08, 0x1c, 0x0d, 0, 0, // value
    11, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0x49, 0x13, 0,
    0, // function: name, addresses, type
    12, 0x05, 0, 0x03, 0x08, 0x49, 0x13, 0, 0, // parameter
    0,
];

/// `long f(struct s *p, enum e k)` with `struct s { t n; t *a[4]; struct s *next; }` and `typedef int t`.
fn info() -> Vec<u8> {
    let mut all = vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0x0c];
    all.extend(ADDRESS.to_le_bytes());
    all.extend(64_u32.to_le_bytes());
    let mut places = Vec::new();
    let mut add = |all: &mut Vec<u8>, bytes: &[u8], ty: Option<usize>, rest: &[u8]| {
        places.push(all.len() as u32);
        all.extend(bytes);
        all.extend(ty.into_iter().flat_map(|ty| places.get(ty).copied().unwrap_or(0).to_le_bytes()));
        all.extend(rest);
    };
    add(&mut all, b"\x02int\0\x05\x04", None, b"");
    add(&mut all, b"\x08t\0", Some(0), b"");
    add(&mut all, b"\x03", Some(1), b"");
    add(&mut all, b"\x06", Some(2), b"\x07\x03\0");
    let structure = all.len() as u32;
    add(&mut all, b"\x04s\0\x30", None, b"");
    add(&mut all, b"\x05n\0", Some(1), b"\0");
    add(&mut all, b"\x05a\0", Some(3), b"\x08");
    all.extend(b"\x05next\0");
    let next = all.len();
    all.extend([0, 0, 0, 0, 0x28, 0]);
    add(&mut all, b"\x03", Some(4), b"");
    let pointer = all.len() as u32 - 5;
    all[next..next + 4].copy_from_slice(&pointer.to_le_bytes());
    assert!(structure < pointer);
    add(&mut all, b"\x09e\0\x04", None, b"\x0aA\0\x01\x0aB\0\x7f\0");
    add(&mut all, b"\x02long\0\x05\x08", None, b"");
    all.extend(b"\x0bf\0");
    all.extend(ADDRESS.to_le_bytes());
    all.extend(64_u32.to_le_bytes());
    add(&mut all, b"", Some(9), b"");
    add(&mut all, b"\x0cp\0", Some(7), b"");
    add(&mut all, b"\x0ck\0", Some(8), b"\0\0");
    let length = all.len() as u32 - 4;
    all[..4].copy_from_slice(&length.to_le_bytes());
    all
}

/// A program of these sections, beside a symbol for the function.
fn program(abbreviations: &[u8], info: &[u8]) -> Vec<u8> {
    let mut symbols = vec![0; 24];
    symbols.extend(1_u32.to_le_bytes());
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend(ADDRESS.to_le_bytes());
    symbols.extend(64_u64.to_le_bytes());
    let names = b"\0.debug_abbrev\0.debug_info\0.symtab\0.strtab\0";
    // Name, type, link and size of an entry, bytes.
    let sections: [(u32, u32, u32, u64, &[u8]); 6] = [
        (0, 0, 0, 0, b""),
        (1, 1, 0, 0, abbreviations),
        (15, 1, 0, 0, info),
        (27, 2, 4, 24, &symbols),
        (35, 3, 0, 0, b"\0f\0"),
        (35, 3, 0, 0, names),
    ];
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let (machine, kind) = (if cfg!(target_arch = "x86_64") { 62_u16 } else { 183 }, 3_u16);
    file.extend([kind.to_le_bytes(), machine.to_le_bytes()].concat());
    file.extend(1_u32.to_le_bytes());
    file.extend([0; 16]);
    file.extend(64_u64.to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 6, 0, 5, 0]);
    let mut at = 64 + 64 * sections.len() as u64;
    for (name, kind, link, entry, bytes) in sections {
        file.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
        file.extend([0, 0, at, bytes.len() as u64].map(u64::to_le_bytes).concat());
        file.extend([link.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        file.extend([1, entry].map(u64::to_le_bytes).concat());
        at += bytes.len() as u64;
    }
    sections.iter().for_each(|(.., bytes)| file.extend(*bytes));
    file
}

/// What is asked of the whole program; `None` where that is refused.
fn asked(abbreviations: &[u8], info: &[u8], fields: &str) -> Option<usize> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&program(abbreviations, info)).expect("written");
    let spec: probe::Spec = format!("u:{}:f{fields}", file.path().display()).parse().expect("a spec");
    let schemas = probe::find(&spec).and_then(|found| found.schemas()).ok()?;
    Some(schemas[0].fields.len())
}

fuzz_target!(init: {
    let fields = "{p.n,p.a[1],p.next.next.n,k}";
    assert_eq!(asked(ABBREVIATIONS, &info(), fields), Some(4), "what is whole is understood");
    assert_eq!(asked(ABBREVIATIONS, &info(), ""), Some(2));
}, |bytes: &[u8]| {
    let (mut abbreviations, mut info) = (ABBREVIATIONS.to_vec(), info());
    // Each three bytes are a place and what is put there, and what is left is added at the end.
    let changes = bytes.first().map_or(0, |n| usize::from(n % 32));
    let rest = bytes.get(1..).unwrap_or_default();
    let (changes, more) = rest.split_at(rest.len().min(3 * changes));
    info.extend(more);
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let whole = abbreviations.len() + info.len();
        match at % whole {
            at if at < abbreviations.len() => abbreviations[at] = change[2],
            at => info[at - abbreviations.len()] = change[2],
        }
    }
    asked(&abbreviations, &info, "{p.n,p.a[1],p.next.next.n,k}");
    asked(&abbreviations, &info, "");
});

//! The USDT probes of a program, from its notes: names, and what its arguments are.
//!
//! ```text
//! section .note.stapsdt: one note a site, each part at a multiple of four
//!   u32 namesz = 8, u32 descsz, u32 type = 3, "stapsdt\0"
//!   u64 pc, u64 base, u64 semaphore, "PROVIDER\0", "NAME\0", "-4@%edi 8@-8(%rbp)\0"
//! ```

use std::{collections::BTreeSet, fs, path::Path};

use super::signature::Param;
use crate::schema::Kind;

/// One site of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whose probe it is.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Its arguments: how many bytes each has, and whether it has a sign.
    pub args: Vec<(u8, bool)>,
}

/// Every site of every probe of a program.
///
/// # Errors
///
/// Why there is none to be had: the file cannot be read, or is no 64-bit ELF file of this machine's byte order.
pub fn notes(path: &Path) -> Result<Vec<Note>, String> {
    let bytes = fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let class = u8::from(cfg!(target_endian = "big")) + 1;
    if bytes.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, class]) {
        return Err(format!("{} is no 64-bit ELF file of this machine", path.display()));
    }
    Ok(section(&bytes, ".note.stapsdt").map(parse).unwrap_or_default())
}

/// The parameters of a probe whose sites are `notes`: where they differ, the wider type.
pub fn params(notes: &[&Note]) -> Vec<Param> {
    let count = notes.iter().map(|n| n.args.len()).max().unwrap_or(0);
    let wider = |i: usize| notes.iter().filter_map(|n| n.args.get(i)).max().copied().unwrap_or((8, false));
    let param = |i: usize| {
        let (size, signed) = wider(i);
        let kind = if signed { Kind::Signed(size) } else { Kind::Unsigned(size) };
        let type_name = format!("{}{}", if signed { "s" } else { "u" }, 8 * u32::from(size));
        Param { name: format!("arg{i}"), type_name, kind, ty: None }
    };
    (0..count).map(param).collect()
}

/// `PROVIDER:NAME` of every probe, once.
pub fn names(notes: &[Note]) -> BTreeSet<String> {
    notes.iter().map(|n| format!("{}:{}", n.provider, n.name)).collect()
}

/// The bytes of a section by its name; `None` where there is none, or the file is cut off.
fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    // Elf64_Ehdr: e_shoff at 40, e_shentsize, e_shnum and e_shstrndx from 58 on.
    let table = word(file, 40)?;
    let (size, count, names) = (half(file, 58)?, half(file, 60)?, half(file, 62)?);
    let header = |i: u16| {
        let at = usize::try_from(table).ok()?.checked_add(usize::from(i) * usize::from(size))?;
        file.get(at..at.checked_add(64)?)
    };
    let body = |header: &[u8]| {
        // Elf64_Shdr: sh_offset at 24, sh_size after it.
        let (at, len) = (usize::try_from(word(header, 24)?).ok()?, usize::try_from(word(header, 32)?).ok()?);
        file.get(at..at.checked_add(len)?)
    };
    let names = body(header(names)?)?;
    let called = |header: &[u8]| {
        let rest = names.get(u32_at(header, 0)? as usize..)?;
        rest.strip_prefix(name.as_bytes())?.first().filter(|b| **b == 0).copied()
    };
    (0..count).filter_map(header).find(|h| called(h).is_some()).and_then(body)
}

/// The notes of a section; what is none of ours is passed over, and what is cut off ends it.
fn parse(mut rest: &[u8]) -> Vec<Note> {
    let mut notes = Vec::new();
    while let (Some(name_size), Some(size)) = (u32_at(rest, 0), u32_at(rest, 4)) {
        let padded = |n: u32| (n as usize).checked_next_multiple_of(4);
        let (Some(name_end), Some(size)) = (padded(name_size).and_then(|n| n.checked_add(12)), padded(size))
        else {
            break;
        };
        let end = name_end.checked_add(size);
        let Some((note, after)) = end.and_then(|end| rest.split_at_checked(end)) else { break };
        let kind = u32_at(note, 8);
        if kind == Some(3) && note.get(12..20) == Some(b"stapsdt\0") {
            notes.extend(description(&note[name_end..]));
        }
        rest = after;
    }
    notes
}

fn description(bytes: &[u8]) -> Option<Note> {
    let mut texts =
        bytes.get(24..)?.split(|b| *b == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name, args) = (texts.next()?, texts.next()?, texts.next()?);
    Some(Note { provider, name, args: args.split_whitespace().filter_map(argument).collect() })
}

/// `-4@%edi`; what has no `@` behind its size is the rest of the argument before.
fn argument(word: &str) -> Option<(u8, bool)> {
    let size = word.split_once('@')?.0;
    let bytes: u8 = size.trim_start_matches('-').parse().ok()?;
    matches!(bytes, 1 | 2 | 4 | 8).then(|| (bytes, size.starts_with('-')))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, owner: &[u8; 8], texts: &str) -> Vec<u8> {
        let mut desc = vec![0; 24];
        desc.extend(texts.as_bytes());
        let mut bytes: Vec<u8> =
            [8, desc.len() as u32, kind].into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend(owner);
        bytes.extend(&desc);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn notes_are_read_and_others_passed_over() {
        let bytes = [
            note(3, b"stapsdt\0", "libc\0setjmp\08@%rdi -4@%esi 8@[sp, 16]\0"),
            note(1, b"GNU\0\0\0\0\0", "x\0y\0z\0"),
            note(3, b"stapsdt\0", "py\0line\0\0"),
        ]
        .concat();
        let seen = parse(&bytes);
        let args = vec![(8, false), (4, true), (8, false)];
        let first = Note { provider: "libc".into(), name: "setjmp".into(), args };
        let second = Note { provider: "py".into(), name: "line".into(), args: vec![] };
        assert_eq!(seen, [first.clone(), second]);
        let kinds: Vec<_> = params(&[&first]).into_iter().map(|p| (p.name, p.kind)).collect();
        assert_eq!(kinds[1], ("arg1".to_owned(), Kind::Signed(4)));
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).len() < 2, "cut off at {end}");
        }
    }

    #[test]
    fn no_file_panics() {
        let me = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(section(&me, ".text").is_some_and(|text| !text.is_empty()));
        assert!(section(&me, ".tex").is_none());
        for end in (0..me.len().min(70)).chain((0..me.len()).step_by(me.len() / 50 + 1)) {
            let _ = section(&me[..end], ".text");
        }
        let mut head = me[..64].to_vec();
        for at in 40..64 {
            head[at] = 0xff;
            assert!(section(&head, ".text").is_none());
        }
    }
}

//! What can be probed in a program or library: its functions, and the probes that its authors put into it.

use std::{fs, path::Path};

use object::{
    Endian, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SymbolKind,
    elf::{SHT_DYNSYM, SHT_SYMTAB},
    read::elf::{ElfFile, FileHeader, SectionHeader},
};

use crate::{Error, ErrorKind, Result};

/// A USDT probe, as a note of the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whose it is.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where its arguments are, in the words of the note: `-4@%edi 8@16(%rsp)`.
    pub args: String,
}

/// The functions that a file defines, sorted, each once.
///
/// # Errors
///
/// A file that cannot be read, or is no ELF file.
pub fn functions(path: &Path) -> Result<Vec<String>> {
    with(path, |_, file| {
        let all = file.symbols().chain(file.dynamic_symbols());
        let functions = all.filter(|s| s.kind() == SymbolKind::Text && s.is_definition());
        let mut names: Vec<String> =
            functions.filter_map(|s| s.name().ok()).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    })
}

/// The USDT probes of a file, sorted, each once though it may stand at several places.
///
/// # Errors
///
/// As [`functions`].
pub fn notes(path: &Path) -> Result<Vec<Note>> {
    let mut found = sites(path)?;
    found.dedup_by(|a, b| (&a.provider, &a.name) == (&b.provider, &b.name));
    Ok(found)
}

/// The same, once for each place: their arguments may differ.
///
/// # Errors
///
/// As [`functions`].
pub fn sites(path: &Path) -> Result<Vec<Note>> {
    with(path, |_, file| {
        let section = file.section_by_name(".note.stapsdt");
        let data = section.and_then(|s| s.data().ok()).unwrap_or_default();
        let mut found = parse(data, if file.is_64() { 8 } else { 4 }, file.endianness());
        found.sort_by(|a, b| (&a.provider, &a.name).cmp(&(&b.provider, &b.name)));
        found
    })
}

/// Checks what libbpf takes for granted when it looks for a symbol: it divides by the size of a table's entries
/// (`elf_sym_iter_new`, src/elf.c).
///
/// # Errors
///
/// As [`functions`]; a table of symbols whose entries have no size.
pub fn check(path: &Path) -> Result<()> {
    let sound = with(path, |_, file| match file {
        object::File::Elf32(file) => symbols_have_sizes(file),
        object::File::Elf64(file) => symbols_have_sizes(file),
        _ => false,
    })?;
    match sound {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Attach,
            format!("{}: the ELF file is damaged: symbols of no size", path.display()),
        )),
    }
}

fn symbols_have_sizes<'d, H: FileHeader, R: ReadRef<'d>>(file: &ElfFile<'d, H, R>) -> bool {
    let endian = file.endian();
    file.elf_section_table().iter().all(|section| {
        let symbols = matches!(section.sh_type(endian), SHT_SYMTAB | SHT_DYNSYM);
        !symbols || section.sh_entsize(endian).into() > 0
    })
}

/// The code of a function, and whether it is of x86 and of how many bits; `None` where the file does not have it, or
/// its code is of another machine.
pub fn x86_code(path: &Path, symbol: &str) -> Result<Option<(Vec<u8>, u32)>> {
    with(path, |_, file| {
        let bits = match file.architecture() {
            object::Architecture::X86_64 => 64,
            object::Architecture::I386 => 32,
            _ => return None,
        };
        let mut all = file.symbols().chain(file.dynamic_symbols());
        let found = all.find(|s| s.is_definition() && s.name() == Ok(symbol))?;
        let section = file.section_by_index(found.section_index()?).ok()?;
        let at = usize::try_from(found.address().checked_sub(section.address())?).ok()?;
        let code = section.data().ok()?.get(at..)?;
        // A symbol written in assembly may tell no size.
        let len = usize::try_from(found.size()).ok().filter(|len| (1..=code.len()).contains(len));
        Some((code[..len.unwrap_or(code.len())].to_vec(), bits))
    })
}

/// A file that is read as far as it is asked for.
pub(super) type Cached<'a> = object::File<'a, &'a ReadCache<fs::File>>;

/// Asks a file, which is open for whoever reads it himself too.
pub(super) fn with<R>(path: &Path, ask: impl FnOnce(&fs::File, &Cached<'_>) -> R) -> Result<R> {
    let cannot = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::caused(ErrorKind::Attach, format!("reading the symbols of {}", path.display()), e)
    };
    // To open a FIFO is to wait for somebody to write to it.
    if !fs::metadata(path).map_err(|e| cannot(e.into()))?.is_file() {
        return Err(cannot("it is no regular file".into()));
    }
    let handle = fs::File::open(path).map_err(|e| cannot(e.into()))?;
    let cache = ReadCache::new(handle.try_clone().map_err(|e| cannot(e.into()))?);
    let file = object::File::parse(&cache).map_err(|e| {
        cannot(e.into()).with_help("a program or a library is wanted; a script's interpreter is one")
    })?;
    Ok(ask(&handle, &file))
}

/// The notes of a section: sizes of name and description, a type, the two padded to four bytes. The description is
/// three addresses and three strings (SystemTap's `sys/sdt.h`).
fn parse(mut data: &[u8], address: usize, endian: object::Endianness) -> Vec<Note> {
    const TYPE: u32 = 3;
    let mut notes = Vec::new();
    while let Some((head, rest)) = data.split_first_chunk::<12>() {
        let number = |at: usize| endian.read_u32([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name, description, kind) = (number(0) as usize, number(4) as usize, number(8));
        let padded = |n: usize| n.saturating_add(3) & !3;
        let Some((owner, rest)) = rest.split_at_checked(padded(name)) else { break };
        let Some(said) = rest.get(..description) else { break };
        if kind == TYPE && owner.starts_with(b"stapsdt\0") {
            let texts = said.get(3 * address..).unwrap_or_default();
            let mut texts = texts.split(|b| *b == 0).map(|t| String::from_utf8_lossy(t).into_owned());
            if let (Some(provider), Some(name), Some(args)) = (texts.next(), texts.next(), texts.next()) {
                notes.push(Note { provider, name, args });
            }
        }
        data = rest.get(padded(description)..).unwrap_or_default();
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, owner: &str, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in [owner.len() as u32, description.len() as u32, kind] {
            bytes.extend(n.to_ne_bytes());
        }
        for part in [owner.as_bytes(), description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn notes_of_a_section() {
        let description = [&[0; 24][..], b"libc\0setjmp\08@%rdi -4@%esi\0"].concat();
        let mine = Note { provider: "libc".into(), name: "setjmp".into(), args: "8@%rdi -4@%esi".into() };
        let all = [note(1, "GNU\0", b"abc"), note(3, "stapsdt\0", &description), note(3, "stapsdt\0", b"ab")];
        let all = all.concat();
        let endian = object::NativeEndian.is_big_endian();
        let endian = if endian { object::Endianness::Big } else { object::Endianness::Little };
        assert_eq!(parse(&all, 8, endian), std::slice::from_ref(&mine));
        // A section that ends early has no note that it has not whole.
        for cut in 0..all.len() {
            let whole = parse(&all[..cut], 8, endian).iter().all(|n| *n == mine);
            assert!(whole, "{cut} bytes");
        }
    }

    #[test]
    fn this_programs_own_functions() {
        let me = std::env::current_exe().unwrap();
        assert!(functions(&me).unwrap().iter().any(|n| n == "main"));
        let error = functions(Path::new("/proc/self/status")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Attach);
        assert!(functions(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file"));
    }
}

//! A program's file: where its functions are, and its debug info, in itself or beside it.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use gimli::{Dwarf, EndianReader, NativeEndian, SectionId};
use object::{Architecture, CompressionFormat, Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::units::Units;
use crate::probe::elf;

/// The most bytes of debug info that are read of one file.
const MOST: u64 = 1 << 30;
/// Where packages of debug info put it.
const DEBUG: &str = "/usr/lib/debug";
/// How to get it.
pub const WAY_OUT: &str = "compile it with -g, or install the package of its debug info";

/// What describes the types of a program.
#[derive(Debug)]
pub enum Types {
    /// DWARF.
    Units(Box<Units>),
    /// A section of BTF.
    Btf(Vec<u8>),
}

/// A program or library that was looked at.
#[derive(Debug)]
pub struct Opened {
    /// The address of each of its functions, by name.
    pub functions: HashMap<String, u64>,
    /// What is known of its types, or why nothing is.
    pub types: Result<Types, String>,
}

impl Opened {
    /// Looks at a file.
    pub fn new(path: &Path) -> Result<Opened, String> {
        let looked = elf::with(path, |file, elf| {
            let native =
                if cfg!(target_arch = "x86_64") { Architecture::X86_64 } else { Architecture::Aarch64 };
            if !elf.is_64() || elf.architecture() != native || elf.endianness() != NATIVE {
                return Err(format!("{} is of another kind of machine", path.display()));
            }
            Ok(Opened { functions: functions(elf), types: types(path, file, elf) })
        });
        looked.map_err(|e| e.to_string())?
    }
}

const NATIVE: object::Endianness =
    if cfg!(target_endian = "big") { object::Endianness::Big } else { object::Endianness::Little };

/// Of functions of one name the one that others see.
fn functions(elf: &elf::Cached<'_>) -> HashMap<String, u64> {
    let mut found: HashMap<String, (bool, u64)> = HashMap::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        if let Ok(name) = symbol.name() {
            let this = (symbol.is_global(), symbol.address());
            let known = found.entry(name.to_owned()).or_insert(this);
            if this.0 && !known.0 {
                *known = this;
            }
        }
    }
    found.into_iter().map(|(name, (_, address))| (name, address)).collect()
}

fn types(path: &Path, file: &File, elf: &elf::Cached<'_>) -> Result<Types, String> {
    if elf.section_by_name(".debug_info").is_some() {
        return dwarf(file, elf).map(|units| Types::Units(Box::new(units)));
    }
    if let Some(section) = elf.section_by_name(".BTF") {
        return bytes(file, &section, &mut 0).map(Types::Btf);
    }
    let id = elf.build_id().ok().flatten();
    for beside in id.map(|id| beside(path, id, elf)).unwrap_or_default() {
        let found = elf::with(&beside, |file, other| {
            // What has the name alone may be of another build.
            let same =
                other.build_id().ok().flatten() == id && other.section_by_name(".debug_info").is_some();
            same.then(|| dwarf(file, other))
        });
        if let Ok(Some(units)) = found {
            return units.map(|units| Types::Units(Box::new(units)));
        }
    }
    Err(format!("{} has no debug info: {WAY_OUT}", path.display()))
}

/// Where debug info of this build may lie.
fn beside(path: &Path, id: &[u8], elf: &elf::Cached<'_>) -> Vec<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut places = Vec::new();
    if let Some((first, rest)) = hex.split_at_checked(2) {
        places.push(PathBuf::from(format!("{DEBUG}/.build-id/{first}/{rest}.debug")));
    }
    let link = elf.gnu_debuglink().ok().flatten().and_then(|(name, _)| std::str::from_utf8(name).ok());
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let (Some(name), Some(folder)) = (link.filter(|name| !name.contains('/')), whole.parent()) {
        let within = folder.strip_prefix("/").unwrap_or(folder);
        places.extend([folder.join(name), folder.join(".debug").join(name)]);
        places.push(Path::new(DEBUG).join(within).join(name));
    }
    places.retain(|place| *place != whole);
    places
}

fn dwarf(file: &File, elf: &elf::Cached<'_>) -> Result<Units, String> {
    let (mut read, mut info) = (0, 0);
    let dwarf = Dwarf::load(|id| {
        use SectionId as S;
        let wanted = matches!(
            id,
            S::DebugAbbrev
                | S::DebugAddr
                | S::DebugInfo
                | S::DebugLine
                | S::DebugLineStr
                | S::DebugRanges
                | S::DebugRngLists
                | S::DebugStr
                | S::DebugStrOffsets
        );
        let section = elf.section_by_name(id.name()).filter(|_| wanted);
        let bytes = section.map(|section| bytes(file, &section, &mut read)).transpose()?.unwrap_or_default();
        if id == S::DebugInfo {
            info = bytes.len();
        }
        Ok::<_, String>(EndianReader::new(Rc::from(bytes), NativeEndian))
    })?;
    Units::new(dwarf, info)
}

/// A section's bytes as they were before anybody compressed them.
fn bytes<'d>(file: &File, section: &impl ObjectSection<'d>, read: &mut u64) -> Result<Vec<u8>, String> {
    let name = section.name().unwrap_or("?").to_owned();
    let cannot = |why: &dyn std::fmt::Display| format!("its section {name} cannot be read: {why}");
    let place = section.compressed_file_range().map_err(|e| cannot(&e))?;
    let length = file.metadata().map_err(|e| cannot(&e))?.len();
    if place.offset.checked_add(place.compressed_size).is_none_or(|end| end > length) {
        return Err(cannot(&"it lies beyond the end of the file"));
    }
    *read = read.saturating_add(place.uncompressed_size).saturating_add(place.compressed_size);
    if *read > MOST {
        return Err(format!("its debug info has more than {} MiB", MOST >> 20));
    }
    let mut raw = vec![0; place.compressed_size as usize];
    file.read_exact_at(&mut raw, place.offset).map_err(|e| cannot(&e))?;
    match place.format {
        CompressionFormat::None => Ok(raw),
        CompressionFormat::Zlib => {
            let mut whole = Vec::new();
            let mut reader = flate2::read::ZlibDecoder::new(&raw[..]).take(place.uncompressed_size);
            reader.read_to_end(&mut whole).map_err(|e| cannot(&e))?;
            Ok(whole)
        }
        _ => {
            Err(cannot(&"it is compressed in another way than zlib's (objcopy --decompress-debug-sections)"))
        }
    }
}

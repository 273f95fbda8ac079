//! Functions of files that a recording names, by blazesym.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use blazesym::{
    helper,
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Elf, Source},
    },
};

use super::{
    Frame, Mapped, Maps,
    finder::{self, Finder, Request, Work},
};

/// The most files whose names are looked up.
const MOST: usize = 1 << 12;

/// How long one look-up may take: nothing else waits.
const BOUND: Duration = Duration::from_secs(60);

/// A path, and the build id that its file must have.
type Key = (Arc<str>, Option<Arc<str>>);

/// Files by what a recording says of them.
pub(super) struct Files {
    maps: Maps,
    symbolizer: Symbolizer,
    /// Where each is found, or not.
    known: HashMap<Key, Option<PathBuf>>,
}

impl Work for Files {
    fn find(&mut self, request: &Request) -> Vec<Frame> {
        let Request { tgid, addresses, .. } = request;
        addresses.iter().map(|a| self.frame(*tgid, *a)).collect()
    }

    fn reset(&mut self) {
        *self = Files::new(&self.maps);
    }
}

impl Files {
    /// Starts a thread that looks up in them.
    pub fn start(maps: &Maps) -> Option<Finder> {
        let maps = maps.clone();
        Finder::start(BOUND, move || Files::new(&maps))
    }

    fn new(maps: &Maps) -> Files {
        Files { maps: maps.clone(), symbolizer: Symbolizer::default(), known: HashMap::new() }
    }

    /// The function at an address; where its file is another by now, or has no name for it, the place in the file.
    fn frame(&mut self, tgid: u32, address: u64) -> Frame {
        let Some(mapped) = self.maps.at(Some(tgid), address) else { return Frame::bare(address) };
        if let Some(path) = self.path(&mapped)
            && let source = Source::Elf(Elf::new(&path))
            && let offset = Input::FileOffset(mapped.place(address))
            && let Ok(Symbolized::Sym(sym)) = self.symbolizer.symbolize_single(&source, offset)
        {
            return finder::frame(address, &sym, Some(mapped.path));
        }
        mapped.frame(address)
    }

    fn path(&mut self, mapped: &Mapped) -> Option<PathBuf> {
        if !mapped.is_file() {
            return None;
        }
        let key = (mapped.path.clone(), mapped.build_id.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = find(&mapped.path, mapped.build_id.as_deref());
        if self.known.len() < MOST {
            self.known.insert(key, found.clone());
        }
        found
    }
}

/// The file itself while it is the same, else the copy that perf keeps by build id.
fn find(path: &str, build_id: Option<&str>) -> Option<PathBuf> {
    let same = |path: &Path| {
        let plain = fs::metadata(path).is_ok_and(|file| file.is_file());
        plain && build_id.is_none_or(|id| id_of(path).is_some_and(|found| *found == *id))
    };
    let kept =
        build_id.filter(|id| id.len() > 2 && id.bytes().all(|b| b.is_ascii_hexdigit())).and_then(|id| {
            let (first, rest) = id.split_at(2);
            let home = PathBuf::from(std::env::var_os("HOME")?);
            Some(home.join(".debug/.build-id").join(first).join(rest).join("elf"))
        });
    std::iter::once(PathBuf::from(path)).chain(kept).find(|path| same(path))
}

fn id_of(path: &Path) -> Option<Arc<str>> {
    helper::read_elf_build_id(path).ok().flatten().map(|id| finder::hex(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_this_test() -> u64 {
        std::hint::black_box(9)
    }

    /// Where this test's program has that function, and its build id.
    fn place() -> (PathBuf, u64) {
        let address = a_function_of_this_test as fn() -> u64 as usize as u64;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let all = super::super::mapping::parse(&maps);
        let mapping = super::super::mapping::holding(&all, address).unwrap();
        (PathBuf::from(&*mapping.path), address - mapping.start + mapping.offset)
    }

    /// The name of a place in a file, and where in it that is.
    fn named(path: &str, build_id: Option<&str>, offset: u64) -> Option<(String, u64)> {
        let maps = Maps::default();
        let (path, build_id) = (path.into(), build_id.map(Into::into));
        maps.map(7, Mapped { start: 0x1000, end: u64::MAX, offset: 0, path, build_id });
        let frame = Files::new(&maps).frame(7, 0x1000 + offset);
        assert!(frame.module.is_some() && (frame.symbol.is_some() || frame.offset == offset), "{frame:?}");
        Some((frame.symbol?.into(), frame.offset))
    }

    #[test]
    fn a_file_names_its_functions_while_it_is_the_same() {
        let (path, offset) = place();
        let named = |id: Option<&str>| named(path.to_str().unwrap(), id, offset);
        let right = |found: Option<(String, u64)>| {
            found.is_some_and(|(name, at)| name.contains("a_function_of_this_test") && at == 0)
        };
        assert!(right(named(None)));
        assert_eq!(named(Some("00ff")), None, "another file");
        assert!(id_of(&path).is_none_or(|id| right(named(Some(&id)))));
    }

    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.to_str().unwrap(), "/dev/zero", "/", "//anon", "[vdso]", "/no/such/file"] {
            assert_eq!(named(path, None, 1), None, "{path}");
        }
    }
}

//! Names for the addresses of a recording, by what its records say is mapped where.

use std::{
    cell::{RefCell, RefMut},
    sync::Arc,
};

use tracer::{
    perf_data::{
        Feature,
        feature::{BuildId, id},
        kind,
        read::{Info, Record, Words},
        records::{Comm, Ksymbol, MapId, Mmap, Mmap2, Task, misc},
    },
    symbol::{Frame, Mapped, Maps, Space, Symbols, kernel_build_id},
};

/// Bits of `misc` that say whose an address or a mapping is.
const MODE: u16 = 7;
/// As recordings name the kernel.
const KERNEL: &str = "[kernel.kallsyms]";

/// Names addresses, as far as records have told what they belong to.
pub struct Names {
    maps: Maps,
    symbols: RefCell<Symbols>,
    /// The features have been asked for build ids.
    begun: bool,
    /// The build id of the recording's kernel.
    kernel: Option<Arc<str>>,
}

impl Names {
    pub fn new() -> Names {
        let maps = Maps::default();
        Names { symbols: RefCell::new(Symbols::recorded(&maps)), maps, begun: false, kernel: None }
    }

    /// What names addresses for a form that does so itself.
    pub fn symbols(&self) -> Symbols {
        Symbols::recorded(&self.maps)
    }

    /// Takes what a record tells of processes, and of the kernel.
    pub fn take(&mut self, record: &Record<'_>, info: &Info) {
        match record.kind {
            kind::MMAP => {
                let map = Mmap::parse(record.body, record.endian);
                map.into_iter().for_each(|map| self.map(&map, None, record.misc, info));
            }
            kind::MMAP2 => {
                let Some(map) = Mmap2::parse(record.misc, record.body, record.endian) else { return };
                let build_id = match &map.id {
                    MapId::BuildId { size, id } => id.get(..usize::from(*size)).map(hex),
                    MapId::Inode { .. } => None,
                };
                self.map(&map.map, build_id, record.misc, info);
            }
            kind::FORK => {
                if let Some(task) = Task::parse(record.body, record.endian)
                    && task.pid != task.ppid
                {
                    self.maps.fork(task.ppid, task.pid);
                }
            }
            kind::COMM if record.misc & misc::COMM_EXEC != 0 => {
                if let Some(comm) = Comm::parse(record.body, record.endian) {
                    self.maps.exec(comm.pid);
                }
            }
            kind::KSYMBOL => {
                let symbol = Ksymbol::parse(record.body, record.endian);
                symbol.into_iter().for_each(|symbol| self.program(&symbol));
            }
            kind::BUILD_ID => {
                let told = BuildId::parse_body(record.misc, record.body, record.endian);
                told.into_iter().for_each(|told| self.build_id(&told));
            }
            _ => {}
        }
    }

    /// A BPF program, or what leads to one, is in the kernel or gone.
    fn program(&self, symbol: &Ksymbol<'_>) {
        let (start, end) = (symbol.addr, symbol.addr.saturating_add(symbol.len.into()));
        if symbol.flags & 1 == 1 {
            return self.maps.unmap(u32::MAX, start, end);
        }
        let path = String::from_utf8_lossy(symbol.name.0).into();
        self.maps.map(u32::MAX, Mapped { start, end, offset: 0, path, build_id: None });
    }

    fn build_id(&mut self, told: &BuildId) {
        let path = String::from_utf8_lossy(&told.file);
        if path == KERNEL {
            self.kernel = Some(hex(&told.id));
        }
        self.maps.build_id(&path, &hex(&told.id));
    }

    fn map(&mut self, map: &Mmap<'_>, build_id: Option<Arc<str>>, mode: u16, info: &Info) {
        // The features are all known by the first of them, of a pipe too.
        if !std::mem::replace(&mut self.begun, true)
            && let Some(Feature::BuildIds(all)) = info.feature(id::BUILD_ID)
        {
            all.iter().for_each(|told| self.build_id(told));
        }
        let mut path: Arc<str> = String::from_utf8_lossy(map.file).into();
        if mode & MODE == misc::KERNEL && map.pid == u32::MAX {
            if let Some(symbol) = path.strip_prefix(KERNEL) {
                let build_id = build_id.as_deref().or(self.kernel.as_deref());
                if address_of(symbol) == Some(map.pgoff) && runs(build_id, info) {
                    self.maps.kernel_runs();
                }
                path = KERNEL.into();
            } else if !path.starts_with('[') {
                path = module(&path).into();
            }
        }
        let end = map.addr.saturating_add(map.len);
        self.maps.map(map.pid, Mapped { start: map.addr, end, offset: map.pgoff, path, build_id });
    }

    /// The name of an address of the kernel, and how far behind its symbol it lies.
    pub fn kernel(&self, address: u64) -> Option<(String, u64)> {
        let frame = self.symbols.borrow_mut().one(Space::Kernel, address);
        Some((frame.symbol.as_deref()?.to_owned(), frame.offset))
    }

    /// What names addresses now.
    pub fn now(&self) -> RefMut<'_, Symbols> {
        self.symbols.borrow_mut()
    }

    /// The file, or what has another name, that an address belongs to, as perf calls it.
    pub fn object(&self, space: Space, frame: &Frame) -> String {
        if let (Space::Kernel, Some(name)) = (space, &frame.symbol) {
            return match frame.module.as_deref() {
                // Each program is one of its own.
                Some("bpf") => name.to_string(),
                Some(module) => format!("[{module}]"),
                None => KERNEL.to_owned(),
            };
        }
        let mapped = self.maps.at(pid(space), frame.address);
        mapped.map_or_else(|| "[unknown]".to_owned(), |m| m.path.to_string())
    }

    /// An address of a call chain as perf shows it: of a file, its place there.
    pub fn place(&self, space: Space, address: u64) -> u64 {
        let mapped = self.maps.at(pid(space), address).filter(|_| space != Space::Kernel);
        // Those in brackets have no file, but for code that the kernel maps.
        let placed = mapped.filter(|m| m.is_file() || &*m.path == "[vdso]");
        placed.map_or(address, |m| m.place(address))
    }
}

fn pid(space: Space) -> Option<u32> {
    match space {
        Space::Kernel => None,
        Space::Process(tgid) => Some(tgid),
    }
}

/// Whose the instruction of a sample is, by the `misc` of its record.
pub fn space(misc: u16, tgid: u32) -> Space {
    if misc & MODE == misc::KERNEL { Space::Kernel } else { Space::Process(tgid) }
}

/// Marks between the addresses of a call chain (`PERF_CONTEXT_*`), and the two that tell of a space of ours.
const MARKS: u64 = -4095i64 as u64;
const IN_KERNEL: u64 = -128i64 as u64;
const IN_USER: u64 = -512i64 as u64;

/// The addresses of a call chain, each with whether it is the process's; before any mark it is, as perf has it. Of
/// guests there is nothing to be said.
pub fn chain(chain: &Words<'_>) -> impl Iterator<Item = (bool, u64)> {
    let mut user = Some(true);
    chain.iter().filter_map(move |address| {
        if address < MARKS {
            return Some((user?, address));
        }
        user = match address {
            IN_KERNEL => Some(false),
            IN_USER => Some(true),
            _ => None,
        };
        None
    })
}

/// Whether the kernel that runs is this one, by its build id, else by its release.
fn runs(build_id: Option<&str>, info: &Info) -> bool {
    let release = || match info.feature(id::OSRELEASE) {
        Some(Feature::Text(_, text)) => {
            nix::sys::utsname::uname().is_ok_and(|here| here.release().as_encoded_bytes() == &**text)
        }
        _ => true,
    };
    match (build_id, kernel_build_id()) {
        (Some(recorded), Some(here)) => *hex(&here) == *recorded,
        _ => release(),
    }
}

/// Where the running kernel has a symbol; 0 is told to those without the right to know.
fn address_of(symbol: &str) -> Option<u64> {
    let table = std::fs::read("/proc/kallsyms").ok()?;
    let symbol = symbol.as_bytes();
    let line = table
        .split(|b| *b == b'\n')
        .find(|line| line.split(|b| *b == b' ').nth(2).is_some_and(|name| name == symbol))?;
    let address = std::str::from_utf8(line.split(|b| *b == b' ').next()?).ok()?;
    u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)
}

/// A module by the path of its file: `[ext4]`.
fn module(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.split_once(".ko").map_or(file, |(name, _)| name);
    format!("[{}]", name.replace('-', "_"))
}

fn hex(bytes: impl AsRef<[u8]>) -> Arc<str> {
    bytes.as_ref().iter().map(|b| format!("{b:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_names_of_their_files() {
        assert_eq!(module("/lib/modules/6.1.0/kernel/fs/nls/nls-utf8.ko.xz"), "[nls_utf8]");
        assert_eq!(module("x"), "[x]");
    }
}

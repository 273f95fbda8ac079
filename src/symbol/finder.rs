//! Addresses of processes, looked up by blazesym on a thread of its own.
//!
//! **Invariants.** Whatever a file makes blazesym do, the caller waits no longer than its bound, and a panic there
//! costs the names that were asked for. What was mapped is read when a process is first seen, so that its
//! addresses mean something when it has ended.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use blazesym::{
    Pid, helper,
    symbolize::{
        CodeInfo, Input, Sym, Symbolized, Symbolizer,
        source::{Elf, Process, Source},
    },
};

use super::{
    Find, Frame, Inlined, Line,
    mapping::{self, Mapping, holding},
};

/// How long one look-up of a running process may take: large debug information takes a second.
pub(super) const BOUND: Duration = Duration::from_secs(2);
/// The most processes whose mappings are kept.
const MOST: usize = 1 << 10;

/// Addresses of one process that are asked for.
pub(super) struct Request {
    number: u64,
    pub tgid: u32,
    pub identity: u64,
    pub addresses: Vec<u64>,
}

/// What looks up on the thread.
pub(super) trait Work {
    /// A frame for each address.
    fn find(&mut self, request: &Request) -> Vec<Frame>;
    /// Forgets all that a panic may have left half done.
    fn reset(&mut self);
}

/// The caller's end of the thread.
pub(super) struct Finder {
    requests: Sender<Request>,
    replies: Receiver<(u64, Vec<Frame>)>,
    asked: u64,
    bound: Duration,
}

impl Finder {
    /// Starts the thread; `None` where there can be none. `worker` makes there what looks up, and a caller waits for
    /// at most `bound`.
    pub fn start<W: Work>(bound: Duration, worker: impl FnOnce() -> W + Send + 'static) -> Option<Finder> {
        let (requests, theirs) = channel();
        let (ours, replies) = channel();
        let run = move || run(worker(), &theirs, &ours);
        std::thread::Builder::new().name("tracer-symbols".into()).spawn(run).ok()?;
        Some(Finder { requests, replies, asked: 0, bound })
    }
}

impl Find for Finder {
    fn find(&mut self, tgid: u32, identity: u64, addresses: &[u64]) -> Vec<Frame> {
        self.asked += 1;
        let request = Request { number: self.asked, tgid, identity, addresses: addresses.to_vec() };
        if self.requests.send(request).is_err() {
            return Vec::new();
        }
        let until = Instant::now() + self.bound;
        // Replies to what was given up before come first.
        while let Ok((number, frames)) =
            self.replies.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if number == self.asked {
                return frames;
            }
        }
        Vec::new()
    }
}

fn run(mut worker: impl Work, requests: &Receiver<Request>, replies: &Sender<(u64, Vec<Frame>)>) {
    while let Ok(request) = requests.recv() {
        let found = catch_unwind(AssertUnwindSafe(|| worker.find(&request)));
        let frames = found.unwrap_or_else(|_| {
            worker.reset();
            request.addresses.iter().map(|a| Frame::bare(*a)).collect()
        });
        if replies.send((request.number, frames)).is_err() {
            return;
        }
    }
}

/// What looks up in processes that run.
#[derive(Default)]
pub(super) struct Worker {
    symbolizer: Symbolizer,
    /// By process id: which program it was, and what was mapped.
    seen: HashMap<u32, (u64, Vec<Mapping>)>,
    /// Build ids by file.
    build_ids: HashMap<(u32, u32, u64), Option<Arc<str>>>,
}

impl Work for Worker {
    fn find(&mut self, request: &Request) -> Vec<Frame> {
        let Request { tgid, identity, ref addresses, .. } = *request;
        let known = self.seen.get(&tgid).filter(|(seen, _)| *seen == identity);
        let covers = |mappings: &[Mapping]| addresses.iter().all(|a| holding(mappings, *a).is_some());
        // More may have been mapped since.
        if !known.is_some_and(|(_, mappings)| covers(mappings)) {
            self.learn(tgid, identity, known.is_some());
        }
        let mut named = Vec::new();
        for map_files in [true, false] {
            let source = Source::Process(Process { map_files, ..Process::new(Pid::from(tgid)) });
            if let Ok(found) = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)) {
                named = found.into_iter().map(|s| s.into_sym().map(Sym::into_owned)).collect();
                break;
            }
        }
        let mappings = self.seen.get(&tgid).map_or(&[][..], |(_, mappings)| mappings);
        let frame = |(i, address): (usize, &u64)| {
            let mapping = holding(mappings, *address);
            let path = mapping.map(|m| m.path.clone());
            match named.get(i).and_then(Option::as_ref) {
                Some(sym) => frame(*address, sym, path),
                None => self.by_file(*address, mapping),
            }
        };
        addresses.iter().enumerate().map(frame).collect()
    }

    fn reset(&mut self) {
        *self = Worker::default();
    }
}

impl Worker {
    /// Reads what is mapped; where the process has gone, what was known stays.
    fn learn(&mut self, tgid: u32, identity: u64, known: bool) {
        let text = std::fs::read(format!("/proc/{tgid}/maps")).unwrap_or_default();
        let mut mappings = mapping::parse(&String::from_utf8_lossy(&text));
        if mappings.is_empty() && known {
            return;
        }
        if self.seen.len() >= MOST {
            self.seen.clear();
            self.build_ids.clear();
        }
        for mapping in &mut mappings {
            let id = self.build_ids.entry(mapping.file).or_insert_with(|| {
                let inside = format!("/proc/{tgid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
                let read = |path: &str| helper::read_elf_build_id(path).ok().flatten();
                read(&inside).or_else(|| read(&mapping.path)).map(|id| hex(&id))
            });
            mapping.build_id = id.clone();
        }
        self.seen.insert(tgid, (identity, mappings));
    }

    /// By the file alone: its own symbols while it is still the same, else its name and the place in it.
    fn by_file(&self, address: u64, mapping: Option<&Mapping>) -> Frame {
        let Some(mapping) = mapping else { return Frame::bare(address) };
        let offset = address - mapping.start + mapping.offset;
        let same = std::fs::metadata(&*mapping.path).is_ok_and(|file| {
            let (major, minor, inode) = mapping.file;
            file.ino() == inode && file.dev() == nix::sys::stat::makedev(major.into(), minor.into())
        });
        let source = Source::Elf(Elf::new(&*mapping.path));
        if same
            && let Ok(Symbolized::Sym(sym)) =
                self.symbolizer.symbolize_single(&source, Input::FileOffset(offset))
        {
            return frame(address, &sym, Some(mapping.path.clone()));
        }
        Frame {
            offset,
            module: Some(mapping.path.clone()),
            build_id: mapping.build_id.clone(),
            ..Frame::bare(address)
        }
    }
}

pub(super) fn frame(address: u64, sym: &Sym<'_>, path: Option<Arc<str>>) -> Frame {
    let inlined = sym
        .inlined
        .iter()
        .map(|f| Inlined { symbol: f.name.as_ref().into(), line: f.code_info.as_ref().map(line) });
    let module = || sym.module.as_ref().map(|m| m.to_string_lossy().into());
    Frame {
        address,
        symbol: Some(sym.name.as_ref().into()),
        offset: sym.offset as u64,
        // Where blazesym went through /proc, that path says nothing.
        module: path.or_else(module),
        build_id: None,
        line: sym.code_info.as_deref().map(line),
        inlined: inlined.collect(),
    }
}

fn line(info: &CodeInfo<'_>) -> Line {
    Line { file: info.to_path().to_string_lossy().into(), line: info.line }
}

pub(super) fn hex(bytes: &[u8]) -> Arc<str> {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::symbol::{Space, Symbols};

    #[inline(never)]
    fn a_function_of_this_test() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn a_function_of_this_process() {
        let mut symbols = Symbols::new(false, true);
        let address = a_function_of_this_test as fn() -> u64 as usize as u64;
        let frame = symbols.one(Space::Process(std::process::id()), address);
        let name = frame.symbol.as_deref().unwrap_or_default();
        assert!(name.ends_with("a_function_of_this_test"), "{frame:?}");
        assert_eq!(frame.offset, 0);
        // Where the profile has debug information.
        if let Some(line) = &frame.line {
            assert!(line.file.ends_with("finder.rs") && line.line.is_some(), "{frame:?}");
        }
        assert!(frame.module.as_deref().is_some_and(|m| m.starts_with('/')), "{frame:?}");
        assert_eq!(*symbols.one(Space::Process(std::process::id()), 8), Frame::bare(8));
    }

    #[test]
    fn a_process_that_has_ended_is_named_where_it_was_seen_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("to-be-removed");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").stdin(Stdio::null()).spawn().unwrap();
        let tgid = child.id();
        let mut mappings = Vec::new();
        let until = Instant::now() + Duration::from_secs(10);
        while !mappings.iter().any(|m: &Mapping| *m.path == *program.to_string_lossy()) {
            assert!(Instant::now() < until, "the program was not mapped: {mappings:?}");
            std::thread::sleep(Duration::from_millis(5));
            mappings = mapping::parse(&std::fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap());
        }
        let mapping = mappings.iter().find(|m| *m.path == *program.to_string_lossy()).unwrap().clone();
        let (mut seen, mut unseen) = (Symbols::new(false, true), Symbols::new(false, true));
        let space = Space::Process(tgid);
        seen.one(space, mapping.start);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&program).unwrap();
        // An address that was not asked for while it lived.
        let address = mapping.start + 0x123;
        let frame = seen.one(space, address);
        assert_eq!(frame.module.as_deref(), program.to_str());
        assert_eq!((frame.symbol.as_deref(), frame.offset), (None, mapping.offset + 0x123));
        let id = frame.build_id.as_deref().unwrap_or_default();
        assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{frame:?}");
        assert_eq!(*unseen.one(space, address), Frame::bare(address), "nobody saw it");
    }
}

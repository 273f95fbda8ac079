//! What was mapped where in the processes of a recording, as its records tell it one after the other.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use super::Frame;

/// The most mappings that are kept, of all processes.
const MOST: usize = 1 << 20;
/// Under this process id the kernel's own are kept, as recordings have it.
const KERNEL: u32 = u32::MAX;

/// What is mapped in a recording; clones are the same one, so that whoever reads records tells and whoever names
/// addresses asks.
#[derive(Clone, Debug, Default)]
pub struct Maps(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    processes: HashMap<u32, Process>,
    build_ids: HashMap<Arc<str>, Arc<str>>,
    /// How many mappings there are, of all.
    count: usize,
    /// How often any process became another, so that each state has a number of its own.
    changes: u64,
    kernel_runs: bool,
}

#[derive(Clone, Debug, Default)]
struct Process {
    /// By first address.
    mapped: BTreeMap<u64, Mapped>,
    state: u64,
}

/// A file, or what has another name, at its place in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its first address.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The path, or a name in brackets.
    pub path: Arc<str>,
    /// The file's build id in hexadecimal, where the recording tells it.
    pub build_id: Option<Arc<str>>,
}

impl Mapped {
    /// Whether it is a file, whose addresses are places in it.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.path.starts_with("//") && !self.path.starts_with("/SYSV")
    }

    /// The place in the file of an address within.
    pub fn place(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }

    /// What is known of an address without the file's symbols.
    pub(super) fn frame(self, address: u64) -> Frame {
        let offset = self.place(address);
        Frame { offset, module: Some(self.path), build_id: self.build_id, ..Frame::bare(address) }
    }
}

impl Maps {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Something is mapped from now on. What it covers of others is theirs no more.
    pub fn map(&self, pid: u32, new: Mapped) {
        if new.start >= new.end {
            return;
        }
        let mut inner = self.inner();
        let inner = &mut *inner;
        let process = inner.processes.entry(pid).or_default();
        inner.count -= process.mapped.len();
        process.cut(new.start, new.end);
        // What is cut in two may go beyond by one.
        if inner.count + process.mapped.len() < MOST {
            process.mapped.insert(new.start, new);
        }
        inner.count += process.mapped.len();
        inner.changes += 1;
        process.state = inner.changes;
    }

    /// Nothing is mapped there any more, in a process or in the kernel.
    pub fn unmap(&self, pid: u32, start: u64, end: u64) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let Some(process) = inner.processes.get_mut(&pid) else { return };
        inner.count -= process.mapped.len();
        process.cut(start, end);
        inner.count += process.mapped.len();
        inner.changes += 1;
        process.state = inner.changes;
    }

    /// A process begins as its parent is.
    pub fn fork(&self, parent: u32, child: u32) {
        let mut inner = self.inner();
        let Some(process) = inner.processes.get(&parent).cloned() else { return };
        if parent == child || inner.count + process.mapped.len() > MOST {
            return;
        }
        inner.count += process.mapped.len();
        let old = inner.processes.insert(child, process);
        inner.count -= old.map_or(0, |old| old.mapped.len());
    }

    /// A process runs another program: nothing is mapped any more.
    pub fn exec(&self, pid: u32) {
        let mut inner = self.inner();
        inner.changes += 1;
        let fresh = Process { state: inner.changes, ..Process::default() };
        let old = inner.processes.insert(pid, fresh);
        inner.count -= old.map_or(0, |old| old.mapped.len());
    }

    /// The build id, in hexadecimal, of all files of this path that do not tell their own.
    pub fn build_id(&self, path: &str, id: &str) {
        self.inner().build_ids.insert(path.into(), id.into());
    }

    /// The recording is of the kernel that runs, which lies where it lay.
    pub fn kernel_runs(&self) {
        self.inner().kernel_runs = true;
    }

    /// Whether it is.
    pub fn is_running_kernel(&self) -> bool {
        self.inner().kernel_runs
    }

    /// What an address of a process belongs to; of the kernel for `None`.
    pub fn at(&self, pid: Option<u32>, address: u64) -> Option<Mapped> {
        let inner = self.inner();
        let process = inner.processes.get(&pid.unwrap_or(KERNEL))?;
        let (_, found) = process.mapped.range(..=address).next_back()?;
        let mut found = (address < found.end).then(|| found.clone())?;
        if found.build_id.is_none() {
            found.build_id = inner.build_ids.get(&found.path).cloned();
        }
        Some(found)
    }

    /// A number that changes whenever addresses of the process, or of the kernel, may mean something else.
    pub(super) fn state(&self, pid: Option<u32>) -> u64 {
        let inner = self.inner();
        let state = inner.processes.get(&pid.unwrap_or(KERNEL)).map_or(0, |process| process.state);
        // The kernel's are even, those of processes odd: two of one state are a parent and its child, or know nothing.
        state << 2 | u64::from(pid.is_none() && inner.kernel_runs) << 1 | u64::from(pid.is_some())
    }
}

impl Process {
    /// Takes away what lies from `start` to `end`; of a mapping that goes beyond, the rest stays.
    fn cut(&mut self, start: u64, end: u64) {
        let touched = |(_, m): &(&u64, &Mapped)| m.end > start;
        let all: Vec<Mapped> =
            self.mapped.range(..end).rev().take_while(touched).map(|(_, m)| m.clone()).collect();
        for old in all {
            self.mapped.remove(&old.start);
            if old.end > end {
                let offset = old.offset.wrapping_add(end - old.start);
                self.mapped.insert(end, Mapped { start: end, offset, ..old.clone() });
            }
            if old.start < start {
                self.mapped.insert(old.start, Mapped { end: start, ..old });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(start: u64, end: u64, offset: u64, path: &str) -> Mapped {
        Mapped { start, end, offset, path: path.into(), build_id: None }
    }

    fn told(maps: &Maps, pid: u32, address: u64) -> Option<(String, u64)> {
        let found = maps.at(Some(pid), address)?;
        Some((found.path.to_string(), address - found.start + found.offset))
    }

    #[test]
    fn what_is_mapped_over_others_leaves_their_ends() {
        let maps = Maps::default();
        maps.map(7, mapped(0x1000, 0x9000, 0, "/a"));
        maps.map(7, mapped(0x3000, 0x5000, 0x100, "/b"));
        let of = |address| told(&maps, 7, address);
        assert_eq!(of(0x2fff), Some(("/a".into(), 0x1fff)));
        assert_eq!(of(0x3000), Some(("/b".into(), 0x100)));
        assert_eq!(of(0x5000), Some(("/a".into(), 0x4000)));
        assert_eq!((of(0xfff), of(0x9000)), (None, None));
        // All of three at once.
        maps.map(7, mapped(0, u64::MAX, 0, "/c"));
        assert_eq!(of(0x4000), Some(("/c".into(), 0x4000)));
        maps.unmap(7, 0x4000, 0x5000);
        assert_eq!((of(0x3fff).is_some(), of(0x4000), of(0x5000).is_some()), (true, None, true));
        maps.map(7, mapped(5, 5, 0, "/empty"));
        assert_eq!(of(5), Some(("/c".into(), 5)));
    }

    #[test]
    fn children_have_what_their_parents_had_until_they_call_exec() {
        let maps = Maps::default();
        maps.map(7, mapped(0x1000, 0x2000, 0, "/a"));
        maps.fork(7, 8);
        maps.map(7, mapped(0x1000, 0x2000, 0, "/b"));
        assert_eq!(told(&maps, 8, 0x1000), Some(("/a".into(), 0)));
        let before = maps.state(Some(8));
        maps.exec(8);
        assert_eq!(told(&maps, 8, 0x1000), None);
        assert_ne!(maps.state(Some(8)), before);
        maps.fork(9, 8);
        maps.fork(7, 7);
        assert_eq!(told(&maps, 7, 0x1000), Some(("/b".into(), 0)));
        assert_eq!(maps.inner().count, 1);
    }

    #[test]
    fn a_build_id_is_the_mappings_own_or_that_of_its_path() {
        let maps = Maps::default();
        maps.build_id("/a", "11");
        maps.map(7, mapped(0, 1, 0, "/a"));
        maps.map(7, Mapped { build_id: Some("22".into()), ..mapped(1, 2, 0, "/a") });
        let of = |address| maps.at(Some(7), address).unwrap().build_id;
        assert_eq!((of(0).as_deref(), of(1).as_deref()), (Some("11"), Some("22")));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let maps = Maps::default();
        (0..1000).for_each(|i| maps.map(0, mapped(2 * i, 2 * i + 1, 0, "/a")));
        (1..2000).for_each(|pid| maps.fork(0, pid));
        let inner = maps.inner();
        let kept: usize = inner.processes.values().map(|p| p.mapped.len()).sum();
        assert!(kept <= MOST && kept == inner.count, "{kept} and {}", inner.count);
    }
}

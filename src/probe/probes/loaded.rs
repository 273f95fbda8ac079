//! A loaded object with what holds it in place, and what the kernel tells of it.

use std::{
    fs,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    thread,
};

use libbpf_rs::{
    Link, MapCore, MapFlags, Object, Program,
    query::{LinkTypeInfo, PerfEventType},
};

use crate::probe::{attach, hook::How};

/// `sizeof(struct tracer_key)` in `bpf/tracer.h`
const PAIR_KEY: usize = 16;

/// What was loaded for one probe, or for several that one program serves.
#[derive(Debug)]
pub struct Loaded {
    pub(super) object: Object,
    pub(super) program: &'static str,
    /// The program at the entry, where returns are paired with entries.
    pub(super) half: Option<&'static str>,
    pub(super) links: Links,
    /// The ids of its probes.
    pub(super) ids: Range<usize>,
    /// What its links told last, once they are gone.
    pub(super) told: Option<u64>,
    /// It is attached by kprobes.
    pub(super) kprobes: bool,
}

impl Loaded {
    fn programs(&self) -> impl Iterator<Item = Program<'_>> {
        self.object.progs().filter(|p| p.name() == self.program || self.half.is_some_and(|h| p.name() == h))
    }

    /// Attaches its programs, with this cookie: what holds the entry, where there is one, and what holds the rest.
    ///
    /// The return comes before the entry: an entry whose return is not looked at would wait for ever.
    pub(super) fn attach(&self, how: &How, cookie: u64) -> libbpf_rs::Result<(Option<Link>, Option<Link>)> {
        let put = |name: &str, how: &How| {
            let program = self.object.progs_mut().find(|p| p.name() == name);
            program.map(|p| attach::attach(&p, how, cookie)).transpose()
        };
        let back = put(self.program, how)?;
        let half = how.half().filter(|_| self.half.is_some());
        Ok((half.map(|(name, how)| put(name, &how)).transpose()?.flatten(), back))
    }

    /// Detaches it. What its links tell is asked before.
    pub(super) fn let_go(&mut self) {
        self.told = self.missed();
        self.links = Links::default();
    }

    /// The ids of the probes that it serves.
    pub fn ids(&self) -> Range<usize> {
        self.ids.clone()
    }

    /// How often the kernel ran its programs; `None` where it does not tell.
    pub fn runs(&self) -> Option<u64> {
        self.programs().map(|p| fdinfo(p.as_fd(), "run_cnt:")).sum()
    }

    /// How often the kernel skipped its programs since one ran already on that CPU (from 5.12).
    pub fn recursion_misses(&self) -> Option<u64> {
        self.programs().map(|p| fdinfo(p.as_fd(), "recursion_misses:")).sum()
    }

    /// Hits that its kprobes missed (`nmissed`, from 6.7); `None` where it has none, or the kernel does not tell.
    pub fn missed(&self) -> Option<u64> {
        if self.links.returns.is_empty() {
            return self.told;
        }
        if !self.kprobes || !tells_missed() {
            return None;
        }
        let of = |link: &Link| match link.info().ok()?.info {
            LinkTypeInfo::KprobeMulti(multi) => Some(multi.missed),
            LinkTypeInfo::PerfEvent(event) => match event.event_type {
                PerfEventType::Kprobe { missed, .. } => Some(missed),
                _ => None,
            },
            _ => None,
        };
        self.links.entries.iter().chain(&self.links.returns).map(of).sum()
    }

    /// How many entries wait for their return; `None` where nothing is paired, or the map cannot be read any more.
    pub fn waiting(&self) -> Option<u64> {
        self.half?;
        let pairs = self.object.maps().find(|m| m.name() == "pairs")?;
        // To iterate over keys without the right to ends at once; a look-up says so.
        pairs.lookup(&[0; PAIR_KEY], MapFlags::ANY).ok()?;
        Some(pairs.keys().count() as u64)
    }
}

/// What holds programs in their places.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The entries that returns are paired with.
    pub entries: Vec<Link>,
    /// All others.
    pub returns: Vec<Link>,
}

impl Drop for Links {
    fn drop(&mut self) {
        // An entry whose return is not looked at any more would wait for ever.
        close(std::mem::take(&mut self.entries));
        close(std::mem::take(&mut self.returns));
    }
}

/// Closes links. The kernel waits for a grace period with each kprobe that it takes away (`unregister_kprobes`,
/// kernel/kprobes.c), and does so outside of its locks: where there are many, threads let these times overlap.
fn close(mut links: Vec<Link>) {
    const EACH: usize = 24;
    thread::scope(|scope| {
        while links.len() > EACH {
            let some = links.split_off(links.len() - EACH);
            scope.spawn(|| drop(some));
        }
        drop(links);
    });
}

/// Whether this kernel's links tell what they missed: without it they say 0.
fn tells_missed() -> bool {
    let release = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 7)
}

/// A number that the kernel tells of a BPF descriptor (`bpf_prog_show_fdinfo`, kernel/bpf/syscall.c).
pub(super) fn fdinfo(fd: BorrowedFd<'_>, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    text.lines().find_map(|l| l.strip_prefix(key))?.trim().parse().ok()
}

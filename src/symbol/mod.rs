//! Addresses to names: of the kernel and its modules, and of processes.
//!
//! In come addresses as events hold them; out come [`Frame`]s.
//!
//! ```text
//!   kernel  ─► Symbols ─► Table: /proc/kallsyms, read once, again where a module came
//!   process ─►    │ ────► Finder: a thread with blazesym; what was mapped where is kept, so that a process
//!                 │               that has ended is named all the same
//!                 └ what was found is kept, up to a bound
//!
//!   a recording: Maps (told by its records) ─► Recorded ─► Files: those that are still what they were, and the Table
//! ```
//!
//! **Invariants.** No address fails: what has no name is its number, and whatever is known of the file it lies
//! in. A file that cannot be read or parsed costs its names and nothing else. Memory is bounded. Looking up a
//! user address for the first time reads files, and waits for that up to a bound: for a drain this is the one
//! thing that can take milliseconds.

#[cfg(feature = "symbol")]
mod files;
#[cfg(feature = "symbol")]
mod finder;
mod identity;
mod kernel;
#[cfg(feature = "symbol")]
mod mapping;
mod maps;
mod notes;
mod recorded;

use std::{collections::HashMap, sync::Arc};

pub use maps::{Mapped, Maps};
pub use notes::kernel_build_id;

use self::{identity::Identities, kernel::Table, recorded::Recorded};

/// Whose address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The kernel's.
    Kernel,
    /// That of the process of this id (tgid), in the tracer's PID namespace.
    Process(u32),
}

/// What is known of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address.
    pub address: u64,
    /// The function that it lies in.
    pub symbol: Option<Box<str>>,
    /// Bytes from the start of the function; where that is not known, of the file.
    pub offset: u64,
    /// The kernel's module, or the file that is mapped there; `None` for the kernel itself.
    pub module: Option<Arc<str>>,
    /// The file's build id in hexadecimal, where the function is not known.
    pub build_id: Option<Arc<str>>,
    /// Where in the source it is.
    pub line: Option<Line>,
    /// The functions inlined there, each one called by the one before it.
    pub inlined: Box<[Inlined]>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub file: Box<str>,
    /// The line, where that is known.
    pub line: Option<u32>,
}

/// A function that was inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its name.
    pub symbol: Box<str>,
    /// Where in it the address is.
    pub line: Option<Line>,
}

impl Frame {
    /// An address of which nothing is known.
    pub fn bare(address: u64) -> Frame {
        Frame { address, ..Frame::default() }
    }
}

/// What finds the addresses of processes.
trait Find: Send {
    /// A frame for each address of a process; `identity` differs where another program runs under its id.
    fn find(&mut self, tgid: u32, identity: u64, addresses: &[u64]) -> Vec<Frame>;
}

/// Names of addresses, with what was found before kept.
pub struct Symbols {
    kernel: Option<Table>,
    finder: Option<Box<dyn Find>>,
    identities: Identities,
    /// What names the addresses of a recording, and those alone.
    recorded: Option<Recorded>,
    known: HashMap<Key, Arc<Frame>>,
    /// Reused: which of a stack's frames are looked up, and the addresses that are asked for.
    places: Vec<usize>,
    wanted: Vec<u64>,
}

/// An address, whose it is, and whether a call returns to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    identity: u64,
    address: u64,
    returns: bool,
}

/// The identity of the kernel; those of processes have more than one bit.
const KERNEL: u64 = 0;

impl Symbols {
    /// The most frames that are kept.
    const MOST: usize = 1 << 16;

    /// Those of this host. What is asked for is made ready now, while the rights to read it are there.
    pub fn new(kernel: bool, user: bool) -> Symbols {
        #[cfg(feature = "symbol")]
        let start = || finder::Finder::start(finder::BOUND, finder::Worker::default);
        #[cfg(feature = "symbol")]
        let finder = user.then(start).flatten().map(|f| Box::new(f) as Box<dyn Find>);
        #[cfg(not(feature = "symbol"))]
        let finder = { user.then_some(()).and(None) };
        Symbols { finder, ..Symbols::with(kernel.then(Table::read).flatten()) }
    }

    /// Whether no address has a name here.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.finder.is_none() && self.recorded.is_none()
    }

    /// Those of a recording, of which `maps` tells what is mapped where. Nothing is looked up in processes that run.
    pub fn recorded(maps: &Maps) -> Symbols {
        Symbols { recorded: Some(Recorded::new(maps)), ..Symbols::with(None) }
    }

    fn with(kernel: Option<Table>) -> Symbols {
        Symbols {
            kernel,
            finder: None,
            identities: Identities::default(),
            recorded: None,
            known: HashMap::new(),
            places: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Names for a stack, innermost first, one frame an address, appended to `out`.
    ///
    /// All but the innermost are where a call returns to, so what is looked up is the call before them: it may
    /// be the last instruction of its function.
    pub fn stack(&mut self, space: Space, addresses: impl Iterator<Item = u64>, out: &mut Vec<Arc<Frame>>) {
        let identity = self.identity(space);
        let start = out.len();
        self.places.clear();
        self.wanted.clear();
        for (i, address) in addresses.enumerate() {
            let key = Key { identity, address, returns: i > 0 };
            match self.known.get(&key) {
                Some(frame) => out.push(frame.clone()),
                None => {
                    self.places.push(out.len());
                    self.wanted.push(address - u64::from(i > 0 && address > 0));
                    out.push(Arc::new(Frame::bare(address)));
                }
            }
        }
        if !self.wanted.is_empty() {
            self.fill(space, identity, start, out);
        }
    }

    /// The name of one address.
    pub fn one(&mut self, space: Space, address: u64) -> Arc<Frame> {
        let mut out = Vec::with_capacity(1);
        self.stack(space, std::iter::once(address), &mut out);
        out.pop().unwrap_or_default()
    }

    fn identity(&mut self, space: Space) -> u64 {
        match space {
            _ if self.recorded.is_some() => self.recorded.as_ref().map_or(KERNEL, |r| r.identity(space)),
            Space::Kernel => KERNEL,
            Space::Process(tgid) => self.identities.of(tgid),
        }
    }

    /// Puts what is found into the frames that are looked up; the stack begins at `start`.
    fn fill(&mut self, space: Space, identity: u64, start: usize, frames: &mut [Arc<Frame>]) {
        let found = match space {
            _ if self.recorded.is_some() => self.recorded.as_mut().map(|r| r.find(space, &self.wanted)),
            Space::Kernel => self.kernel.as_mut().map(|t| t.find(&self.wanted)),
            Space::Process(tgid) => self.finder.as_mut().map(|f| f.find(tgid, identity, &self.wanted)),
        };
        let found = found.unwrap_or_default();
        if self.known.len() + found.len() > Symbols::MOST {
            self.known.clear();
        }
        for ((mut frame, looked_up), place) in found.into_iter().zip(&self.wanted).zip(&self.places) {
            let Some(slot) = frames.get_mut(*place) else { continue };
            let address = slot.address;
            // Of what is not known at all there is no place either.
            if frame != Frame::bare(*looked_up) {
                frame.offset += address - looked_up;
            }
            frame.address = address;
            *slot = Arc::new(frame);
            if self.known.len() < Symbols::MOST {
                self.known.insert(Key { identity, address, returns: *place > start }, slot.clone());
            }
        }
    }
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(Arc<std::sync::Mutex<Vec<u64>>>);

    impl Find for Counting {
        fn find(&mut self, _: u32, _: u64, addresses: &[u64]) -> Vec<Frame> {
            self.0.lock().unwrap().extend(addresses);
            let named =
                |a: &u64| Frame { symbol: Some(format!("f{a:x}").into()), offset: 3, ..Frame::bare(*a) };
            addresses.iter().map(named).collect()
        }
    }

    #[test]
    fn calls_are_looked_up_before_their_returns_and_once() {
        let asked = Arc::default();
        let finder: Box<dyn Find> = Box::new(Counting(Arc::clone(&asked)));
        let mut symbols = Symbols { finder: Some(finder), ..Symbols::with(None) };
        let me = Space::Process(std::process::id());
        for _ in 0..3 {
            let mut out = Vec::new();
            symbols.stack(me, [0x10, 0x20, 0x20, 0].into_iter(), &mut out);
            let told: Vec<_> = out.iter().map(|f| (f.address, f.symbol.as_deref(), f.offset)).collect();
            assert_eq!(
                told,
                [(0x10, Some("f10"), 3), (0x20, Some("f1f"), 4), (0x20, Some("f1f"), 4), (0, Some("f0"), 3),]
            );
        }
        assert_eq!(*asked.lock().unwrap(), [0x10, 0x1f, 0x1f, 0], "the second time nothing is asked");
        assert_eq!(symbols.one(me, 0x20).symbol.as_deref(), Some("f20"), "no call returns there");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let finder: Box<dyn Find> = Box::new(Counting(Arc::default()));
        let mut symbols = Symbols { finder: Some(finder), ..Symbols::with(None) };
        let me = Space::Process(1);
        for from in 0..3 * Symbols::MOST as u64 / 1000 {
            let mut out = Vec::new();
            symbols.stack(me, 1000 * from..1000 * (from + 1), &mut out);
            assert!(out.len() == 1000 && out.iter().all(|f| f.symbol.is_some()));
            assert!(symbols.known.len() <= Symbols::MOST);
        }
    }

    #[test]
    fn without_any_source_addresses_are_numbers() {
        let mut symbols = Symbols::with(None);
        for space in [Space::Kernel, Space::Process(1)] {
            assert_eq!(*symbols.one(space, 0x1234), Frame::bare(0x1234));
        }
    }
}

//! All that can be probed on this host, and why not what cannot: the kernel's tables, each read once when asked for.
//!
//! ```text
//!   /proc/kallsyms ─────────────────► symbols ─┐
//!   tracefs available_filter_functions ────────┼─► Function { name, module, address, state }
//!   debugfs kprobes/blacklist ─────────────────┘
//!   BTF ─► raw tracepoints, signatures     tracefs available_events ─► tracepoints     a table ─► system calls
//! ```
//!
//! **Invariants.** Nothing is attached or loaded here. What a table that cannot be read would have told is not
//! guessed: a function is then attachable as far as is known.

mod lines;
mod symbols;

use std::{
    cell::{OnceCell, RefCell},
    collections::{HashMap, HashSet},
    fmt, fs,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use syscalls::Sysno;

use self::symbols::{Ranges, Symbol};
use super::{
    btf,
    glob::matches,
    signature::{self, Signature},
    tracefs,
};
use crate::Result;

/// A kernel function, and whether a probe can be put on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Its name in the kernel's symbol table.
    pub name: String,
    /// The module it is in; `None` for the kernel itself.
    pub module: Option<String>,
    /// Its first byte; `None` where addresses are hidden (`kernel.kptr_restrict`).
    pub address: Option<u64>,
    /// Whether a kprobe takes it.
    pub state: State,
}

/// Whether something can be probed, as far as the kernel's tables tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing speaks against it.
    Attachable,
    /// It cannot be.
    Refused(Why),
}

/// Why a function cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is on the kernel's list of what kprobes must leave alone.
    Blacklisted,
    /// The kernel's tracer does not know it: `notrace`, or no function at all.
    NoTrace,
    /// It ran at boot and its memory has been given back.
    Init,
    /// The unlikely part of another function, moved away by the compiler.
    Cold,
    /// The bytes before another function.
    Padding,
    /// So many functions have this name, and a name is all that a probe has.
    Duplicated(usize),
}

impl Why {
    /// Whether the symbol is no function at all.
    pub fn is_no_function(&self) -> bool {
        matches!(self, Why::Cold | Why::Padding)
    }

    /// Whether it keeps BPF's own trampolines (fentry, fexit) away too.
    pub fn stops_trampolines(&self) -> bool {
        !matches!(self, Why::Blacklisted | Why::Duplicated(_))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Blacklisted => f.write_str("on the kernel's kprobe blacklist"),
            Why::NoTrace => f.write_str("notrace: the kernel's function tracer does not know it"),
            Why::Init => f.write_str("it ran at boot, and its memory was given back"),
            Why::Cold => f.write_str("no function, but the unlikely part of one"),
            Why::Padding => f.write_str("no function, but the bytes before one"),
            Why::Duplicated(n) => write!(f, "{n} functions have this name"),
        }
    }
}

impl Function {
    /// Why a kprobe cannot be put on it.
    pub fn refused(&self) -> Option<&Why> {
        match &self.state {
            State::Attachable => None,
            State::Refused(why) => Some(why),
        }
    }

    /// The name it has in the source, where the compiler changed it (`.isra.0`, `.constprop.0`, `.part.0`): its
    /// parameters may be others than in the source.
    pub fn renamed(&self) -> Option<&str> {
        self.name.split_once('.').map(|(source, _)| source).filter(|source| !source.is_empty())
    }
}

/// The kernel's table of symbols.
const KALLSYMS: &str = "/proc/kallsyms";

/// The kernel's tables. What is read is kept, so a catalogue shows the modules of the time of its first question.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// The pattern of all the functions that it will be asked for; `None` for any.
    only: Option<String>,
    symbols: OnceCell<Vec<Symbol>>,
    ranges: OnceCell<Ranges>,
    traced: OnceCell<Option<HashSet<String>>>,
    blacklist: OnceCell<HashSet<String>>,
}

impl Catalogue {
    /// A catalogue that has read nothing yet.
    pub fn new() -> Catalogue {
        Catalogue::default()
    }

    /// A catalogue that will be asked for functions of this pattern alone: it keeps no others of the tables.
    pub(super) fn only(pattern: &str) -> Catalogue {
        Catalogue { only: Some(pattern.to_owned()), ..Catalogue::default() }
    }

    /// The kernel functions whose names match, in the order of the kernel's table.
    pub fn functions(&self, pattern: &str) -> Vec<Function> {
        self.read_both();
        let found = self.symbols().iter().filter(|s| matches(pattern, &s.name));
        found.map(|s| self.function(s)).collect()
    }

    /// The kernel functions whose names match and which BTF has a signature of: what fentry and fexit take.
    pub fn typed_functions(&self, pattern: &str) -> Vec<Function> {
        self.signatures(pattern).into_iter().map(|(function, _)| function).collect()
    }

    /// The same functions, each with its signature.
    pub(super) fn signatures(&self, pattern: &str) -> Vec<(Function, Signature)> {
        let mut typed = HashMap::new();
        let mut found = Vec::new();
        for symbol in self.symbols().iter().filter(|s| matches(pattern, &s.name)) {
            let module = symbol.module.as_deref();
            let signatures = typed
                .entry(module)
                .or_insert_with(|| signature::functions_in(module, |n| matches(pattern, n)));
            // Of several functions with one name BTF means the first, and the name is taken.
            found.extend(signatures.remove(&symbol.name).map(|signature| (self.function(symbol), signature)));
        }
        found
    }

    /// The system calls of this architecture whose names match.
    pub fn syscalls(&self, pattern: &str) -> Vec<&'static str> {
        Sysno::iter().map(|s| s.name()).filter(|name| matches(pattern, name)).collect()
    }

    /// The tracepoints whose category and name match, as pairs of the two.
    ///
    /// # Errors
    ///
    /// A precondition where tracefs can neither be read nor mounted.
    pub fn tracepoints(&self, category: &str, name: &str) -> Result<Vec<(String, String)>> {
        let mut all = tracefs::events()?;
        all.retain(|(c, n)| matches(category, c) && matches(name, n));
        Ok(all)
    }

    /// The raw tracepoints of this kernel's BTF whose names match.
    pub fn raw_tracepoints(&self, pattern: &str) -> Vec<String> {
        let mut all = signature::raw_tracepoint_names();
        all.retain(|name| matches(pattern, name));
        all
    }

    /// Whether the kernel's tables could be read at all: without them nothing is said to be absent.
    pub fn has_symbols(&self) -> bool {
        !self.symbols().is_empty()
    }

    /// The names of all kernel functions, those that cannot be probed too.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols().iter().map(|s| &*s.name)
    }

    fn symbols(&self) -> &[Symbol] {
        self.symbols
            .get_or_init(|| symbols::parse(&fs::read(KALLSYMS).unwrap_or_default(), self.only.as_deref()))
    }

    fn traced(&self) -> Option<&HashSet<String>> {
        let read = || Some(symbols::traced(&tracefs::traced_functions()?, self.only.as_deref()));
        self.traced.get_or_init(read).as_ref()
    }

    /// Reads the two large tables that tell of functions side by side: the kernel makes each name of them as it is
    /// read, which is most of the time that finding takes.
    fn read_both(&self) {
        if self.symbols.get().is_some() || self.traced.get().is_some() {
            return;
        }
        let only = self.only.as_deref();
        let all = thread::scope(|scope| {
            let read = || symbols::parse(&fs::read(KALLSYMS).unwrap_or_default(), only);
            let symbols = scope.spawn(read);
            self.traced();
            if only.is_some() {
                // Signatures are looked up next, on this thread: BTF is read while the other table is.
                btf::vmlinux(|_| Some(()));
            }
            symbols.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let _ = self.symbols.set(all);
    }

    fn function(&self, symbol: &Symbol) -> Function {
        Function {
            name: symbol.name.clone(),
            module: symbol.module.clone(),
            address: symbol.address,
            state: self.why(symbol).map_or(State::Attachable, State::Refused),
        }
    }

    fn why(&self, symbol: &Symbol) -> Option<Why> {
        let name = &*symbol.name;
        if name.contains(".cold") {
            return Some(Why::Cold);
        }
        if padded(name).is_some() {
            return Some(Why::Padding);
        }
        let ranges = self.ranges.get_or_init(|| Ranges::of(self.symbols()));
        if symbol.address.is_some_and(|a| ranges.init(a)) {
            return Some(Why::Init);
        }
        let blacklist = self.blacklist.get_or_init(|| {
            symbols::blacklist(&fs::read_to_string("/sys/kernel/debug/kprobes/blacklist").unwrap_or_default())
        });
        if blacklist.contains(name) || symbol.address.is_some_and(|a| ranges.blacklisted(a)) {
            return Some(Why::Blacklisted);
        }
        if self.traced().is_some_and(|traced| !traced.contains(name)) {
            return Some(Why::NoTrace);
        }
        (symbol.named_so > 1).then_some(Why::Duplicated(symbol.named_so))
    }
}

/// A catalogue that this thread has made within the last seconds, or a new one: where a pattern's functions are
/// refused one by one, the tables are read once.
pub(super) fn recent() -> Rc<Catalogue> {
    const RECENT: Duration = Duration::from_secs(5);
    thread_local! {
        static LAST: RefCell<Option<(Instant, Rc<Catalogue>)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some((made, catalogue)) if made.elapsed() < RECENT => catalogue.clone(),
        _ => last.insert((Instant::now(), Rc::default())).1.clone(),
    })
}

/// The function that a symbol of padding stands before.
pub(super) fn padded(name: &str) -> Option<&str> {
    // `__pi_` is put before all symbols of the code that runs before relocation.
    let name = name.strip_prefix("__pi_").unwrap_or(name);
    name.strip_prefix("__pfx_").or_else(|| name.strip_prefix("__cfi_"))
}

/// The module that has a function of this name; `None` where the kernel itself has one, or nobody.
pub(super) fn module_of(name: &str) -> Option<String> {
    symbols::named(&fs::read(KALLSYMS).ok()?, name)?.module
}

/// A catalogue whose tables are these texts.
#[cfg(test)]
pub(super) fn of_tables(kallsyms: &str, traced: Option<&str>, blacklist: &str) -> Catalogue {
    let catalogue = Catalogue::new();
    let _ = catalogue.symbols.set(symbols::parse(kallsyms.as_bytes(), None));
    let _ = catalogue.traced.set(traced.map(|t| symbols::traced(t.as_bytes(), None)));
    let _ = catalogue.blacklist.set(symbols::blacklist(blacklist));
    catalogue
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T __pfx_vfs_read
ffffffff81000010 T vfs_read
ffffffff81000100 t vfs_read.cold
ffffffff81000200 t vfs_statx.isra.0
ffffffff81000300 t vfs_twin
ffffffff81000400 t vfs_twin
ffffffff81000500 T vfs_list
ffffffff81000600 T vfs_still
ffffffff81000700 D vfs_data
ffffffff82000000 T _sinittext
ffffffff82000010 t vfs_boot
ffffffff82000100 T _einittext
ffffffffc0000000 t vfs_mod\t[xfs]
ffffffffc0001000 t bpf_prog_vfs\t[bpf]
";

    #[test]
    fn each_state_has_its_reason() {
        let traced = "vfs_read\nvfs_statx.isra.0\nvfs_twin\nvfs_twin\nvfs_list\nvfs_mod [xfs]\n";
        let catalogue =
            of_tables(KALLSYMS, Some(traced), "0xffffffff81000500-0xffffffff81000600\tvfs_list\n");
        let all = catalogue.functions("*vfs_*");
        let states: Vec<_> = all.iter().map(|f| (&*f.name, f.refused().cloned())).collect();
        assert_eq!(
            states,
            [
                ("__pfx_vfs_read", Some(Why::Padding)),
                ("vfs_read", None),
                ("vfs_read.cold", Some(Why::Cold)),
                ("vfs_statx.isra.0", None),
                ("vfs_twin", Some(Why::Duplicated(2))),
                ("vfs_twin", Some(Why::Duplicated(2))),
                ("vfs_list", Some(Why::Blacklisted)),
                ("vfs_still", Some(Why::NoTrace)),
                ("vfs_boot", Some(Why::Init)),
                ("vfs_mod", None),
            ]
        );
        assert_eq!(all[9].module.as_deref(), Some("xfs"));
        assert_eq!((all[1].address, all[3].renamed()), (Some(0xffff_ffff_8100_0010), Some("vfs_statx")));
        assert_eq!(catalogue.functions("vfs_rea?").len(), 1);
    }

    #[test]
    fn what_cannot_be_read_refuses_nothing() {
        let hidden = KALLSYMS.lines().map(|l| format!("{:016x}{}\n", 0, &l[16..])).collect::<String>();
        let catalogue = of_tables(&hidden, None, "");
        let refused = |name: &str| catalogue.functions(name)[0].refused().cloned();
        assert_eq!(refused("vfs_still"), None);
        assert_eq!(refused("vfs_boot"), None);
        assert_eq!(catalogue.functions("vfs_read")[0].address, None);
    }

    #[test]
    fn this_host_has_what_every_host_has() {
        let catalogue = Catalogue::new();
        assert!(catalogue.syscalls("openat*").contains(&"openat2"));
        if catalogue.has_symbols() {
            assert_eq!(catalogue.functions("vfs_read").len(), 1);
            assert!(catalogue.functions("vfs_*").len() > 20);
        }
        if signature::function("vfs_read").is_some() {
            assert!(catalogue.raw_tracepoints("sched_*").contains(&"sched_switch".to_owned()));
            let typed = catalogue.signatures("vfs_rea?");
            assert!(typed.iter().all(|(f, s)| f.name == "vfs_read" && s.params[0].name == "file"));
            assert_eq!(typed.len(), usize::from(catalogue.has_symbols()));
        }
    }
}

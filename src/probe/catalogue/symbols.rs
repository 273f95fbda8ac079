//! The texts of the kernel's tables of functions, taken apart.

use std::collections::{HashMap, HashSet};

use super::{
    super::glob::matches,
    lines::{lines_with, literal},
};

/// A symbol of the kernel's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub module: Option<String>,
    /// `None` where the table shows zero.
    pub address: Option<u64>,
    /// How many of the table have this name, itself included.
    pub named_so: usize,
}

/// The symbols of text whose names match, and the marks beside them, weak ones too, in a table as `/proc/kallsyms` has
/// it; all symbols without a pattern.
pub fn parse(kallsyms: &[u8], only: Option<&str>) -> Vec<Symbol> {
    let pieces = only.map_or(vec![""], |pattern| vec![literal(pattern), MARKED]);
    let wanted =
        |symbol: &Symbol| only.is_none_or(|pattern| matches(pattern, &symbol.name) || is_mark(&symbol.name));
    let mut symbols: Vec<Symbol> = lines_with(kallsyms, &pieces).filter_map(symbol).filter(wanted).collect();
    let mut count: HashMap<&str, usize> = HashMap::with_capacity(symbols.len());
    for symbol in &symbols {
        *count.entry(&symbol.name).or_default() += 1;
    }
    let counts: Vec<usize> = symbols.iter().map(|s| count[&*s.name]).collect();
    symbols.iter_mut().zip(counts).for_each(|(symbol, n)| symbol.named_so = n);
    symbols
}

/// A line of `/proc/kallsyms`; `None` for what is no text, or made while the kernel runs.
pub fn symbol(line: &str) -> Option<Symbol> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    if !matches!(kind, "T" | "t" | "W" | "w") {
        return None;
    }
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => (name, Some(module.trim_matches(['[', ']', ' ']))),
        None => (rest, None),
    };
    // BPF's programs and trampolines: no probe can name them.
    if module.is_some_and(|m| m == "bpf" || m.starts_with("__builtin__")) {
        return None;
    }
    Some(Symbol {
        name: name.to_owned(),
        module: module.map(str::to_owned),
        address: u64::from_str_radix(address, 16).ok().filter(|a| *a != 0),
        named_so: 1,
    })
}

/// The line of `/proc/kallsyms` that has this name.
pub fn named(kallsyms: &[u8], name: &str) -> Option<Symbol> {
    lines_with(kallsyms, &[name]).filter_map(symbol).find(|s| s.name == name)
}

/// The names of `available_filter_functions` that match, or all: what the kernel's function tracer knows.
pub fn traced(text: &[u8], only: Option<&str>) -> HashSet<String> {
    let lines = lines_with(text, &[only.map_or("", literal)]);
    let names = lines.filter_map(|line| line.split([' ', '\t']).next());
    names.filter(|name| only.is_none_or(|pattern| matches(pattern, name))).map(str::to_owned).collect()
}

/// The names of the kprobe blacklist of debugfs.
pub fn blacklist(text: &str) -> HashSet<String> {
    text.lines().filter_map(|l| l.split_whitespace().nth(1)).map(str::to_owned).collect()
}

/// Pieces of the kernel's text, told by the symbols that its linker put around them.
#[derive(Debug, Default)]
pub struct Ranges {
    init: Option<(u64, u64)>,
    blacklisted: Vec<(u64, u64)>,
}

/// What `populate_kprobe_blacklist` (kernel/kprobes.c) and `arch_populate_kprobe_blacklist` shut off as a whole.
const SHUT: [(&str, &str); 3] = [
    ("__kprobes_text_start", "__kprobes_text_end"),
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__entry_text_start", "__entry_text_end"),
];

const INIT: (&str, &str) = ("_sinittext", "_einittext");

/// What stands in the name of each mark of these pieces.
const MARKED: &str = "text";

/// Whether a symbol may be one of the marks of these pieces.
fn is_mark(name: &str) -> bool {
    name.starts_with('_') && name.contains(MARKED)
}

impl Ranges {
    /// Empty where addresses are hidden.
    pub fn of(symbols: &[Symbol]) -> Ranges {
        // Once over the table, for names that all begin so.
        let marks: HashMap<&str, u64> = symbols
            .iter()
            .filter(|s| s.module.is_none() && is_mark(&s.name))
            .filter_map(|s| Some((&*s.name, s.address?)))
            .collect();
        let range = |(begin, end): &(&str, &str)| marks.get(begin).copied().zip(marks.get(end).copied());
        Ranges { init: range(&INIT), blacklisted: SHUT.iter().filter_map(range).collect() }
    }

    /// Whether an address was the kernel's while it booted.
    pub fn init(&self, address: u64) -> bool {
        self.init.is_some_and(|range| within(range, address))
    }

    /// Whether an address lies in text that no kprobe may touch.
    pub fn blacklisted(&self, address: u64) -> bool {
        self.blacklisted.iter().any(|range| within(*range, address))
    }
}

fn within((begin, end): (u64, u64), address: u64) -> bool {
    (begin..end).contains(&address)
}

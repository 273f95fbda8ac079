//! The kinds of hooks, by the names the user knows them.

/// A kind of hook, by the name the user knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// `kprobe`, `k`: a kernel function's entry, or an instruction within it.
    Kprobe,
    /// `kretprobe`, `kr`: a kernel function's return.
    Kretprobe,
    /// `fentry`, `f`: a kernel function's entry through BPF's own trampoline.
    Fentry,
    /// `fexit`, `fr`: a kernel function's return, with its arguments.
    Fexit,
    /// `tracepoint`, `t`: `CATEGORY:NAME`.
    Tracepoint,
    /// `rawtracepoint`, `rt`: a tracepoint's own arguments.
    RawTracepoint,
    /// `uprobe`, `u`: `PATH:SYMBOL[+OFF]` of a program or library.
    Uprobe,
    /// `uretprobe`, `ur`: its return.
    Uretprobe,
    /// `syscall`, `s`: a system call by name, by the best hook this kernel has.
    Syscall,
    /// `usdt`: `PATH:PROVIDER:NAME`, a probe that a program's author put into it.
    Usdt,
    /// `object`, `o`: `FILE[:PROGRAM]`, the user's own BPF object.
    Object,
}

const PROVIDERS: [(&str, &str, Provider); 11] = [
    ("k", "kprobe", Provider::Kprobe),
    ("kr", "kretprobe", Provider::Kretprobe),
    ("f", "fentry", Provider::Fentry),
    ("fr", "fexit", Provider::Fexit),
    ("t", "tracepoint", Provider::Tracepoint),
    ("rt", "rawtracepoint", Provider::RawTracepoint),
    ("u", "uprobe", Provider::Uprobe),
    ("ur", "uretprobe", Provider::Uretprobe),
    ("s", "syscall", Provider::Syscall),
    ("usdt", "usdt", Provider::Usdt),
    ("o", "object", Provider::Object),
];

/// What other tools call them.
const ELSEWHERE: [(&str, Provider); 12] = [
    ("kfunc", Provider::Fentry),
    ("kretfunc", Provider::Fexit),
    ("kp", Provider::Kprobe),
    ("krp", Provider::Kretprobe),
    ("p", Provider::Kprobe),
    ("r", Provider::Kretprobe),
    ("tp", Provider::Tracepoint),
    ("raw_tp", Provider::RawTracepoint),
    ("raw_tracepoint", Provider::RawTracepoint),
    ("sdt", Provider::Usdt),
    ("sys", Provider::Syscall),
    ("bpf", Provider::Object),
];

impl Provider {
    /// Its short name, for example `kr`.
    pub fn short(self) -> &'static str {
        self.names().0
    }

    /// Its long name, for example `kretprobe`.
    pub fn long(self) -> &'static str {
        self.names().1
    }

    /// The shape of what stands after its name.
    pub fn shape(self) -> &'static str {
        match self {
            Provider::Kprobe => "k:FUNCTION[+OFFSET]",
            Provider::Kretprobe => "kr:FUNCTION",
            Provider::Fentry => "f:FUNCTION",
            Provider::Fexit => "fr:FUNCTION",
            Provider::Tracepoint => "t:CATEGORY:NAME",
            Provider::RawTracepoint => "rt:NAME",
            Provider::Uprobe => "u:PATH:SYMBOL[+OFFSET]",
            Provider::Uretprobe => "ur:PATH:SYMBOL",
            Provider::Syscall => "s:NAME",
            Provider::Usdt => "usdt:PATH:PROVIDER:NAME",
            Provider::Object => "o:FILE[:PROGRAM]",
        }
    }

    /// The provider of this name, short or long.
    pub fn named(word: &str) -> Option<Provider> {
        PROVIDERS.iter().find(|(short, long, _)| *short == word || *long == word).map(|&(.., p)| p)
    }

    /// Whether it hooks the return.
    pub fn is_return(self) -> bool {
        matches!(self, Provider::Kretprobe | Provider::Fexit | Provider::Uretprobe)
    }

    /// Whether it hooks what processes run: its path is that of a program or library.
    pub fn is_in_process(self) -> bool {
        matches!(self, Provider::Uprobe | Provider::Uretprobe | Provider::Usdt)
    }

    /// Whether its scope is the path of a file.
    pub fn has_path(self) -> bool {
        matches!(self, Provider::Uprobe | Provider::Uretprobe | Provider::Usdt | Provider::Object)
    }

    /// Whether an instruction within the function can be named.
    pub(super) fn takes_offset(self) -> bool {
        matches!(self, Provider::Kprobe | Provider::Uprobe)
    }

    /// What was probably meant by a word that is no provider.
    pub(super) fn near(word: &str) -> Option<Provider> {
        if let Some((_, provider)) = ELSEWHERE.iter().find(|(name, _)| *name == word) {
            return Some(*provider);
        }
        let scored = PROVIDERS.iter().map(|&(_, long, p)| (strsim::jaro_winkler(word, long), p));
        scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, p)| p)
    }

    /// All of them, for a message.
    pub(super) fn list() -> String {
        let all: Vec<_> = PROVIDERS
            .iter()
            .map(|(short, long, _)| match short == long {
                true => (*long).to_owned(),
                false => format!("{long} ({short})"),
            })
            .collect();
        all.join(", ")
    }

    fn names(self) -> (&'static str, &'static str) {
        let found = PROVIDERS.iter().find(|(_, _, p)| *p == self);
        found.map_or(("", ""), |&(short, long, _)| (short, long))
    }
}

//! What the user types: `[NAME=]PROVIDER:TARGET[+OFF]`.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

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
}

const PROVIDERS: [(&str, &str, Provider); 9] = [
    ("k", "kprobe", Provider::Kprobe),
    ("kr", "kretprobe", Provider::Kretprobe),
    ("f", "fentry", Provider::Fentry),
    ("fr", "fexit", Provider::Fexit),
    ("t", "tracepoint", Provider::Tracepoint),
    ("rt", "rawtracepoint", Provider::RawTracepoint),
    ("u", "uprobe", Provider::Uprobe),
    ("ur", "uretprobe", Provider::Uretprobe),
    ("s", "syscall", Provider::Syscall),
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

    fn names(self) -> (&'static str, &'static str) {
        let found = PROVIDERS.iter().find(|(_, _, p)| *p == self);
        found.map_or(("", ""), |&(short, long, _)| (short, long))
    }

    fn in_user_space(self) -> bool {
        matches!(self, Provider::Uprobe | Provider::Uretprobe)
    }

    fn takes_offset(self) -> bool {
        matches!(self, Provider::Kprobe | Provider::Uprobe)
    }
}

/// One probe as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What stood before `=`.
    pub name: Option<String>,
    /// The kind of hook.
    pub provider: Provider,
    /// The file of a uprobe, the category of a tracepoint; empty elsewhere.
    pub scope: String,
    /// The function, symbol, tracepoint or system call.
    pub target: String,
    /// Bytes into the function.
    pub offset: u64,
}

impl Spec {
    /// The name of its events.
    pub fn event_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| match self.provider {
            Provider::Kretprobe | Provider::Fexit | Provider::Uretprobe => format!("{}_return", self.target),
            _ => self.target.clone(),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}:", self.provider.short())?;
        if !self.scope.is_empty() {
            write!(f, "{}:", self.scope)?;
        }
        f.write_str(&self.target)?;
        if self.offset != 0 {
            write!(f, "+{:#x}", self.offset)?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Spec> {
        let wrong = |why: String| Error::usage(format!("spec '{text}': {why}"));
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            Some((name, _)) if !name.contains([':', '/', '{']) => {
                return Err(wrong(format!("'{name}' is no name: letters, digits and '_' make one")));
            }
            _ => (None, text),
        };
        let (provider, target) = match rest.split_once(':') {
            None => (Provider::Kprobe, rest),
            Some((word, target)) => {
                let known = PROVIDERS.iter().find(|(short, long, _)| *short == word || *long == word);
                let Some((_, _, provider)) = known else {
                    let all: Vec<_> = PROVIDERS.iter().map(|(s, l, _)| format!("{l} ({s})")).collect();
                    return Err(wrong(format!("'{word}' is no provider"))
                        .with_help(format!("providers: {}", all.join(", "))));
                };
                (*provider, target)
            }
        };
        let (scope, target) = match provider {
            _ if provider.in_user_space() => target
                .rsplit_once(':')
                .filter(|(path, symbol)| !path.is_empty() && !symbol.is_empty())
                .ok_or_else(|| wrong(format!("expected {}:PATH:SYMBOL[+OFFSET]", provider.short())))?,
            Provider::Tracepoint => target
                .split_once(':')
                .filter(|(category, name)| !category.is_empty() && !name.is_empty())
                .ok_or_else(|| {
                    wrong("expected t:CATEGORY:NAME, such as t:sched:sched_process_exec".into())
                })?,
            _ => ("", target),
        };
        later(target).map_or(Ok(()), |what| {
            Err(wrong(format!("{what} are not supported by this version"))
                .with_help("without them all arguments are shown; filter with -p, --comm, -u or --cgroup"))
        })?;
        let (target, offset) = match target.split_once('+') {
            None => (target, 0),
            Some(_) if !provider.takes_offset() => {
                return Err(wrong(format!("an offset has no meaning for {}", provider.long())));
            }
            Some((target, offset)) => {
                let parsed = match offset.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => offset.parse(),
                };
                (target, parsed.map_err(|_| wrong(format!("'{offset}' is no offset in bytes")))?)
            }
        };
        if target.is_empty() {
            return Err(wrong(format!("what is to be probed is missing after '{}:'", provider.short())));
        }
        if let Some(bad) = target.chars().find(|c| !(c.is_ascii_alphanumeric() || "_.$@~".contains(*c))) {
            return Err(wrong(format!("'{bad}' cannot stand in a name")));
        }
        Ok(Spec { name, provider, scope: scope.to_owned(), target: target.to_owned(), offset })
    }
}

/// What of a target's text belongs to a part of the grammar that is not built yet.
fn later(target: &str) -> Option<&'static str> {
    [('{', "field lists ({…})"), ('/', "predicates (/…/)"), ('*', "wildcards"), ('?', "wildcards")]
        .into_iter()
        .find_map(|(mark, what)| target.contains(mark).then_some(what))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for text in [
            "k:vfs_write",
            "k:vfs_write+0x10",
            "kr:vfs_read",
            "f:vfs_read",
            "fr:vfs_read",
            "t:sched:sched_process_exec",
            "rt:sched_switch",
            "u:/bin/bash:readline",
            "u:/lib/x86_64-linux-gnu/libc.so.6:malloc+0x4",
            "ur:/bin/bash:readline",
            "mine=s:write",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("kprobe:vfs_write".parse::<Spec>().unwrap().to_string(), "k:vfs_write");
        assert_eq!("vfs_write".parse::<Spec>().unwrap().to_string(), "k:vfs_write");
        assert_eq!("k:f+16".parse::<Spec>().unwrap().offset, 16);
    }

    #[test]
    fn refusals_name_the_reason() {
        for (text, word) in [
            ("", "missing"),
            ("s:", "missing"),
            ("x:write", "no provider"),
            ("t:sched_switch", "CATEGORY"),
            ("u:bash", "PATH:SYMBOL"),
            ("kr:f+4", "offset"),
            ("k:f+z", "no offset"),
            ("k:tcp_*", "wildcards"),
            ("k:vfs_read/pid==1/", "predicates"),
            ("k:vfs_read{count}", "field lists"),
            ("1a=s:write", "no name"),
            ("k:a b", "cannot stand"),
        ] {
            let error = text.parse::<Spec>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage);
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}

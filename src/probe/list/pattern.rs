//! What is asked to be listed, as it is typed.

use std::{path::Path, str::FromStr};

use crate::{
    Error, Result,
    probe::spec::{Provider, Spec},
};

/// What is asked for: `PROVIDER:GLOB`, or a glob that any provider may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The kind of hook; `None` for all of the kernel's.
    pub provider: Option<Provider>,
    /// A file, or a pattern of categories.
    pub scope: String,
    /// A pattern of names.
    pub target: String,
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pattern> {
        let pattern = |provider, scope: &str, target: &str| {
            Ok(Pattern { provider, scope: scope.into(), target: target.into() })
        };
        let Some((word, rest)) = text.split_once(':') else { return pattern(None, "*", text) };
        let Some(provider) = Provider::named(word) else {
            // perf's way to write a tracepoint.
            return pattern(Some(Provider::Tracepoint), word, rest);
        };
        match provider {
            Provider::Tracepoint => {
                let (category, name) = rest.split_once(':').unwrap_or((rest, "*"));
                pattern(Some(provider), category, name)
            }
            Provider::Uprobe | Provider::Uretprobe | Provider::Usdt => {
                // The grammar knows how a path is quoted; a path alone means all that is in it.
                let read =
                    text.parse::<Spec>().ok().filter(|s| !Path::new(rest).exists() && !s.target.is_empty());
                match read {
                    Some(spec) => pattern(Some(provider), &spec.scope, &spec.target),
                    None => match rest.split_once(':') {
                        Some((path, name)) if !Path::new(rest).exists() => {
                            pattern(Some(provider), path, name)
                        }
                        _ => pattern(Some(provider), rest, "*"),
                    },
                }
            }
            Provider::Object => Err(Error::usage(format!(
                "'{text}': the programs of an object are not listed"
            ))
            .with_help(format!("bpftool prog load and llvm-objdump -h show them; to run them: {text}"))),
            _ => pattern(Some(provider), "", rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn patterns_as_they_are_typed() {
        let cases = [
            ("*", None, "*", "*"),
            ("vfs_*", None, "*", "vfs_*"),
            ("k:vfs_*", Some(Provider::Kprobe), "", "vfs_*"),
            ("t:sched", Some(Provider::Tracepoint), "sched", "*"),
            ("t:sched:*sw*", Some(Provider::Tracepoint), "sched", "*sw*"),
            ("sched:sched_switch", Some(Provider::Tracepoint), "sched", "sched_switch"),
            ("u:/no/such/file:main*", Some(Provider::Uprobe), "/no/such/file", "main*"),
            ("u:/etc/passwd", Some(Provider::Uprobe), "/etc/passwd", "*"),
            ("usdt:libc.so.6:libc:*", Some(Provider::Usdt), "libc.so.6", "libc:*"),
            ("usdt:libc.so.6", Some(Provider::Usdt), "libc.so.6", "*"),
        ];
        for (typed, provider, scope, target) in cases {
            let wanted = Pattern { provider, scope: scope.into(), target: target.into() };
            assert_eq!(typed.parse::<Pattern>().unwrap(), wanted, "{typed}");
        }
        assert_eq!("o:x.bpf.o".parse::<Pattern>().unwrap_err().kind(), ErrorKind::Usage);
    }
}

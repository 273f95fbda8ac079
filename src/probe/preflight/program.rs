//! Why a program takes no uprobe: it is none, has no symbols, or not that one.

use std::path::Path;

use super::{Error, ErrorKind, near};
use crate::probe::{elf, spec::Spec};

/// The error for a symbol that a program has not; `None` where it has.
pub fn absent(spec: &Spec, path: &str, symbol: &str) -> Option<Error> {
    let cannot = |why: String| Error::new(ErrorKind::Attach, format!("{spec}: cannot attach: {why}"));
    let names = match elf::functions(Path::new(path)) {
        Ok(names) => names,
        Err(error) => return Some(error.context(format!("{spec}: cannot attach"))),
    };
    if names.is_empty() {
        return Some(cannot(format!("{path} has no symbols of functions: it was stripped")).with_help(format!(
            "take a build with symbols, a library that it calls, or a probe of its author's (tracer list usdt:{path})"
        )));
    }
    if names.iter().any(|name| name == symbol) {
        return None;
    }
    let short = spec.provider.short();
    let way_out = near(symbol, names, |name| format!("{short}:{path}:{name}"));
    Some(cannot(format!("{path} has no function {symbol}")).with_help(way_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told() {
        let me = std::env::current_exe().unwrap().display().to_string();
        let told = |path: &str, symbol: &str| {
            let spec: Spec = format!("u:{path}:{symbol}").parse().unwrap();
            absent(&spec, path, symbol).map(|e| format!("{e} | {}", e.help().unwrap_or_default()))
        };
        assert_eq!(told(&me, "main"), None);
        let near = told(&me, "mian").unwrap();
        assert!(
            near.contains("has no function mian | did you mean") && near.contains(&format!("u:{me}:main")),
            "{near}"
        );
        assert!(
            told("/proc/self/status", "main").unwrap().contains("reading the symbols of /proc/self/status")
        );
    }
}

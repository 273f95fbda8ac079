//! Why a kernel function takes no probe: absent, renamed, in a module that is not loaded, or shut off.

use std::fs;

use super::{Error, ErrorKind, host, near};
use crate::probe::{
    catalogue::{self, Catalogue, Why, padded},
    spec::Spec,
};

fn cannot(spec: &Spec, why: &str, way_out: impl Into<String>) -> Error {
    Error::new(ErrorKind::Attach, format!("{spec}: cannot attach: {why}")).with_help(way_out)
}

/// The error for a function that is not there; `None` where it is, or where nothing tells.
pub fn absent(spec: &Spec, symbol: &str, catalogue: &Catalogue) -> Option<Error> {
    if !catalogue.has_symbols() || catalogue.names().any(|name| name == symbol) {
        return None;
    }
    let with_suffix = |name: &&str| {
        let rest = name.strip_prefix(symbol);
        rest.is_some_and(|rest| rest.starts_with('.') && !rest.contains(".cold"))
    };
    let renamed: Vec<_> = catalogue.names().filter(with_suffix).map(|name| format!("k:{name}")).collect();
    if !renamed.is_empty() {
        let way_out = format!("it may be there as {}", renamed.join(", "));
        return Some(cannot(spec, &format!("the compiler renamed {symbol}"), way_out));
    }
    if let Some(module) = exported_by(symbol) {
        let why = format!("{symbol} is in the module {module}, which is not loaded");
        return Some(cannot(spec, &why, format!("modprobe {module}")));
    }
    let why =
        format!("{symbol} is no symbol of this kernel (absent, inlined, or in a module that is not loaded)");
    // Few mistype the first letters, and a comparison with every symbol takes a second.
    let alike = |name: &&str| {
        name.len().abs_diff(symbol.len()) <= 4 && name.get(..2) == symbol.get(..2) && !name.contains('.')
    };
    let names = catalogue.names().filter(alike).map(str::to_owned).collect();
    Some(cannot(spec, &why, near(symbol, names, |n| format!("{}:{n}", spec.provider.short()))))
}

/// The error for a function that this kernel's BTF does not know.
pub fn explain_absent(spec: &Spec, symbol: &str) -> Error {
    absent(spec, symbol, &catalogue::recent()).unwrap_or_else(|| {
        cannot(
            spec,
            &format!("{symbol} has no type in the kernel's BTF"),
            format!("try k:{symbol}, which needs none"),
        )
    })
}

/// The error for a function that the kernel's tables shut off, for kprobes or for trampolines.
pub fn shut_off(spec: &Spec, symbol: &str, trampoline: bool, catalogue: &Catalogue) -> Option<Error> {
    let functions = catalogue.functions(symbol);
    let why = functions.first()?.refused().filter(|why| !trampoline || why.stops_trampolines())?;
    let way_out = match why {
        Why::Cold => {
            format!("probe the function itself: k:{}", symbol.split(".cold").next().unwrap_or(symbol))
        }
        Why::Padding => format!("probe the function itself: k:{}", padded(symbol).unwrap_or(symbol)),
        Why::Duplicated(_) => format!(
            "f:{symbol} takes the one that BTF knows; tracer list -v 'k:{symbol}' shows where they are"
        ),
        _ => "probe a function that calls it or that it calls".into(),
    };
    Some(cannot(spec, &format!("{symbol}: {why}"), way_out))
}

/// The module that exports a symbol, as `depmod` wrote it down for this kernel.
fn exported_by(symbol: &str) -> Option<String> {
    let table = fs::read_to_string(format!("/lib/modules/{}/modules.symbols", host::release())).ok()?;
    module_of(&table, symbol)
}

/// Lines are `alias symbol:NAME MODULE`.
fn module_of(table: &str, symbol: &str) -> Option<String> {
    let lines = table.lines().filter_map(|line| line.strip_prefix("alias symbol:")?.split_once(' '));
    lines.into_iter().find(|(name, _)| *name == symbol).map(|(_, module)| module.to_owned())
}

/// How many bytes a kernel function has, up to the next symbol; `None` where addresses are hidden.
pub fn function_size(symbol: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/kallsyms").ok()?;
    let entries = table.lines().filter_map(|line| {
        let mut columns = line.split([' ', '\t']);
        let address = u64::from_str_radix(columns.next()?, 16).ok().filter(|a| *a != 0)?;
        Some((address, columns.nth(1)?))
    });
    let begin = entries.clone().find(|(_, name)| *name == symbol)?.0;
    let end = entries.map(|(address, _)| address).filter(|address| *address > begin).min()?;
    Some(end - begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::catalogue::of_tables;

    const KALLSYMS: &str = "\
ffffffff81000010 T vfs_read
ffffffff81000100 t vfs_read.cold
ffffffff81000200 t vfs_statx.isra.0
ffffffff81000300 t vfs_twin
ffffffff81000400 t vfs_twin
ffffffff81000600 T vfs_still
";

    fn told(spec: &str) -> String {
        let spec: Spec = spec.parse().unwrap();
        let catalogue = of_tables(KALLSYMS, Some("vfs_read\nvfs_twin\n"), "");
        let error = absent(&spec, &spec.target, &catalogue)
            .or_else(|| shut_off(&spec, &spec.target, spec.provider.short() == "f", &catalogue));
        error.map_or_else(String::new, |e| format!("{e} | {}", e.help().unwrap_or_default()))
    }

    #[test]
    fn each_reason_has_its_way_out() {
        assert_eq!(told("k:vfs_read"), "");
        assert!(
            told("k:vfs_statx")
                .ends_with("the compiler renamed vfs_statx | it may be there as k:vfs_statx.isra.0")
        );
        assert!(told("k:vfs_read.cold").ends_with("| probe the function itself: k:vfs_read"));
        assert!(told("k:vfs_twin").contains("2 functions have this name | f:vfs_twin takes"));
        assert_eq!(told("f:vfs_twin"), "");
        assert!(told("f:vfs_still").contains("notrace"));
        assert!(told("k:vfs_raed").ends_with("did you mean k:vfs_read?"), "{}", told("k:vfs_raed"));
    }

    #[test]
    fn a_module_by_what_it_exports() {
        let table = "# Aliases for symbols, used by symbol_request().\nalias symbol:nf_ct_get nf_conntrack\n";
        assert_eq!(module_of(table, "nf_ct_get").as_deref(), Some("nf_conntrack"));
        assert_eq!(module_of(table, "nf_ct"), None);
    }
}

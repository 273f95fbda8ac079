//! What a pattern stands for: every probe that it matches, with its parameters, or why it cannot be.

mod pattern;

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    fmt,
    ops::ControlFlow,
    path::Path,
};

pub use self::pattern::Pattern;
use super::{
    catalogue::{Catalogue, Function, Why},
    debug, elf,
    glob::matches,
    preflight, resolve,
    signature::{self, Param, Signature},
    spec::{Provider, Spec},
    tracefs,
};
use crate::{Error, ErrorKind, Result, schema::format};

/// Something that can be probed, or why it cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The kind of hook.
    pub provider: Provider,
    /// The file of a uprobe or USDT probe, the category of a tracepoint; empty elsewhere.
    pub scope: String,
    /// The function, symbol, tracepoint or system call.
    pub target: String,
    /// The module a kernel function is in.
    pub module: Option<String>,
    /// A kernel function's address, where it is not hidden.
    pub address: Option<u64>,
    /// Why it cannot be probed.
    pub refused: Option<String>,
    /// Type and name of each parameter, or field of its record; `None` where they are not known.
    pub params: Option<Vec<(String, String)>>,
    /// The type of what it returns; `None` for void or where it is not known.
    pub ret: Option<String>,
    /// It is no function but what lies before one: worth a line only where everything is asked for.
    pub padding: bool,
}

impl fmt::Display for Listed {
    /// As a spec, to be run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = Spec {
            name: None,
            provider: self.provider,
            scope: self.scope.clone(),
            target: self.target.clone(),
            offset: 0,
            predicate: None,
            fields: None,
        };
        spec.fmt(f)
    }
}

/// Whoever takes what is listed; `Break` ends the listing.
pub type Taker<'a> = &'a mut (dyn FnMut(Listed) -> ControlFlow<()> + Send);

/// Hands over everything that a pattern matches.
///
/// What could not be looked at, where no kind of hook was asked for by name, is in the errors returned.
///
/// # Errors
///
/// Attach: a file that cannot be read. Precondition: a table that was asked for by name and cannot be read.
pub fn list(catalogue: &mut Catalogue, pattern: &Pattern, take: Taker<'_>) -> Result<Vec<Error>> {
    // Formats are read one by one, and tracefs may have to be mounted for that: once, if at all.
    let whole = tracefs::with(|_| Ok(providers(&mut *catalogue, pattern, &mut *take)));
    whole.unwrap_or_else(|_| providers(catalogue, pattern, take))
}

const KERNEL: [Provider; 5] =
    [Provider::Syscall, Provider::Tracepoint, Provider::RawTracepoint, Provider::Kprobe, Provider::Fentry];

fn providers(catalogue: &mut Catalogue, pattern: &Pattern, take: Taker<'_>) -> Result<Vec<Error>> {
    let typed = OnceCell::new();
    if let Some(provider) = pattern.provider {
        let _ = one(catalogue, provider, pattern, &typed, take)?;
        return Ok(Vec::new());
    }
    let mut unseen = Vec::new();
    for provider in KERNEL {
        match one(catalogue, provider, pattern, &typed, take) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) => unseen.push(error),
        }
    }
    Ok(unseen)
}

fn one(
    catalogue: &Catalogue,
    provider: Provider,
    pattern: &Pattern,
    typed: &OnceCell<Vec<(Function, Signature)>>,
    take: Taker<'_>,
) -> Result<ControlFlow<()>> {
    let Pattern { scope, target, .. } = pattern;
    let typed = || typed.get_or_init(|| catalogue.signatures(target));
    let named = |scope: &str, target: &str| Listed {
        provider,
        scope: scope.into(),
        target: target.into(),
        module: None,
        address: None,
        refused: None,
        params: None,
        ret: None,
        padding: false,
    };
    Ok(match provider {
        Provider::Syscall => {
            let params = resolve::all_syscall_params();
            catalogue.syscalls(target).into_iter().try_for_each(|name| {
                take(Listed { params: params(name).as_deref().map(declared), ..named("", name) })
            })
        }
        Provider::Tracepoint => {
            catalogue.tracepoints(scope, target)?.iter().try_for_each(|(category, name)| {
                let fields = tracefs::format(category, name).ok().flatten().map(|text| {
                    let fields = format::fields(&text);
                    fields.into_iter().map(|f| (f.type_name, f.name)).collect()
                });
                take(Listed { params: fields, ..named(category, name) })
            })
        }
        Provider::RawTracepoint => {
            let all = signature::raw_tracepoints(|name| matches(target, name));
            all.iter().try_for_each(|(name, params)| {
                take(Listed { params: params.as_deref().map(declared), ..named("", name) })
            })
        }
        Provider::Kprobe | Provider::Kretprobe => {
            let never = preflight::kprobes(target).err().map(|e| e.to_string());
            let typed = typed().iter().map(|(f, s)| ((&*f.name, f.module.as_deref()), s));
            let typed: HashMap<_, _> = typed.collect();
            let mut seen = HashSet::new();
            catalogue.functions(target).into_iter().try_for_each(|function| {
                let key = (function.name.clone(), function.module.clone());
                let signature = typed.get(&(&*key.0, key.1.as_deref())).copied();
                if !seen.insert(key) {
                    return ControlFlow::Continue(());
                }
                let refused = never.clone().or_else(|| function.refused().map(Why::to_string));
                take(of_function(named("", ""), function, signature, refused))
            })
        }
        Provider::Fentry | Provider::Fexit => typed().iter().try_for_each(|(function, signature)| {
            let refused = function.refused().filter(|why| why.stops_trampolines()).map(Why::to_string);
            take(of_function(named("", ""), function.clone(), Some(signature), refused))
        }),
        Provider::Uprobe | Provider::Uretprobe => {
            let path = resolve::program(scope)?;
            let mut names = elf::functions(Path::new(&path))?;
            names.retain(|name| matches(target, name));
            let all = names.iter().try_for_each(|name| {
                let listed = named(&path, name);
                take(match debug::function(&path, name, false, &[]) {
                    Ok(debug::Described { taken, .. }) => Listed {
                        params: Some(taken.params.iter().map(|(param, _)| declared_one(param)).collect()),
                        ret: taken.ret.map(|(ret, _)| ret.type_name),
                        ..listed
                    },
                    Err(_) => listed,
                })
            });
            debug::forget();
            all
        }
        Provider::Usdt => {
            let path = resolve::program(scope)?;
            elf::notes(Path::new(&path))?.iter().try_for_each(|note| {
                let name = format!("{}:{}", note.provider, note.name);
                if !matches(target, &name) {
                    return ControlFlow::Continue(());
                }
                let places = note.args.split_whitespace().enumerate();
                let params = places.map(|(i, place)| (place.to_owned(), format!("arg{i}"))).collect();
                take(Listed { params: Some(params), ..named(&path, &name) })
            })
        }
        Provider::Object => ControlFlow::Continue(()),
    })
}

fn of_function(
    listed: Listed,
    function: Function,
    signature: Option<&Signature>,
    refused: Option<String>,
) -> Listed {
    Listed {
        padding: function.refused() == Some(&Why::Padding),
        target: function.name,
        module: function.module,
        address: function.address,
        refused,
        params: signature.map(|s| declared(&s.params)),
        ret: signature.and_then(|s| s.ret.as_ref()).map(|r| r.type_name.clone()),
        ..listed
    }
}

fn declared(params: &[Param]) -> Vec<(String, String)> {
    params.iter().map(declared_one).collect()
}

fn declared_one(param: &Param) -> (String, String) {
    (param.type_name.clone(), param.name.clone())
}

/// The error for a pattern that matches nothing, with names that contain it or are near it.
pub fn nothing(catalogue: &mut Catalogue, pattern: &Pattern, typed: &str) -> Error {
    let error = Error::new(ErrorKind::Attach, format!("nothing that can be probed matches '{typed}'"));
    let bare = pattern.target.replace(['*', '?'], "");
    let mut near = HashMap::new();
    let mut gather = |target: &str| {
        // A mistyped category hides the names in it.
        let scope = if pattern.scope.contains('/') { pattern.scope.clone() } else { "*".into() };
        let wide = Pattern { scope, target: target.to_owned(), ..pattern.clone() };
        let _ = list(catalogue, &wide, &mut |listed| {
            if !listed.padding {
                near.entry(listed.target.clone()).or_insert(listed.to_string());
            }
            ControlFlow::Continue(())
        });
        near.len()
    };
    if bare.is_empty() {
        return error;
    }
    let around = format!("*{bare}*");
    match gather(&around) {
        0 => {}
        found => return error.with_help(format!("{found} names contain it: tracer list '{around}'")),
    }
    // Few mistype the first letters, and to compare with every name takes a second.
    gather(&format!("{}*", bare.chars().take(2).collect::<String>()));
    near.retain(|name, _| name.len().abs_diff(bare.len()) <= 4);
    let names = near.keys().cloned().collect();
    error.with_help(preflight::near(&bare, names, |name| near.get(name).cloned().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_answered_with_near_ones() {
        let help = |typed: &str| {
            let pattern = typed.parse().unwrap();
            nothing(&mut Catalogue::new(), &pattern, typed).help().unwrap_or_default().to_owned()
        };
        assert_eq!(help("s:openta"), "did you mean s:openat, s:openat2, s:open, s:open_tree?");
        assert!(help("s:tim").contains("tracer list '*tim*'"), "{}", help("s:tim"));
    }
}

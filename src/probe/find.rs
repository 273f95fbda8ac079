//! A spec to all that it matches: one thing, or what its wildcards find in the kernel's tables.

use std::{collections::HashMap, fmt, path::Path};

use super::{
    capture::{capture, capture_shared},
    catalogue::{Catalogue, Function},
    debug, elf,
    glob::matches,
    hook::Hook,
    resolve::{on_function, program, resolve, servable},
    signature::{self, Signature},
    spec::{Provider, Spec},
};
use crate::{Error, ErrorKind, Result, schema::Schema};

/// What a spec matches.
#[derive(Clone, Debug)]
pub struct Found {
    spec: Spec,
    each: Vec<Spec>,
    functions: Vec<Function>,
    refused: Vec<Refusal>,
}

/// Something that a pattern matches and that cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

impl Refusal {
    pub(super) fn new(name: impl Into<String>, why: impl fmt::Display) -> Refusal {
        Refusal { name: name.into(), why: why.to_string() }
    }
}

/// Whether a text has wildcards.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Looks up all that a spec matches. A spec without wildcards is found as it is: whether it is there is seen when it
/// is attached.
///
/// # Errors
///
/// Usage: what this version cannot serve. Attach: nothing matches.
pub fn find(spec: &Spec) -> Result<Found> {
    servable(spec)?;
    let mut found =
        Found { spec: spec.clone(), each: Vec::new(), functions: Vec::new(), refused: Vec::new() };
    if !found.is_pattern() {
        found.each.push(spec.clone());
        return Ok(found);
    }
    let catalogue = Catalogue::only(&spec.target);
    let pattern = &*spec.target;
    match spec.provider {
        Provider::Kprobe | Provider::Kretprobe => found.take(catalogue.functions(pattern), |_| true),
        Provider::Fentry | Provider::Fexit => {
            found.take(catalogue.typed_functions(pattern), |why| why.stops_trampolines())
        }
        Provider::Tracepoint => {
            let all = catalogue.tracepoints(&spec.scope, pattern)?;
            found.each =
                all.into_iter().map(|(scope, target)| Spec { scope, target, ..spec.clone() }).collect();
        }
        Provider::RawTracepoint => found.name(catalogue.raw_tracepoints(pattern)),
        Provider::Syscall => found.name(catalogue.syscalls(pattern).into_iter().map(str::to_owned)),
        Provider::Uprobe | Provider::Uretprobe => {
            let path = program(&spec.scope).map_err(|e| e.context(format!("{spec}: cannot attach")))?;
            elf::check(Path::new(&path))?;
            let mut all = elf::functions(Path::new(&path))?;
            all.retain(|name| matches(pattern, name));
            all.sort_unstable();
            all.dedup();
            found.name(all);
        }
        // Not servable with wildcards.
        Provider::Usdt | Provider::Object => {}
    }
    match found.each.is_empty() {
        false => Ok(found),
        true => Err(Error::new(ErrorKind::Attach, format!("{spec}: cannot attach: {}", found.why_none()))
            .with_help(format!("tracer list '{}' shows what there is", found.bare()))),
    }
}

impl Found {
    /// Whether the spec has wildcards.
    pub fn is_pattern(&self) -> bool {
        is_pattern(&self.spec.target)
            || (self.spec.provider == Provider::Tracepoint && is_pattern(&self.spec.scope))
    }

    /// The spec as it was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// A spec without wildcards for each thing that matches and can be probed as far as is known.
    pub fn each(&self) -> &[Spec] {
        &self.each
    }

    /// What matches and cannot be probed.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// The address of a function that matches, where the kernel's table shows it.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|f| f.name == name)?.address
    }

    /// The addresses of functions that match; `None` where the kernel's table hides one.
    pub(super) fn addresses(&self, names: &[String]) -> Option<Vec<u64>> {
        let known: HashMap<&str, u64> =
            self.functions.iter().filter_map(|f| Some((&*f.name, f.address?))).collect();
        names.iter().map(|name| known.get(&**name).copied()).collect()
    }

    /// What events of each would carry, without anything being loaded: as the first hook that can serve it has it.
    ///
    /// # Errors
    ///
    /// As when it is attached, for what can be told before: a field that is not there, an unknown name.
    pub fn schemas(&self) -> Result<Vec<Schema>> {
        if self.shares_programs() {
            let each = self.each.iter().zip(self.hooks()?);
            return each.map(|(spec, hook)| Ok(capture_shared(spec, &hook)?.1)).collect();
        }
        let one = |spec: &Spec| Ok(capture(spec, &resolve(spec)?.swap_remove(0))?.1);
        let all = self.each.iter().map(one).collect();
        debug::forget();
        all
    }

    /// The spec without all that stands behind its target.
    fn bare(&self) -> Spec {
        Spec { name: None, predicate: None, fields: None, ..self.spec.clone() }
    }

    /// Whether one program can serve several of what was found.
    pub fn shares_programs(&self) -> bool {
        use Provider::{Kprobe, Kretprobe, Uprobe, Uretprobe};
        self.is_pattern() && matches!(self.spec.provider, Kprobe | Kretprobe | Uprobe | Uretprobe)
    }

    /// The hook of each, where programs are shared. Signatures are looked up all at once: to look one name up is to
    /// look through all types.
    pub(super) fn hooks(&self) -> Result<Vec<Hook>> {
        if self.spec.provider.has_path() {
            let all = self.each.iter().map(|spec| Ok(resolve(spec)?.swap_remove(0))).collect();
            debug::forget();
            return all;
        }
        let modules: HashMap<&str, Option<&str>> =
            self.functions.iter().map(|f| (&*f.name, f.module.as_deref())).collect();
        let mut signatures: HashMap<Option<&str>, HashMap<String, Signature>> = HashMap::new();
        for module in modules.values() {
            let wanted = |name: &str| matches(&self.spec.target, name) && modules.get(name) == Some(module);
            signatures.entry(*module).or_insert_with(|| signature::functions_in(*module, wanted));
        }
        let hook = |spec: &Spec| {
            let name = &*spec.target;
            let known = modules.get(name).and_then(|module| signatures.get(module)?.get(name).cloned());
            on_function(spec, known)
        };
        Ok(self.each.iter().map(hook).collect())
    }

    fn take(&mut self, functions: Vec<Function>, stops: impl Fn(&super::catalogue::Why) -> bool) {
        for function in functions {
            match function.refused().filter(|why| stops(why)) {
                None => self.functions.push(function),
                // Nobody who asks for functions means these, unless by name.
                Some(why) if why.is_no_function() && !self.spec.target.contains('.') => {}
                Some(why) => self.refused.push(Refusal::new(&function.name, why)),
            }
        }
        self.refused.dedup();
        self.name(self.functions.iter().map(|f| f.name.clone()).collect::<Vec<_>>());
    }

    fn name(&mut self, targets: impl IntoIterator<Item = String>) {
        let spec = &self.spec;
        self.each = targets.into_iter().map(|target| Spec { target, ..spec.clone() }).collect();
    }

    fn why_none(&self) -> String {
        match self.refused.first() {
            None => "nothing matches".into(),
            Some(one) => {
                format!(
                    "none of the {} that match can be probed: {}: {}",
                    self.refused.len(),
                    one.name,
                    one.why
                )
            }
        }
    }
}

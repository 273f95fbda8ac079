//! What a spec's fields mean on a hook: a plan for its program, and the schema of its events.

use super::{
    fetch::{Full, Plan, Read},
    hints,
    hook::Hook,
    judge,
    locate::{Place, Wanted},
    preflight::near,
    signature,
    spec::{Field as Asked, Hint, Path, Spec},
};
use crate::{
    Error, Result,
    schema::{Field, Kind, Schema, Show},
};

/// What of an event's head can be asked for by name: its offset and kind.
pub const HEAD: [(&str, u32, Kind); 5] = [
    ("pid", 16, Kind::Unsigned(4)),
    ("tid", 20, Kind::Unsigned(4)),
    ("uid", 24, Kind::Unsigned(4)),
    ("cgroup", 28, Kind::Unsigned(8)),
    ("comm", 36, Kind::Chars(16)),
];

/// The plan and the schema of a spec on a hook.
///
/// # Errors
///
/// Usage: a field that is not there, a type that cannot be shown, more than one event holds.
pub fn capture(spec: &Spec, hook: &Hook) -> Result<(Plan, Schema)> {
    let mut plan = Plan::default();
    let full = |full: Full| usage(spec, &full.to_string());
    if let Some(predicate) = &spec.predicate {
        judge::compile(&mut plan, predicate, hook).map_err(|why| usage(spec, &why))?;
    }
    let asked: Vec<(String, Choice)> = match &spec.fields {
        None => hook.sources.iter().map(|s| (s.name.clone(), Choice::Fetched(s.wanted()))).collect(),
        Some(fields) => {
            let one = |f: &Asked| {
                Ok((shown_as(f), choose(hook, &f.path, f.hint).map_err(|why| usage(spec, &why))?))
            };
            fields.iter().map(one).collect::<Result<_>>()?
        }
    };
    let fetched = |choice: &Choice| matches!(choice, Choice::Fetched(w) if w.fetch.can_fail());
    if asked.iter().any(|(_, choice)| fetched(choice)) {
        plan.reserve_faults();
    }
    let mut fields = Vec::with_capacity(asked.len());
    for (name, choice) in asked {
        fields.push(match choice {
            Choice::Head { offset, kind } => {
                Field { name, type_name: "".into(), kind, show: Show::Plain, offset, fault: None }
            }
            Choice::Fetched(Wanted { fetch, kind, show, type_name }) => {
                let (offset, fault) = match plan.add(fetch) {
                    Ok(places) => places,
                    // Nobody asked for them all: the first are shown.
                    Err(_) if spec.fields.is_none() => break,
                    Err(too_much) => return Err(full(too_much)),
                };
                Field { name, type_name, kind, show, offset, fault }
            }
        });
    }
    Ok((plan, Schema { name: spec.event_name(), spec: spec.to_string(), fields }))
}

fn usage(spec: &Spec, why: &str) -> Error {
    Error::usage(format!("{spec}: {why}"))
}

/// The name a field is shown by.
fn shown_as(field: &Asked) -> String {
    field.alias.clone().unwrap_or_else(|| field.path.to_string())
}

/// Where a field's value comes from.
pub enum Choice {
    /// The event's head has it.
    Head { offset: u32, kind: Kind },
    /// It is fetched.
    Fetched(Wanted),
}

/// Finds what a path and a hint ask for on a hook; the error says why there is no such thing.
pub fn choose(hook: &Hook, path: &Path, hint: Option<Hint>) -> Result<Choice, String> {
    if path.call.is_some() {
        return Err(format!("'{path}': functions are not supported by this version"));
    }
    let source =
        hook.sources.iter().find(|s| s.name == path.root || (s.is_return() && path.root == "retval"));
    let Some(source) = source else {
        if let (Some(&(_, offset, kind)), true) =
            (HEAD.iter().find(|(n, ..)| *n == path.root), path.is_name())
        {
            return match hint {
                None => Ok(Choice::Head { offset, kind }),
                Some(_) => Err(format!("'{path}' takes no hint")),
            };
        }
        return nothing_like(hook, path);
    };
    if path.steps.is_empty() && path.derefs == 0 && path.cast.is_none() && hint.is_none() {
        return Ok(Choice::Fetched(source.wanted()));
    }
    let by_itself = path.steps.is_empty() && path.derefs == 0;
    let cast = path.cast.clone().or_else(|| source.points_to().filter(|_| !by_itself));
    if cast.is_none() && source.ty.is_none() {
        return hints::untyped(source, path, hint).map(Choice::Fetched);
    }
    let base = match source.fetch.read {
        Read::Value => source.fetch.base,
        _ => return Err(format!("'{}' is a field of a record: it has no members", source.name)),
    };
    let found = signature::vmlinux(|btf| {
        let start = match (&cast, source.ty) {
            (Some(cast), _) => Place::pointee(btf, base, cast),
            (None, Some(ty)) => Ok(Place::of(btf, base, ty)),
            (None, None) => Err(format!("the type of '{}' is not known", source.name)),
        };
        Some(start.and_then(|place| place.follow(path)).and_then(|place| match hint {
            None => place.found(),
            Some(hint) => hints::typed(place, hint, path),
        }))
    });
    let mut wanted = found.unwrap_or_else(|| Err("this kernel has no BTF".into()))?;
    wanted.fetch.user |= source.user;
    wanted.fetch.user_steps |= source.user;
    Ok(Choice::Fetched(wanted))
}

fn nothing_like(hook: &Hook, path: &Path) -> Result<Choice, String> {
    let names: Vec<String> = hook.sources.iter().map(|s| s.name.clone()).collect();
    let head = HEAD.iter().map(|(n, ..)| (*n).to_owned());
    let all = names.iter().cloned().chain(head).collect();
    let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    Err(format!(
        "{} has no '{}': it has {there}; {}",
        hook.how,
        path.root,
        near(&path.root, all, str::to_owned)
    ))
}

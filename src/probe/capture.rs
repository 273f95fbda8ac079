//! What a spec's fields mean on a hook: a plan for its program, and the schema of its events.

use super::{
    btf::Owner,
    fetch::{BASE_CPU, BASE_FUNC, BASE_GID, BASE_LAT, BASE_RECORD, BASE_TIME, Fetch, Full, Plan, Read},
    hints,
    hook::{Hook, Source},
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
pub const HEAD: [(&str, u32, Kind); 6] = [
    ("tgid", 16, Kind::Unsigned(4)),
    ("pid", 16, Kind::Unsigned(4)),
    ("tid", 20, Kind::Unsigned(4)),
    ("uid", 24, Kind::Unsigned(4)),
    ("cgroup", 28, Kind::Unsigned(8)),
    ("comm", 36, Kind::Chars(16)),
];

/// What is known of any run: its base, its kind, and how it is shown.
const BUILTINS: [(&str, u8, Kind, Show); 5] = [
    ("lat", BASE_LAT, Kind::Unsigned(8), Show::Duration),
    ("time", BASE_TIME, Kind::Unsigned(8), Show::Time),
    ("ns", BASE_TIME, Kind::Unsigned(8), Show::Plain),
    ("cpu", BASE_CPU, Kind::Unsigned(4), Show::Plain),
    ("gid", BASE_GID, Kind::Unsigned(4), Show::Plain),
];

/// The most addresses of a stack that are taken.
const FRAMES: usize = 127;

/// The plan and the schema of a spec on a hook.
///
/// # Errors
///
/// Usage: a field that is not there, a type that cannot be shown, more than one event holds.
pub fn capture(spec: &Spec, hook: &Hook) -> Result<(Plan, Schema)> {
    captured(spec, hook, Source::wanted)
}

/// The same, with what is fetched of a source where nothing else is asked for.
fn captured(spec: &Spec, hook: &Hook, wanted: impl Fn(&Source) -> Wanted) -> Result<(Plan, Schema)> {
    let mut plan = Plan::default();
    let full = |full: Full| usage(spec, &full.to_string());
    if let Some(predicate) = &spec.predicate {
        judge::compile(&mut plan, predicate, hook).map_err(|why| usage(spec, &why))?;
    }
    let all = [Asked::all()];
    let mut asked: Vec<(String, Choice, bool)> = Vec::new();
    let listed = spec.fields.as_deref().unwrap_or(&all);
    let by_name: Vec<String> = listed.iter().filter(|f| !f.is_all()).map(shown_as).collect();
    if let Some((i, twice)) = by_name.iter().enumerate().find(|(i, name)| by_name[..*i].contains(name)) {
        let why = format!(
            "two fields are called '{twice}' (field {}): give one another name, as in NAME:PATH",
            i + 1
        );
        return Err(usage(spec, &why));
    }
    for field in listed {
        if field.is_all() {
            let shown = hook.sources.iter().take(hook.shown).filter(|s| !by_name.contains(&s.name));
            asked.extend(shown.map(|s| (s.name.clone(), Choice::Fetched(wanted(s)), false)));
        } else {
            let choice = choose(hook, &field.path, field.hint).map_err(|why| usage(spec, &why))?;
            asked.push((shown_as(field), choice, true));
        }
    }
    let fetched = |choice: &Choice| matches!(choice, Choice::Fetched(w) if w.fetch.can_fail());
    if asked.iter().any(|(_, choice, _)| fetched(choice)) {
        plan.reserve_faults();
    }
    let mut fields = Vec::with_capacity(asked.len());
    for (name, choice, by_name) in asked {
        fields.push(match choice {
            Choice::Head { offset, kind } => Field::new(&name, "", kind, offset),
            Choice::Fetched(Wanted { fetch, kind, show, type_name }) => {
                let (offset, fault) = match plan.add(fetch) {
                    Ok(places) => places,
                    // Nobody asked for them all: the first are shown.
                    Err(_) if !by_name => continue,
                    Err(too_much) => return Err(full(too_much)),
                };
                Field { name, type_name, kind, show, offset, fault }
            }
        });
    }
    Ok((plan, Schema { name: spec.event_name(), spec: spec.to_string(), fields }))
}

/// The same for a function whose program others may share: where all parameters are shown, all the registers of
/// parameters are captured, which each function's own types then decode.
pub fn capture_shared(spec: &Spec, hook: &Hook) -> Result<(Plan, Schema)> {
    let all_at = match &spec.fields {
        None => 0,
        Some(fields) => match fields.iter().position(Asked::is_all) {
            Some(at) => at,
            None => return capture(spec, hook),
        },
    };
    let raw = |source: &Source| Source { fetch: Fetch::value(source.fetch.base), ..source.clone() };
    let by_name: Vec<String> = spec.fields.iter().flatten().map(shown_as).collect();
    let unlisted = |s: &Source| !by_name.contains(&s.name);
    let mut sources: Vec<Source> = hook.sources.iter().take(hook.shown).map(raw).collect();
    let (all_known, known) = (sources.len(), sources.iter().filter(|s| unlisted(s)).count());
    if !sources.iter().any(Source::is_return) {
        let registers = Hook::entry(hook.how.clone(), signature::registers()).sources;
        sources.extend(registers.into_iter().skip(all_known));
    }
    sources.retain(unlisted);
    let captured_all = sources.len();
    let all = Hook { shown: captured_all, sources, ..hook.clone() };
    let (plan, mut schema) = captured(spec, &all, |s| Wanted {
        fetch: s.fetch.clone(),
        kind: s.kind,
        show: s.show.clone(),
        type_name: s.type_name.clone(),
    })?;
    schema.fields.drain(all_at + known..all_at + captured_all);
    Ok((plan, schema))
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
        return path_of(hook, path, hint).map(Choice::Fetched);
    }
    let source =
        hook.sources.iter().find(|s| s.name == path.root || (s.is_return() && path.root == "retval"));
    let Some(source) = source else {
        return match hook.away.iter().find(|(name, _)| *name == path.root) {
            Some((_, why)) => Err(why.clone()),
            None => builtin(hook, path, hint),
        };
    };
    if path.steps.is_empty() && path.derefs == 0 && path.cast.is_none() && hint.is_none() {
        return Ok(Choice::Fetched(source.wanted()));
    }
    let by_itself = path.steps.is_empty() && path.derefs == 0;
    let cast = path.cast.clone().or_else(|| source.points_to().filter(|_| !by_itself));
    if cast.is_none() && source.ty.is_none() {
        let found = hints::untyped(source, path, hint);
        return found.map(Choice::Fetched).map_err(|why| because(why, hook));
    }
    let base = match source.fetch.read {
        Read::Value => source.fetch.base,
        _ => return Err(format!("'{}' is a field of a record: it has no members", source.name)),
    };
    // A type that the program does not have may be the kernel's.
    let kernels = match (&hook.owner, &cast) {
        (Owner::Program(_), Some(cast)) => !has_type(&hook.owner, cast) && has_type(&Owner::Kernel, cast),
        _ => false,
    };
    let owner = if kernels { &Owner::Kernel } else { &hook.owner };
    let found = owner.ask(|btf| {
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
    let found = found.unwrap_or_else(|| Err("this kernel has no BTF".into()));
    let mut wanted = found.map_err(|why| because(why, hook))?;
    wanted.fetch.user |= source.user;
    wanted.fetch.user_steps |= source.user;
    Ok(Choice::Fetched(wanted))
}

fn has_type(owner: &Owner, cast: &str) -> bool {
    owner.ask(|btf| Place::pointee(btf, 0, cast).ok().map(|_| ())).is_some()
}

/// The same complaint, with why the types of a program are not known.
fn because(why: String, hook: &Hook) -> String {
    match &hook.untyped {
        Some(untyped) => format!("{why}; {untyped}"),
        None => why,
    }
}

/// `path(…)`: the path of the open file that something points to.
fn path_of(hook: &Hook, path: &Path, hint: Option<Hint>) -> Result<Wanted, String> {
    if hint.is_some() {
        return Err(format!("'{path}' takes no hint"));
    }
    let source = hook.sources.iter().find(|s| s.name == path.root);
    let source = source.ok_or_else(|| nothing_like(hook, path))?;
    if source.user {
        return Err(format!("path() is of the kernel's structures, and '{}' is the user's", source.name));
    }
    let found = hook.owner.ask(|btf| {
        let start = match (&path.cast, source.ty) {
            (Some(cast), _) => Place::pointee(btf, source.fetch.base, cast),
            (None, Some(ty)) => Ok(Place::of(btf, source.fetch.base, ty)),
            (None, None) => Err(format!("the type of '{}' is not known: cast it", source.name)),
        };
        Some(start.and_then(|place| place.follow(path)).and_then(Place::file_path))
    });
    found.unwrap_or_else(|| Err("this kernel has no BTF".into()))
}

/// What is there whatever was hooked.
fn builtin(hook: &Hook, path: &Path, hint: Option<Hint>) -> Result<Choice, String> {
    let name = &*path.root;
    if !path.is_name() {
        return Err(match names().any(|known| known == name) {
            true => format!("'{name}' is a value: it has no members"),
            false => nothing_like(hook, path),
        });
    }
    if let (Some(&(_, offset, kind)), None) = (HEAD.iter().find(|(n, ..)| *n == name), hint) {
        return Ok(Choice::Head { offset, kind });
    }
    if name == "lat" && hook.how.half().is_none() {
        return Err(format!("{} has no 'lat': that is known at a return (kr:, fr:, ur:, s:)", hook.how));
    }
    if let ("func", None) = (name, hint) {
        let show = if hook.how.in_kernel() { Show::KernelSymbol } else { Show::UserSymbol };
        return match hook.how.has_function() {
            true => Ok(Choice::Fetched(Wanted {
                fetch: Fetch::value(BASE_FUNC),
                kind: Kind::Pointer,
                show,
                type_name: "void *".into(),
            })),
            false => Err(format!(
                "{} has no 'func': it is known of kernel functions, and at the entry of a program's",
                hook.how
            )),
        };
    }
    if let Some((_, base, kind, show)) = BUILTINS.iter().find(|(n, ..)| *n == name) {
        let fetch = Fetch::value(*base);
        let (kind, show) = (*kind, show.clone());
        let type_name = "u64".to_owned();
        return match hint {
            None => Ok(Choice::Fetched(Wanted { fetch, kind, show, type_name })),
            Some(hint) => hints::hinted(fetch, &type_name, hint, path).map(Choice::Fetched),
        };
    }
    if let ("kstack" | "ustack", None) = (name, hint) {
        return Ok(Choice::Fetched(stack(name == "ustack")));
    }
    match HEAD.iter().any(|(n, ..)| *n == name) || name.ends_with("stack") {
        true => Err(format!("'{path}' takes no hint")),
        false => Err(nothing_like(hook, path)),
    }
}

/// The stack of the kernel or of the user.
pub fn stack(user: bool) -> Wanted {
    let fetch = Fetch { user, read: Read::Stack(8 * FRAMES as u16), ..Fetch::value(BASE_RECORD) };
    Wanted { fetch, kind: Kind::Stack { user }, show: Show::Plain, type_name: "u64 *".into() }
}

/// The names of what is there whatever was hooked.
fn names() -> impl Iterator<Item = &'static str> {
    let head = HEAD.iter().map(|(n, ..)| *n);
    head.chain(BUILTINS.iter().map(|(n, ..)| *n)).chain(["kstack", "ustack", "func"])
}

fn nothing_like(hook: &Hook, path: &Path) -> String {
    let names: Vec<String> = hook.sources.iter().map(|s| s.name.clone()).collect();
    let all = names.iter().cloned().chain(self::names().map(str::to_owned)).collect();
    let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let near = near(&path.root, all, str::to_owned);
    because(format!("{} has no '{}': it has {there}; {near}", hook.how, path.root), hook)
}

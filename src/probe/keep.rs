//! What `tracer stat` keeps of each run in place of an event: by what tallies are told apart, and what they are of.

use libbpf_rs::OpenObject;

use super::{
    fetch::{NO_FAULT, Plan},
    object,
    signature::REGISTER,
    spec::{Field as Asked, Path, Provider, Spec},
};
use crate::{
    Error, Result,
    schema::{Field, Kind, Schema, Show, Wire, tally::Kept},
};

/// What is kept of each run.
#[derive(Clone, Debug)]
pub struct Keep {
    /// What tallies are told apart by: an integer, `comm`, `kstack` or `ustack`; `None`: by their probe alone.
    pub by: Option<Asked>,
    /// The integer that sums and histograms are of. `None`: of the first in a spec's list that is one; of `lat` at
    /// returns and system calls without a list; elsewhere of none.
    pub of: Option<Asked>,
    /// The most tallies, one for each key, CPU and scratch level; also the most stacks.
    pub entries: u32,
}

/// `struct tracer_number` of `bpf/tracer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    at: u16,
    kind: u8,
    shift: u8,
    sign: bool,
    fault: u8,
}

const NONE: Number = Number { at: 0, kind: 0, shift: 0, sign: false, fault: NO_FAULT };
const BY_NUMBER: u8 = 1;
const BY_COMM: u8 = 2;
const BY_KSTACK: u8 = 3;
const BY_USTACK: u8 = 4;

impl Number {
    fn of(field: &Field) -> Number {
        Number {
            at: field.offset as u16,
            kind: BY_NUMBER,
            shift: 64 - 8 * field.kind.size().min(8) as u8,
            sign: matches!(field.kind, Kind::Signed(_)),
            fault: field.fault.map_or(NO_FAULT, |(_, bit)| bit),
        }
    }

    /// Its bytes in a configuration.
    pub fn bytes(self) -> [u8; 8] {
        let [low, high] = self.at.to_ne_bytes();
        [low, high, self.kind, self.shift, u8::from(self.sign), self.fault, 0, 0]
    }
}

/// What was captured, with its runs added to tallies where that is asked for.
pub(super) fn kept(keep: Option<&Keep>, captured: Result<(Plan, Schema)>) -> Result<(Plan, Schema)> {
    let (mut plan, schema) = captured?;
    if let Some(keep) = keep {
        let Kept { by, of, .. } = keep.kept(&schema)?;
        let by = by.map_or(NONE, |field| match field.kind {
            Kind::Chars(_) => Number { kind: BY_COMM, ..NONE },
            Kind::Stack { user: false } => Number { kind: BY_KSTACK, ..NONE },
            Kind::Stack { user: true } => Number { kind: BY_USTACK, ..NONE },
            _ => Number::of(&field),
        });
        plan.tally(by, of.as_ref().map_or(NONE, Number::of));
    }
    Ok((plan, schema))
}

impl Keep {
    /// The maps that hold tallies, as far as they are needed.
    pub(super) fn maps(keep: Option<&Keep>) -> &'static [&'static str] {
        match keep {
            None => &[],
            Some(keep) if keep.stack().is_some() => &["tallies", "blank", "stacks"],
            Some(_) => &["tallies", "blank"],
        }
    }

    /// Sizes these maps in an opened object, and leaves out the others.
    pub(super) fn size(keep: Option<&Keep>, open: &mut OpenObject) -> Result<()> {
        let used = Keep::maps(keep);
        let others: Vec<&str> =
            ["tallies", "blank", "stacks"].into_iter().filter(|name| !used.contains(name)).collect();
        object::leave_out(open, &others)?;
        let Some(keep) = keep else { return Ok(()) };
        object::size(open, "tallies", keep.entries as usize)?;
        object::size(open, "stacks", keep.entries as usize)
    }

    /// The kind of what tallies are told apart by, where that is a stack.
    pub fn by_stack(&self) -> Option<Kind> {
        self.stack().map(|user| Kind::Stack { user })
    }

    /// The stack that tallies are told apart by: the user's, or the kernel's.
    fn stack(&self) -> Option<bool> {
        match self.by.as_ref().map(|by| &by.path) {
            Some(path) if *path == Path::of("kstack") => Some(false),
            Some(path) if *path == Path::of("ustack") => Some(true),
            _ => None,
        }
    }

    /// The spec that captures what is kept: no more of what nobody listed.
    ///
    /// # Errors
    ///
    /// Usage: the spec has a list, and the value is not in it.
    pub fn spec(&self, spec: &Spec) -> Result<Spec> {
        let listed = spec.fields.is_some();
        let mut fields = spec.fields.clone().unwrap_or_default();
        let has = |fields: &[Asked], one: &Asked| fields.iter().any(|f| name(f) == name(one));
        match &self.of {
            Some(of) if listed && !has(&fields, of) => {
                return Err(Error::usage(format!("{spec}: its list of fields has no '{}'", name(of)))
                    .with_help("without a list the field is captured as it is"));
            }
            Some(of) if !listed => fields.push(of.clone()),
            None if !listed && (spec.provider.is_return() || spec.provider == Provider::Syscall) => {
                fields.push(Asked { alias: None, path: Path::of("lat"), hint: None });
            }
            _ => {}
        }
        if let Some(by) = self.by.as_ref().filter(|by| self.stack().is_none() && !has(&fields, by)) {
            fields.push(by.clone());
        }
        Ok(Spec { fields: Some(fields), ..spec.clone() })
    }

    /// What the tallies of a probe hold whose events would have this schema.
    ///
    /// # Errors
    ///
    /// Usage: a string is no key, and no amount either.
    pub fn kept(&self, schema: &Schema) -> Result<Kept> {
        let find = |asked: &Asked| schema.fields.iter().find(|f| f.name == name(asked)).cloned();
        let by = match (self.stack(), &self.by) {
            (Some(user), _) => Some(stack(user)),
            (None, Some(by)) => find(by),
            (None, None) => None,
        };
        let amount = |f: &&Field| matches!(f.kind, Kind::Unsigned(_) | Kind::Signed(_));
        let of = match &self.of {
            Some(of) => find(of),
            None => {
                let fetched = schema.fields.iter().filter(|f| f.offset as usize >= Wire::SIZE);
                fetched.filter(amount).find(|f| by.as_ref() != Some(*f)).cloned()
            }
        };
        let no = |field: &Field, what: &str, help: &str| {
            Err(Error::usage(format!("{}: {what} {}", schema.spec, field.name)).with_help(help))
        };
        match (&by, &of) {
            (Some(Field { kind: Kind::Text | Kind::Bytes, .. }), _) => {
                no(by.as_ref().unwrap_or(&stack(false)), "tallies are not told apart by the string", BY)
            }
            (_, Some(field)) if !amount(&field) && !matches!(field.kind, Kind::Bool | Kind::Pointer) => {
                no(field, "there is no sum of", "integers have one, such as ret, lat and counts of bytes")
            }
            // Nothing says where its sign is, and how many of its bits count.
            (_, Some(field)) if field.kind == Kind::Pointer && field.type_name == REGISTER => no(
                field,
                "there is no sum of the register",
                &format!("say what it holds: {0}:s32, {0}:s64, {0}:u32 or {0}:u64", field.name),
            ),
            _ => {
                let time = of.as_ref().is_some_and(|field| is_time(schema, field));
                Ok(Kept { by, of, time })
            }
        }
    }
}

const BY: &str = "an integer, comm, kstack and ustack are keys";

/// Whether a field holds nanoseconds: by its type, or since it is the latency under whatever name.
fn is_time(schema: &Schema, field: &Field) -> bool {
    let spec: Option<Spec> = schema.spec.parse().ok();
    let mut listed = spec.iter().flat_map(|spec| spec.fields.iter().flatten());
    field.show == Show::Time || listed.any(|f| name(f) == field.name && f.path == Path::of("lat"))
}

/// The name that a field is shown by.
fn name(field: &Asked) -> String {
    field.alias.clone().unwrap_or_else(|| field.path.to_string())
}

fn stack(user: bool) -> Field {
    Field {
        name: if user { "ustack" } else { "kstack" }.into(),
        type_name: "u64 *".into(),
        kind: Kind::Stack { user },
        show: Show::Plain,
        offset: 0,
        fault: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(by: &str, of: &str) -> Keep {
        let field = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        Keep { by: field(by), of: field(of), entries: 1 }
    }

    #[test]
    fn what_is_captured_is_what_is_kept() {
        for (spec, by, of, captured) in [
            ("s:write", "", "", "s:write{lat}"),
            ("kr:f", "comm", "", "kretprobe:f{lat, comm}"),
            ("kr:f", "kstack", "ret", "kretprobe:f{ret}"),
            ("k:f", "", "", "kprobe:f{}"),
            ("k:f/pid==1/", "n", "n", "kprobe:f/pid == 1/{n}"),
            ("k:f{a,b}", "b", "", "kprobe:f{a, b}"),
            ("s:write{l:lat}", "ret", "l", "s:write{l:lat, ret}"),
        ] {
            let (spec, captured): (Spec, Spec) = (spec.parse().unwrap(), captured.parse().unwrap());
            assert_eq!(keep(by, of).spec(&spec).unwrap(), captured, "{spec} by {by} of {of}");
        }
        assert!(keep("", "b").spec(&"k:f{a}".parse().unwrap()).is_err());
    }

    #[test]
    fn what_tallies_are_of() {
        let field = |name: &str, kind, offset| Field {
            name: name.into(),
            type_name: String::new(),
            kind,
            show: Show::Plain,
            offset,
            fault: None,
        };
        let fields = vec![
            field("pid", Kind::Unsigned(4), 16),
            field("path", Kind::Text, 52),
            field("file", Kind::Pointer, 60),
            field("l", Kind::Unsigned(8), 68),
            field("fd", Kind::Signed(4), 76),
        ];
        let schema = Schema { name: "x".into(), spec: "s:x{pid, path, file, l:lat, fd}".into(), fields };
        let of = |by: &str, of: &str| {
            let kept = keep(by, of).kept(&schema).map_err(|e| e.to_string())?;
            Ok::<_, String>((kept.by.map(|f| f.name), kept.of.map(|f| f.name), kept.time))
        };
        let some = |name: &str| Some(name.to_owned());
        // The first integer that is fetched, and no address; not what they are told apart by.
        assert_eq!(of("", ""), Ok((None, some("l"), true)));
        assert_eq!(of("l", ""), Ok((some("l"), some("fd"), false)));
        assert_eq!(of("pid", "file"), Ok((some("pid"), some("file"), false)));
        assert_eq!(of("kstack", "fd"), Ok((some("kstack"), some("fd"), false)));
        let untyped = Schema {
            fields: vec![Field { type_name: REGISTER.into(), ..field("arg1", Kind::Pointer, 52) }],
            ..schema.clone()
        };
        let refused = keep("", "arg1").kept(&untyped).unwrap_err();
        assert!(refused.help().is_some_and(|help| help.contains("arg1:s32")), "{refused}");
        assert!(of("path", "").unwrap_err().contains("path"));
        assert!(of("", "path").unwrap_err().contains("path"));
        let fd = Number::of(&schema.fields[4]);
        assert_eq!(fd, Number { at: 76, kind: BY_NUMBER, shift: 32, sign: true, fault: NO_FAULT });
    }
}

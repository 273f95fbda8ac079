//! One way to hook the kernel for a spec, with what its program has at hand.

use libbpf_rs::btf::TypeId;

pub use super::how::How;
use super::{
    btf::Owner,
    config::Config,
    fetch::{BASE_LAT, BASE_RECORD, BASE_RET, Fetch, Plan, Read, STRING, TEXT},
    locate::Wanted,
    shape,
    signature::{self, Param},
};
use crate::schema::{Kind, Show, format::FormatField};

/// Something that a program has at hand by name: a parameter, the return value, or a field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub name: String,
    pub type_name: String,
    /// How its value is shown where nothing else is asked for.
    pub kind: Kind,
    pub show: Show,
    /// How its value is come by.
    pub fetch: Fetch,
    /// Its type in the kernel's BTF, where that has one.
    pub ty: Option<TypeId>,
    /// What it points to is user memory.
    pub user: bool,
}

impl Source {
    /// A parameter or return value in a base.
    fn in_base(base: u8, param: Param, user: bool) -> Source {
        let Param { name, type_name, kind, show, ty } = param;
        Source { name, type_name, kind, show, fetch: Fetch::value(base).signed_as(kind), ty, user }
    }

    /// Whether it is the return value.
    pub fn is_return(&self) -> bool {
        self.fetch.base == BASE_RET
    }

    /// What is fetched where nothing else is asked for: strings and socket addresses are read, all else is its
    /// value.
    pub fn wanted(&self) -> Wanted {
        let read = |read| Fetch { read, user: self.user, ..self.pointed_to() };
        let (fetch, kind, show) = match (self.kind, shape::pointee(&self.type_name)) {
            (Kind::Pointer, _) if self.holds_text() => (read(Read::Text(STRING)), Kind::Text, Show::Plain),
            (Kind::Pointer, Some((size, show))) => (read(Read::Bytes(size)), Kind::Bytes, show),
            (kind, _) => (self.fetch.clone(), kind, self.show.clone()),
        };
        Wanted { fetch, kind, show, type_name: self.type_name.clone() }
    }

    /// The address that it holds, for something to be read there.
    pub fn pointed_to(&self) -> Fetch {
        let mut fetch = self.fetch.clone();
        if let Read::Memory(_) = fetch.read {
            // It stands in a record.
            fetch.steps.push(fetch.last);
            (fetch.last, fetch.read) = (0, Read::Value);
        }
        fetch
    }

    /// The structure that it points to by its C type, where no BTF type is known.
    pub fn points_to(&self) -> Option<String> {
        let bare = self.type_name.replace("const ", "").replace("__user ", "");
        let name = bare.strip_prefix("struct ")?.strip_suffix('*')?.trim();
        (self.ty.is_none() && !name.contains('*')).then(|| format!("struct {name}"))
    }

    /// A `char *` is a string, but for what is called a buffer: that has no NUL at its end.
    fn holds_text(&self) -> bool {
        let bare = self.type_name.replace("const ", "").replace("__user ", "");
        bare == "char *" && !self.name.contains("buf")
    }
}

/// A way to hook, and what its program has at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub how: How,
    /// By name, in the order in which they are shown: the return value first.
    pub sources: Vec<Source>,
    /// How many parameters the function has, at hand or not.
    pub func_args: usize,
    /// How many of the sources are shown where nothing is asked for.
    pub shown: usize,
    /// The call itself changes what it was given (execve): its arguments are those of the entry alone.
    pub args_of_entry: bool,
    /// Whose its sources' types are.
    pub owner: Owner,
    /// Parameters that are not at hand: the name of each, and why.
    pub away: Vec<(String, String)>,
    /// Why nothing is known of the types, where a program might have told them.
    pub untyped: Option<String>,
}

impl Hook {
    /// The most arguments that are at hand.
    pub const MAX_ARGS: usize = 6;

    /// A hook at an entry.
    pub fn entry(how: How, params: Vec<Param>) -> Hook {
        Hook::exit(how, None, params)
    }

    /// A hook at a return.
    pub fn exit(how: How, ret: Option<Param>, params: Vec<Param>) -> Hook {
        let places = params.into_iter().enumerate();
        let placed = places.map(|(i, param)| (param, u8::try_from(i).map_err(|e| e.to_string())));
        Hook::placed(how, ret, placed.collect())
    }

    /// A hook at an entry or return, each parameter in the register of this number or in none that is at hand.
    pub fn placed(how: How, ret: Option<Param>, params: Vec<(Param, Result<u8, String>)>) -> Hook {
        let user = how.in_user_space();
        let func_args = params.len();
        let ret = ret.map(|param| if how.in_kernel() { param.with_errors() } else { param });
        let ret = ret.map(|param| Source::in_base(BASE_RET, param, user));
        let returns = usize::from(ret.is_some());
        let mut sources: Vec<Source> = ret.into_iter().collect();
        let mut away = Vec::new();
        for (param, place) in params {
            match place {
                Ok(base) if usize::from(base) < Hook::MAX_ARGS => {
                    sources.push(Source::in_base(base, param, user));
                }
                Ok(base) => away.push((param.name, format!("parameter {} is not at hand", base + 1))),
                Err(why) => away.push((param.name, why)),
            }
        }
        // What an entry must keep costs more than what is at hand, so it is shown where it is asked for.
        let shown = if how.keeps_args() { returns } else { sources.len() };
        Hook {
            how,
            sources,
            func_args,
            shown,
            args_of_entry: false,
            owner: Owner::Kernel,
            away,
            untyped: None,
        }
    }

    /// The same hook with types of this owner.
    pub fn typed_by(self, owner: Owner) -> Hook {
        Hook { owner, ..self }
    }

    /// A tracepoint, whose record holds its fields.
    pub fn record(how: How, fields: &[FormatField]) -> Hook {
        // What a system call was given points to user memory, whether its type says so or not.
        let syscalls = matches!(&how, How::Tracepoint { category, .. } if category.ends_with("syscalls"));
        let mut sources: Vec<Source> = fields.iter().filter_map(record_field).collect();
        for source in sources.iter_mut().filter(|_| syscalls) {
            source.user = true;
            if source.name == "ret" {
                source.show = Show::Errno;
            }
        }
        Hook {
            how,
            shown: sources.len(),
            sources,
            func_args: 0,
            args_of_entry: false,
            owner: Owner::Kernel,
            away: Vec::new(),
            untyped: None,
        }
    }

    /// Whether this plan wants what only the entry knows: the latency, or arguments that have gone by the return.
    pub fn pairs(&self, plan: &Plan) -> bool {
        let args = plan.uses_args() && (self.how.keeps_args() || self.args_of_entry);
        self.how.half().is_some() && (plan.uses(BASE_LAT) || args)
    }

    /// Writes what the program is to look at into its configuration.
    pub fn configure(&self, plan: &Plan, config: &mut Config) {
        let used = self.sources.iter().filter(|s| plan.uses(s.fetch.base));
        let args = used.filter(|s| s.fetch.base < BASE_RET).map(|s| u32::from(s.fetch.base) + 1);
        config.set_u32("nargs", args.max().unwrap_or(0));
        config.set_u32("ret", u32::from(plan.uses(BASE_RET)));
        config.set_u32("func_args", self.func_args as u32);
        config.set_u32("copied", u32::from(self.how.copies()));
        config.set_u32("pair", u32::from(self.pairs(plan)));
        config.set_u32("sp_delta", self.how.sp_delta());
        config.set_u32("func", self.how.func());
        if let How::SyscallTpBtf { number }
        | How::SyscallRawTp { number }
        | How::SyscallExitTpBtf { number }
        | How::SyscallExitRawTp { number } = &self.how
        {
            config.set_u32("syscall", *number);
        }
        plan.configure(config);
    }
}

/// A field of a tracepoint's record; `None` for what is neither integer, address nor array.
fn record_field(field: &FormatField) -> Option<Source> {
    let at = |read| Fetch { last: i64::from(field.offset), read, ..Fetch::value(BASE_RECORD) };
    let source = |kind, show, fetch| Source {
        name: field.name.clone(),
        type_name: field.type_name.clone(),
        kind,
        show,
        fetch,
        ty: None,
        user: field.type_name.contains("__user"),
    };
    let loc = match field.type_name.split(' ').next() {
        Some("__data_loc") => 1,
        Some("__rel_loc") => 2,
        _ => 0,
    };
    if loc != 0 {
        let (kind, show, read) = match signature::format_elements(field)? {
            None => (Kind::Text, Show::Plain, Read::Text(STRING)),
            Some(show) => (Kind::Bytes, show, Read::Bytes(STRING)),
        };
        return Some(source(kind, show, Fetch { loc, ..at(read) }));
    }
    if field.type_name.starts_with("char[") {
        let size = field.size.clamp(1, TEXT as u32) as u16;
        return Some(source(Kind::Text, Show::Plain, at(Read::Text(size))));
    }
    if let Some(show) = signature::format_array(field) {
        let size = field.size.clamp(1, TEXT as u32) as u16;
        return Some(source(Kind::Bytes, show, at(Read::Bytes(size))));
    }
    let param = signature::format_param(field)?;
    Some(source(param.kind, param.show, at(Read::Memory(field.size as u8)).signed_as(param.kind)))
}

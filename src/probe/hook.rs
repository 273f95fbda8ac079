//! One way to hook the kernel for a spec, with what its program has at hand.

use std::fmt;

use libbpf_rs::btf::TypeId;

use super::{
    config::Config,
    fetch::{BASE_LAT, BASE_RECORD, BASE_RET, Fetch, Plan, Read, STRING, TEXT},
    locate::Wanted,
    shape,
    signature::{self, Param},
};
use crate::schema::{Kind, Show, format::FormatField};

/// Where and how a program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Kprobe {
        symbol: String,
        offset: u64,
    },
    Kretprobe {
        symbol: String,
    },
    /// `copied`: a helper reads the arguments, as the verifier refused to have them read directly.
    Fentry {
        symbol: String,
        copied: bool,
    },
    Fexit {
        symbol: String,
        copied: bool,
    },
    Tracepoint {
        category: String,
        name: String,
    },
    RawTracepoint {
        name: String,
    },
    Uprobe {
        path: String,
        symbol: String,
        offset: u64,
    },
    Uretprobe {
        path: String,
        symbol: String,
    },
    /// `name` is `PROVIDER:NAME`.
    Usdt {
        path: String,
        name: String,
    },
    SyscallFentry {
        symbol: String,
    },
    SyscallKprobe {
        symbol: String,
    },
    SyscallTpBtf {
        number: u32,
    },
    SyscallRawTp {
        number: u32,
    },
    SyscallFexit {
        symbol: String,
    },
    SyscallKretprobe {
        symbol: String,
    },
    SyscallExitTpBtf {
        number: u32,
    },
    SyscallExitRawTp {
        number: u32,
    },
}

impl How {
    /// The entry program in `bpf/tracer.bpf.c`.
    pub fn program(&self) -> &'static str {
        match self {
            How::Kprobe { .. } | How::Uprobe { .. } => "probe_entry",
            How::Kretprobe { .. } | How::Uretprobe { .. } | How::SyscallKretprobe { .. } => "probe_return",
            How::Fentry { .. } => "probe_fentry",
            How::Fexit { .. } => "probe_fexit",
            How::Tracepoint { .. } => "probe_tracepoint",
            How::RawTracepoint { .. } => "probe_raw_tp",
            How::Usdt { .. } => "probe_usdt",
            How::SyscallFentry { .. } => "syscall_fentry",
            How::SyscallKprobe { .. } => "syscall_kprobe",
            How::SyscallTpBtf { .. } => "syscall_tp_btf",
            How::SyscallRawTp { .. } => "syscall_raw_tp",
            How::SyscallFexit { .. } => "syscall_fexit",
            How::SyscallExitTpBtf { .. } => "syscall_exit_tp_btf",
            How::SyscallExitRawTp { .. } => "syscall_exit_raw_tp",
        }
    }

    /// Of a return, its entry: the program that keeps what is known there, and where that is attached.
    pub fn half(&self) -> Option<(&'static str, How)> {
        Some(match self.clone() {
            How::Kretprobe { symbol } => ("half_entry", How::Kprobe { symbol, offset: 0 }),
            How::Uretprobe { path, symbol } => ("half_entry", How::Uprobe { path, symbol, offset: 0 }),
            How::Fexit { symbol, copied } => ("half_fentry", How::Fentry { symbol, copied }),
            How::SyscallFexit { symbol } => ("half_syscall_fentry", How::SyscallFentry { symbol }),
            How::SyscallKretprobe { symbol } => ("half_syscall_kprobe", How::SyscallKprobe { symbol }),
            How::SyscallExitTpBtf { number } => ("half_syscall_tp_btf", How::SyscallTpBtf { number }),
            How::SyscallExitRawTp { number } => ("half_syscall_raw_tp", How::SyscallRawTp { number }),
            _ => return None,
        })
    }

    /// Whether the arguments at the return are those that the entry kept, or none.
    fn keeps_args(&self) -> bool {
        matches!(self, How::Kretprobe { .. } | How::Uretprobe { .. } | How::SyscallKretprobe { .. })
    }

    /// The function that a BPF trampoline is put on, which must be known before the load.
    pub fn trampoline(&self) -> Option<&str> {
        match self {
            How::Fentry { symbol, .. }
            | How::Fexit { symbol, .. }
            | How::SyscallFentry { symbol }
            | How::SyscallFexit { symbol } => Some(symbol),
            _ => None,
        }
    }

    /// Whether the arguments of a trampoline are read by a helper.
    fn copies(&self) -> bool {
        matches!(self, How::Fentry { copied: true, .. } | How::Fexit { copied: true, .. })
    }

    /// Whether what its arguments point to is user memory.
    fn in_user_space(&self) -> bool {
        matches!(
            self,
            How::Uprobe { .. }
                | How::Uretprobe { .. }
                | How::Usdt { .. }
                | How::SyscallFentry { .. }
                | How::SyscallKprobe { .. }
                | How::SyscallTpBtf { .. }
                | How::SyscallRawTp { .. }
                | How::SyscallFexit { .. }
                | How::SyscallKretprobe { .. }
                | How::SyscallExitTpBtf { .. }
                | How::SyscallExitRawTp { .. }
        )
    }

    /// Whether it is on a function.
    pub fn has_function(&self) -> bool {
        self.is_kprobe() || self.trampoline().is_some() || matches!(self, How::Uprobe { .. })
    }

    /// Where the function's address is known from: `TRACER_FUNC_*` of `bpf/tracer.h`.
    fn func(&self) -> u32 {
        match self {
            How::Uprobe { .. } => 2,
            How::Kprobe { .. } | How::SyscallKprobe { .. } => 0,
            _ => 1,
        }
    }

    /// Whether what returns there is a function of the kernel.
    pub fn in_kernel(&self) -> bool {
        !matches!(self, How::Uprobe { .. } | How::Uretprobe { .. })
    }

    /// Whether it needs the kernel's kprobes.
    pub fn is_kprobe(&self) -> bool {
        matches!(
            self,
            How::Kprobe { .. }
                | How::Kretprobe { .. }
                | How::SyscallKprobe { .. }
                | How::SyscallKretprobe { .. }
        )
    }

    /// The program or library it is in, and the symbol there.
    pub fn in_file(&self) -> Option<(&str, &str)> {
        match self {
            How::Uprobe { path, symbol, .. } | How::Uretprobe { path, symbol } => Some((path, symbol)),
            _ => None,
        }
    }

    /// Whether it is in a program or library.
    pub fn is_uprobe(&self) -> bool {
        self.in_file().is_some() || matches!(self, How::Usdt { .. })
    }

    /// Whether attaching it reads tracefs.
    pub fn needs_tracefs(&self) -> bool {
        matches!(self, How::Tracepoint { .. })
    }

    /// How far the stack pointer at a function's return, as a program sees it, is from the one at its entry.
    fn sp_delta(&self) -> u32 {
        if cfg!(not(target_arch = "x86_64")) {
            return 0;
        }
        // The return takes its own address off the stack.
        8
    }

    /// The kernel symbol it stands on.
    pub fn symbol(&self) -> Option<&str> {
        match self {
            How::Kprobe { symbol, .. }
            | How::Kretprobe { symbol }
            | How::SyscallKprobe { symbol }
            | How::SyscallKretprobe { symbol } => Some(symbol),
            _ => self.trampoline(),
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |copied: bool| if copied { ", its arguments read by a helper" } else { "" };
        let at = |offset: u64| if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        match self {
            How::Kprobe { symbol, offset } => write!(f, "kprobe on {symbol}{}", at(*offset)),
            How::Kretprobe { symbol } => write!(f, "kretprobe on {symbol}"),
            How::Fentry { symbol, copied } => write!(f, "fentry on {symbol}{}", by(*copied)),
            How::Fexit { symbol, copied } => write!(f, "fexit on {symbol}{}", by(*copied)),
            How::Tracepoint { category, name } => write!(f, "tracepoint {category}:{name}"),
            How::RawTracepoint { name } => write!(f, "raw tracepoint {name}"),
            How::Uprobe { path, symbol, offset } => write!(f, "uprobe on {path}:{symbol}{}", at(*offset)),
            How::Uretprobe { path, symbol } => write!(f, "uretprobe on {path}:{symbol}"),
            How::Usdt { path, name } => write!(f, "USDT probe {name} of {path}"),
            How::SyscallFentry { symbol } => write!(f, "fentry on {symbol}"),
            How::SyscallKprobe { symbol } => write!(f, "kprobe on {symbol}"),
            How::SyscallTpBtf { number } => write!(f, "BTF raw tracepoint sys_enter, call {number}"),
            How::SyscallRawTp { number } => write!(f, "raw tracepoint sys_enter, call {number}"),
            How::SyscallFexit { symbol } => write!(f, "fexit on {symbol}"),
            How::SyscallKretprobe { symbol } => write!(f, "kretprobe on {symbol}"),
            How::SyscallExitTpBtf { number } => write!(f, "BTF raw tracepoint sys_exit, call {number}"),
            How::SyscallExitRawTp { number } => write!(f, "raw tracepoint sys_exit, call {number}"),
        }
    }
}

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
    /// The module whose BTF its sources' types are of; `None` for the kernel's.
    pub module: Option<String>,
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
        let user = how.in_user_space();
        let func_args = params.len();
        let ret = ret.map(|param| if how.in_kernel() { param.with_errors() } else { param });
        let ret = ret.map(|param| Source::in_base(BASE_RET, param, user));
        let params = params.into_iter().take(Hook::MAX_ARGS).enumerate();
        let params = params.map(|(i, param)| Source::in_base(i as u8, param, user));
        let returns = usize::from(ret.is_some());
        let sources: Vec<Source> = ret.into_iter().chain(params).collect();
        // What an entry must keep costs more than what is at hand, so it is shown where it is asked for.
        let shown = if how.keeps_args() { returns } else { sources.len() };
        Hook { how, sources, func_args, shown, args_of_entry: false, module: None }
    }

    /// The same hook, its types being those of a module's BTF.
    pub fn typed_by(self, module: Option<String>) -> Hook {
        Hook { module, ..self }
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
        Hook { how, shown: sources.len(), sources, func_args: 0, args_of_entry: false, module: None }
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

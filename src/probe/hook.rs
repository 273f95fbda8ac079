//! One way to hook the kernel for a spec, with what its program has at hand.

use std::fmt;

use libbpf_rs::btf::TypeId;

use super::{
    config::Config,
    fetch::{BASE_RET, BASE_TASK, Fetch, Plan, Read, STRING, TEXT},
    locate::Wanted,
    signature::{self, Param},
};
use crate::schema::{Kind, format::FormatField};

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
}

impl How {
    /// The entry program in `bpf/tracer.bpf.c`.
    pub fn program(&self) -> &'static str {
        match self {
            How::Kprobe { .. } | How::Uprobe { .. } => "probe_entry",
            How::Kretprobe { .. } | How::Uretprobe { .. } => "probe_return",
            How::Fentry { .. } => "probe_fentry",
            How::Fexit { .. } => "probe_fexit",
            How::Tracepoint { .. } => "probe_tracepoint",
            How::RawTracepoint { .. } => "probe_raw_tp",
            How::Usdt { .. } => "probe_usdt",
            How::SyscallFentry { .. } => "syscall_fentry",
            How::SyscallKprobe { .. } => "syscall_kprobe",
            How::SyscallTpBtf { .. } => "syscall_tp_btf",
            How::SyscallRawTp { .. } => "syscall_raw_tp",
        }
    }

    /// The function that a BPF trampoline is put on, which must be known before the load.
    pub fn trampoline(&self) -> Option<&str> {
        match self {
            How::Fentry { symbol, .. } | How::Fexit { symbol, .. } | How::SyscallFentry { symbol } => {
                Some(symbol)
            }
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
        )
    }

    /// Whether it needs the kernel's kprobes.
    pub fn is_kprobe(&self) -> bool {
        matches!(self, How::Kprobe { .. } | How::Kretprobe { .. } | How::SyscallKprobe { .. })
    }

    /// Whether attaching it reads tracefs.
    pub fn needs_tracefs(&self) -> bool {
        matches!(self, How::Tracepoint { .. })
    }

    /// The kernel symbol it stands on.
    pub fn symbol(&self) -> Option<&str> {
        match self {
            How::Kprobe { symbol, .. } | How::Kretprobe { symbol } | How::SyscallKprobe { symbol } => {
                Some(symbol)
            }
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
        let Param { name, type_name, kind, ty } = param;
        Source { name, type_name, kind, fetch: Fetch::value(base), ty, user }
    }

    /// Whether it is the return value.
    pub fn is_return(&self) -> bool {
        self.fetch.base == BASE_RET
    }

    /// What is fetched where nothing else is asked for: strings are read, all else is its value.
    pub fn wanted(&self) -> Wanted {
        let (mut fetch, mut kind) = (self.fetch.clone(), self.kind);
        if kind == Kind::Pointer && self.holds_text() {
            (fetch.read, fetch.user, kind) = (Read::Text(STRING), self.user, Kind::Text);
        }
        Wanted { fetch, kind, type_name: self.type_name.clone() }
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
        let ret = ret.map(|param| Source::in_base(BASE_RET, param, user));
        let params = params.into_iter().take(Hook::MAX_ARGS).enumerate();
        let params = params.map(|(i, param)| Source::in_base(i as u8, param, user));
        Hook { how, sources: ret.into_iter().chain(params).collect(), func_args }
    }

    /// A tracepoint, whose record holds its fields.
    pub fn record(how: How, fields: &[FormatField]) -> Hook {
        Hook { how, sources: fields.iter().filter_map(record_field).collect(), func_args: 0 }
    }

    /// Writes what the program is to look at into its configuration.
    pub fn configure(&self, plan: &Plan, config: &mut Config) {
        let used = self.sources.iter().filter(|s| plan.uses(s.fetch.base));
        let args = used.filter(|s| s.fetch.base < BASE_RET).map(|s| u32::from(s.fetch.base) + 1);
        config.set_u32("nargs", args.max().unwrap_or(0));
        config.set_u32("ret", u32::from(plan.uses(BASE_RET)));
        config.set_u32("func_args", self.func_args as u32);
        config.set_u32("copied", u32::from(self.how.copies()));
        if let How::SyscallTpBtf { number } | How::SyscallRawTp { number } = &self.how {
            config.set_u32("syscall", *number);
        }
        plan.configure(config);
    }
}

/// A field of a tracepoint's record; `None` for arrays of what is no character.
fn record_field(field: &FormatField) -> Option<Source> {
    let at = |read| Fetch { last: i64::from(field.offset), read, ..Fetch::value(BASE_TASK) };
    let source = |kind, fetch| Source {
        name: field.name.clone(),
        type_name: field.type_name.clone(),
        kind,
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
        let text = field.type_name.contains("char[]");
        return text.then(|| source(Kind::Text, Fetch { loc, ..at(Read::Text(STRING)) }));
    }
    if field.type_name.starts_with("char[") {
        let size = field.size.clamp(1, TEXT as u32) as u16;
        return Some(source(Kind::Text, at(Read::Text(size))));
    }
    let param = signature::format_param(field)?;
    Some(source(param.kind, at(Read::Memory(field.size as u8))))
}

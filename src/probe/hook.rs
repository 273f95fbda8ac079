//! One way to hook the kernel for a spec, with what its program captures.

use std::fmt;

use super::{config::Config, signature::Param, spec::Spec};
use crate::schema::{Field, Schema, Wire};

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
        places: Vec<(u16, u16)>,
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
            How::Tracepoint { category, name, .. } => write!(f, "tracepoint {category}:{name}"),
            How::RawTracepoint { name } => write!(f, "raw tracepoint {name}"),
            How::Uprobe { path, symbol, offset } => write!(f, "uprobe on {path}:{symbol}{}", at(*offset)),
            How::Uretprobe { path, symbol } => write!(f, "uretprobe on {path}:{symbol}"),
            How::SyscallFentry { symbol } => write!(f, "fentry on {symbol}"),
            How::SyscallKprobe { symbol } => write!(f, "kprobe on {symbol}"),
            How::SyscallTpBtf { number } => write!(f, "BTF raw tracepoint sys_enter, call {number}"),
            How::SyscallRawTp { number } => write!(f, "raw tracepoint sys_enter, call {number}"),
        }
    }
}

/// A way to hook, and what its program captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub how: How,
    /// What the return value is, where it is captured.
    pub ret: Option<Param>,
    /// What the captured arguments are, six at most.
    pub params: Vec<Param>,
    /// How many parameters the function has, captured or not.
    pub func_args: usize,
}

impl Hook {
    /// The most arguments that are captured.
    pub const MAX_ARGS: usize = 6;

    /// A hook at an entry.
    pub fn entry(how: How, mut params: Vec<Param>) -> Hook {
        let func_args = params.len();
        params.truncate(Hook::MAX_ARGS);
        Hook { how, ret: None, params, func_args }
    }

    /// A hook at a return.
    pub fn exit(how: How, ret: Option<Param>, params: Vec<Param>) -> Hook {
        Hook { ret, ..Hook::entry(how, params) }
    }

    /// What an event of this hook means: the return value first, then the arguments, in slots of eight bytes.
    pub fn schema(&self, spec: &Spec) -> Schema {
        let captured = self.ret.iter().chain(&self.params).enumerate();
        let fields = captured.map(|(slot, p)| Field {
            name: p.name.clone(),
            type_name: p.type_name.clone(),
            kind: p.kind,
            offset: (Wire::SIZE + 8 * slot) as u32,
        });
        Schema { name: spec.event_name(), spec: spec.to_string(), fields: fields.collect() }
    }

    /// Writes what the program captures into its configuration.
    pub fn configure(&self, config: &mut Config) {
        config.set_u32("nargs", self.params.len() as u32);
        config.set_u32("ret", u32::from(self.ret.is_some()));
        config.set_u32("func_args", self.func_args as u32);
        match &self.how {
            How::SyscallTpBtf { number } | How::SyscallRawTp { number } => {
                config.set_u32("syscall", *number);
            }
            How::Fentry { copied, .. } | How::Fexit { copied, .. } => {
                config.set_u32("copied", u32::from(*copied));
            }
            How::Tracepoint { places, .. } => {
                let (offsets, sizes): (Vec<u16>, Vec<u16>) = places.iter().copied().unzip();
                config.set_u16s("field_offset", &offsets).set_u16s("field_size", &sizes);
            }
            _ => {}
        }
    }
}

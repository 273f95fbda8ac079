//! Where and how a program is attached to the kernel, or to a program of the user's.

use std::fmt;

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
    pub fn keeps_args(&self) -> bool {
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
    pub fn copies(&self) -> bool {
        matches!(self, How::Fentry { copied: true, .. } | How::Fexit { copied: true, .. })
    }

    /// Whether what its arguments point to is user memory.
    pub fn in_user_space(&self) -> bool {
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
    pub fn func(&self) -> u32 {
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
    pub fn sp_delta(&self) -> u32 {
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

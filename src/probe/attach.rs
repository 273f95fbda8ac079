//! A loaded program to its hook.

use libbpf_rs::{KprobeMultiOpts, Link, ProgramMut, UprobeMultiOpts, UprobeOpts};

use super::{hook::How, libbpf};

/// Attaches a loaded program where `how` says; where it is one of many functions, as the one that this cookie tells.
pub fn attach(program: &ProgramMut<'_>, how: &How, cookie: u64) -> libbpf_rs::Result<Link> {
    match how {
        How::Kprobe { symbol, offset } => {
            Ok(libbpf::attach_kprobe_at(program, symbol, *offset, false, cookie)?)
        }
        How::Kretprobe { symbol } => Ok(libbpf::attach_kprobe_at(program, symbol, 0, true, cookie)?),
        How::SyscallKprobe { symbol } => program.attach_kprobe(false, symbol),
        How::SyscallKretprobe { symbol } => program.attach_kprobe(true, symbol),
        How::Fentry { .. }
        | How::Fexit { .. }
        | How::SyscallFentry { .. }
        | How::SyscallFexit { .. }
        | How::SyscallTpBtf { .. }
        | How::SyscallExitTpBtf { .. } => program.attach_trace(),
        How::Tracepoint { category, name } => {
            program.attach_tracepoint(libbpf_rs::TracepointCategory::Custom(category.clone()), name)
        }
        How::RawTracepoint { name } => program.attach_raw_tracepoint(name),
        How::SyscallRawTp { .. } => program.attach_raw_tracepoint("sys_enter"),
        How::SyscallExitRawTp { .. } => program.attach_raw_tracepoint("sys_exit"),
        How::Uprobe { path, symbol, offset } => uprobe(program, path, symbol, *offset, false, cookie),
        How::Uretprobe { path, symbol } => uprobe(program, path, symbol, 0, true, cookie),
        How::Usdt { path, name } => {
            let (provider, name) = name.split_once(':').unwrap_or(("", name));
            program.attach_usdt(ALL, path, provider, name)
        }
    }
}

/// Every process that runs the file; which of them are wanted is the filter's to say.
const ALL: i32 = -1;

/// Attaches a loaded program to all these functions at once, each with its place among them as its cookie: those of
/// the kernel, or of the file that `how` is in. Where all `addresses` are known the kernel has no names to look up,
/// for which it walks through all of its own.
pub fn attach_multi(
    program: &ProgramMut<'_>,
    how: &How,
    symbols: Vec<String>,
    addresses: Option<&[u64]>,
    retprobe: bool,
) -> libbpf_rs::Result<Link> {
    let cookies: Vec<u64> = (0..symbols.len() as u64).collect();
    if let Some((path, _)) = how.in_file() {
        let opts = UprobeMultiOpts { syms: symbols, cookies, retprobe, ..UprobeMultiOpts::default() };
        return program.attach_uprobe_multi_with_opts(ALL, path, "", opts);
    }
    if let Some(addresses) = addresses {
        return Ok(libbpf::attach_kprobes_at(program, addresses, &cookies, retprobe)?);
    }
    program.attach_kprobe_multi_with_opts(KprobeMultiOpts {
        symbols,
        cookies,
        retprobe,
        ..KprobeMultiOpts::default()
    })
}

fn uprobe(
    program: &ProgramMut<'_>,
    path: &str,
    symbol: &str,
    offset: u64,
    retprobe: bool,
    cookie: u64,
) -> libbpf_rs::Result<Link> {
    let opts = UprobeOpts {
        retprobe,
        cookie,
        func_name: (!symbol.is_empty()).then(|| symbol.to_owned()),
        ..UprobeOpts::default()
    };
    program.attach_uprobe_with_opts(ALL, path, offset as usize, opts)
}

//! A spec to the hooks that can serve it, best first.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    str::FromStr,
};

use syscalls::Sysno;

use super::{
    boundary,
    btf::Owner,
    debug, elf,
    hook::{Hook, How},
    locate::bare_name,
    preflight::{function_size, near},
    signature::{self, Param, Signature},
    spec::{self, Provider, Spec},
    tracefs, usdt,
};
use crate::{
    Error, ErrorKind, Result,
    schema::{Show, format},
};

/// Whether this version serves all that a spec asks for; needs no right and looks nothing up.
///
/// # Errors
///
/// Usage: names what is not served.
pub fn servable(spec: &Spec) -> Result<()> {
    spec::unsupported(spec).map_or(Ok(()), |what| {
        Err(Error::usage(format!("spec '{spec}': {what} are not supported by this version")))
    })
}

/// The hooks for a spec, in the order in which they are to be tried.
pub fn resolve(spec: &Spec) -> Result<Vec<Hook>> {
    servable(spec)?;
    let symbol = spec.target.clone();
    let one = |hook: Hook| Ok(vec![hook]);
    match spec.provider {
        Provider::Kprobe => {
            // The kernel takes an offset beyond the function, and probes whatever lies there.
            if spec.offset > 0
                && let Some(size) = function_size(&symbol)
                && spec.offset >= size
            {
                return Err(missing(spec, &format!("the function has {size} bytes")));
            }
            let known = if spec.offset == 0 { signature::function(&symbol) } else { None };
            one(on_function(spec, known))
        }
        Provider::Kretprobe => one(on_function(spec, signature::function(&symbol))),
        Provider::Fentry => {
            let known = traced_function(spec)?;
            let how = |copied| How::Fentry { symbol: symbol.clone(), copied };
            let hook = |copied| Hook::entry(how(copied), known.params.clone()).typed_by(known.owner.clone());
            Ok([false, true].map(hook).to_vec())
        }
        Provider::Fexit => {
            let known = traced_function(spec)?;
            let how = |copied| How::Fexit { symbol: symbol.clone(), copied };
            let hook = |copied| {
                Hook::exit(how(copied), known.ret.clone(), known.params.clone()).typed_by(known.owner.clone())
            };
            Ok([false, true].map(hook).to_vec())
        }
        Provider::RawTracepoint => {
            let params = signature::raw_tracepoint(&symbol).ok_or_else(|| {
                missing(spec, "this kernel's BTF knows no such raw tracepoint").with_help(near(
                    &symbol,
                    signature::raw_tracepoint_names(),
                    |n| format!("rt:{n}"),
                ))
            })?;
            one(Hook::entry(How::RawTracepoint { name: symbol }, params))
        }
        Provider::Tracepoint => one(tracepoint(spec)?),
        Provider::Uprobe => {
            let path = program_path(spec)?;
            elf::check(Path::new(&path)).map_err(|e| e.context(spec))?;
            if spec.offset > 0 {
                boundary::check(spec, &path, &symbol)?;
            }
            one(in_program(spec, How::Uprobe { path, symbol, offset: spec.offset }))
        }
        Provider::Uretprobe => {
            let path = program_path(spec)?;
            elf::check(Path::new(&path)).map_err(|e| e.context(spec))?;
            one(in_program(spec, How::Uretprobe { path, symbol }))
        }
        Provider::Syscall => syscall(spec),
        Provider::Usdt => one(usdt_probe(spec)?),
        Provider::Object => Err(missing(spec, "an object has programs of its own: a session attaches it")),
    }
}

fn usdt_probe(spec: &Spec) -> Result<Hook> {
    let path = program_path(spec)?;
    let notes = elf::sites(Path::new(&path)).map_err(|e| e.context(spec))?;
    let name = spec.target.clone();
    let named = |n: &elf::Note| format!("{}:{}", n.provider, n.name);
    let sites: Vec<_> = notes.iter().filter(|n| named(n) == name).collect();
    if sites.is_empty() {
        let all: BTreeSet<String> = notes.iter().map(named).collect();
        let there = match all.len() {
            0 => "it has no USDT probes at all".to_owned(),
            1..=8 => format!("it has {}", all.iter().cloned().collect::<Vec<_>>().join(", ")),
            _ => near(&name, all.into_iter().collect(), |n| format!("usdt:{path}:{n}")),
        };
        return Err(missing(spec, &format!("{path} has no such probe")).with_help(there));
    }
    let params = usdt::params(&sites);
    Ok(Hook::entry(How::Usdt { path, name }, params))
}

/// A kprobe or kretprobe on a function of this signature; of an unknown one the registers are at hand.
pub fn on_function(spec: &Spec, known: Option<Signature>) -> Hook {
    let symbol = spec.target.clone();
    let known = known.unwrap_or_else(|| Signature {
        params: signature::registers(),
        ret: Some(signature::plain_return()),
        owner: Owner::Kernel,
    });
    let hook = match spec.provider.is_return() {
        true => Hook::exit(How::Kretprobe { symbol }, known.ret, known.params),
        false => Hook::entry(How::Kprobe { symbol, offset: spec.offset }, known.params),
    };
    hook.typed_by(known.owner)
}

/// A uprobe or uretprobe on a function that its program's debug info describes; of others the registers are at hand.
fn in_program(spec: &Spec, how: How) -> Hook {
    let returns = matches!(how, How::Uretprobe { .. });
    let known = match how.in_file() {
        Some(_) if spec.offset > 0 => Err("parameters are known where a function begins alone".to_owned()),
        Some((path, symbol)) => {
            let whole = spec.fields.is_some() || spec.predicate.is_some();
            let casts: Vec<&str> = spec.casts().into_iter().map(bare_name).collect();
            debug::function(path, symbol, whole, &casts)
        }
        None => Err("it is in no file".to_owned()),
    };
    match known {
        Ok(debug::Described { taken, owner }) => {
            let (ret, unread) = match taken.ret.filter(|_| returns) {
                Some((ret, Ok(()))) => (Some(ret), None),
                Some((ret, Err(why))) => (None, Some((ret.name, why))),
                None => (None, None),
            };
            let mut hook = Hook::placed(how, ret, taken.params).typed_by(owner);
            hook.away.extend(unread);
            hook
        }
        Err(why) => {
            let ret = returns.then(signature::plain_return);
            Hook { untyped: Some(why), ..Hook::exit(how, ret, signature::registers()) }
        }
    }
}

fn missing(spec: &Spec, why: &str) -> Error {
    Error::new(ErrorKind::Attach, format!("{spec}: cannot attach: {why}"))
}

fn traced_function(spec: &Spec) -> Result<Signature> {
    signature::function(&spec.target).ok_or_else(|| super::preflight::explain_absent(spec, &spec.target))
}

fn tracepoint(spec: &Spec) -> Result<Hook> {
    let text = tracefs::format(&spec.scope, &spec.target)?.ok_or_else(|| {
        let categories = tracefs::categories();
        if categories.contains(&spec.scope) {
            missing(spec, "this kernel has no such tracepoint").with_help(near(
                &spec.target,
                tracefs::names(&spec.scope),
                |n| format!("t:{}:{n}", spec.scope),
            ))
        } else {
            missing(spec, "this kernel has no such category of tracepoints").with_help(near(
                &spec.scope,
                categories,
                |c| format!("t:{c}:…"),
            ))
        }
    })?;
    let how = How::Tracepoint { category: spec.scope.clone(), name: spec.target.clone() };
    Ok(Hook::record(how, &format::parse(&text, &signature::enumerator)))
}

fn program_path(spec: &Spec) -> Result<String> {
    program(&spec.scope).map_err(|e| e.context(format!("{spec}: cannot attach")))
}

/// A program by path, or by name as the shell would find it.
pub(super) fn program(name: &str) -> Result<String> {
    if PathBuf::from(name).is_file() {
        // libbpf looks along PATH for what has no slash.
        return Ok(if name.contains('/') { name.to_owned() } else { format!("./{name}") });
    }
    let cannot = |why: String| Error::new(ErrorKind::Attach, why);
    if name.contains('/') {
        let there = Path::new(name).exists();
        let why =
            if there { format!("{name} is no file") } else { format!("there is no such file as {name}") };
        return Err(cannot(why));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file());
    found
        .map(|p| p.to_string_lossy().into_owned())
        .ok_or_else(|| cannot(format!("no program '{name}' is in PATH")).with_help("give its whole path"))
}

/// The hooks that see one system call, in the order of what each costs the traced call and everybody else's:
/// a trampoline, a kprobe, then hooks on every system call of the machine, of which the one that needs no
/// helper to read the arguments comes first. A spec that asks for what is known at the return alone gets an
/// event there.
fn syscall(spec: &Spec) -> Result<Vec<Hook>> {
    let number = Sysno::from_str(&spec.target).map_err(|_| {
        let all = Sysno::iter().map(|s| s.name().to_owned()).collect();
        missing(spec, "this architecture has no such system call")
            .with_help(near(&spec.target, all, |n| format!("s:{n}")))
    })?;
    let name = number.name();
    let number = number.id() as u32;
    let params = syscall_params(name);
    let symbol = format!("{WRAPPER}{name}");
    if spec.mentions(&["ret", "retval", "lat"]) {
        let ways = [
            How::SyscallFexit { symbol: symbol.clone() },
            How::SyscallKretprobe { symbol },
            How::SyscallExitTpBtf { number },
            How::SyscallExitRawTp { number },
        ];
        let hook = |how| Hook {
            args_of_entry: OWN_REGISTERS.contains(&name),
            ..Hook::exit(how, Some(Param { show: Show::Errno, ..signature::plain_return() }), params.clone())
        };
        return Ok(ways.into_iter().map(hook).collect());
    }
    let ways = [
        How::SyscallFentry { symbol: symbol.clone() },
        How::SyscallKprobe { symbol },
        How::SyscallTpBtf { number },
        How::SyscallRawTp { number },
    ];
    Ok(ways.into_iter().map(|how| Hook::entry(how, params.clone())).collect())
}

/// Calls that leave their caller with registers of their own making.
const OWN_REGISTERS: [&str; 3] = ["execve", "execveat", "rt_sigreturn"];

/// What the kernel puts before the name of a system call's entry (`arch/*/include/asm/syscall_wrapper.h`).
pub(super) const WRAPPER: &str = if cfg!(target_arch = "x86_64") { "__x64_sys_" } else { "__arm64_sys_" };

/// A system call's parameters: from its tracepoint's format, else from the function behind it, else registers.
fn syscall_params(name: &str) -> Vec<Param> {
    let in_kernel = |function: &str| signature::function_in(None, function).map(|s| s.params);
    known_params(name, in_kernel).unwrap_or_else(signature::registers)
}

/// The parameters of every system call that are known, by its name.
pub(super) fn all_syscall_params() -> impl Fn(&str) -> Option<Vec<Param>> {
    let behind = signature::functions_in(None, |name| BEHIND.iter().any(|before| name.starts_with(before)));
    move |name| known_params(name, |function| behind.get(function).map(|s| s.params.clone()))
}

/// What stands before a system call's name in the names of functions that take its parameters as they are.
const BEHIND: [&str; 2] = ["ksys_", "__do_sys_"];

fn known_params(name: &str, by_name: impl Fn(&str) -> Option<Vec<Param>>) -> Option<Vec<Param>> {
    if let Ok(Some(text)) = tracefs::format("syscalls", &format!("sys_enter_{name}")) {
        let fields = format::fields(&text);
        let fields = fields.iter().filter(|f| f.name != "__syscall_nr");
        return Some(fields.filter_map(signature::format_param).collect());
    }
    BEHIND.iter().find_map(|before| by_name(&format!("{before}{name}")))
}

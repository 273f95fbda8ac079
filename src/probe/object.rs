//! Our BPF object: opened once per probe, configured, its maps shared, loaded.

use std::sync::{Mutex, OnceLock};

use libbpf_rs::{Object, ObjectBuilder, OpenObject};

use super::{config::Config, core_types, filter::Filter, libbpf};
use crate::{Error, ErrorKind, Result};

/// libelf reads its structures where they lie, so they must be aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static MAIN: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tracer.bpf.o")));
static STRICT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tracer_strict.bpf.o")));

static USDT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o")));
static USDT_STRICT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/usdt_strict.bpf.o")));
static BENCH: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o")));
static FOREIGN: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/foreign.bpf.o")));

/// The object with every program, for its BTF.
pub(super) static OBJECT: &[u8] = &MAIN.0;

/// The maps that all probes share.
pub(super) const SHARED: [&str; 5] = ["events", "accounts", "cpus", "targets", "cgroups"];

/// What libbpf had to say since it was last asked; the verifier's log among it.
static SAID: Mutex<String> = Mutex::new(String::new());

/// Routes libbpf's messages to [`take_said`].
pub(super) fn listen() {
    libbpf::listen(hear);
}

fn hear(text: &str) {
    if let Ok(mut said) = SAID.lock() {
        // The end of a verifier's log is what matters, and its size has no bound.
        const KEPT: usize = 16 << 10;
        let tail = text.char_indices().rev().nth(KEPT).map_or(0, |(at, _)| at);
        if said.len() > KEPT {
            said.clear();
        }
        said.push_str(&text[tail..]);
    }
}

/// Takes what libbpf said.
pub(super) fn take_said() -> String {
    SAID.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default()
}

/// Opens the object that fits this kernel, and routes libbpf's messages to [`take_said`].
pub(super) fn open() -> Result<OpenObject> {
    open_bytes(if nests_strictly() { &STRICT.0 } else { &MAIN.0 })
}

/// Opens the object that has this program, as [`open`].
pub(super) fn open_with(program: &str) -> Result<OpenObject> {
    match program {
        "probe_usdt" => open_bytes(if nests_strictly() { &USDT_STRICT.0 } else { &USDT.0 }),
        _ => open(),
    }
}

/// Whether programs of one CPU nest strictly, and atomics may not return the old value.
fn nests_strictly() -> bool {
    static STRICT_NESTING: OnceLock<bool> = OnceLock::new();
    listen();
    let strict = *STRICT_NESTING.get_or_init(|| !atomics_return_values());
    take_said();
    strict
}

/// Opens the benchmark's object.
pub(super) fn open_bench() -> Result<OpenObject> {
    listen();
    open_bytes(&BENCH.0)
}

/// Opens the programs that are run on arrays of others.
pub(super) fn open_foreign() -> Result<OpenObject> {
    listen();
    open_bytes(&FOREIGN.0)
}

fn open_bytes(bytes: &[u8]) -> Result<OpenObject> {
    // Those of other objects ask for more than structures.
    let ours = [&MAIN.0, &STRICT.0].iter().any(|main| std::ptr::eq(*main, bytes));
    let types = if ours { core_types::path(OBJECT) } else { None };
    let mut builder = ObjectBuilder::default();
    let named = builder.name("tracer").and_then(|builder| match types {
        Some(path) => builder.btf_custom_path(path),
        None => Ok(builder),
    });
    let mut open = named
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(|e| Error::caused(ErrorKind::Runtime, "opening the BPF object inside this program", e))?;
    for mut program in open.progs_mut() {
        program.set_autoload(false);
    }
    Ok(open)
}

/// Whether this kernel takes atomics that return the old value (from 5.12 on).
fn atomics_return_values() -> bool {
    let Ok(mut open) = open_bytes(&MAIN.0) else { return false };
    for mut map in open.maps_mut() {
        let needed = map.name() == "cpus";
        if !needed && map.set_autocreate(false).is_err() {
            return false;
        }
    }
    select(&mut open, "feature_fetch");
    open.load().is_ok()
}

/// Makes a map as large as it has to be.
pub(super) fn size(open: &mut OpenObject, name: &str, entries: usize) -> Result<()> {
    for mut map in open.maps_mut().filter(|map| map.name() == name) {
        map.set_max_entries(entries as u32)
            .map_err(|e| Error::caused(ErrorKind::Runtime, format!("sizing the BPF map '{name}'"), e))?;
    }
    Ok(())
}

/// Leaves out maps that no program to be loaded has a use for.
pub(super) fn leave_out(open: &mut OpenObject, names: &[&str]) -> Result<()> {
    for mut map in open.maps_mut() {
        if names.iter().any(|name| map.name() == *name) {
            map.set_autocreate(false)
                .map_err(|e| Error::caused(ErrorKind::Runtime, "leaving out a BPF map", e))?;
        }
    }
    Ok(())
}

/// Marks the programs to be loaded.
pub(super) fn select(open: &mut OpenObject, name: &str) {
    for mut program in open.progs_mut().filter(|p| p.name() == name) {
        program.set_autoload(true);
    }
}

/// What of a configuration every probe of a session has in common.
pub(super) struct Common<'a> {
    pub filter: &'a Filter,
    pub probes: usize,
}

/// Fills in the constants of an opened object.
pub(super) fn configure(
    open: &mut OpenObject,
    common: &Common<'_>,
    probe: usize,
    more: impl FnOnce(&mut Config),
) -> Result<()> {
    let Some(mut rodata) = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(".rodata")) else {
        return Err(Error::new(ErrorKind::Runtime, "the BPF object inside this program has no .rodata"));
    };
    let Some(bytes) = rodata.initial_value_mut() else {
        return Err(Error::new(ErrorKind::Runtime, "the .rodata of the BPF object cannot be set"));
    };
    let mut config = Config::zeroed(bytes.len())?;
    config.set_u32("probe", probe as u32).set_u32("probes", common.probes as u32);
    config.set_u32("common_type", FIRST_TYPE + probe as u32);
    common.filter.configure(&mut config)?;
    more(&mut config);
    bytes.copy_from_slice(config.bytes());
    Ok(())
}

/// Our event types stand above those of any kernel's own tracepoints.
const FIRST_TYPE: u32 = 0x7000;

/// Lets an opened object use the maps of a loaded one.
pub(super) fn share_maps(open: &mut OpenObject, base: &Object, names: &[&str]) -> Result<()> {
    use std::os::fd::AsFd;
    for &name in names {
        let (Some(mut map), Some(shared)) = (
            open.maps_mut().find(|m| m.name() == name),
            base.maps().find(|m| libbpf_rs::MapCore::name(m) == name),
        ) else {
            continue;
        };
        map.reuse_fd(shared.as_fd())
            .map_err(|e| Error::caused(ErrorKind::Runtime, format!("sharing the BPF map '{name}'"), e))?;
    }
    Ok(())
}

/// Loads an opened object.
pub(super) fn load(open: OpenObject) -> Result<Object> {
    take_said();
    open.load().map_err(|e| {
        let said = take_said();
        if said.contains("failed to create: -EPERM") {
            return super::preflight::locked_memory(e);
        }
        let error = Error::caused(ErrorKind::Runtime, "loading a BPF program", e);
        match said.lines().rev().find(|l| !l.trim().is_empty() && !l.contains("END PROG LOAD LOG")) {
            _ if said.is_empty() => error,
            Some(_) => error.with_help(format!("the kernel said:\n{}", tail(&said, 12))),
            None => error,
        }
    })
}

/// The last lines of a text.
pub(super) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

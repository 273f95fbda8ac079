//! What a kernel function or tracepoint takes and gives, from the kernel's BTF or tracefs.

use std::collections::HashMap;

use libbpf_rs::btf::{
    Btf, BtfKind, BtfType, ReferencesType, TypeId,
    types::{Enum, Func, FuncProto, Typedef},
};

use super::{
    btf::{self, Owner, Parts, vmlinux},
    catalogue, libbpf,
    shape::{self, scalar},
    walk::{self, Raw, kind},
};
use crate::schema::{Kind, Show, format::FormatField};

/// A parameter or a return value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub type_name: String,
    pub kind: Kind,
    pub show: Show,
    /// Its type in the kernel's BTF, where that has one.
    pub ty: Option<TypeId>,
}

impl Param {
    /// The same as what a function of the kernel returns: a negative error number, or an address from `ERR_PTR`.
    pub fn with_errors(mut self) -> Param {
        if let (Kind::Signed(4 | 8) | Kind::Pointer, Show::Plain) = (self.kind, &self.show) {
            self.show = Show::Errno;
        }
        self
    }
}

/// A function's parameters and what it returns; `None` for void.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    pub params: Vec<Param>,
    pub ret: Option<Param>,
    /// Whose its types are.
    pub owner: Owner,
}

/// The type of a register of which nothing is known.
pub const REGISTER: &str = "unsigned long";

/// Registers are all that is known of a function without a signature.
pub fn registers() -> Vec<Param> {
    (0..6).map(|i| register(&format!("arg{i}"))).collect()
}

fn register(name: &str) -> Param {
    Param {
        name: name.to_owned(),
        type_name: REGISTER.into(),
        kind: Kind::Pointer,
        show: Show::Plain,
        ty: None,
    }
}

/// A return value of which nothing is known.
pub fn plain_return() -> Param {
    Param { name: "ret".into(), type_name: "long".into(), kind: Kind::Signed(8), show: Show::Plain, ty: None }
}

/// A kernel function's signature by its name, in whichever module it is.
pub fn function(name: &str) -> Option<Signature> {
    function_in(None, name).or_else(|| function_in(Some(&catalogue::module_of(name)?), name))
}

/// The signature of a function of a module, or of the kernel itself.
pub fn function_in(module: Option<&str>, name: &str) -> Option<Signature> {
    btf::of(module, |btf| signature(btf, &function_proto(btf, name)?, module))
}

/// The signatures of a module's functions, or of the kernel's own, whose names are wanted: one pass over all types,
/// where each look-up by name is one.
pub fn functions_in(module: Option<&str>, wanted: impl Fn(&str) -> bool) -> HashMap<String, Signature> {
    let found = btf::of(module, |btf| {
        let parts = Parts::of(libbpf::bytes(btf))?;
        let one = |func: Raw<'_>| {
            let name = str::from_utf8(func.name(parts.strings)).ok().filter(|name| wanted(name))?;
            let proto = btf.type_by_id(TypeId::from(func.last))?;
            Some((name.to_owned(), signature(btf, &proto, module)?))
        };
        Some(walk::types(&parts).filter(|ty| ty.kind() == kind::FUNC).filter_map(one).collect())
    });
    found.unwrap_or_default()
}

fn owner(module: Option<&str>) -> Owner {
    module.map_or(Owner::Kernel, |module| Owner::Module(module.to_owned()))
}

fn signature(btf: &Btf<'static>, proto: &FuncProto<'_>, module: Option<&str>) -> Option<Signature> {
    let mut signature = Signature { params: params(btf, proto, 0)?, ret: None, owner: owner(module) };
    let ret = proto.referenced_type();
    if ret.kind() != BtfKind::Void {
        let ((kind, show), ty) = (scalar(&ret)?, Some(ret.type_id()));
        signature.ret = Some(Param { name: "ret".into(), type_name: c_name(&ret), kind, show, ty });
    }
    Some(signature)
}

fn function_proto<'b>(btf: &'b Btf<'static>, name: &str) -> Option<FuncProto<'b>> {
    let func: Func<'b> = btf.type_by_name(name)?;
    func.referenced_type().try_into().ok()
}

/// What a raw tracepoint's programs see: the parameters after the first of the function that calls them, which
/// have names, or of `btf_trace_NAME`, which have none.
pub fn raw_tracepoint(name: &str) -> Option<Vec<Param>> {
    vmlinux(|btf| {
        let typedef: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{name}"))?;
        let proto: FuncProto<'_> = typedef.referenced_type().next_type()?.try_into().ok()?;
        seen_by_programs(btf, &proto, function_proto(btf, &format!("__traceiter_{name}")))
    })
}

/// The value of an enum's constant by its name, whichever enum has it. They are read once a thread.
pub fn enumerator(name: &str) -> Option<u64> {
    thread_local! {
        static ALL: HashMap<String, u64> = vmlinux(|btf| {
            let mut all = HashMap::new();
            for whole in btf.type_by_kind::<Enum<'_>>() {
                all.extend(whole.iter().filter_map(|m| Some((m.name?.to_str()?.to_owned(), m.value as u64))));
            }
            Some(all)
        })
        .unwrap_or_default();
    }
    ALL.with(|all| all.get(name).copied())
}

fn seen_by_programs(
    btf: &Btf<'static>,
    unnamed: &FuncProto<'_>,
    named: Option<FuncProto<'_>>,
) -> Option<Vec<Param>> {
    let unnamed = params(btf, unnamed, 1)?;
    // `__DECLARE_TRACE` in include/linux/tracepoint.h gives both the same parameters.
    let named = named.and_then(|p| params(btf, &p, 1));
    Some(named.filter(|n| n.len() == unnamed.len()).unwrap_or(unnamed))
}

/// The raw tracepoints of this kernel's BTF whose names are wanted, with what their programs see, in one pass over
/// all types.
pub fn raw_tracepoints(wanted: impl Fn(&str) -> bool) -> Vec<(String, Option<Vec<Param>>)> {
    let found = vmlinux(|btf| {
        let mut callers: HashMap<&str, FuncProto<'_>> = HashMap::new();
        let mut found = Vec::new();
        for ty in btf.type_by_kind::<BtfType<'_>>() {
            let name = ty.name().and_then(|n| n.to_str()).unwrap_or_default();
            match ty.kind() {
                BtfKind::Func => {
                    let name = name.strip_prefix("__traceiter_").filter(|name| wanted(name));
                    let proto = ty.next_type().and_then(|t| t.try_into().ok());
                    callers.extend(name.zip(proto));
                }
                BtfKind::Typedef => {
                    let name = name.strip_prefix("btf_trace_").filter(|name| wanted(name));
                    let proto = ty.next_type().and_then(|t| t.next_type()?.try_into().ok());
                    found.extend(name.map(|name| (name, proto)));
                }
                _ => {}
            }
        }
        let seen = |(name, proto): (&str, Option<FuncProto<'_>>)| {
            (name.to_owned(), proto.and_then(|proto| seen_by_programs(btf, &proto, callers.remove(name))))
        };
        Some(found.into_iter().map(seen).collect())
    });
    found.unwrap_or_default()
}

/// Every raw tracepoint this kernel's BTF knows.
pub fn raw_tracepoint_names() -> Vec<String> {
    raw_tracepoints(|_| true).into_iter().map(|(name, _)| name).collect()
}

fn params(btf: &Btf<'static>, proto: &FuncProto<'_>, skip: usize) -> Option<Vec<Param>> {
    proto
        .iter()
        .enumerate()
        .skip(skip)
        .map(|(i, p)| {
            let ty: BtfType<'_> = btf.type_by_id(p.ty)?;
            let name =
                p.name.and_then(|n| n.to_str()).map_or_else(|| format!("arg{}", i - skip), str::to_owned);
            let (kind, show) = scalar(&ty)?;
            Some(Param { name, type_name: c_name(&ty), kind, show, ty: Some(ty.type_id()) })
        })
        .collect()
}

/// A type as C writes it before a name.
pub fn c_name(ty: &BtfType<'_>) -> String {
    let inner = || ty.next_type().map_or_else(|| "void".to_owned(), |t| c_name(&t));
    let named = |word: &str| {
        let name = ty.name().map_or("(anonymous)".into(), |n| n.to_string_lossy().into_owned());
        format!("{word}{name}")
    };
    match ty.kind() {
        BtfKind::Void => "void".into(),
        BtfKind::Ptr => {
            let to = inner();
            if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
        }
        BtfKind::Const => format!("const {}", inner()),
        BtfKind::Volatile => format!("volatile {}", inner()),
        BtfKind::Restrict | BtfKind::TypeTag => inner(),
        BtfKind::Struct => named("struct "),
        BtfKind::Union => named("union "),
        BtfKind::Enum | BtfKind::Enum64 => named("enum "),
        BtfKind::Fwd => named("struct "),
        BtfKind::FuncProto => "void (*)()".into(),
        _ => named(""),
    }
}

/// An integer or address of a tracepoint's record as a parameter; `None` for strings and arrays.
pub fn format_param(field: &FormatField) -> Option<Param> {
    let scalar = !field.type_name.contains('[') && !field.type_name.starts_with("__data_loc");
    let bytes = match field.size {
        size @ (1 | 2 | 4 | 8) if scalar => size as u8,
        _ => return None,
    };
    let kind = if field.type_name.contains('*') {
        Kind::Pointer
    } else if field.type_name == "bool" {
        Kind::Bool
    } else {
        // A system call's record gives every argument eight bytes; the C type says how many count.
        let (size, signed) = c_integer(&field.type_name).unwrap_or((bytes, field.signed));
        let size = size.min(bytes);
        if signed { Kind::Signed(size) } else { Kind::Unsigned(size) }
    };
    let (kind, show) = shape::typedef(&field.type_name, kind).unwrap_or((kind, field.show.clone()));
    Some(Param { name: field.name.clone(), type_name: field.type_name.clone(), kind, show, ty: None })
}

/// How an array of fixed length is shown that stands in a tracepoint's record; `None` for what is no array of
/// integers.
pub fn format_array(field: &FormatField) -> Option<Show> {
    let (element, count) = field.type_name.strip_suffix(']')?.split_once('[')?;
    let count: u32 = count.parse().ok().filter(|n| *n > 0)?;
    if field.type_name.starts_with("__data_loc") || field.type_name.starts_with("__rel_loc") {
        return None;
    }
    Some(match field.size / count {
        width @ (2 | 4 | 8) if field.size == width * count => {
            let signed = c_integer(element.trim()).map_or(field.signed, |(_, signed)| signed);
            Show::Array { width: width as u8, signed }
        }
        _ => Show::Plain,
    })
}

/// How the elements are shown of an array whose length the record tells: `__data_loc u64[]`; `Some(None)` for
/// strings, `None` for what is no such array.
pub fn format_elements(field: &FormatField) -> Option<Option<Show>> {
    let (_, array) = field.type_name.split_once(' ')?;
    let element = array.trim().strip_suffix("[]")?.trim();
    Some(match (element, c_integer(element)) {
        ("char", _) => None,
        (_, Some((width @ (2 | 4 | 8), signed))) => Some(Show::Array { width, signed }),
        _ => Some(Show::Plain),
    })
}

/// Size and sign of the integer types that the kernel's formats name.
fn c_integer(name: &str) -> Option<(u8, bool)> {
    Some(match name.trim_start_matches("const ") {
        "int" | "pid_t" | "s32" | "__s32" | "key_serial_t" | "clockid_t" | "timer_t" | "mqd_t" | "rwf_t" => {
            (4, true)
        }
        "unsigned int" | "unsigned" | "u32" | "__u32" | "uid_t" | "gid_t" | "qid_t" | "aio_context_t32" => {
            (4, false)
        }
        "umode_t" | "unsigned short" | "u16" | "__u16" => (2, false),
        "short" | "s16" | "__s16" => (2, true),
        "unsigned char" | "u8" | "__u8" => (1, false),
        "char" | "signed char" | "s8" | "__s8" => (1, true),
        "long" | "off_t" | "loff_t" | "ssize_t" | "s64" | "__s64" | "long long" | "time_t" => (8, true),
        "unsigned long" | "size_t" | "u64" | "__u64" | "unsigned long long" | "aio_context_t" => (8, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_functions() {
        let Some(write) = function("vfs_write") else {
            assert!(vmlinux(|_| Some(())).is_none(), "BTF without vfs_write");
            return;
        };
        let names: Vec<_> = write.params.iter().map(|p| (&*p.name, &*p.type_name, p.kind)).collect();
        assert_eq!(
            names,
            [
                ("file", "struct file *", Kind::Pointer),
                ("buf", "const char *", Kind::Pointer),
                ("count", "size_t", Kind::Unsigned(8)),
                ("pos", "loff_t *", Kind::Pointer),
            ]
        );
        assert_eq!(write.ret.unwrap().kind, Kind::Signed(8));
        assert_eq!(function("no_such_function"), None);
        let exec = raw_tracepoint("sched_process_exec").unwrap();
        let names: Vec<_> = exec.iter().map(|p| &*p.name).collect();
        assert_eq!(names, ["p", "old_pid", "bprm"]);
    }
}

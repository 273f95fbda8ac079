//! The BTF of the running kernel, of its modules, and what was made of a program's types: each read once a thread.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt, fs,
    io::Write,
    os::fd::AsRawFd,
    rc::Rc,
    sync::{Arc, Weak},
};

use libbpf_rs::btf::Btf;
use nix::sys::memfd::{MFdFlags, memfd_create};

const FOLDER: &str = "/sys/kernel/btf";
/// The kernel's own.
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// Asks the running kernel's BTF; `None` where it has none.
pub fn vmlinux<R>(ask: impl FnOnce(&Btf<'static>) -> Option<R>) -> Option<R> {
    thread_local! {
        static VMLINUX: Option<Btf<'static>> = Btf::from_vmlinux().ok();
    }
    VMLINUX.with(|btf| ask(btf.as_ref()?))
}

/// Whose types they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    Kernel,
    Module(String),
    Program(Arc<Blob>),
}

/// The types of a program, as bytes of BTF in which every walk ends.
#[derive(PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of BTF", self.0.len())
    }
}

impl Owner {
    /// Asks its BTF; `None` where there is none.
    pub fn ask<R>(&self, ask: impl FnOnce(&Btf<'static>) -> Option<R>) -> Option<R> {
        thread_local! {
            static LAST: RefCell<(Weak<Blob>, Option<Rc<Btf<'static>>>)> = RefCell::default();
        }
        let blob = match self {
            Owner::Kernel => return vmlinux(ask),
            Owner::Module(name) => return of(Some(name), ask),
            Owner::Program(blob) => blob,
        };
        let known = LAST.with_borrow_mut(|(last, btf)| {
            if !last.upgrade().is_some_and(|last| Arc::ptr_eq(&last, blob)) {
                (*last, *btf) = (Arc::downgrade(blob), parse(&blob.0).map(Rc::new));
            }
            btf.clone()
        });
        ask(known?.as_ref())
    }
}

/// Asks the BTF of a module, which has the kernel's types under their own ids too; that of the kernel for `None`.
pub fn of<R>(module: Option<&str>, ask: impl FnOnce(&Btf<'static>) -> Option<R>) -> Option<R> {
    thread_local! {
        static MODULES: RefCell<HashMap<String, Option<Rc<Btf<'static>>>>> = RefCell::default();
    }
    let Some(module) = module else { return vmlinux(ask) };
    let known = MODULES.with_borrow_mut(|modules| {
        modules.entry(module.to_owned()).or_insert_with(|| load(module).map(Rc::new)).clone()
    });
    ask(known?.as_ref())
}

fn load(module: &str) -> Option<Btf<'static>> {
    let read = |name: &str| fs::read(format!("{FOLDER}/{name}")).ok();
    parse(&joined(&fs::read(KERNEL).ok()?, &read(module)?)?)
}

/// A module's BTF goes on where the kernel's ends, in types and in strings: the two make a whole one, which
/// libbpf-rs can read where it cannot read the second upon the first.
fn joined(base: &[u8], split: &[u8]) -> Option<Vec<u8>> {
    let (base, split) = (Parts::of(base)?, Parts::of(split)?);
    whole(base.magic, &[base.types, split.types], &[base.strings, split.strings])
}

/// BTF of these pieces, one behind the other.
pub fn whole(magic: &[u8], types: &[&[u8]], strings: &[&[u8]]) -> Option<Vec<u8>> {
    let pieces = types.iter().chain(strings);
    let length = |of: &[&[u8]]| of.iter().map(|piece| piece.len()).sum::<usize>();
    let (types, strings) = (length(types), length(strings));
    let mut whole = magic.to_vec();
    for number in [HEADER as u32, 0, u32::try_from(types).ok()?, types as u32, u32::try_from(strings).ok()?] {
        whole.extend(number.to_ne_bytes());
    }
    for piece in pieces {
        whole.extend(*piece);
    }
    Some(whole)
}

/// The bytes of `struct btf_header` (include/uapi/linux/btf.h) that tell where types and strings lie.
pub const HEADER: usize = 24;

pub struct Parts<'a> {
    /// Magic number, version and flags.
    pub magic: &'a [u8],
    pub types: &'a [u8],
    pub strings: &'a [u8],
}

impl Parts<'_> {
    pub fn of(bytes: &[u8]) -> Option<Parts<'_>> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(four)).ok()
        };
        let body = bytes.get(number(4)?..)?;
        let part = |at: usize, length: usize| body.get(at..at.checked_add(length)?);
        Some(Parts {
            magic: bytes.get(..4)?,
            types: part(number(8)?, number(12)?)?,
            strings: part(number(16)?, number(20)?)?,
        })
    }
}

/// BTF from bytes: libbpf-rs takes a path, so it is given that of a file in memory.
pub fn parse(bytes: &[u8]) -> Option<Btf<'static>> {
    let fd = memfd_create(c"btf", MFdFlags::MFD_CLOEXEC).ok()?;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    fs::File::from(fd.try_clone().ok()?).write_all(bytes).ok()?;
    Btf::from_path(path).ok()
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::{BtfType, HasSize, types::Struct};

    use super::*;

    /// BTF of these types and strings.
    fn blob(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let mut bytes = vec![];
        bytes.extend(0xeb9fu16.to_ne_bytes());
        bytes.extend([1, 0]);
        let lengths =
            [HEADER as u32, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
        bytes.extend(lengths.iter().chain(types).flat_map(|n| n.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_modules_types_go_on_after_the_kernels() {
        // int (id 1); then, as a module has it, struct mod { int int; } (id 2): its first string comes after the
        // kernel's five bytes.
        let base = blob(&[1, 1 << 24, 4, 32], b"\0int\0");
        let split = blob(&[5, 4 << 24 | 1, 4, 1, 1, 0], b"mod\0");
        let whole = parse(&joined(&base, &split).unwrap()).unwrap();
        assert_eq!(whole.type_by_name::<Struct<'_>>("mod").unwrap().size(), 4);
        let int: BtfType<'_> = whole.type_by_name("int").unwrap();
        assert_eq!(
            *whole.type_by_name::<Struct<'_>>("mod").unwrap().iter().next().unwrap().name.unwrap(),
            *"int"
        );
        assert_eq!(u32::from(int.type_id()), 1);
    }

    #[test]
    fn what_is_no_btf_is_refused() {
        let base = blob(&[1, 1 << 24, 4, 32], b"\0int\0");
        for short in 0..base.len() {
            assert!(joined(&base, &base[..short]).is_none(), "{short} bytes");
        }
        assert!(of(Some("no/such/module"), |_| Some(())).is_none());
    }
}

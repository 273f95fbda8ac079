//! The few types of the kernel that our own programs are relocated by (CO-RE), as BTF of their own: libbpf parses all
//! that it is given for each object that it loads, and the kernel's whole BTF is megabytes.
//!
//! What is kept are the structures that our object names, with all that lies within them. A pointer's target is in
//! another structure: what is relocated is one structure's layout at a time, so pointers are to `void` here.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::Write,
    os::fd::{AsRawFd, OwnedFd},
    sync::OnceLock,
};

use ::object::{Object, ObjectSection};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{
    btf::{self, Parts},
    walk::{self, Raw, kind},
};

/// A file with the types that this object names; `None` where the kernel does not show its own as a file: libbpf looks
/// elsewhere too. What the first object named is kept.
pub fn path(elf: &[u8]) -> Option<String> {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let fd = FILE.get_or_init(|| file(elf)).as_ref()?;
    Some(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn file(elf: &[u8]) -> Option<OwnedFd> {
    let elf = ::object::File::parse(elf).ok()?;
    let few = few(&fs::read(btf::KERNEL).ok()?, elf.section_by_name(".BTF")?.data().ok()?)?;
    let fd = memfd_create(c"btf", MFdFlags::MFD_CLOEXEC).ok()?;
    File::from(fd.try_clone().ok()?).write_all(&few).ok()?;
    Some(fd)
}

/// Of the kernel's types those that an object's BTF names.
fn few(kernel: &[u8], object: &[u8]) -> Option<Vec<u8>> {
    let (kernel, object) = (Parts::of(kernel)?, Parts::of(object)?);
    let composite = |ty: &Raw<'_>| matches!(ty.kind(), kind::STRUCT | kind::UNION);
    let named: HashSet<&[u8]> =
        walk::types(&object).filter(composite).map(|ty| ty.name(object.strings)).collect();
    let all: Vec<Raw<'_>> = walk::types(&kernel).collect();
    let mut few = Few { ids: HashMap::new(), queue: Vec::new() };
    for ty in all.iter().filter(|ty| composite(ty)) {
        let name = ty.name(kernel.strings);
        if !name.is_empty() && named.contains(name) {
            few.id(ty.id);
        }
    }
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    let mut next = 0;
    while let Some(&id) = few.queue.get(next) {
        let ty = all.get(id as usize - 1)?;
        few.put(ty, kernel.strings, &mut types, &mut strings);
        next += 1;
    }
    btf::whole(kernel.magic, &[&types], &[&strings])
}

/// Types that are kept, numbered anew in the order in which they are met.
struct Few {
    ids: HashMap<u32, u32>,
    queue: Vec<u32>,
}

impl Few {
    fn id(&mut self, old: u32) -> u32 {
        if old == 0 {
            return 0;
        }
        *self.ids.entry(old).or_insert_with(|| {
            self.queue.push(old);
            self.queue.len() as u32
        })
    }

    /// Writes a type as it is, but for where it refers to another.
    fn put(&mut self, ty: &Raw<'_>, from: &[u8], types: &mut Vec<u8>, strings: &mut Vec<u8>) {
        let mut name = |text: &[u8]| {
            if text.is_empty() {
                return 0;
            }
            let at = strings.len() as u32;
            strings.extend(text);
            strings.push(0);
            at
        };
        let (mut info, mut last, mut more) = (ty.info, ty.last, Vec::from_iter(ty.more()));
        match ty.kind() {
            kind::INT | kind::FLOAT | kind::FWD => {}
            kind::STRUCT | kind::UNION => {
                for member in more.chunks_exact_mut(3) {
                    member[0] = name(walk::string(from, member[0]));
                    member[1] = self.id(member[1]);
                }
            }
            kind::ARRAY => {
                // The type of its index says nothing of a layout.
                (more[0], more[1]) = (self.id(more[0]), 0);
            }
            // Their size counts, and not their constants.
            kind::ENUM | kind::ENUM64 => {
                info &= !0xffff;
                more.clear();
            }
            kind::PTR => last = 0,
            _ => last = self.id(last),
        }
        let head = [name(ty.name(from)), info, last];
        types.extend(head.iter().chain(&more).flat_map(|word| word.to_ne_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::{Btf, BtfType, HasSize, types::Struct};

    use super::*;
    use crate::probe::{btf::vmlinux, object::OBJECT};

    fn layout(btf: &Btf<'_>, name: &str) -> Vec<String> {
        let found: Struct<'_> = btf.type_by_name(name).unwrap();
        let mut members = vec![found.size().to_string()];
        for member in found.iter() {
            let ty: BtfType<'_> = btf.type_by_id(member.ty).unwrap();
            members.push(format!(
                "{:?} {:?} {:?}",
                member.name,
                member.attr,
                ty.skip_mods_and_typedefs().kind()
            ));
        }
        members
    }

    #[test]
    fn what_is_kept_lies_where_the_kernel_has_it() {
        let Some(path) = path(OBJECT) else {
            assert!(fs::metadata(btf::KERNEL).is_err());
            return;
        };
        let few = Btf::from_path(path).unwrap();
        let all = vmlinux(|btf| Some(btf.len())).unwrap();
        assert!(few.len() > 20 && few.len() < all / 10, "{} of {all}", few.len());
        for name in ["task_struct", "thread_info", "pid", "upid", "dentry", "mount", "qstr", "pt_regs"] {
            let here = layout(&few, name);
            assert!(here.len() > 1);
            assert_eq!(Some(here), vmlinux(|btf| Some(layout(btf, name))), "{name}");
        }
    }

    #[test]
    fn what_is_no_btf_gives_none() {
        assert_eq!(few(b"", b""), None);
        assert!(file(b"no ELF").is_none());
    }
}

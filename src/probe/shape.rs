//! How a value of a type of the kernel's BTF is read and shown.

use libbpf_rs::btf::{
    BtfKind, BtfType, HasSize, ReferencesType,
    types::{Array, Composite, Enum, Enum64, Int, IntEncoding, Ptr},
};

pub use crate::schema::by_name::typedef;
use crate::schema::{
    Kind, Names, Show,
    by_name::{self, SOCKADDR},
};

/// How an integer, an enum or an address is read and shown; `None` for what is more than a number.
pub fn scalar(ty: &BtfType<'_>) -> Option<(Kind, Show)> {
    let bare = ty.skip_mods_and_typedefs();
    let (kind, show) = match bare.kind() {
        BtfKind::Ptr | BtfKind::Func | BtfKind::FuncProto => (Kind::Pointer, Show::Plain),
        BtfKind::Int => {
            let int = Int::try_from(bare).ok()?;
            let kind = match int.encoding {
                IntEncoding::Bool => Kind::Bool,
                encoding => sized(int.bits as usize / 8, matches!(encoding, IntEncoding::Signed))?,
            };
            (kind, Show::Plain)
        }
        BtfKind::Enum => {
            let whole = Enum::try_from(bare).ok()?;
            let named = |name: Option<&std::ffi::OsStr>, value: u64| Some((value, name?.to_str()?.into()));
            let names = Names::new(whole.iter().filter_map(|m| named(m.name, m.value as u64)));
            (sized(whole.size(), whole.is_signed())?, Show::of_names(names))
        }
        BtfKind::Enum64 => {
            let whole = Enum64::try_from(bare).ok()?;
            let named = |name: Option<&std::ffi::OsStr>, value: u64| Some((value, name?.to_str()?.into()));
            let names = Names::new(whole.iter().filter_map(|m| named(m.name, m.value as u64)));
            (sized(whole.size(), whole.is_signed())?, Show::of_names(names))
        }
        _ => return None,
    };
    Some(by_typedef(ty, kind, show))
}

fn sized(bytes: usize, signed: bool) -> Option<Kind> {
    match (bytes, signed) {
        (1 | 2 | 4 | 8, false) => Some(Kind::Unsigned(bytes as u8)),
        (1 | 2 | 4 | 8, true) => Some(Kind::Signed(bytes as u8)),
        _ => None,
    }
}

/// What the typedefs on the way to a number say of it.
fn by_typedef(ty: &BtfType<'_>, kind: Kind, show: Show) -> (Kind, Show) {
    let mut ty = *ty;
    loop {
        if ty.kind() == BtfKind::Typedef
            && let Some(said) = ty.name().and_then(|n| n.to_str()).and_then(|n| typedef(n, kind))
        {
            return said;
        }
        // What a pointer leads to says nothing of the pointer.
        let stands_for = ty.is_mod() || ty.kind() == BtfKind::Typedef;
        match ty.next_type().filter(|_| stands_for) {
            Some(next) => ty = next,
            None => return (kind, show),
        }
    }
}

/// How the bytes of a structure are shown that is a value all the same, and how many they are.
pub fn structure(ty: &BtfType<'_>) -> Option<(u16, Show)> {
    let bare = ty.skip_mods_and_typedefs();
    by_name::structure(bare.name()?.to_str()?).filter(|_| Composite::try_from(bare).is_ok())
}

/// What lies where a pointer of this C type points to, where that says more than the address: socket addresses.
pub fn pointee(type_name: &str) -> Option<(u16, Show)> {
    let to = type_name.replace("const ", "").replace("__user ", "");
    let name = to.strip_prefix("struct ")?.strip_suffix('*')?.trim();
    // Which of them it is, its family says: most of the callers cast.
    matches!(name, "sockaddr" | "sockaddr_unsized").then_some((SOCKADDR, Show::Sockaddr))
}

/// How an array's elements are shown where they are numbers of more than a byte.
pub fn elements(array: &BtfType<'_>) -> Option<Show> {
    let mut ty = array.skip_mods_and_typedefs();
    while let Ok(array) = Array::try_from(ty) {
        ty = array.contained_type().skip_mods_and_typedefs();
    }
    match scalar(&ty)?.0 {
        Kind::Unsigned(width) if width > 1 => Some(Show::Array { width, signed: false }),
        Kind::Signed(width) => Some(Show::Array { width, signed: true }),
        _ => None,
    }
}

/// `char`, or `unsigned char` by that name: what typedefs like `u8` make of it are numbers.
pub fn is_char(ty: &BtfType<'_>) -> bool {
    let mut ty = *ty;
    while matches!(ty.kind(), BtfKind::Const | BtfKind::Volatile | BtfKind::TypeTag) {
        let Some(next) = ty.next_type() else { return false };
        ty = next;
    }
    ty.name().is_some_and(|n| n == "char" || n == "unsigned char")
        && Int::try_from(ty).is_ok_and(|i| i.bits == 8)
}

/// Whether a pointer's target is `char`, as of strings.
pub fn points_to_char(ty: &BtfType<'_>) -> bool {
    Ptr::try_from(ty.skip_mods_and_typedefs()).is_ok_and(|p| is_char(&p.referenced_type()))
}

/// Bytes of a value of this type.
pub fn size_of(ty: &BtfType<'_>) -> Option<usize> {
    let bare = ty.skip_mods_and_typedefs();
    match bare.kind() {
        BtfKind::Ptr => Some(8),
        BtfKind::Array => {
            let array = Array::try_from(bare).ok()?;
            array.capacity().checked_mul(size_of(&array.contained_type())?)
        }
        BtfKind::Int => Int::try_from(bare).ok().map(|i| usize::from(i.bits) / 8),
        BtfKind::Enum => Enum::try_from(bare).ok().map(|e| e.size()),
        BtfKind::Enum64 => Enum64::try_from(bare).ok().map(|e| e.size()),
        _ => Composite::try_from(bare).ok().map(|c| c.size()),
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::types::{Struct, Typedef};

    use super::*;
    use crate::probe::btf::vmlinux;

    #[test]
    fn the_kernels_own_types() {
        let asked = vmlinux(|btf| {
            let typedef = |name: &str| scalar(&*btf.type_by_name::<Typedef<'_>>(name)?);
            assert_eq!(typedef("umode_t"), Some((Kind::Unsigned(2), Show::Octal)));
            assert_eq!(typedef("dev_t"), Some((Kind::Unsigned(4), Show::Device)));
            assert_eq!(typedef("__be16"), Some((Kind::BigEndian(2), Show::Plain)));
            assert_eq!(typedef("ktime_t"), Some((Kind::Signed(8), Show::Time)));
            assert_eq!(typedef("size_t"), Some((Kind::Unsigned(8), Show::Plain)));
            // Counts up from 0, and has 3 in it.
            let (_, show) = scalar(&*btf.type_by_name::<Enum<'_>>("pid_type")?)?;
            let Show::Enum(names) = show else { panic!("{show:?}") };
            assert_eq!((names.of(0), names.of(1)), (Some("PIDTYPE_PID"), Some("PIDTYPE_TGID")));
            let timespec = btf.type_by_name::<Struct<'_>>("timespec64")?;
            assert_eq!(structure(&timespec), Some((16, Show::Timespec)));
            assert_eq!(structure(&*btf.type_by_name::<Struct<'_>>("file")?), None);
            Some(())
        });
        assert_eq!(asked.is_some(), vmlinux(|_| Some(())).is_some(), "a type is missing");
    }

    #[test]
    fn pointers_to_socket_addresses_by_name() {
        assert_eq!(pointee("struct sockaddr *"), Some((SOCKADDR, Show::Sockaddr)));
        assert_eq!(pointee("const struct sockaddr __user *"), Some((SOCKADDR, Show::Sockaddr)));
        for other in ["struct sockaddr **", "struct sockaddr", "struct socket *", "sockaddr *", ""] {
            assert_eq!(pointee(other), None, "{other}");
        }
    }
}

//! A path through the types of the kernel or a program: from a parameter over members, elements and pointers to a place.

use libbpf_rs::btf::{
    Btf, BtfKind, BtfType, ReferencesType, TypeId,
    types::{Array, Composite, MemberAttr, Ptr, Struct, Typedef, Union},
};

use super::{
    fetch::{Fetch, Read, STEPS, STRING, TEXT},
    preflight::near,
    shape::{self, is_char, points_to_char, scalar, size_of},
    signature::c_name,
    spec::{Path, Step},
};
use crate::schema::{Kind, Show};

/// Where a path has led so far.
#[derive(Clone, Debug)]
pub struct Place<'b> {
    btf: &'b Btf<'static>,
    fetch: Fetch,
    /// Whether the value lies in memory at what `fetch` leads to, or is what it leads to.
    in_memory: bool,
    ty: TypeId,
    /// First bit and width of a bitfield, from the place's first byte.
    bits: Option<(u32, u8)>,
}

/// What is to be fetched for a path: how, how what was fetched is read, and its type's name.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub fetch: Fetch,
    pub kind: Kind,
    pub show: Show,
    pub type_name: String,
}

impl<'b> Place<'b> {
    /// A value of this type that a base holds.
    pub fn of(btf: &'b Btf<'static>, base: u8, ty: TypeId) -> Place<'b> {
        Place { btf, fetch: Fetch::value(base), in_memory: false, ty, bits: None }
    }

    /// What a base points to, as a cast says: a structure, union or typedef by its name.
    pub fn pointee(btf: &'b Btf<'static>, base: u8, cast: &str) -> Result<Place<'b>, String> {
        let name = bare_name(cast);
        let of =
            |ty: BtfType<'b>| Composite::try_from(ty.skip_mods_and_typedefs()).ok().map(|_| ty.type_id());
        let named = btf.type_by_name::<Struct<'b>>(name).map(|s| s.type_id());
        let named = named.or_else(|| btf.type_by_name::<Union<'b>>(name).map(|u| u.type_id()));
        let named = named.or_else(|| btf.type_by_name::<Typedef<'b>>(name).and_then(|t| of(*t)));
        let ty = named.ok_or_else(|| format!("there is no type '{cast}'"))?;
        Ok(Place { in_memory: true, ..Place::of(btf, base, ty) })
    }

    /// Follows the steps of a path, and then its stars.
    pub fn follow(mut self, path: &Path) -> Result<Place<'b>, String> {
        for step in &path.steps {
            match step {
                Step::Member(name) => self.member(name)?,
                Step::Index(i) => self.index(*i)?,
            }
        }
        for _ in 0..path.derefs {
            self.dereference()?;
        }
        if self.fetch.steps.len() > STEPS {
            return Err(format!("more than {STEPS} pointers are to be followed"));
        }
        Ok(self)
    }

    fn bare(&self) -> Option<BtfType<'b>> {
        self.btf.type_by_id::<BtfType<'b>>(self.ty).map(|t| t.skip_mods_and_typedefs())
    }

    fn name(&self) -> String {
        self.btf.type_by_id::<BtfType<'b>>(self.ty).map_or_else(|| "?".into(), |t| c_name(&t))
    }

    /// From a pointer to what it points to.
    fn dereference(&mut self) -> Result<(), String> {
        let pointer = self.bare().and_then(|t| Ptr::try_from(t).ok());
        let pointer = pointer.ok_or_else(|| format!("'{}' is no pointer", self.name()))?;
        let to = pointer.referenced_type().type_id();
        self.enter_pointee();
        self.ty = to;
        Ok(())
    }

    fn enter_pointee(&mut self) {
        if self.in_memory {
            self.fetch.steps.push(self.fetch.last);
            self.fetch.last = 0;
        }
        self.in_memory = true;
    }

    fn member(&mut self, name: &str) -> Result<(), String> {
        if self.bare().is_some_and(|t| t.kind() == BtfKind::Ptr) {
            self.dereference()?;
        }
        let whole = self.bare().and_then(|t| Composite::try_from(t).ok());
        let Some(whole) = whole.filter(|_| self.in_memory) else {
            return Err(format!("'{}' has no members", self.name()));
        };
        let Some((bit, ty, width)) = find(self.btf, &whole, name) else {
            let mut names = Vec::new();
            all_names(self.btf, &whole, &mut names);
            return Err(format!(
                "'{}' has no member '{name}'; {}",
                self.name(),
                near(name, names, str::to_owned)
            ));
        };
        self.fetch.last += i64::from(bit / 8);
        self.bits = width.map(|width| (bit % 8, width));
        self.ty = ty;
        Ok(())
    }

    fn index(&mut self, i: u64) -> Result<(), String> {
        let bare = self.bare().ok_or("a type without a definition")?;
        let element = match bare.kind() {
            BtfKind::Ptr => {
                self.dereference()?;
                self.ty
            }
            BtfKind::Array => {
                let array = Array::try_from(bare).map_err(|_| "an array without a definition")?;
                if array.capacity() > 0 && i >= array.capacity() as u64 {
                    return Err(format!("'{}' has {} elements", self.name(), array.capacity()));
                }
                array.ty()
            }
            _ => return Err(format!("'{}' is neither array nor pointer", self.name())),
        };
        let size = self.btf.type_by_id::<BtfType<'b>>(element).and_then(|t| size_of(&t)).unwrap_or(1);
        let offset =
            i.checked_mul(size as u64).filter(|o| *o < 1 << 31).ok_or("the index is out of range")?;
        self.fetch.last += offset as i64;
        self.ty = element;
        Ok(())
    }

    /// What lies there, read by its type.
    pub fn found(mut self) -> Result<Wanted, String> {
        let type_name = self.name();
        let bare = self.bare().ok_or("a type without a definition")?;
        let (kind, show) = match bare.kind() {
            BtfKind::Ptr if points_to_char(&bare) => {
                self.enter_pointee();
                self.fetch.read = Read::Text(STRING);
                (Kind::Text, Show::Plain)
            }
            BtfKind::Array => {
                let size = size_of(&bare).unwrap_or(0).min(TEXT) as u16;
                let show = shape::elements(&bare).unwrap_or_default();
                let chars = Array::try_from(bare).is_ok_and(|a| is_char(&a.contained_type()));
                if size == 0 {
                    return Err(format!(
                        "'{type_name}' has no size of its own: give it one by :buf[N] or :str"
                    ));
                }
                self.fetch.read = if chars { Read::Text(size) } else { Read::Bytes(size) };
                if chars { (Kind::Text, Show::Plain) } else { (Kind::Bytes, show) }
            }
            BtfKind::Struct | BtfKind::Union if self.in_memory && shape::structure(&bare).is_some() => {
                let (size, show) = shape::structure(&bare).unwrap_or_default();
                self.fetch.read = Read::Bytes(size);
                (Kind::Bytes, show)
            }
            _ => {
                let whole = self.btf.type_by_id::<BtfType<'b>>(self.ty).unwrap_or(bare);
                let (kind, show) = scalar(&whole).ok_or_else(|| {
                    format!("'{type_name}' is no value: name a member of it, or show its bytes by :buf[N]")
                })?;
                self.integer(kind);
                (kind, show)
            }
        };
        Ok(Wanted { fetch: self.fetch, kind: widened(kind, self.bits), show, type_name })
    }

    /// Whether it is a number and no address: not what points, and not what is made of parts.
    pub fn is_number(&self) -> bool {
        self.bare().is_some_and(|t| t.kind() != BtfKind::Ptr && scalar(&t).is_some())
    }

    /// The path of the file there: of a `struct file` or `struct path`, or a dentry's within its file system.
    pub fn file_path(mut self) -> Result<Wanted, String> {
        if self.bare().is_some_and(|t| t.kind() == BtfKind::Ptr) {
            self.dereference()?;
        }
        let name = self.bare().and_then(|t| Some(t.name()?.to_string_lossy().into_owned()));
        let type_name = self.name();
        self.fetch.read = match (name.as_deref(), self.in_memory) {
            (Some("file"), true) => {
                self.member("f_path")?;
                Read::Path
            }
            (Some("path"), true) => Read::Path,
            (Some("dentry"), true) => Read::Dentry,
            _ => {
                return Err(format!("path() is of a struct file, path or dentry, and not of '{type_name}'"));
            }
        };
        Ok(Wanted { fetch: self.fetch, kind: Kind::Text, show: Show::Plain, type_name: "char *".into() })
    }

    /// The address of what lies there, for a hint to read from: a pointer's value, else the place itself.
    pub fn address(mut self) -> Fetch {
        if self.bare().is_some_and(|t| t.kind() == BtfKind::Ptr) && self.in_memory {
            self.fetch.steps.push(self.fetch.last);
            self.fetch.last = 0;
        }
        self.fetch
    }

    fn integer(&mut self, kind: Kind) {
        let bytes = kind.size() as u8;
        let signed = matches!(kind, Kind::Signed(_));
        if self.in_memory {
            self.fetch.read = Read::Memory(bytes);
        }
        let unused = 64 - 8 * bytes;
        self.fetch.cut = match self.bits {
            Some((first, width)) => {
                // The bits may lie across the integer's own boundary, so all eight bytes are read.
                self.fetch.read = Read::Memory(8);
                (64 - width - first as u8, 64 - width, signed)
            }
            None if unused > 0 && kind != Kind::Pointer && (signed || !self.in_memory) => {
                (unused, unused, signed)
            }
            None => (0, 0, false),
        };
    }
}

/// The name in a cast.
pub fn bare_name(cast: &str) -> &str {
    cast.trim_start_matches("struct ").trim_start_matches("union ").trim()
}

/// A bitfield's slot holds all of its value.
fn widened(kind: Kind, bits: Option<(u32, u8)>) -> Kind {
    match (kind, bits) {
        (Kind::Signed(_), Some(_)) => Kind::Signed(8),
        (Kind::Unsigned(_) | Kind::Bool, Some(_)) => Kind::Unsigned(8),
        _ => kind,
    }
}

/// A member by its name, within nameless structures and unions too: its first bit, type, and a bitfield's width.
fn find(btf: &Btf<'static>, whole: &Composite<'_>, name: &str) -> Option<(u32, TypeId, Option<u8>)> {
    for member in whole.iter() {
        let (bit, width) = match member.attr {
            MemberAttr::Normal { offset } => (offset, None),
            MemberAttr::BitField { size, offset } => (offset, Some(size)),
        };
        match member.name {
            Some(n) if n == name => return Some((bit, member.ty, width)),
            Some(_) => {}
            None => {
                let inner = btf.type_by_id::<BtfType<'_>>(member.ty)?.skip_mods_and_typedefs();
                let found = Composite::try_from(inner).ok().and_then(|inner| find(btf, &inner, name));
                if let Some((within, ty, width)) = found {
                    return Some((bit + within, ty, width));
                }
            }
        }
    }
    None
}

fn all_names(btf: &Btf<'static>, whole: &Composite<'_>, names: &mut Vec<String>) {
    for member in whole.iter() {
        let inner = || btf.type_by_id::<BtfType<'_>>(member.ty).map(|t| t.skip_mods_and_typedefs());
        match member.name {
            Some(name) => names.push(name.to_string_lossy().into_owned()),
            None => {
                if let Some(inner) = inner().and_then(|t| Composite::try_from(t).ok()) {
                    all_names(btf, &inner, names);
                }
            }
        }
    }
}

//! The types of a program's own functions, from its debug info.
//!
//! In goes a function of a file; out come its parameters, each with its type and register, and BTF in which paths are
//! followed as in the kernel's own.
//!
//! ```text
//!   file ─► functions by name ─► address ─┐
//!     └─► DWARF ─► units ─────────────────┴─► entry ─► types: written as BTF ─► sound ─► abi: registers
//!     └─► .BTF ───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! **Invariants.** Whoever wrote the file may be an enemy: what is read of it is bounded in bytes, types, and time, and
//! nothing walks BTF that is not `sound`. Offsets are those of the file: nothing is relocated by the kernel's types. A
//! parameter whose register is not certain has none.

mod abi;
mod blob;
mod file;
mod sound;
mod types;
mod units;

use std::{cell::RefCell, os::unix::fs::MetadataExt as _, path::Path, rc::Rc, sync::Arc};

use libbpf_rs::btf::{
    ReferencesType,
    types::{Func, FuncProto},
};

pub use abi::Taken;
use file::{Opened, Types, WAY_OUT};
use types::{Translated, translate};

use super::btf::{Blob, Owner};

/// What a function of a program takes and gives.
#[derive(Debug)]
pub struct Described {
    /// What it takes, and where.
    pub taken: Taken,
    /// Whose its types are.
    pub owner: Owner,
}

/// What a program's debug info says of a function. Unless `whole`, structures behind pointers are named and not
/// described; `casts` are names of types that are wanted too.
///
/// # Errors
///
/// Says why nothing is known of it, and the way out.
pub fn function(path: &str, symbol: &str, whole: bool, casts: &[&str]) -> Result<Described, String> {
    let opened = opened(Path::new(path))?;
    let address = opened.functions.get(symbol).ok_or_else(|| format!("{path} has no function {symbol}"))?;
    if [".isra.", ".constprop.", ".part.", ".cold"].iter().any(|made| symbol.contains(made)) {
        return Err(format!("{symbol} was made by the compiler, with parameters of its own"));
    }
    let translated = match opened.types.as_ref().map_err(String::clone)? {
        Types::Units(units) => {
            units.begin();
            let at = units.function(*address)?.ok_or_else(|| match units.split {
                true => format!("{path} has its debug info in .dwo files: compile it with -gno-split-dwarf"),
                false => format!("the debug info of {path} does not describe {symbol}: {WAY_OUT}"),
            })?;
            translate(units, at, symbol, whole, casts)?
        }
        Types::Btf(blob) => Translated { blob: blob.clone(), rust: false, hidden: false },
    };
    if !sound::is_sound(&translated.blob) {
        return Err(format!("the types of {path} hold themselves, or go too deep"));
    }
    let owner = Owner::Program(Arc::new(Blob(translated.blob)));
    let taken = owner.ask(|btf| {
        let func: Func<'_> = btf.type_by_name(symbol)?;
        let proto: FuncProto<'_> = func.referenced_type().try_into().ok()?;
        abi::taken(btf, &proto, translated.rust, translated.hidden)
    });
    match taken {
        Some(taken) => Ok(Described { taken, owner }),
        None => Err(format!("the types of {path} do not describe {symbol}")),
    }
}

/// Device, inode, size, and when it was changed: what tells a file from another.
type Identity = (u64, u64, u64, i64, i64);

/// A file, and what was found in it.
type Looked = (Identity, Result<Rc<Opened>, String>);

thread_local! {
    static LAST: RefCell<Option<Looked>> = const { RefCell::new(None) };
}

/// The file, which is looked at once where many functions of it are asked for.
fn opened(path: &Path) -> Result<Rc<Opened>, String> {
    let of = |m: std::fs::Metadata| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
    let identity = std::fs::metadata(path).map(of).map_err(|e| format!("{}: {e}", path.display()))?;
    LAST.with_borrow_mut(|last| match last {
        Some((known, opened)) if *known == identity => opened.clone(),
        _ => {
            let opened = Opened::new(path).map(Rc::new);
            *last = Some((identity, opened.clone()));
            opened
        }
    })
}

/// Gives back the memory of the file that was looked at last.
pub fn forget() {
    LAST.set(None);
}

//! Programs that are not ours: a user's own object, and arrays that somebody else's programs fill.
//!
//! In come a file, or a path where a map is pinned, and [`Settings`]; out come maps whose events are to be read,
//! and the [`Shapes`](crate::schema::Shapes) that those may be, from the object's BTF.
//!
//! ```text
//!   o:FILE ─► variables, programs ─► loaded ─► maps ─► (rings in place) ─► attached
//!   PIN ────► slots that are free ───────────► map
//!   BTF ────► --event, a tag, or sizes ─► Shapes
//! ```
//!
//! **Invariants.** Nothing is promised of what foreign programs output: whoever has rings reads by copy
//! ([`Array::foreign`](crate::ring::Array::foreign)). Nothing of somebody else's is unloaded, detached or written. A
//! file of any bytes is an error, never a panic or a loop.

mod layout;
mod marker;
mod object;
mod ringbuf;
mod shape;
mod variables;

use std::path::Path;

pub use marker::{Marker, taken};
pub use object::{ForeignMap, ForeignObject, MapReading, variables_like};
pub use ringbuf::Ringbuf;

use crate::{Error, ErrorKind, Result};

/// What a user says of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Global variables and their values, as typed.
    pub set: Vec<(String, String)>,
    /// Maps and the structs that their events are.
    pub events: Vec<(String, String)>,
}

impl Settings {
    /// The struct that a map's events are said to be.
    fn event(&self, map: &str) -> Option<&str> {
        self.events.iter().find(|(name, _)| name == map).map(|(_, of)| &**of)
    }
}

/// A pinned perf event array, to be read.
///
/// `event` names the struct of its events, from the BTF in `btf`: an object, or BTF alone.
///
/// # Errors
///
/// Precondition: nothing is pinned there. Usage: it is another map; there is no such struct. Attach: the BTF cannot
/// be read.
pub fn pinned(path: &Path, event: Option<&str>, btf: Option<&Path>) -> Result<ForeignMap> {
    let map = marker::open_pinned(path)?;
    let name = marker::name_of(&map);
    let why = |why: String| Error::new(ErrorKind::Attach, why);
    let btf = btf.map(|path| object::read_btf(path).map_err(why)).transpose()?.flatten();
    let spec = format!("map:{}", path.display());
    let known = shape::of_map(btf.as_ref(), &name, &spec, event, false)
        .map_err(|e| Error::usage(format!("the events of '{name}': {e}")))?;
    let slots = libbpf_rs::MapCore::max_entries(&map);
    let reading = MapReading::Array(marker::keep(&map)?, slots);
    let how = format!("{}; it has {slots} slots", known.how);
    Ok(ForeignMap { name, shapes: known.shapes, how, reading })
}

/// The fields of every struct that a file's BTF has, by name; what no event could be is left out. What fuzzers call.
///
/// # Errors
///
/// The file cannot be read, or its types go in a circle.
#[cfg(feature = "test-utils")]
pub fn structs(path: &Path) -> Result<Vec<(String, Vec<crate::schema::Field>)>> {
    use libbpf_rs::btf::types::Struct;
    let btf = object::read_btf(path).map_err(|why| Error::new(ErrorKind::Attach, why))?;
    let Some(btf) = btf else { return Ok(Vec::new()) };
    let one = |of: Struct<'_>| {
        let name = of.name()?.to_string_lossy().into_owned();
        Some((name, layout::fields(&btf, &of).ok()?))
    };
    Ok(btf.type_by_kind::<Struct<'_>>().filter_map(one).collect())
}

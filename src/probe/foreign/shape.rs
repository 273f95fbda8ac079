//! Which structs the events of a map may be: by a word of the user's, by a tag, or by size.

use libbpf_rs::btf::{
    Btf, BtfKind, HasSize, ReferencesType,
    types::{DeclTag, Struct},
};

use super::{
    super::{btf::vmlinux, preflight::near},
    layout,
};
use crate::schema::{Schema, Shape, Shapes};

/// How the tag of a map begins that names its struct: `btf_decl_tag("event:struct foo")`.
const TAG: &str = "event:";

/// How it is known what the events of a map are, for a message.
pub struct Known {
    pub shapes: Shapes,
    pub how: String,
}

/// What the events of `map` may be. `asked` is the struct of `--event`; `exact` of maps that do not pad.
///
/// # Errors
///
/// There is no struct of the name that was asked for or tagged, or it cannot be shown.
pub fn of_map(
    btf: Option<&Btf<'_>>,
    map: &str,
    spec: &str,
    asked: Option<&str>,
    exact: bool,
) -> Result<Known, String> {
    let bytes = Shapes::bytes(map.to_owned(), spec.to_owned());
    let Some(btf) = btf else {
        return match asked {
            None => Ok(Known {
                shapes: Shapes::by_size(Vec::new(), bytes, |size| size),
                how: "as bytes: there is no BTF".into(),
            }),
            Some(_) => Err("there is no BTF that could have it".into()),
        };
    };
    if let Some(name) = asked {
        let shape = named(btf, name, spec)?;
        let how = format!("struct {}, as --event says", shape.schema.name);
        return Ok(Known { shapes: Shapes::declared(shape, bytes), how });
    }
    if let Some(name) = tagged(btf, map) {
        let shape = named(btf, &name, spec).map_err(|why| format!("its tag {TAG}{name}: {why}"))?;
        let how = format!("struct {}, by its tag", shape.schema.name);
        return Ok(Known { shapes: Shapes::declared(shape, bytes), how });
    }
    let all = candidates(btf, spec);
    let names: Vec<&str> = all.iter().map(|s| &*s.schema.name).collect();
    let how = match names.as_slice() {
        [] => "as bytes: the object's BTF has no struct of its own".to_owned(),
        names => format!("by size, one of {}", names.join(", ")),
    };
    // A record's raw bytes are padded to 4 mod 8 (`perf_prepare_sample`, kernel/events/core.c).
    let raw_size = |size: usize| if exact { size } else { (size + 4).next_multiple_of(8) - 4 };
    Ok(Known { shapes: Shapes::by_size(all, bytes, raw_size), how })
}

/// A struct by its name, with or without the word `struct`.
fn named(btf: &Btf<'_>, name: &str, spec: &str) -> Result<Shape, String> {
    let bare = name.trim().trim_start_matches("struct ").trim();
    let found: Option<Struct<'_>> = if bare.contains('\0') { None } else { find(btf, bare) };
    let found = found.ok_or_else(|| {
        let all = candidates(btf, spec).into_iter().map(|s| s.schema.name).collect();
        format!(
            "there is no struct '{bare}' in the BTF; {} (clang leaves out what programs alone use: a global \
             `struct {bare} *unused;` puts it in)",
            near(bare, all, str::to_owned)
        )
    })?;
    let shape = shape(btf, &found, bare, spec);
    shape.map_err(|why| format!("struct {bare} cannot be shown: {why}"))
}

fn find<'b>(btf: &'b Btf<'_>, name: &str) -> Option<Struct<'b>> {
    btf.type_by_kind::<Struct<'b>>().find(|s| s.name().is_some_and(|n| n == name))
}

fn shape(btf: &Btf<'_>, of: &Struct<'_>, name: &str, spec: &str) -> Result<Shape, String> {
    let fields = layout::fields(btf, of)?;
    let schema = Schema { name: name.to_owned(), spec: spec.to_owned(), fields };
    Ok(Shape { schema, size: of.size() })
}

/// The struct that a map's tag names.
fn tagged(btf: &Btf<'_>, map: &str) -> Option<String> {
    btf.type_by_kind::<DeclTag<'_>>().find_map(|tag| {
        let of = tag.referenced_type();
        let on_map = of.kind() == BtfKind::Var && of.name().is_some_and(|n| n == map);
        let text = tag.name()?.to_str()?.strip_prefix(TAG)?.trim();
        on_map.then(|| text.trim_start_matches("struct ").trim().to_owned())
    })
}

/// The structs that an event may be: those of the object that the kernel has not, as a program names many of the
/// kernel's own.
fn candidates(btf: &Btf<'_>, spec: &str) -> Vec<Shape> {
    let all = btf.type_by_kind::<Struct<'_>>();
    let all = all.filter_map(|s| {
        let name = s.name()?.to_str()?;
        // `foo___bar` is another version of the kernel's `foo` (CO-RE).
        let ours = !name.contains("___") && !in_kernel(name);
        (ours && s.size() > 0).then(|| shape(btf, &s, name, spec).ok())?
    });
    all.collect()
}

fn in_kernel(name: &str) -> bool {
    vmlinux(|kernel| kernel.type_by_name::<Struct<'_>>(name).map(|_| ())).is_some()
}

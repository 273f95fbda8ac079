//! What the events of a foreign array may be: a struct that was declared, or that of its size, or bytes.

use super::{Field, Kind, Schema, Show};

/// A struct that an event may be, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its members as fields.
    pub schema: Schema,
    /// `sizeof` it.
    pub size: usize,
}

/// The structs that the events of one array may be, and what shows those that are none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// The bytes as they are come last.
    schemas: Vec<Schema>,
    /// The raw size of each, but for the last.
    sizes: Vec<usize>,
    /// What no schema shows, by raw size: names of structs that cannot be told apart.
    alike: Vec<(usize, String)>,
    declared: bool,
}

impl Shapes {
    /// Every event is this struct, or begins with it.
    pub fn declared(shape: Shape, bytes: Schema) -> Shapes {
        Shapes {
            schemas: vec![shape.schema, bytes],
            sizes: vec![shape.size],
            alike: Vec::new(),
            declared: true,
        }
    }

    /// An event is the one struct that has its raw size; `raw_size` says what a size becomes on the way.
    pub fn by_size(shapes: Vec<Shape>, bytes: Schema, raw_size: impl Fn(usize) -> usize) -> Shapes {
        let (mut schemas, mut sizes, mut alike) = (Vec::new(), Vec::new(), Vec::<(usize, String)>::new());
        for shape in &shapes {
            let size = raw_size(shape.size);
            let same: Vec<&str> =
                shapes.iter().filter(|s| raw_size(s.size) == size).map(|s| &*s.schema.name).collect();
            if same.len() == 1 {
                schemas.push(shape.schema.clone());
                sizes.push(size);
            } else if !alike.iter().any(|(s, _)| *s == size) {
                alike.push((size, same.join(", ")));
            }
        }
        schemas.push(bytes);
        Shapes { schemas, sizes, alike, declared: false }
    }

    /// A schema for bytes of which nothing is known.
    pub fn bytes(name: String, spec: String) -> Schema {
        let (kind, show) = (Kind::Rest, Show::Plain);
        let field = Field { name: "raw".into(), type_name: "".into(), kind, show, offset: 0, fault: None };
        Schema { name, spec, fields: vec![field] }
    }

    /// Every schema: those of structs, and last that of bytes.
    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// Every schema, to give it another name.
    pub fn schemas_mut(&mut self) -> &mut [Schema] {
        &mut self.schemas
    }

    /// Which schema shows an event of so many raw bytes.
    #[inline]
    pub fn pick(&self, raw: usize) -> usize {
        let fits = |size: &usize| if self.declared { raw >= *size } else { raw == *size };
        self.sizes.iter().position(fits).unwrap_or(self.sizes.len())
    }

    /// Why an event of so many raw bytes is shown as bytes; `None` where it is not.
    pub fn why_bytes(&self, raw: usize) -> Option<String> {
        if self.pick(raw) < self.sizes.len() {
            return None;
        }
        let names = self.alike.iter().find(|(size, _)| *size == raw).map(|(_, names)| names);
        Some(match names {
            _ if self.declared => {
                format!("{raw} raw bytes are fewer than '{}' has: {}", self.schemas[0].name, self.sizes[0])
            }
            Some(names) => format!("{raw} raw bytes may be any of {names}: --event NAME=STRUCT says which"),
            None => {
                format!("no struct of the BTF has {raw} raw bytes: --event NAME=STRUCT names one")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str, size: usize) -> Shape {
        Shape { schema: Schema { name: name.into(), spec: "o:x".into(), fields: vec![] }, size }
    }

    fn picked(shapes: &Shapes, raw: usize) -> &str {
        &shapes.schemas()[shapes.pick(raw)].name
    }

    #[test]
    fn one_struct_of_a_size_is_it_and_two_are_none() {
        let bytes = Shapes::bytes("events".into(), "o:x".into());
        let padded = |size: usize| (size + 4).next_multiple_of(8) - 4;
        let shapes = vec![shape("a", 16), shape("b", 24), shape("c", 28), shape("d", 4)];
        let shapes = Shapes::by_size(shapes, bytes, padded);
        assert_eq!([20, 28, 4, 36].map(|raw| picked(&shapes, raw)), ["a", "events", "d", "events"]);
        assert_eq!(shapes.why_bytes(20), None);
        assert!(shapes.why_bytes(28).unwrap().contains("b, c"));
        assert!(shapes.why_bytes(36).unwrap().contains("no struct"));
    }

    #[test]
    fn a_declared_struct_may_be_the_beginning_of_more() {
        let shapes = Shapes::declared(shape("a", 16), Shapes::bytes("events".into(), "o:x".into()));
        assert_eq!([12, 16, 20, 900].map(|raw| picked(&shapes, raw)), ["events", "a", "a", "a"]);
        assert!(shapes.why_bytes(12).unwrap().contains("16"));
    }
}

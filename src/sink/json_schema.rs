//! The JSON Schema (draft 2020-12) of the lines that the NDJSON form has for some schemas.
//!
//! A line is valid if it is one of those that [`json`](super::json) writes: the same fields, asked of the same
//! [`Schema`]. Objects are open, as new keys may come within a schema version, but for an event's `args`.

use serde_json::{Map, Value, json};

use super::{json::Options, lines::kind_name};
use crate::schema::{Field, Kind, Schema, Show};

/// The schema of one line: any of the lines that a session with these events writes.
pub fn document(schemas: &[Schema], options: Options) -> Value {
    let form = Form { int_strings: options.int_strings };
    let mut defs = Map::new();
    for (name, value) in [
        ("header", form.header()),
        ("gap", form.gap()),
        ("error", message("error")),
        ("probe", message("probe")),
        ("stats", form.ledger("stats", &[])),
        ("footer", form.ledger("footer", &["balanced", "events", "missing"])),
        ("line", line()),
        ("frame", form.frame()),
    ] {
        defs.insert(name.into(), value);
    }
    for schema in schemas {
        defs.insert(format!("event {}", schema.name), form.event(schema));
    }
    let lines = defs.keys().filter(|name| !matches!(name.as_str(), "line" | "frame"));
    // In a reference a name stands as in a URI and a JSON pointer.
    let one = |name: &String| json!({"$ref": format!("#/$defs/{}", pointer(name))});
    let lines: Vec<Value> = lines.map(one).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tracer/1",
        "description": "One line of the NDJSON that `tracer run -f json` writes.",
        "oneOf": lines,
        "$defs": defs,
    })
}

fn pointer(name: &str) -> String {
    let mut out = String::new();
    for byte in name.replace('~', "~0").replace('/', "~1").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn message(kind: &str) -> Value {
    object(json!({"type": {"const": kind}, "message": {"type": "string"}}))
}

/// A line of source.
fn line() -> Value {
    json!({"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "integer"}}})
}

/// An object that has all of these keys.
fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn or_null(mut value: Value) -> Value {
    if let Some(kind) = value.get("type").cloned() {
        value["type"] = json!([kind, "null"]);
        return value;
    }
    json!({"anyOf": [value, {"type": "null"}]})
}

/// How integers are written.
#[derive(Clone, Copy)]
struct Form {
    int_strings: bool,
}

impl Form {
    fn integer(self, bytes: usize, signed: bool) -> Value {
        let bits = 8 * bytes as u32;
        match (self.int_strings && bytes == 8, signed) {
            (true, true) => json!({"type": "string", "pattern": "^-?[0-9]+$"}),
            (true, false) => json!({"type": "string", "pattern": "^[0-9]+$"}),
            (false, true) => {
                json!({"type": "integer", "minimum": i64::MIN >> (64 - bits), "maximum": i64::MAX >> (64 - bits)})
            }
            (false, false) => {
                json!({"type": "integer", "minimum": 0, "maximum": u64::MAX >> (64 - bits)})
            }
        }
    }

    fn unsigned(self) -> Value {
        self.integer(8, false)
    }

    fn header(self) -> Value {
        let field =
            json!({"name": {"type": "string"}, "type": {"type": "string"}, "kind": {"type": "string"}});
        let probe = json!({
            "name": {"type": "string"}, "spec": {"type": "string"}, "attached": {"type": "string"},
            "fields": {"type": "array", "items": object(field)},
        });
        object(json!({
            "type": {"const": "header"}, "schema": {"const": "tracer/1"}, "version": {"type": "string"},
            "host": {"type": "string"}, "release": {"type": "string"}, "boot_id": {"type": "string"},
            "clock": object(json!({"monotonic": self.unsigned(), "realtime": self.unsigned()})),
            "probes": {"type": "array", "items": object(probe)},
        }))
    }

    fn gap(self) -> Value {
        let pair =
            json!({"type": ["array", "null"], "items": self.integer(4, false), "minItems": 2, "maxItems": 2});
        object(json!({
            "type": {"const": "gap"}, "cpu": self.integer(4, false),
            "cause": {"enum": ["lost", "failed", "overwritten", "corrupt", "dropped"]},
            "count": or_null(self.unsigned()), "seq": pair,
            "after": or_null(self.unsigned()), "before": or_null(self.unsigned()),
        }))
    }

    fn ledger(self, kind: &str, beside: &[&str]) -> Value {
        let mut whole = object(json!({
            "type": {"const": kind}, "elapsed": self.unsigned(), "probes": {"type": "array"},
            "cpus": {"type": "array"}, "sinks": {"type": "array"}, "identities": {"type": "array"},
        }));
        for key in beside {
            let value = if *key == "balanced" { json!({"type": "boolean"}) } else { self.unsigned() };
            whole["properties"][*key] = value;
            if let Some(required) = whole["required"].as_array_mut() {
                required.push(json!(key));
            }
        }
        whole
    }

    fn frame(self) -> Value {
        let inlined = json!({"allOf": [{"$ref": "#/$defs/line"}], "required": ["symbol"],
            "properties": {"symbol": {"type": "string"}}});
        json!({
            "allOf": [{"$ref": "#/$defs/line"}],
            "required": ["addr"],
            "properties": {
                "addr": address(), "symbol": {"type": "string"}, "offset": {"type": "integer", "minimum": 0},
                "module": {"type": "string"}, "build_id": {"type": "string"},
                "inlined": {"type": "array", "items": inlined},
            },
        })
    }

    fn event(self, schema: &Schema) -> Value {
        let names: Vec<&str> = schema.fields.iter().map(|f| &*f.name).collect();
        let each = |of: &dyn Fn(&Field) -> Option<Value>| -> Map<String, Value> {
            schema.fields.iter().filter_map(|f| Some((f.name.clone(), of(f)?))).collect()
        };
        let mut event = object(json!({
            "type": {"const": "event"}, "cpu": self.integer(4, false), "time": or_null(self.unsigned()),
            "seq": self.integer(4, false), "event": {"const": schema.name},
            "pid": self.integer(4, false), "tid": self.integer(4, false), "uid": self.integer(4, false),
            "cgroup": self.unsigned(), "comm": {"type": "string"},
            "args": {"type": "object", "required": names, "additionalProperties": false,
                     "properties": each(&|f| Some(self.field(f)))},
        }));
        event["description"] = json!(schema.spec);
        let beside = json!({
            "level": self.integer(1, false),
            "faults": {"type": "array", "items": {"enum": names}},
            "shown": {"type": "object", "additionalProperties": false, "properties": each(&shown)},
            "bytes": {"type": "object", "properties": {"comm": hex(), "args": {"type": "object",
                      "additionalProperties": hex()}}},
        });
        if let (Some(all), Value::Object(beside)) = (event["properties"].as_object_mut(), beside) {
            all.extend(beside);
        }
        event
    }

    /// A field's value.
    fn field(self, field: &Field) -> Value {
        let width = field.kind.size();
        let mut value = match (field.kind, &field.show) {
            (_, Show::Hex) | (Kind::Pointer, _) => address(),
            (_, Show::Ip4) => json!({"type": "string", "format": "ipv4"}),
            (_, Show::Ip6) => json!({"type": "string", "format": "ipv6"}),
            (_, Show::Mac | Show::Sockaddr | Show::Timespec) | (Kind::Text | Kind::Chars(_), _) => {
                json!({"type": "string"})
            }
            (_, Show::Array { width, signed }) => {
                json!({"type": "array", "items": self.integer(usize::from(*width), *signed)})
            }
            (Kind::Unsigned(_) | Kind::BigEndian(_), _) => self.integer(width, false),
            (Kind::Signed(_), _) => self.integer(width, true),
            (Kind::Bool, _) => json!({"type": "boolean"}),
            (Kind::Bits { signed, .. }, _) => self.integer(field.kind.integer_size(), signed),
            (Kind::Bytes | Kind::Inline(_) | Kind::Rest, _) => hex(),
            (Kind::Stack { .. }, _) => json!({"type": "array", "items": {"$ref": "#/$defs/frame"}}),
        };
        if field.fault.is_some() {
            value = or_null(value);
        }
        let shown = field.show.word().map_or_else(String::new, |word| format!(", {word}"));
        value["description"] = json!(format!("{} ({}{shown})", field.type_name, kind_name(field)));
        value
    }
}

fn address() -> Value {
    json!({"type": "string", "pattern": "^0x[0-9a-f]{1,16}$"})
}

fn hex() -> Value {
    json!({"type": "string", "pattern": "^([0-9a-f][0-9a-f])*$"})
}

/// What people see of a field whose number has another form.
fn shown(field: &Field) -> Option<Value> {
    Some(match &field.show {
        Show::Enum(names) => {
            let mut all: Vec<&str> = names.iter().map(|(_, name)| name).collect();
            all.sort_unstable();
            all.dedup();
            json!({"enum": all})
        }
        Show::Octal => json!({"type": "string", "pattern": "^0[0-7]*$"}),
        Show::Errno => json!({"type": "string", "pattern": "^-E"}),
        Show::Device => json!({"type": "string", "pattern": "^[0-9]+:[0-9]+$"}),
        Show::Time => json!({"type": "string", "pattern": "^-?[0-9]+[.][0-9]{9}$"}),
        Show::Flags(_) | Show::Char | Show::KernelSymbol | Show::UserSymbol => json!({"type": "string"}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_references_as_uris_want_them() {
        assert_eq!(pointer("event write_2"), "event%20write_2");
        assert_eq!(pointer("event a/b~c%\u{e4}"), "event%20a~1b~0c%25%C3%A4");
    }

    #[test]
    fn the_bounds_of_integers() {
        let numbers = Form { int_strings: false };
        assert_eq!(numbers.integer(1, false), json!({"type": "integer", "minimum": 0, "maximum": 255}));
        assert_eq!(numbers.integer(2, true), json!({"type": "integer", "minimum": -32768, "maximum": 32767}));
        assert_eq!(numbers.integer(8, true)["minimum"], json!(i64::MIN));
        assert_eq!(numbers.integer(8, false)["maximum"], json!(u64::MAX));
        assert_eq!(Form { int_strings: true }.integer(8, true)["type"], "string");
        assert_eq!(Form { int_strings: true }.integer(4, true)["type"], "integer");
    }
}

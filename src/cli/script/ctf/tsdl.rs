//! The `metadata` of a CTF trace: what its streams and events are, in the Trace Stream Description Language.
//!
//! Names of fields have a `_` before them, which readers take off: a field may be named like a word of the language.

use std::fmt::Write as _;

use tracer::{
    perf_data::{Feature, feature::id, read::Info},
    sink::Clock,
};

/// A class of events.
pub struct Class {
    pub name: String,
    pub fields: Vec<(String, Type)>,
    /// Whether a last string names the fields that could not be read.
    pub faults: bool,
}

/// The type of a field.
pub enum Type {
    Integer { size: u8, signed: bool, hex: bool },
    String,
    Sequence { size: u8, signed: bool, hex: bool },
}

impl Type {
    pub fn integer(size: u8, signed: bool) -> Type {
        Type::Integer { size, signed, hex: false }
    }
}

/// What comes before the events.
pub fn head(info: &Info, clock: &Clock) -> String {
    let order = if cfg!(target_endian = "big") { "be" } else { "le" };
    let text = |id| match info.feature(id) {
        Some(Feature::Text(_, text)) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    };
    let (host, release) = (quoted(&text(id::HOSTNAME)), quoted(&text(id::OSRELEASE)));
    // Where nothing ties the clock to the wall's, both numbers are 0.
    let offset = i128::from(clock.realtime) - i128::from(clock.monotonic);
    let absolute = if clock.realtime == 0 { "FALSE" } else { "TRUE" };
    let seconds = offset.div_euclid(1_000_000_000);
    let rest = offset.rem_euclid(1_000_000_000);
    let integer = |size: u8, signed| integer(size, signed, false);
    format!(
        "/* CTF 1.8 */\n\n\
         trace {{\n\
         \tmajor = 1;\n\tminor = 8;\n\tbyte_order = {order};\n\
         \tpacket.header := struct {{ {} magic; }};\n}};\n\n\
         env {{\n\
         \tdomain = \"perf.data\";\n\ttracer_name = \"tracer\";\n\
         \thostname = {host};\n\trelease = {release};\n}};\n\n\
         clock {{\n\
         \tname = recorded;\n\tfreq = 1000000000;\n\
         \toffset_s = {seconds};\n\toffset = {rest};\n\tabsolute = {absolute};\n}};\n\n\
         typealias integer {{ size = 64; align = 8; signed = false; map = clock.recorded.value; }} := stamp_t;\n\n\
         stream {{\n\
         \tevent.header := struct {{ {} id; stamp_t timestamp; }};\n\
         \tevent.context := struct {{ {} cpu_id; {} pid; {} tid; string {{ encoding = UTF8; }} comm; }};\n}};\n",
        integer(4, false),
        integer(4, false),
        integer(4, true),
        integer(4, true),
        integer(4, true),
    )
}

/// A class of events under its number.
pub fn class(id: u32, class: &Class, out: &mut String) {
    let _ =
        write!(out, "\nevent {{\n\tname = {};\n\tid = {id};\n\tfields := struct {{\n", quoted(&class.name));
    for (name, ty) in &class.fields {
        let _ = match ty {
            Type::Integer { size, signed, hex } => {
                writeln!(out, "\t\t{} _{name};", integer(*size, *signed, *hex))
            }
            Type::String => writeln!(out, "\t\tstring {{ encoding = UTF8; }} _{name};"),
            Type::Sequence { size, signed, hex } => {
                let (length, element) = (integer(4, false, false), integer(*size, *signed, *hex));
                writeln!(out, "\t\t{length} __{name}_length;\n\t\t{element} _{name}[__{name}_length];")
            }
        };
    }
    if class.faults {
        out.push_str("\t\tstring { encoding = UTF8; } __faults;\n");
    }
    out.push_str("\t};\n};\n");
}

fn integer(size: u8, signed: bool, hex: bool) -> String {
    let base = if hex { " base = 16;" } else { "" };
    format!("integer {{ size = {}; align = 8; signed = {signed};{base} }}", 8 * size)
}

/// A string of the language.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A field's name as the language takes it: letters, digits and underscores.
pub fn identifier(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_strings() {
        assert_eq!(identifier("p.a[1]"), "p_a_1_");
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c?\"");
    }

    #[test]
    fn a_class() {
        let fields = vec![
            ("event".to_owned(), Type::integer(2, true)),
            ("data".to_owned(), Type::Sequence { size: 1, signed: false, hex: true }),
        ];
        let mut text = String::new();
        class(3, &Class { name: "a:b".to_owned(), fields, faults: true }, &mut text);
        assert_eq!(
            text,
            "\nevent {\n\tname = \"a:b\";\n\tid = 3;\n\tfields := struct {\n\
             \t\tinteger { size = 16; align = 8; signed = true; } _event;\n\
             \t\tinteger { size = 32; align = 8; signed = false; } __data_length;\n\
             \t\tinteger { size = 8; align = 8; signed = false; base = 16; } _data[__data_length];\n\
             \t\tstring { encoding = UTF8; } __faults;\n\t};\n};\n"
        );
    }
}

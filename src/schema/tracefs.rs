//! A schema as the `format` text that tracefs has for a tracepoint: what tells `perf` and its kin how events lie.
//!
//! The text describes events exactly as they lie in the ring; nothing of them need be changed but `common_type`,
//! which must be the id that the text says (perf finds the format by it). What stock tools can and cannot show
//! decides the rest:
//!
//! * signed integers of one or two bytes are shown as four: their slots hold the sign in all of their bytes;
//! * integers in network order are put right in the print fmt;
//! * strings are `__data_loc char[]`, bytes and stacks `__data_loc u8[]`: the low half of their slot;
//! * enums and flags get `__print_symbolic` and `__print_flags`; error numbers, addresses of sockets and times of
//!   two numbers stay numbers or bytes.

use std::fmt::{self, Write as _};

use super::{Field, Kind, Names, Schema, Show};

/// The most names of one field that are written.
const NAMES: usize = 512;

/// The head that all events have: type, name, offset, size, and whether it is signed.
const HEAD: [(&str, &str, u32, u32, bool); 8] = [
    ("u16", "tracer_probe", 8, 2, false),
    ("u8", "tracer_level", 10, 1, false),
    ("u32", "tracer_seq", 12, 4, false),
    ("u32", "tracer_tgid", 16, 4, false),
    ("u32", "tracer_tid", 20, 4, false),
    ("u32", "tracer_uid", 24, 4, false),
    ("u64", "tracer_cgroup", 28, 8, false),
    ("char", "tracer_comm[16]", 36, 16, false),
];

/// The head that stands before an event that has none of ours: a number of its CPU, and where all of its bytes are.
const PREFIX: [(&str, &str, u32, u32, bool); 2] =
    [("u32", "tracer_seq", 8, 4, false), ("__data_loc u8[]", "tracer_bytes", 12, 4, false)];
/// Bytes of that head, the common ones included.
pub const PREFIX_SIZE: u32 = 16;

/// The `format` text of a schema whose events have the type `id`.
pub fn format(schema: &Schema, id: u16) -> String {
    text(schema, &event_name(schema), id, true)
}

/// A schema's name as C takes it: what its events are called in the system `tracer`.
pub fn event_name(schema: &Schema) -> String {
    identifier(&schema.name)
}

/// The `format` text of events called `name`. Those that are not `headed`, as their bytes do not open with
/// [`Wire`](super::Wire), lie behind a head of [`PREFIX_SIZE`] bytes: the common ones, then u32 `tracer_seq` and the
/// u32 `tracer_bytes`, `length << 16 | 16`.
pub fn text(schema: &Schema, name: &str, id: u16, headed: bool) -> String {
    let mut out = String::new();
    // A `String` takes all that is written to it.
    let _ = match headed {
        true => write(schema, name, id, &HEAD, &mut out),
        false => write(&behind_prefix(schema), name, id, &PREFIX, &mut out),
    };
    out
}

/// The schema with its fields where the prefix moves them.
fn behind_prefix(schema: &Schema) -> Schema {
    let moved = |field: &Field| Field {
        offset: field.offset + PREFIX_SIZE,
        fault: field.fault.map(|(slot, bit)| (slot + PREFIX_SIZE, bit)),
        ..field.clone()
    };
    Schema { fields: schema.fields.iter().map(moved).collect(), ..schema.clone() }
}

fn write(
    schema: &Schema,
    name: &str,
    id: u16,
    head: &[(&str, &str, u32, u32, bool)],
    out: &mut String,
) -> fmt::Result {
    writeln!(out, "name: {name}\nID: {id}\nformat:")?;
    line(out, "unsigned short", "common_type", 0, 2, false)?;
    line(out, "unsigned char", "common_flags", 2, 1, false)?;
    line(out, "unsigned char", "common_preempt_count", 3, 1, false)?;
    line(out, "int", "common_pid", 4, 4, true)?;
    out.push('\n');
    for (ty, name, offset, size, signed) in head {
        line(out, ty, name, *offset, *size, *signed)?;
    }
    if let Some((slot, _)) = schema.fields.iter().find_map(|f| f.fault) {
        line(out, "u64", "tracer_faults", slot, 8, false)?;
    }
    let names = field_names(schema);
    let packed = !head.iter().any(|(_, name, ..)| *name == "tracer_probe");
    for (field, name) in schema.fields.iter().zip(&names) {
        match packed_integer(field).filter(|_| packed) {
            Some(size) => line(out, &format!("u{}", 8 * size), name, field.offset, size, false)?,
            None => declare(out, field, name)?,
        }
    }
    print_fmt(schema, &names, packed, out)
}

/// Bytes of the unsigned integer that holds a field where no slot of eight bytes does: signed ones of one or two
/// bytes, which perf would take for unsigned ones, and bitfields.
fn packed_integer(field: &Field) -> Option<u32> {
    match field.kind {
        Kind::Signed(n @ (1 | 2)) => Some(n.into()),
        Kind::Bits { .. } => {
            Some(field.kind.size() as u32).filter(|size| size.is_power_of_two() && *size <= 8)
        }
        _ => None,
    }
}

/// Its value as perf computes it.
fn packed_value(field: &Field, name: &str) -> String {
    let (first, width, signed) = match field.kind {
        Kind::Bits { first, width, signed } => (u32::from(first), u32::from(width), signed),
        other => (0, 8 * other.size() as u32, true),
    };
    // The first bit of a big-endian machine is the highest.
    let bits = 8 * field.kind.size() as u32;
    let shift = if cfg!(target_endian = "little") { first } else { bits - first - width };
    let mask = u64::MAX >> (64 - width.clamp(1, 64));
    let sign = mask / 2 + 1;
    let value = format!("((REC->{name} >> {shift}) & {mask:#x})");
    // perf computes no `^`.
    if signed { format!("((({value} + {sign:#x}) & {mask:#x}) - {sign:#x})") } else { value }
}

fn line(out: &mut String, ty: &str, name: &str, offset: u32, size: u32, signed: bool) -> fmt::Result {
    writeln!(out, "\tfield:{ty} {name};\toffset:{offset};\tsize:{size};\tsigned:{};", u8::from(signed))
}

fn declare(out: &mut String, field: &Field, name: &str) -> fmt::Result {
    let at = field.offset;
    match (field.kind, &field.show) {
        (Kind::Unsigned(4), Show::Ip4) => line(out, "u8", &format!("{name}[4]"), at, 4, false),
        (Kind::Unsigned(n) | Kind::BigEndian(n), _) => {
            line(out, &format!("u{}", 8 * n), name, at, n.into(), false)
        }
        (Kind::Signed(8), _) => line(out, "s64", name, at, 8, true),
        (Kind::Signed(_), _) => line(out, "s32", name, at, 4, true),
        (Kind::Bool, _) => line(out, "bool", name, at, 1, false),
        (Kind::Pointer, _) => line(out, "void *", name, at, 8, false),
        (Kind::Text, _) => line(out, "__data_loc char[]", name, at, 4, false),
        (Kind::Bytes | Kind::Stack { .. }, _) => line(out, "__data_loc u8[]", name, at, 4, false),
        (Kind::Chars(n), _) => line(out, "char", &format!("{name}[{n}]"), at, n.into(), false),
        (Kind::Inline(_) | Kind::Bits { .. }, _) => {
            let size = field.kind.size();
            line(out, "u8", &format!("{name}[{size}]"), at, size as u32, false)
        }
        // It has no length that a format could tell; `tracer_bytes` is declared.
        (Kind::Rest, _) => Ok(()),
    }
}

fn print_fmt(schema: &Schema, names: &[String], packed: bool, out: &mut String) -> fmt::Result {
    let (mut text, mut args) = (String::new(), String::new());
    for (field, name) in schema.fields.iter().zip(names) {
        // Stacks are no matter for a line.
        if let Kind::Stack { .. } = field.kind {
            continue;
        }
        write!(text, "{}{name}=", if text.is_empty() { "" } else { " " })?;
        args.push_str(", ");
        if packed && packed_integer(field).is_some() {
            text.push_str(if field.kind.integer_size() == 8 { "%lld" } else { "%d" });
            args.push_str(&packed_value(field, name));
            continue;
        }
        // Of a string that could not be read there is none, in whose place perf would show the whole event's bytes.
        let before = args.len();
        show(field, name, &mut text, &mut args)?;
        if let (Kind::Text, Some((_, bit))) = (field.kind, field.fault) {
            let shown = args.split_off(before);
            write!(args, "(REC->tracer_faults & {:#x}) ? \"<fault>\" : {shown}", 1u64 << (bit % 64))?;
        }
    }
    // perf shows what could not be read as 0 or as an empty string: the names stand behind.
    let faults = || schema.fields.iter().zip(names).filter_map(|(f, name)| Some((f.fault?.1 % 64, name)));
    let bits = faults().fold(0, |all, (bit, _)| all | 1u64 << bit);
    if bits != 0 && !text.is_empty() {
        text.push_str("%s%s");
        write!(args, ", (REC->tracer_faults & {bits:#x}) ? \" faults=\" : \"\"")?;
        write!(
            args,
            ", (REC->tracer_faults & {bits:#x}) ? __print_flags(REC->tracer_faults & {bits:#x}, \",\""
        )?;
        for (bit, name) in faults() {
            write!(args, ", {{ {:#x}, \"{name}\" }}", 1u64 << bit)?;
        }
        args.push_str(") : \"\"");
    }
    match text.is_empty() {
        // Without any argument perf shows nothing, not even the text.
        true => writeln!(out, "\nprint fmt: \"seq=%u\", REC->tracer_seq"),
        false => writeln!(out, "\nprint fmt: \"{text}\"{args}"),
    }
}

/// A field's place in the line, and what stands there.
fn show(field: &Field, name: &str, text: &mut String, args: &mut String) -> fmt::Result {
    let wide = field.kind.size() == 8;
    let (decimal, hex) = match (field.kind, wide) {
        (Kind::Signed(_), true) => ("%lld", "0x%llx"),
        (Kind::Signed(_), false) => ("%d", "0x%x"),
        (_, true) => ("%llu", "0x%llx"),
        (_, false) => ("%u", "0x%x"),
    };
    let mut put = |conversion: &str, argument: fmt::Arguments<'_>| {
        text.push_str(conversion);
        args.write_fmt(argument)
    };
    match (field.kind, &field.show) {
        // It has no length that a format could tell; the event has.
        (Kind::Rest, _) => put(
            "%s",
            format_args!(
                "__print_hex(__get_dynamic_array(tracer_bytes), __get_dynamic_array_len(tracer_bytes))"
            ),
        ),
        (Kind::Text, _) => put("%s", format_args!("__get_str({name})")),
        (Kind::Chars(_), _) => put("%s", format_args!("REC->{name}")),
        (Kind::Bytes | Kind::Stack { .. }, _) => put(
            "%s",
            format_args!("__print_hex(__get_dynamic_array({name}), __get_dynamic_array_len({name}))"),
        ),
        (Kind::Inline(_) | Kind::Bits { .. }, _) => {
            put("%s", format_args!("__print_hex(REC->{name}, {})", field.kind.size()))
        }
        (Kind::BigEndian(n), _) => put(decimal, format_args!("{}", Swapped { name, bytes: n })),
        (Kind::Pointer, _) => put("0x%llx", format_args!("REC->{name}")),
        (Kind::Unsigned(4), Show::Ip4) => put("%pI4", format_args!("REC->{name}")),
        (_, Show::Hex) => put(hex, format_args!("REC->{name}")),
        (_, Show::Octal) => put(if wide { "0%llo" } else { "0%o" }, format_args!("REC->{name}")),
        (_, Show::Char) => put("%c", format_args!("REC->{name}")),
        (_, Show::Device) => put("%u:%u", format_args!("REC->{name} >> 20, REC->{name} & 1048575")),
        (Kind::Unsigned(8), Show::Time) => {
            put("%llu.%09llu", format_args!("REC->{name} / 1000000000, REC->{name} % 1000000000"))
        }
        (_, Show::Enum(names)) if names.iter().count() <= NAMES => {
            put("%s", format_args!("__print_symbolic(REC->{name}{})", Table(names)))
        }
        (_, Show::Flags(names)) if names.iter().count() <= NAMES => {
            // `__print_flags` shows nothing for 0.
            let bits = names.iter().fold(0, |all, (mask, _)| all | mask);
            let zero = names.of(0).map_or_else(|| "0".into(), plain);
            let table = Table(names);
            put(
                "%s",
                format_args!(
                    "(REC->{name} & {bits:#x}) ? __print_flags(REC->{name}, \"|\"{table}) : \"{zero}\""
                ),
            )
        }
        _ => put(decimal, format_args!("REC->{name}")),
    }
}

/// The bytes of a field the other way round: no function of the print fmt does that.
struct Swapped<'a> {
    name: &'a str,
    bytes: u8,
}

impl fmt::Display for Swapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in 0..self.bytes {
            let (name, from, to) = (self.name, 8 * i, 8 * (self.bytes - 1 - i));
            write!(f, "{}((REC->{name} >> {from}) & 255) << {to}", if i > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

/// `, {1, "name"}` for each name.
struct Table<'a>(&'a Names);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, name) in self.0.iter() {
            write!(f, ", {{ {value:#x}, \"{}\" }}", plain(name))?;
        }
        Ok(())
    }
}

/// A text that can stand between quotation marks.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '"' | '\\') { '_' } else { c }).collect()
}

/// A name that C takes, for each field: no two alike.
fn field_names(schema: &Schema) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(schema.fields.len());
    for field in &schema.fields {
        let name = identifier(&field.name);
        let taken = |name: &String| {
            names.contains(name) || HEAD.iter().chain(&PREFIX).any(|(_, head, ..)| head == name)
        };
        let other = (2..).map(|i| format!("{name}_{i}")).find(|name| !taken(name));
        let name = if taken(&name) { other.unwrap_or(name) } else { name };
        names.push(name);
    }
    names
}

/// A name with all that C does not take made `_`.
fn identifier(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut out: String = name.chars().map(plain).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schema::format as read;

    fn schema(fields: &[(&str, Kind, Show)]) -> Schema {
        let field = |(i, (name, kind, show)): (usize, &(&str, Kind, Show))| Field {
            name: (*name).into(),
            type_name: "t".into(),
            kind: *kind,
            show: show.clone(),
            offset: 60 + 8 * i as u32,
            fault: (i == 1).then_some((52, 0)),
        };
        Schema {
            name: "openat.2".into(),
            spec: "s:openat".into(),
            fields: fields.iter().enumerate().map(field).collect(),
        }
    }

    #[test]
    fn what_has_no_head_of_ours_stands_behind_another() {
        let bits = |first, width, signed| Kind::Bits { first, width, signed };
        let schema = schema(&[
            ("number", Kind::Unsigned(8), Show::Plain),
            ("low", Kind::Signed(2), Show::Plain),
            ("three", bits(3, 5, false), Show::Plain),
            ("wide", bits(0, 20, true), Show::Plain),
            ("rest", Kind::Rest, Show::Plain),
        ]);
        let text = text(&schema, "mine", 9, false);
        for expected in [
            "name: mine\nID: 9\n",
            "\tfield:u32 tracer_seq;\toffset:8;\tsize:4;\tsigned:0;\n",
            "\tfield:__data_loc u8[] tracer_bytes;\toffset:12;\tsize:4;\tsigned:0;\n",
            "\tfield:u64 number;\toffset:76;\tsize:8;\tsigned:0;\n",
            "\tfield:u16 low;\toffset:84;\tsize:2;\tsigned:0;\n",
            "\tfield:u8 three;\toffset:92;\tsize:1;\tsigned:0;\n",
            "\tfield:u8 wide[3];\toffset:100;\tsize:3;\tsigned:0;\n",
            "number=%llu low=%d three=%d wide=%s rest=%s%s%s\"",
            "(((((REC->low >> 0) & 0xffff) + 0x8000) & 0xffff) - 0x8000)",
            "((REC->three >> 3) & 0x1f)",
            "__get_dynamic_array(tracer_bytes)",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("tracer_probe"), "{text}");
    }

    #[test]
    fn the_whole_text_of_a_system_call() {
        let names = Arc::new(Names::new([(1, "W\"".into()), (0x40, "CREAT".into())]));
        let text = format(
            &schema(&[
                ("dfd", Kind::Signed(2), Show::Plain),
                ("filename", Kind::Text, Show::Plain),
                ("flags", Kind::Signed(4), Show::Flags(names)),
                ("a.b", Kind::BigEndian(2), Show::Plain),
                ("a_b", Kind::Pointer, Show::KernelSymbol),
                ("stack", Kind::Stack { user: false }, Show::Plain),
            ]),
            7,
        );
        let expected = "name: openat_2\nID: 7\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:u16 tracer_probe;\toffset:8;\tsize:2;\tsigned:0;\n\
            \tfield:u8 tracer_level;\toffset:10;\tsize:1;\tsigned:0;\n\
            \tfield:u32 tracer_seq;\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:u32 tracer_tgid;\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:u32 tracer_tid;\toffset:20;\tsize:4;\tsigned:0;\n\
            \tfield:u32 tracer_uid;\toffset:24;\tsize:4;\tsigned:0;\n\
            \tfield:u64 tracer_cgroup;\toffset:28;\tsize:8;\tsigned:0;\n\
            \tfield:char tracer_comm[16];\toffset:36;\tsize:16;\tsigned:0;\n\
            \tfield:u64 tracer_faults;\toffset:52;\tsize:8;\tsigned:0;\n\
            \tfield:s32 dfd;\toffset:60;\tsize:4;\tsigned:1;\n\
            \tfield:__data_loc char[] filename;\toffset:68;\tsize:4;\tsigned:0;\n\
            \tfield:s32 flags;\toffset:76;\tsize:4;\tsigned:1;\n\
            \tfield:u16 a_b;\toffset:84;\tsize:2;\tsigned:0;\n\
            \tfield:void * a_b_2;\toffset:92;\tsize:8;\tsigned:0;\n\
            \tfield:__data_loc u8[] stack;\toffset:100;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"dfd=%d filename=%s flags=%s a_b=%u a_b_2=0x%llx%s%s\", REC->dfd, \
            (REC->tracer_faults & 0x1) ? \"<fault>\" : __get_str(filename), (REC->flags & 0x41) ? __print_flags(REC->flags, \"|\", { 0x1, \"W_\" }, { 0x40, \"CREAT\" }) : \"0\", \
            ((REC->a_b >> 0) & 255) << 8 | ((REC->a_b >> 8) & 255) << 0, REC->a_b_2, \
            (REC->tracer_faults & 0x1) ? \" faults=\" : \"\", (REC->tracer_faults & 0x1) ? \
            __print_flags(REC->tracer_faults & 0x1, \",\", { 0x1, \"filename\" }) : \"\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let names = Arc::new(Names::new([(0, "ZERO".into()), (5, "FIVE".into())]));
        let written = schema(&[
            ("u", Kind::Unsigned(8), Show::Time),
            ("e", Kind::Unsigned(4), Show::Enum(names.clone())),
            ("c", Kind::Chars(16), Show::Plain),
            ("ip", Kind::Unsigned(4), Show::Ip4),
            ("addr", Kind::Bytes, Show::Sockaddr),
        ]);
        let fields = read::parse(&format(&written, 9), &|_| None);
        let own: Vec<_> = fields.iter().filter(|f| !f.name.starts_with("tracer_")).collect();
        let faults = fields.iter().find(|f| f.name == "tracer_faults").map(|f| (f.offset, f.show.clone()));
        let name = Names::new([(1, "e".into())]);
        assert_eq!(faults, Some((52, Show::Flags(Arc::new(name)))), "which field a bit is of");
        let told: Vec<_> = own.iter().map(|f| (&*f.type_name, &*f.name, f.offset, f.size)).collect();
        assert_eq!(
            told,
            [
                ("u64", "u", 60, 8),
                ("u32", "e", 68, 4),
                ("char[16]", "c", 76, 16),
                ("u8[4]", "ip", 84, 4),
                ("__data_loc u8[]", "addr", 92, 4),
            ]
        );
        assert_eq!(own[1].show, Show::Enum(names));
    }

    #[test]
    fn an_event_of_no_fields_shows_something() {
        let text = format(&schema(&[]), 1);
        assert!(text.ends_with("\nprint fmt: \"seq=%u\", REC->tracer_seq\n"), "{text}");
    }
}

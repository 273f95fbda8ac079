//! NDJSON, schema `tracer/1`: one object a line, each with a `type`.
//!
//! | type | keys |
//! |---|---|
//! | `header`, first | `schema`, `version`, `host`, `release`, `boot_id`, `clock` {`monotonic`, `realtime`}, `probes` [{`name`, `spec`, `attached`, `fields` [{`name`, `type`, `kind`}]}] |
//! | `event` | `cpu`, `time`, `seq`, `level` where it is not 0, `event`, `pid`, `tid`, `uid`, `cgroup`, `comm`, `args`, `bytes` where a string is not exact |
//! | `gap` | `cpu`, `cause`, `count`, `seq` [first, last], `level` where it is not 0, `after`, `before`; each but the first two may be null |
//! | `error`, `probe` | `message` |
//! | `stats` | the ledger while events are in flight |
//! | `footer`, last | `balanced`, `events`, `missing`, and the ledger: `elapsed`, `probes`, `cpus`, `sinks`, `excluded`, `tail`, `identities` |
//!
//! What a foreign program's event does not carry is null: `uid`, `cgroup` and `comm`, and of a BPF ringbuf's `cpu`,
//! `time`, `pid` and `tid` too. Such events count their `seq` when they are read.
//!
//! Times are nanoseconds. `kind` is `u8` to `u64`, `s8` to `s64`, `bool`, or `pointer`: a string such as
//! `"0xffff888100"`. Other integers are numbers, exact in the text; with [`Options::int_strings`] those of 64
//! bits are decimal strings wherever they stand. The form of strings is told in [`escape`].
//!
//! **Invariants.** Keys and their meaning never change within a schema version; new ones may come. Every line
//! is valid UTF-8 and valid JSON, whatever the names are.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::{Encode, Header, Note, escape, number::decimal};
use crate::{
    event::{Carries, Event, Gap, NO_CPU},
    ledger::Report,
    schema::{Kind, Value},
};

/// How objects are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Integers of 64 bits as decimal strings (`--json-int string`): for readers that keep numbers as doubles.
    pub int_strings: bool,
}

/// The NDJSON form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json {
    options: Options,
}

impl Json {
    /// Lines as the options say.
    pub fn new(options: Options) -> Json {
        Json { options }
    }

    #[inline]
    fn int(self, n: impl itoa::Integer, out: &mut Vec<u8>) {
        if self.options.int_strings {
            out.push(b'"');
            decimal(n, out);
            out.push(b'"');
        } else {
            decimal(n, out);
        }
    }

    fn optional(self, n: Option<u64>, out: &mut Vec<u8>) {
        match n {
            Some(n) => self.int(n, out),
            None => key(b"null", out),
        }
    }

    fn line(self, line: &impl Serialize, out: &mut Vec<u8>) {
        let form = Form { int_strings: self.options.int_strings };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, form);
        // Neither a vector nor these types can fail.
        let _ = line.serialize(&mut serializer);
        out.push(b'\n');
    }

    /// Appends a value; false where it is a string that was no UTF-8.
    fn value(self, value: &Value<'_>, wide: bool, out: &mut Vec<u8>) -> bool {
        match *value {
            Value::Unsigned(n) if wide => self.int(n, out),
            Value::Signed(n) if wide => self.int(n, out),
            Value::Unsigned(n) => decimal(n, out),
            Value::Signed(n) => decimal(n, out),
            Value::Bool(b) => key(if b { b"true" } else { b"false" }, out),
            Value::Pointer(p) => {
                out.push(b'"');
                escape::address(p, out);
                out.push(b'"');
            }
            Value::Text(bytes) => return escape::json(&bytes.to_contiguous(), out),
            Value::Bytes(bytes) => escape::json_hex(&bytes.to_contiguous(), out),
            Value::Fault => key(b"null", out),
        }
        true
    }

    /// Whose event it is; false where the name was no UTF-8.
    fn task(self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let wire = &event.wire;
        if wire.carries == Carries::Nothing {
            key(b",\"pid\":null,\"tid\":null", out);
        } else {
            key(b",\"pid\":", out);
            decimal(wire.tgid, out);
            key(b",\"tid\":", out);
            decimal(wire.pid, out);
        }
        if wire.carries != Carries::All {
            key(b",\"uid\":null,\"cgroup\":null,\"comm\":null", out);
            return true;
        }
        key(b",\"uid\":", out);
        decimal(wire.uid, out);
        key(b",\"cgroup\":", out);
        self.int(wire.cgroup, out);
        key(b",\"comm\":", out);
        escape::json(wire.comm(), out)
    }

    /// The names of the fields that could not be read, whose values are null.
    fn faults(event: &Event<'_>, out: &mut Vec<u8>) {
        let names = event.fields().filter(|(_, v)| matches!(v, Value::Fault)).map(|(f, _)| &f.name);
        for (i, name) in names.enumerate() {
            key(if i == 0 { b",\"faults\":[" } else { b"," }, out);
            escape::json(name.as_bytes(), out);
        }
        out.push(b']');
    }

    /// The exact bytes of the strings that were no UTF-8, in the event's own shape.
    fn exact_bytes(event: &Event<'_>, out: &mut Vec<u8>) {
        key(b",\"bytes\":{", out);
        let comm = std::str::from_utf8(event.wire.comm()).is_err();
        if comm {
            key(b"\"comm\":", out);
            escape::json_hex(event.wire.comm(), out);
        }
        let mut first = true;
        for (field, value) in event.fields() {
            let Value::Text(bytes) = value else { continue };
            let bytes = bytes.to_contiguous();
            if std::str::from_utf8(&bytes).is_ok() {
                continue;
            }
            key(
                if !first {
                    b","
                } else if comm {
                    b",\"args\":{"
                } else {
                    b"\"args\":{"
                },
                out,
            );
            first = false;
            escape::json(field.name.as_bytes(), out);
            out.push(b':');
            escape::json_hex(&bytes, out);
        }
        key(if first { b"}" } else { b"}}" }, out);
    }
}

#[inline]
fn cpu(cpu: u32, out: &mut Vec<u8>) {
    match cpu {
        NO_CPU => key(b"null", out),
        cpu => decimal(cpu, out),
    }
}

#[inline]
fn key(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
}

impl Encode for Json {
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>) {
        let probes = header.probes.iter().map(|p| ProbeLine {
            name: &p.schema.name,
            spec: &p.schema.spec,
            attached: p.attached,
            fields: (p.schema.fields.iter())
                .map(|f| FieldLine { name: &f.name, type_name: &f.type_name, kind: kind_name(f.kind) })
                .collect(),
        });
        let line = HeaderLine {
            kind: "header",
            schema: "tracer/1",
            version: env!("CARGO_PKG_VERSION"),
            host: header.host,
            release: header.release,
            boot_id: header.boot_id,
            clock: ClockLine { monotonic: header.clock.monotonic, realtime: header.clock.realtime },
            probes: probes.collect(),
        };
        self.line(&line, out);
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let wire = &event.wire;
        key(b"{\"type\":\"event\",\"cpu\":", out);
        cpu(event.cpu, out);
        key(b",\"time\":", out);
        self.optional(event.time, out);
        key(b",\"seq\":", out);
        decimal(wire.seq, out);
        if wire.level != 0 {
            key(b",\"level\":", out);
            decimal(wire.level, out);
        }
        key(b",\"event\":", out);
        escape::json(event.schema.name.as_bytes(), out);
        let mut exact = self.task(event, out);
        key(b",\"args\":{", out);
        let mut faulty = false;
        for (i, (field, value)) in event.fields().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            escape::json(field.name.as_bytes(), out);
            out.push(b':');
            exact &= self.value(&value, field.kind.integer_size() == 8, out);
            faulty |= matches!(value, Value::Fault);
        }
        out.push(b'}');
        if faulty {
            Json::faults(event, out);
        }
        if !exact {
            Json::exact_bytes(event, out);
        }
        key(b"}\n", out);
    }

    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        key(b"{\"type\":\"gap\",\"cpu\":", out);
        cpu(gap.cpu, out);
        key(b",\"cause\":\"", out);
        key(gap.cause.name().as_bytes(), out);
        key(b"\",\"count\":", out);
        self.optional(gap.count, out);
        key(b",\"seq\":", out);
        match gap.seq {
            Some((first, last)) => {
                out.push(b'[');
                decimal(first, out);
                out.push(b',');
                decimal(last, out);
                out.push(b']');
            }
            None => key(b"null", out),
        }
        if let Some(level @ 1..) = gap.level {
            key(b",\"level\":", out);
            decimal(level, out);
        }
        key(b",\"after\":", out);
        self.optional(gap.after, out);
        key(b",\"before\":", out);
        self.optional(gap.before, out);
        key(b"}\n", out);
    }

    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>) {
        match note {
            Note::Error(message) => self.line(&MessageLine { kind: "error", message }, out),
            Note::Probe(message) => self.line(&MessageLine { kind: "probe", message }, out),
            Note::Stats(report) => self.line(&StatsLine { kind: "stats", report }, out),
        }
    }

    fn footer(&mut self, report: &Report, out: &mut Vec<u8>) {
        let line = FooterLine {
            kind: "footer",
            balanced: report.balanced(),
            events: report.events(),
            missing: report.missing(),
            report,
        };
        self.line(&line, out);
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unsigned(1) => "u8",
        Kind::Unsigned(2) => "u16",
        Kind::Unsigned(4) => "u32",
        Kind::Unsigned(_) => "u64",
        Kind::Signed(1) => "s8",
        Kind::Signed(2) => "s16",
        Kind::Signed(4) => "s32",
        Kind::Signed(_) => "s64",
        Kind::Bool => "bool",
        Kind::Pointer => "pointer",
        Kind::Hex(1) => "x8",
        Kind::Hex(2) => "x16",
        Kind::Hex(4) => "x32",
        Kind::Hex(_) => "x64",
        Kind::BigEndian(2) => "be16",
        Kind::BigEndian(4) => "be32",
        Kind::BigEndian(_) => "be64",
        Kind::Text | Kind::Chars(_) => "string",
        Kind::Bytes | Kind::Inline(_) | Kind::Rest => "bytes",
        Kind::Bits { signed: false, .. } => kind_name(Kind::Unsigned(kind.integer_size() as u8)),
        Kind::Bits { signed: true, .. } => kind_name(Kind::Signed(kind.integer_size() as u8)),
    }
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    schema: &'a str,
    version: &'a str,
    host: &'a str,
    release: &'a str,
    boot_id: &'a str,
    clock: ClockLine,
    probes: Vec<ProbeLine<'a>>,
}

#[derive(Serialize)]
struct ClockLine {
    monotonic: u64,
    realtime: u64,
}

#[derive(Serialize)]
struct ProbeLine<'a> {
    name: &'a str,
    spec: &'a str,
    attached: &'a str,
    fields: Vec<FieldLine<'a>>,
}

#[derive(Serialize)]
struct FieldLine<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct MessageLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct StatsLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

#[derive(Serialize)]
struct FooterLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    balanced: bool,
    events: u64,
    missing: u64,
    #[serde(flatten)]
    report: &'a Report,
}

/// The same rules for what serde writes as for what is written by hand above.
struct Form {
    int_strings: bool,
}

impl Formatter for Form {
    fn write_u64<W: ?Sized + Write>(&mut self, to: &mut W, n: u64) -> io::Result<()> {
        if self.int_strings { write!(to, "\"{n}\"") } else { write!(to, "{n}") }
    }

    fn write_i64<W: ?Sized + Write>(&mut self, to: &mut W, n: i64) -> io::Result<()> {
        if self.int_strings { write!(to, "\"{n}\"") } else { write!(to, "{n}") }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, text: &str) -> io::Result<()> {
        // Quotes, backslashes and C0 come by another way; what is left is what a terminal might act on.
        let mut escaped = Vec::with_capacity(text.len());
        escape::json_fragment(text, &mut escaped);
        to.write_all(&escaped)
    }
}

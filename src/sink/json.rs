//! NDJSON, schema `tracer/1`: one object a line, each with a `type`.
//!
//! | type | keys |
//! |---|---|
//! | `header`, first | `schema`, `version`, `host`, `release`, `boot_id`, `clock` {`monotonic`, `realtime`}, `probes` [{`name`, `spec`, `attached`, `fields` [{`name`, `type`, `kind`, `show` where it is not plain}]}] |
//! | `event` | `cpu`, `time`, `seq`, `level` where it is not 0, `event`, `pid`, `tid`, `uid`, `cgroup`, `comm`, `args`, `faults` where a field could not be read, `shown` where a number has a name, `bytes` where a string is not exact |
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
//! Numbers stay numbers: what people see of them, a name, bits, a time, stands in `shown` under the field's own
//! name, for example `"args":{"ret":-2,"mode":420},"shown":{"ret":"-ENOENT","mode":"0644"}`; a value that has no
//! other form has no entry there. Addresses of the network, of sockets and times with seconds of their own are
//! strings in `args` itself, arrays of integers are arrays. Stacks are arrays of frames, innermost first:
//! `addr`, and where known `symbol`, `offset` (in the symbol, else in the file), `module`, `build_id`, `file`,
//! `line`, and `inlined` [{`symbol`, `file`, `line`}], each called by the one before it.
//!
//! **Invariants.** Keys and their meaning never change within a schema version; new ones may come. Every line
//! is valid UTF-8 and valid JSON, whatever the names are.

use serde::Serialize;

mod keys;

pub use keys::Keys;

use super::{
    Encode, Header, Note, escape,
    frames::{self, Namer},
    labels::{Labelled, Labels},
    lines::{
        ClockLine, FieldLine, FooterLine, Form, HeaderLine, MessageLine, ProbeLine, StatsLine, kind_name,
    },
    number::decimal,
    shown::{array, is_name, replaces, shown, symbol},
};
use crate::{
    event::{Carries, Event, Gap, NO_CPU},
    ledger::Report,
    schema::{Field, Schema, Show, Value},
    symbol::Symbols,
};

/// How objects are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Integers of 64 bits as decimal strings (`--json-int string`): for readers that keep numbers as doubles.
    pub int_strings: bool,
}

/// The NDJSON form.
#[derive(Debug, Default)]
pub struct Json {
    options: Options,
    namer: Namer,
    only: Option<Keys>,
    labels: Labels,
    /// Those of an event whose probe the header did not tell of.
    other: Labelled,
}

impl Json {
    /// Lines as the options say.
    pub fn new(options: Options) -> Json {
        Json { options, ..Json::default() }
    }

    /// The same with addresses named by `symbols`.
    pub fn with_symbols(self, symbols: Symbols) -> Json {
        Json { namer: Namer::new(symbols), ..self }
    }

    /// The same with no more of events than these keys.
    pub fn only(self, keys: Keys) -> Json {
        Json { only: Some(keys), ..self }
    }

    fn line(&self, line: &impl Serialize, out: &mut Vec<u8>) {
        let form = Form { int_strings: self.options.int_strings };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, form);
        // Neither a vector nor these types can fail.
        let _ = line.serialize(&mut serializer);
        out.push(b'\n');
    }

    /// The names of the fields that could not be read, whose values are null.
    fn faults<'a>(fields: impl Iterator<Item = (&'a Field, Value<'a>)>, out: &mut Vec<u8>) {
        let names = fields.filter(|(_, v)| matches!(v, Value::Fault)).map(|(f, _)| &f.name);
        for (i, name) in names.enumerate() {
            key(if i == 0 { b",\"faults\":[" } else { b"," }, out);
            escape::json(name.as_bytes(), out);
        }
        out.push(b']');
    }

    /// What people see of numbers that have another form; nothing where none has.
    fn shown<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a Field, Value<'a>)>,
        tgid: u32,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        key(b",\"shown\":{", out);
        let mut none = true;
        for (field, value) in fields.filter(|(f, _)| is_name(&f.show)) {
            let before = out.len();
            key(if none { b"" } else { b"," }, out);
            escape::json(field.name.as_bytes(), out);
            out.push(b':');
            let namer = &mut self.namer;
            let fill =
                |out: &mut Vec<u8>| shown(field, &value, out) || symbol(field, &value, namer, tgid, out);
            match in_quotes(out, fill) {
                true => none = false,
                false => out.truncate(before),
            }
        }
        match none {
            true => out.truncate(start),
            false => out.push(b'}'),
        }
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

impl Options {
    #[inline]
    fn int(&self, n: impl itoa::Integer, out: &mut Vec<u8>) {
        if self.int_strings {
            out.push(b'"');
            decimal(n, out);
            out.push(b'"');
        } else {
            decimal(n, out);
        }
    }

    fn optional(&self, n: Option<u64>, out: &mut Vec<u8>) {
        match n {
            Some(n) => self.int(n, out),
            None => key(b"null", out),
        }
    }

    /// Appends a value; false where it is a string that was no UTF-8.
    pub(super) fn value(
        &self,
        field: &Field,
        value: &Value<'_>,
        namer: &mut Namer,
        tgid: u32,
        out: &mut Vec<u8>,
    ) -> bool {
        let wide = field.kind.integer_size() == 8;
        match (value, &field.show) {
            (Value::Bytes(bytes), &Show::Array { width, signed }) => {
                array(bytes, width, signed, self.int_strings && width == 8, out);
                return true;
            }
            (_, show) if replaces(show) && in_quotes(out, |out| shown(field, value, out)) => return true,
            _ => {}
        }
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
            Value::Stack(stack) => frames::json(namer.stack(&stack, tgid), out),
            Value::Fault => key(b"null", out),
        }
        true
    }

    /// Whose event it is; false where the name was no UTF-8.
    fn task(&self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
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
            key(b",\"uid\":null,\"cgroup\":null,\"comm\":", out);
            if wire.carries == Carries::Task {
                return escape::json(wire.comm(), out);
            }
            key(b"null", out);
            return true;
        }
        key(b",\"uid\":", out);
        decimal(wire.uid, out);
        key(b",\"cgroup\":", out);
        self.int(wire.cgroup, out);
        key(b",\"comm\":", out);
        escape::json(wire.comm(), out)
    }
}

/// `,"event":"name"`, and of each field `"name":`, from the second on behind a comma.
fn labelled(schema: &Schema) -> Labelled {
    let event = |name: &[u8], out: &mut Vec<u8>| {
        key(b",\"event\":", out);
        escape::json(name, out);
    };
    Labelled::new(schema, event, |i, name, out| {
        key(if i > 0 { b"," } else { b"" }, out);
        escape::json(name, out);
        out.push(b':');
    })
}

/// Appends what `fill` does as a JSON string. False, and nothing appended, where it does nothing.
fn in_quotes(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let start = out.len();
    out.push(b'"');
    if !fill(out) {
        out.truncate(start);
        return false;
    }
    if out[start + 1..].iter().any(|b| !matches!(b, b' '..=b'~') || matches!(b, b'"' | b'\\')) {
        let text = out.split_off(start);
        escape::json(&text[1..], out);
    } else {
        out.push(b'"');
    }
    true
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
                .map(|f| FieldLine {
                    name: &f.name,
                    type_name: &f.type_name,
                    kind: kind_name(f),
                    show: f.show.word(),
                })
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
        self.labels = Labels::new(header, labelled);
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.only.is_some() {
            return keys::event(self, event, out);
        }
        let wire = &event.wire;
        key(b"{\"type\":\"event\",\"cpu\":", out);
        cpu(event.cpu, out);
        key(b",\"time\":", out);
        self.options.optional(event.time, out);
        key(b",\"seq\":", out);
        decimal(wire.seq, out);
        if wire.level != 0 {
            key(b",\"level\":", out);
            decimal(wire.level, out);
        }
        if event.late {
            key(b",\"late\":true", out);
        }
        if self.labels.of(event).is_none() {
            self.other = labelled(event.schema);
        }
        let Json { options, namer, labels, other, .. } = self;
        let labels = labels.of(event).unwrap_or(other);
        key(&labels.event, out);
        let mut exact = options.task(event, out);
        key(b",\"args\":{", out);
        let (mut faulty, mut named) = (false, false);
        for (field, label) in event.schema.fields.iter().zip(&labels.fields) {
            let Some(value) = event.value(field) else { continue };
            key(label, out);
            exact &= options.value(field, &value, namer, wire.tgid, out);
            faulty |= matches!(value, Value::Fault);
            named |= is_name(&field.show);
        }
        out.push(b'}');
        if faulty {
            Json::faults(event.fields(), out);
        }
        if named {
            self.shown(event.fields(), wire.tgid, out);
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
        self.options.optional(gap.count, out);
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
        self.options.optional(gap.after, out);
        key(b",\"before\":", out);
        self.options.optional(gap.before, out);
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

    fn arm(&self) -> Option<Box<dyn Encode>> {
        let (namer, only, labels) = (self.namer.arm()?, self.only.clone(), self.labels.clone());
        Some(Box::new(Json { options: self.options, namer, only, labels, other: Labelled::default() }))
    }
}

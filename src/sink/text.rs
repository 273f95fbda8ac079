//! The text form: one line an event, in the columns of `perf script`.
//!
//! ```text
//!             dd    1234/1234    [001]   2083.123456789: write: fd=1 buf=0x7ffd5c8a count=512
//! -- lost 13 events on cpu 1 (seq 101..113) between 2083.123456789 and 2083.223456789 --
//! ```
//!
//! The frames of a stack stand beneath its event, innermost first, each on a line that begins with a tab.
//!
//! What a foreign program's event does not carry is `-`. Every line that is no event begins with `-- ` and a word: the cause of a gap (`lost`, `failed`,
//! `overwritten`, `corrupt`, `dropped`), or `error:`, `probe:`, `stats:`, `end:`. No event line begins so.
//! Strings are escaped as [`escape`] says: no control character ever comes out.

use std::io::Write;

use anstyle::{AnsiColor, Style};

pub use super::column::Column;
use super::{
    Encode, Header, Note, TimeFormat, escape,
    frames::{Namer, lines},
    labels::{Labelled, Labels},
    number::{decimal, fill_up, padded},
    shown::{shown, symbol},
    when::Stamp,
};
use crate::{
    event::{Carries, Event, Gap, NO_CPU},
    ledger::Report,
    schema::{Field, Schema, Show, Value},
    symbol::Symbols,
};

/// How lines look.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time column.
    pub time: TimeFormat,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Escape codes for colour: only where the output is a terminal that wants them.
    pub color: bool,
}

impl Default for Options {
    /// The columns of `perf script`, times of CLOCK_MONOTONIC, no colour.
    fn default() -> Options {
        use Column::{Args, Comm, Cpu, Name, Pid, Tid, Time};
        let columns = vec![Comm, Pid, Tid, Cpu, Time, Name, Args];
        Options { time: TimeFormat::default(), columns, color: false }
    }
}

/// The text form.
#[derive(Debug)]
pub struct Text {
    columns: Vec<Column>,
    stamp: Stamp,
    name: Style,
    mark: Style,
    namer: Namer,
    labels: Labels,
    /// Those of an event whose probe the header did not tell of.
    other: Labelled,
}

impl Text {
    /// Lines as the options say.
    pub fn new(options: Options) -> Text {
        let style = |s: Style| if options.color { s } else { Style::new() };
        let stamp = Stamp::new(options.time);
        let mut columns = options.columns;
        columns.retain(|c| *c != Column::Time || !stamp.hidden());
        Text {
            columns,
            stamp,
            name: style(AnsiColor::Cyan.on_default()),
            mark: style(AnsiColor::Red.on_default().bold()),
            namer: Namer::default(),
            labels: Labels::default(),
            other: Labelled::default(),
        }
    }

    /// `name:`, and of each field ` name=`.
    fn labelled(&self, schema: &Schema) -> Labelled {
        let event = |name: &[u8], out: &mut Vec<u8>| {
            styled(self.name, out, |out| escape::text(name, out));
            out.push(b':');
        };
        Labelled::new(schema, event, |_, name, out| {
            out.push(b' ');
            label(name, out);
        })
    }

    /// The same with addresses named by `symbols`.
    pub fn with_symbols(self, symbols: Symbols) -> Text {
        Text { namer: Namer::new(symbols), ..self }
    }

    /// The same for a thread of its own.
    pub(super) fn another(&self) -> Option<Text> {
        let (columns, stamp, namer) = (self.columns.clone(), self.stamp.arm()?, self.namer.arm()?);
        let (labels, other) = (self.labels.clone(), Labelled::default());
        Some(Text { columns, stamp, name: self.name, mark: self.mark, namer, labels, other })
    }

    /// A line that is no event.
    fn marked(&mut self, out: &mut Vec<u8>, fill: impl FnOnce(&mut Stamp, &mut Vec<u8>)) {
        let _ = write!(out, "{}-- ", self.mark);
        fill(&mut self.stamp, out);
        let _ = writeln!(out, " --{:#}", self.mark);
    }
}

impl Encode for Text {
    fn header(&mut self, header: &Header<'_>, _: &mut Vec<u8>) {
        self.stamp.anchor(header.clock);
        self.labels = Labels::new(header, |schema| self.labelled(schema));
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.labels.of(event).is_none() {
            self.other = self.labelled(event.schema);
        }
        let Text { columns, stamp, namer, labels, other, .. } = self;
        let labels = labels.of(event).unwrap_or(other);
        let (ids, all) = (event.wire.carries != Carries::Nothing, event.wire.carries == Carries::All);
        let (start, tgid) = (out.len(), event.wire.tgid);
        let (mut skip, mut beneath) = (false, false);
        for (i, column) in columns.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            let before = out.len();
            if before != start {
                out.push(b' ');
            }
            let empty = out.len();
            match column {
                Column::Time => {
                    stamp.event(event.time, out);
                    out.push(b':');
                }
                Column::Comm if !all => comm(b"-", out),
                Column::Comm => comm(event.wire.comm(), out),
                Column::Pid if columns.get(i + 1) == Some(&Column::Tid) => {
                    skip = true;
                    if !ids {
                        out.extend_from_slice(b"      -/-      ");
                        continue;
                    }
                    padded(event.wire.tgid, 7, b' ', out);
                    out.push(b'/');
                    let at = out.len();
                    decimal(event.wire.pid, out);
                    fill_up((at + 7).saturating_sub(out.len()), b' ', out);
                }
                Column::Pid | Column::Tid if !ids => out.extend_from_slice(b"      -"),
                Column::Pid => padded(event.wire.tgid, 7, b' ', out),
                Column::Tid => padded(event.wire.pid, 7, b' ', out),
                Column::Cpu if event.cpu == NO_CPU => out.extend_from_slice(b"[  -]"),
                Column::Cpu => {
                    out.push(b'[');
                    padded(event.cpu, 3, b'0', out);
                    out.push(b']');
                }
                Column::Uid if !all => out.extend_from_slice(b"uid=-"),
                Column::Cgroup if !all => out.extend_from_slice(b"cgroup=-"),
                Column::Uid => labelled(b"uid=", event.wire.uid, out),
                Column::Cgroup => labelled(b"cgroup=", event.wire.cgroup, out),
                Column::Seq => {
                    labelled(b"seq=", event.wire.seq, out);
                    if event.wire.level != 0 {
                        labelled(b".", event.wire.level, out);
                    }
                }
                Column::Name => out.extend_from_slice(&labels.event),
                Column::Args => {
                    for (field, label) in event.schema.fields.iter().zip(&labels.fields) {
                        let Some(v) = event.value(field) else { continue };
                        if is_beneath(&v) {
                            beneath = true;
                            continue;
                        }
                        // The first has the column's own blank before it.
                        out.extend_from_slice(&label[usize::from(out.len() == empty)..]);
                        plain_value(field, v, namer, tgid, out);
                    }
                }
                Column::Field(wanted) => {
                    if let Some((field, v)) = event.fields().find(|(f, _)| f.name == *wanted) {
                        beneath |= value(field, v, namer, tgid, out);
                    }
                }
            }
            if out.len() == empty {
                out.truncate(before);
            }
        }
        if event.late {
            out.extend_from_slice(b" (late)");
        }
        out.push(b'\n');
        if beneath {
            lines(event, namer, out);
        }
    }

    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        self.marked(out, |stamp, out| {
            let _ = match gap.count {
                Some(1) => write!(out, "{} 1 event", gap.cause.name()),
                Some(n) => write!(out, "{} {n} events", gap.cause.name()),
                None => write!(out, "{} an unknown number of events", gap.cause.name()),
            };
            let _ = match gap.cpu {
                NO_CPU => write!(out, " of a BPF ringbuf"),
                cpu => write!(out, " on cpu {cpu}"),
            };
            if let Some((first, last)) = gap.seq {
                let _ = match gap.level {
                    Some(level @ 1..) => write!(out, " (seq {first}..{last} of level {level})"),
                    _ => write!(out, " (seq {first}..{last})"),
                };
            }
            if stamp.hidden() || gap.after.is_none() && gap.before.is_none() {
                return;
            }
            let mut time = |word: &str, time, out: &mut Vec<u8>| {
                out.extend_from_slice(word.as_bytes());
                let at = out.len();
                stamp.moment(time, out);
                let pad = out[at..].iter().take_while(|b| **b == b' ').count();
                out.drain(at..at + pad);
            };
            match (gap.after, gap.before) {
                (Some(_), None) => time(" after ", gap.after, out),
                (None, _) => time(" before ", gap.before, out),
                _ => {
                    time(" between ", gap.after, out);
                    time(" and ", gap.before, out);
                }
            }
        });
    }

    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>) {
        self.marked(out, |_, out| match note {
            Note::Error(message) => said("error: ", message, out),
            Note::Probe(message) => said("probe: ", message, out),
            Note::Stats(report) => {
                let _ = write!(out, "stats: {} events, {} missing", report.events(), report.missing());
            }
        });
    }

    fn footer(&mut self, report: &Report, out: &mut Vec<u8>) {
        self.marked(out, |_, out| {
            let (events, missing) = (report.events(), report.missing());
            let balanced = if report.balanced() { "yes" } else { "no" };
            let _ = write!(out, "end: {events} events, {missing} missing, balanced: {balanced}");
        });
    }

    fn arm(&self) -> Option<Box<dyn Encode>> {
        Some(Box::new(self.another()?))
    }
}

fn said(word: &str, message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(word.as_bytes());
    escape::text(message.as_bytes(), out);
}

/// Right-aligned in a column of 16 that is never quite full, so that no line begins with a name.
fn comm(name: &[u8], out: &mut Vec<u8>) {
    let mut cell = [b' '; 16];
    if let Some(at) = (1..16).contains(&name.len()).then(|| 16 - name.len())
        && escape::is_plain(name, b'\\')
    {
        cell[at..].copy_from_slice(name);
        return out.extend_from_slice(&cell);
    }
    let at = out.len();
    out.extend_from_slice(&cell);
    escape::text(name, out);
    // Bytes that begin a character.
    let width = out[at + 16..].iter().filter(|b| **b & 0xc0 != 0x80).count();
    let spare = width.min(15);
    out.copy_within(at + spare.., at);
    out.truncate(out.len() - spare);
}

fn labelled(label: &[u8], n: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(label);
    decimal(n, out);
}

fn styled(style: Style, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    if style == Style::new() {
        return fill(out);
    }
    let _ = write!(out, "{style}");
    fill(out);
    let _ = write!(out, "{style:#}");
}

/// Whether it stands in lines of its own beneath the event's.
fn is_beneath(value: &Value<'_>) -> bool {
    matches!(value, Value::Stack(stack) if !stack.is_empty())
}

/// Appends `name=`.
fn label(name: &[u8], out: &mut Vec<u8>) {
    escape::text(name, out);
    out.push(b'=');
}

/// Appends `name=value`. True of a stack, which stands beneath the line, and nothing appended.
pub(super) fn value(
    field: &Field,
    value: Value<'_>,
    namer: &mut Namer,
    tgid: u32,
    out: &mut Vec<u8>,
) -> bool {
    if is_beneath(&value) {
        return true;
    }
    label(field.name.as_bytes(), out);
    plain_value(field, value, namer, tgid, out);
    false
}

#[inline]
fn plain_value(field: &Field, value: Value<'_>, namer: &mut Namer, tgid: u32, out: &mut Vec<u8>) {
    if !matches!(field.show, Show::Plain)
        && (shown(field, &value, out) || symbol(field, &value, namer, tgid, out))
    {
        return;
    }
    match value {
        Value::Unsigned(n) => decimal(n, out),
        Value::Signed(n) => decimal(n, out),
        Value::Bool(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
        Value::Pointer(p) => escape::address(p, out),
        Value::Text(bytes) => quoted(&bytes.to_contiguous(), out),
        Value::Bytes(bytes) => bytes.bytes().for_each(|b| escape::hex_byte(b, out)),
        Value::Stack(_) => out.extend_from_slice(b"[]"),
        Value::Fault => out.extend_from_slice(b"<fault>"),
    }
}

/// A string between quotation marks, those within it as `\\"`.
fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if escape::is_plain(bytes, b'"') {
        out.extend_from_slice(bytes);
        return out.push(b'"');
    }
    for (i, part) in bytes.split(|&b| b == b'"').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\\\"");
        }
        escape::text(part, out);
    }
    out.push(b'"');
}

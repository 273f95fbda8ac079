//! The lines of the NDJSON form that serde writes: the header, notes, the ledger.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::{escape, shown::replaces};
use crate::{
    ledger::Report,
    schema::{Field, Kind, Show},
};

/// The word for how a field's value stands in a line.
pub(super) fn kind_name(field: &Field) -> &'static str {
    match (field.kind, &field.show) {
        (_, Show::Array { .. }) => return "array",
        (kind, Show::Hex) => return ["x8", "x16", "x32", "x64"][kind.size().min(8).ilog2() as usize],
        (_, show) if replaces(show) => return "string",
        _ => {}
    }
    match field.kind {
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
        Kind::Stack { user: false } => "kstack",
        Kind::Stack { user: true } => "ustack",
        Kind::BigEndian(2) => "be16",
        Kind::BigEndian(4) => "be32",
        Kind::BigEndian(_) => "be64",
        Kind::Text | Kind::Chars(_) => "string",
        Kind::Bytes | Kind::Inline(_) | Kind::Rest => "bytes",
        Kind::Bits { signed, .. } => ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"]
            [4 * usize::from(signed) + field.kind.integer_size().ilog2() as usize],
    }
}

#[derive(Serialize)]
pub(super) struct HeaderLine<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub schema: &'a str,
    pub version: &'a str,
    pub host: &'a str,
    pub release: &'a str,
    pub boot_id: &'a str,
    pub clock: ClockLine,
    pub probes: Vec<ProbeLine<'a>>,
}

#[derive(Serialize)]
pub(super) struct ClockLine {
    pub monotonic: u64,
    pub realtime: u64,
}

#[derive(Serialize)]
pub(super) struct ProbeLine<'a> {
    pub name: &'a str,
    pub spec: &'a str,
    pub attached: &'a str,
    pub fields: Vec<FieldLine<'a>>,
}

#[derive(Serialize)]
pub(super) struct FieldLine<'a> {
    pub name: &'a str,
    #[serde(rename = "type")]
    pub type_name: &'a str,
    pub kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct MessageLine<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub message: &'a str,
}

#[derive(Serialize)]
pub(super) struct StatsLine<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    #[serde(flatten)]
    pub report: &'a Report,
}

#[derive(Serialize)]
pub(super) struct FooterLine<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub balanced: bool,
    pub events: u64,
    pub missing: u64,
    #[serde(flatten)]
    pub report: &'a Report,
}

/// The same rules for what serde writes as for what is written by hand above.
pub(super) struct Form {
    pub int_strings: bool,
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

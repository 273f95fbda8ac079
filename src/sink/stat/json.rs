//! Counts as NDJSON: an object for each probe and key, and the ledger at the end.

use serde::Serialize;

use super::{Span, bytes, process, value};
use crate::{
    ledger::Report,
    schema::tally::{Counted, Key, Tally},
    sink::{escape, frames::Namer, json, number::decimal},
    symbol::Symbols,
};

/// Writes counts as NDJSON.
pub struct Json {
    namer: Namer,
    histograms: bool,
}

#[derive(Serialize)]
struct Footer<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    balanced: bool,
    missing: u64,
    #[serde(flatten)]
    report: &'a Report,
}

impl Json {
    /// With histograms or without, stacks named by `symbols`.
    pub fn new(histograms: bool, symbols: Symbols) -> Json {
        Json { namer: Namer::new(symbols), histograms }
    }

    /// Appends a line for each key of each probe; of a probe that counted nothing, one without a key.
    pub fn counted(&mut self, all: &[Counted], span: Span, out: &mut Vec<u8>) {
        for counted in all {
            if counted.groups.is_empty() {
                self.line(counted, None, &Tally::default(), span, out);
            }
            for (key, tally) in counted.most_first() {
                self.line(counted, Some(key), tally, span, out);
            }
        }
    }

    fn line(&mut self, counted: &Counted, key: Option<&Key>, tally: &Tally, span: Span, out: &mut Vec<u8>) {
        put(if span.whole { "{\"type\":\"stat\"" } else { "{\"type\":\"interval\"" }, out);
        put(",\"elapsed\":", out);
        decimal(span.end, out);
        put(",\"length\":", out);
        decimal(span.length, out);
        put(",\"spec\":", out);
        escape::json(counted.spec.as_bytes(), out);
        if let (Some(field), Some(key)) = (&counted.kept.by, key) {
            put(",\"by\":", out);
            escape::json(field.name.as_bytes(), out);
            put(",\"key\":", out);
            let bytes = bytes(key);
            let of = value(field, key, &bytes);
            let exact = json::Options::default().value(field, &of, &mut self.namer, process(key), out);
            if !exact {
                put(",\"bytes\":", out);
                escape::json_hex(&bytes, out);
            }
            if let Key::Unknown(missing) = key {
                put(",\"unknown\":", out);
                escape::json(missing.word().as_bytes(), out);
            }
        }
        put(",\"count\":", out);
        decimal(tally.count, out);
        put(&format!(",\"rate\":{:.1}", span.rate(tally.count)), out);
        self.values(counted, tally, span, out);
        put("}\n", out);
    }

    /// What is known of the values.
    fn values(&self, counted: &Counted, tally: &Tally, span: Span, out: &mut Vec<u8>) {
        let Some(field) = &counted.kept.of else { return };
        let mut amount = |name: &str, n: u64| {
            put(name, out);
            match counted.kept.signed() {
                true => decimal(n as i64, out),
                false => decimal(n, out),
            }
        };
        amount(",\"sum\":", tally.sum);
        if span.whole && tally.valued > 0 {
            amount(",\"min\":", tally.min);
            amount(",\"max\":", tally.max);
        }
        put(",\"of\":", out);
        escape::json(field.name.as_bytes(), out);
        put(",\"values\":", out);
        decimal(tally.valued, out);
        if !self.histograms {
            return;
        }
        put(",\"histogram\":[", out);
        let used = tally.histogram.iter().enumerate().filter(|(_, n)| **n > 0);
        for (i, (bucket, n)) in used.enumerate() {
            let (from, to) = Tally::range(bucket);
            put(if i > 0 { ",{\"from\":" } else { "{\"from\":" }, out);
            bound(from, out);
            put(",\"to\":", out);
            bound(to, out);
            put(",\"count\":", out);
            decimal(*n, out);
            put("}", out);
        }
        put("]", out);
    }

    /// Appends the last line: the ledger.
    pub fn footer(&self, report: &Report, out: &mut Vec<u8>) {
        let line = Footer { kind: "footer", balanced: report.balanced(), missing: report.missing(), report };
        // Neither a vector nor these types can fail.
        let _ = serde_json::to_writer(&mut *out, &line);
        out.push(b'\n');
    }
}

fn bound(n: Option<u64>, out: &mut Vec<u8>) {
    match n {
        Some(n) => decimal(n, out),
        None => put("null", out),
    }
}

fn put(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
}

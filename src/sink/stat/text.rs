//! Counts as people read them.
//!
//! ```text
//! s:write by comm: 150 in 1.002 s (149.7/s)
//! comm="dd": 100 (99.8/s); lat 120us in all, 1.20us on average, 800ns to 9.30us
//! [512ns, 1.02us)          42 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@               |
//! [1.02us, 2.05us)         58 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
//! ```

use std::io::Write as _;

use super::{Span, bytes, histogram, process, value};
use crate::{
    schema::{
        Value,
        tally::{Counted, Kept, Key, Tally},
    },
    sink::{
        escape,
        frames::{self, Namer},
        text,
    },
    symbol::Symbols,
};

/// Writes counts as text.
#[derive(Debug, Default)]
pub struct Text {
    namer: Namer,
    histograms: bool,
}

impl Text {
    /// With histograms or without, stacks named by `symbols`.
    pub fn new(histograms: bool, symbols: Symbols) -> Text {
        Text { namer: Namer::new(symbols), histograms }
    }

    /// Appends what each probe has counted. Those of which nothing fired are told together, in one line.
    pub fn counted(&mut self, all: &[Counted], span: Span, out: &mut Vec<u8>) {
        let silent = all.iter().filter(|counted| counted.groups.is_empty()).count();
        for counted in all.iter().filter(|counted| !counted.groups.is_empty() || all.len() == 1) {
            self.probe(counted, span, out);
        }
        if silent > 0 && all.len() > 1 {
            let _ = writeln!(out, "{silent} of {} probes counted nothing", all.len());
        }
    }

    fn probe(&mut self, counted: &Counted, span: Span, out: &mut Vec<u8>) {
        let Counted { spec, kept, .. } = counted;
        escape::text(spec.as_bytes(), out);
        if let Some(by) = &kept.by {
            out.extend_from_slice(b" by ");
            escape::text(by.name.as_bytes(), out);
        }
        let count = counted.count();
        let seconds = span.length as f64 / 1e9;
        let _ = write!(out, ": {count} in {seconds:.3} s ({})", rate(span.rate(count)));
        if !span.whole {
            let _ = write!(out, " up to {:.3} s", span.end as f64 / 1e9);
        }
        if kept.by.is_some() {
            out.push(b'\n');
        }
        for (key, tally) in counted.most_first() {
            if self.key(kept, key, out) {
                let _ = write!(out, ": {} ({})", tally.count, rate(span.rate(tally.count)));
            }
            amounts(kept, tally, span, out);
            out.push(b'\n');
            let bytes = bytes(key);
            if let Some(Value::Stack(stack)) = kept.by.as_ref().map(|by| value(by, key, &bytes)) {
                frames::stack_lines(&stack, process(key), &mut self.namer, out);
            }
            if self.histograms {
                histogram::draw(tally, kept.time, out);
            }
        }
        if kept.by.is_none() && counted.groups.is_empty() {
            out.push(b'\n');
        }
    }

    /// Appends a key as `name=value`; false, and nothing appended, where there is none.
    fn key(&mut self, kept: &Kept, key: &Key, out: &mut Vec<u8>) -> bool {
        let Some(field) = &kept.by else { return false };
        let bytes = bytes(key);
        match (key, value(field, key, &bytes)) {
            (Key::Unknown(missing), _) => {
                escape::text(field.name.as_bytes(), out);
                let _ = write!(out, "=<{}>", missing.word());
            }
            // Its frames stand in lines of their own.
            (_, Value::Stack(stack)) if !stack.is_empty() => escape::text(field.name.as_bytes(), out),
            (_, value) => _ = text::value(field, value, &mut self.namer, process(key), out),
        }
        true
    }
}

/// Appends sum, average and bounds of the values.
fn amounts(kept: &Kept, tally: &Tally, span: Span, out: &mut Vec<u8>) {
    let Some(field) = &kept.of else { return };
    out.extend_from_slice(b"; ");
    escape::text(field.name.as_bytes(), out);
    let float = |n: u64| if kept.signed() { n as i64 as f64 } else { n as f64 };
    let exact = |n: u64| match (kept.time, kept.signed()) {
        (true, _) => histogram::time(float(n)),
        (_, true) => (n as i64).to_string(),
        _ => n.to_string(),
    };
    if tally.valued > 0 {
        let average = float(tally.sum) / tally.valued as f64;
        let average = if kept.time { histogram::time(average) } else { format!("{average:.1}") };
        let _ = write!(out, " {} in all, {average} on average", exact(tally.sum));
        // Bounds are those of the whole run.
        if span.whole {
            let _ = write!(out, ", {} to {}", exact(tally.min), exact(tally.max));
        }
    }
    if tally.valued < tally.count {
        let _ = write!(out, " (not read: {})", tally.count - tally.valued);
    }
}

fn rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}/s") } else { format!("{rate:.0}/s") }
}

//! Samples as lines, in the columns and widths of `perf script`.

use std::io::Write as _;

use tracer::sink::{Encode as _, text};

use super::{
    Sampled, chain,
    columns::{Column, Columns},
    escape::{escape, escape_behind},
};

/// The text form.
pub struct Text {
    columns: Columns,
    /// The same for events with call chains.
    chained: Columns,
    /// What the last line began with, up to the second's fraction, and of what: most begin as the one before.
    begin: Vec<u8>,
    of: Option<Beginning>,
    comm: Vec<u8>,
    /// What shows the fields that are asked for.
    fields: text::Text,
    scratch: Vec<u8>,
}

/// What a line's beginning shows, apart from the task's name.
#[derive(PartialEq, Eq)]
struct Beginning {
    tgid: Option<u32>,
    pid: Option<u32>,
    cpu: Option<u32>,
    seconds: Option<u64>,
    chained: bool,
}

impl Text {
    /// Lines of these columns; `fields` shows those of events.
    pub fn new(columns: Columns, fields: text::Text) -> Text {
        let chained = columns.with_chains();
        Text { chained, columns, begin: Vec::new(), of: None, comm: Vec::new(), fields, scratch: Vec::new() }
    }

    /// Appends the line of a sample, and one for each frame of its call chain. What its event does not carry is left
    /// out. False where its raw bytes are too few for the fields that are asked for.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) -> bool {
        let sample = sampled.sample;
        let has_chain = sampled.event.has_chain();
        let columns = if has_chain { &self.chained } else { &self.columns };
        // Beneath the line, where the addresses of the chain are.
        let chained = has_chain && columns.has(Column::Ip);
        let time = sample.time.filter(|_| columns.has(Column::Time));
        let (seconds, nanos) = match time {
            Some(time) => (Some(time / 1_000_000_000), (time % 1_000_000_000) as u32),
            None => (None, 0),
        };
        let of = Beginning { tgid: sample.tgid, pid: sample.pid, cpu: sample.cpu, seconds, chained };
        if self.of.as_ref() != Some(&of) || self.comm != sampled.comm {
            self.begin(&of, sampled.comm);
            self.of = Some(of);
        }
        let columns = if has_chain { &self.chained } else { &self.columns };
        out.extend_from_slice(&self.begin);
        if time.is_some() {
            out.extend_from_slice(&fraction(nanos));
        }
        if columns.has(Column::Period) {
            number(sample.period.unwrap_or(sampled.event.attr.period), 10, b' ', out);
            out.push(b' ');
        }
        if columns.has(Column::Event) {
            out.extend_from_slice(&sampled.event.column);
        }
        let mut whole = true;
        if columns.has(Column::Fields) {
            match sampled.shape().event(sampled, 0, &mut self.scratch) {
                Some(event) => {
                    self.fields.event(&event, out);
                    // The line goes on.
                    out.pop();
                }
                None => whole = false,
            }
        }
        if columns.has(Column::Trace) {
            let start = out.len();
            if columns.has(Column::Fields) {
                out.push(b' ');
            }
            sampled.trace(&mut self.scratch, out);
            escape_behind(start, out);
        }
        if let Some(addr) = sample.addr.filter(|_| columns.has(Column::Addr)) {
            let _ = write!(out, "{addr:16x}");
        }
        if columns.has(Column::Ip) {
            chain::append(sampled, columns, out);
        }
        out.push(b'\n');
        whole
    }

    #[cold]
    fn begin(&mut self, of: &Beginning, comm: &[u8]) {
        let mut out = std::mem::take(&mut self.begin);
        out.clear();
        let has = |column| self.columns.has(column);
        if has(Column::Comm) {
            right(comm, if of.chained { 0 } else { 16 }, &mut out);
            out.push(b' ');
        }
        let id = |id: Option<u32>, column| id.filter(|_| has(column)).map(|id| id as i32);
        let _ = match (id(of.tgid, Column::Pid), id(of.pid, Column::Tid)) {
            (Some(pid), Some(tid)) => write!(out, "{pid:5}/{tid:<5} "),
            (Some(id), None) | (None, Some(id)) => write!(out, "{id:5} "),
            _ => Ok(()),
        };
        if let Some(cpu) = of.cpu.filter(|_| has(Column::Cpu)) {
            let _ = write!(out, "[{:03}] ", cpu as i32);
        }
        if let Some(seconds) = of.seconds {
            number(seconds, 5, b' ', &mut out);
            out.push(b'.');
        }
        self.begin = out;
        self.comm.clear();
        self.comm.extend_from_slice(comm);
    }
}

/// The nine digits of a second's fraction, and what stands behind them.
fn fraction(nanos: u32) -> [u8; 11] {
    let mut out = *b"000000000: ";
    // Three groups of three: none of them waits for another.
    for (group, at) in [(nanos / 1_000_000, 0), (nanos / 1000 % 1000, 3), (nanos % 1000, 6)] {
        out[at] += (group / 100) as u8;
        out[at + 1] += (group / 10 % 10) as u8;
        out[at + 2] += (group % 10) as u8;
    }
    out
}

/// Appends a number, filled up on its left: what `write!` takes five times as long for.
pub fn number(mut n: u64, width: usize, fill: u8, out: &mut Vec<u8>) {
    let mut digits = [fill; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width.min(20))..]);
}

/// Appends a text, filled up with blanks on its left.
pub fn right(text: &[u8], width: usize, out: &mut Vec<u8>) {
    let end = out.len() + width.saturating_sub(text.len());
    out.resize(end, b' ');
    escape(text, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut out = Vec::new();
        for (n, width, fill) in
            [(0, 1, b' '), (7, 3, b'0'), (12345, 3, b' '), (5, 5, b' '), (u64::MAX, 2, b'0')]
        {
            number(n, width, fill, &mut out);
            out.push(b'|');
        }
        assert_eq!(String::from_utf8(out).unwrap(), "0|007|12345|    5|18446744073709551615|");
    }

    #[test]
    fn fractions() {
        for (nanos, told) in
            [(0, b"000000000: "), (999_999_999, b"999999999: "), (120_034_506, b"120034506: ")]
        {
            assert_eq!(&fraction(nanos), told);
        }
    }
}

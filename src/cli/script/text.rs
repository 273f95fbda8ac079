//! Samples as lines, in the columns and widths of `perf script`.

use std::io::Write as _;

use tracer::{Error, Result};

use super::{Sampled, escape, escape_behind};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Period,
    Event,
    Ip,
    Addr,
    Trace,
}

/// All of them, in the order in which a line has them.
const ALL: [(&str, Column); 10] = [
    ("comm", Column::Comm),
    ("pid", Column::Pid),
    ("tid", Column::Tid),
    ("cpu", Column::Cpu),
    ("time", Column::Time),
    ("period", Column::Period),
    ("event", Column::Event),
    ("addr", Column::Addr),
    ("ip", Column::Ip),
    ("trace", Column::Trace),
];

/// The columns that a list names, in the order in which a line has them; without one, those that tell most.
pub fn columns(list: &[String]) -> Result<Vec<(&'static str, Column)>> {
    let usual = ["comm", "pid", "tid", "cpu", "time", "event", "trace"];
    if let Some(other) = list.iter().find(|name| !ALL.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        return Err(Error::usage(format!("--fields: there is no column '{other}'"))
            .with_help(format!("columns: {}", known.join(", "))));
    }
    let asked =
        |name: &str| if list.is_empty() { usual.contains(&name) } else { list.iter().any(|l| l == name) };
    Ok(ALL.into_iter().filter(|(name, _)| asked(name)).collect())
}

/// The text form.
pub struct Text {
    /// A bit for each column that a line has.
    columns: u32,
    /// What the last line began with, up to the second's fraction, and of what: most begin as the one before.
    begin: Vec<u8>,
    of: Option<Beginning>,
    comm: Vec<u8>,
}

/// What a line's beginning shows, apart from the task's name.
#[derive(PartialEq, Eq)]
struct Beginning {
    tgid: Option<u32>,
    pid: Option<u32>,
    cpu: Option<u32>,
    seconds: Option<u64>,
}

impl Text {
    pub fn new(columns: Vec<(&'static str, Column)>) -> Text {
        let columns = columns.into_iter().fold(0, |all, (_, column)| all | 1 << column as u32);
        Text { columns, begin: Vec::new(), of: None, comm: Vec::new() }
    }

    #[inline]
    fn has(&self, column: Column) -> bool {
        self.columns & 1 << column as u32 != 0
    }

    /// Appends the line of a sample. What its event does not carry is left out.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) {
        let sample = sampled.sample;
        let time = sample.time.filter(|_| self.has(Column::Time));
        let (seconds, nanos) = match time {
            Some(time) => (Some(time / 1_000_000_000), (time % 1_000_000_000) as u32),
            None => (None, 0),
        };
        let of = Beginning { tgid: sample.tgid, pid: sample.pid, cpu: sample.cpu, seconds };
        if self.of.as_ref() != Some(&of) || self.comm != sampled.comm {
            self.begin(&of, sampled.comm);
            self.of = Some(of);
        }
        out.extend_from_slice(&self.begin);
        if time.is_some() {
            out.extend_from_slice(&fraction(nanos));
        }
        if self.has(Column::Period) {
            number(sample.period.unwrap_or(sampled.event.attr.period), 10, b' ', out);
            out.push(b' ');
        }
        if self.has(Column::Event) {
            out.extend_from_slice(&sampled.event.column);
        }
        if let Some(addr) = sample.addr.filter(|_| self.has(Column::Addr)) {
            let _ = write!(out, "{addr:16x} ");
        }
        if let Some(ip) = sample.ip.filter(|_| self.has(Column::Ip)) {
            let _ = write!(out, "{ip:16x} ");
        }
        if self.has(Column::Trace) {
            let start = out.len();
            sampled.trace(out);
            escape_behind(start, out);
        }
        out.push(b'\n');
    }

    #[cold]
    fn begin(&mut self, of: &Beginning, comm: &[u8]) {
        let mut out = std::mem::take(&mut self.begin);
        out.clear();
        if self.has(Column::Comm) {
            right(comm, 16, &mut out);
            out.push(b' ');
        }
        let id = |id: Option<u32>, column| id.filter(|_| self.has(column)).map(|id| id as i32);
        let _ = match (id(of.tgid, Column::Pid), id(of.pid, Column::Tid)) {
            (Some(pid), Some(tid)) => write!(out, "{pid:5}/{tid:<5} "),
            (Some(id), None) | (None, Some(id)) => write!(out, "{id:5} "),
            _ => Ok(()),
        };
        if let Some(cpu) = of.cpu.filter(|_| self.has(Column::Cpu)) {
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

    #[test]
    fn columns_come_in_the_order_of_a_line() {
        let list = ["time".to_owned(), "comm".to_owned()];
        assert_eq!(columns(&list).unwrap(), [("comm", Column::Comm), ("time", Column::Time)]);
        assert_eq!(columns(&[]).unwrap().len(), 7);
        assert!(columns(&["colour".to_owned()]).unwrap_err().to_string().contains("colour"));
    }
}

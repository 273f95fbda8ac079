//! The raw bytes of each event in hexadecimal, in the manner of `perf script -D`.
//!
//! ```text
//! . cpu 1 time 2083123456789 seq 5: write: raw 84 bytes
//! .  0000:  00 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00  ................
//! ```
//!
//! The bytes are those that the ring holds, the kernel's padding included: the last few may be stale. What is
//! no event is one line that begins with `-- `, as in the [`text`] form, with times in
//! seconds of CLOCK_MONOTONIC.

use super::{
    Encode, Header, Note, TimeFormat, escape,
    number::{decimal, fill_up},
    text::{self, Text},
};
use crate::{
    event::{Event, Gap, NO_CPU},
    ledger::Report,
    record::Body,
};

/// Bytes a line.
const LINE: usize = 16;

/// The hexadecimal form.
#[derive(Debug)]
pub struct Hex {
    other: Text,
}

impl Hex {
    /// A dump; `color` as in [`text::Options`].
    pub fn new(color: bool) -> Hex {
        let options = text::Options { time: TimeFormat::Mono, color, ..text::Options::default() };
        Hex { other: Text::new(options) }
    }
}

impl Encode for Hex {
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>) {
        self.other.header(header, out);
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b". cpu ");
        match event.cpu {
            NO_CPU => out.push(b'-'),
            cpu => decimal(cpu, out),
        }
        if let Some(time) = event.time {
            out.extend_from_slice(b" time ");
            decimal(time, out);
        }
        out.extend_from_slice(b" seq ");
        decimal(event.wire.seq, out);
        if event.wire.level != 0 {
            out.extend_from_slice(b" level ");
            decimal(event.wire.level, out);
        }
        out.extend_from_slice(b": ");
        escape::text(event.schema.name.as_bytes(), out);
        out.extend_from_slice(b": raw ");
        decimal(event.raw.len(), out);
        out.extend_from_slice(b" bytes\n");
        let mut at = 0;
        while at < event.raw.len() {
            let n = LINE.min(event.raw.len() - at);
            if let Some(line) = event.raw.range(at, n) {
                dump(at, &line, out);
            }
            at += n;
        }
    }

    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        self.other.gap(gap, out);
    }

    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>) {
        self.other.note(note, out);
    }

    fn footer(&mut self, report: &Report, out: &mut Vec<u8>) {
        self.other.footer(report, out);
    }

    fn arm(&self) -> Option<Box<dyn Encode>> {
        Some(Box::new(Hex { other: self.other.another()? }))
    }
}

fn dump(at: usize, line: &Body<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b".  ");
    for byte in (at as u32).to_be_bytes().into_iter().skip(if at > 0xffff { 0 } else { 2 }) {
        escape::hex_byte(byte, out);
    }
    out.extend_from_slice(b": ");
    for byte in line.bytes() {
        out.push(b' ');
        escape::hex_byte(byte, out);
    }
    fill_up(3 * (LINE - line.len()) + 2, b' ', out);
    out.extend(line.bytes().map(|b| if matches!(b, b' '..=b'~') { b } else { b'.' }));
    out.push(b'\n');
}

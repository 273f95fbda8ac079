//! A tracepoint's record as the line of its own print fmt, to the letter as perf (libtraceevent) prints it.
//!
//! A format text is made ready once ([`Print::new`]); each record is a walk over its steps. Numbers are reckoned
//! without a sign, as libtraceevent does: a negative one shows right where its conversion is as wide as it is.
//!
//! **Invariants.** Any text and any bytes end in a line of bounded length: what a record does not hold is empty or
//! 0. Nothing of the kernel is asked; addresses are named by whoever prints.

mod conversion;
mod eval;
mod expr;
mod network;
mod parse;
mod step;
#[cfg(test)]
mod tests;

use self::{
    conversion::{Piece, pieces},
    eval::Eval,
    expr::Slot,
    parse::{Parser, slots},
    step::Step,
};
use super::format;

/// Names an address of the kernel: its symbol, and how far behind that it lies.
pub type Symbolize<'a> = &'a dyn Fn(u64) -> Option<(String, u64)>;

/// How the records of one tracepoint are printed.
#[derive(Clone, Debug)]
pub struct Print {
    slots: Vec<Slot>,
    /// `None` where the print fmt is one that cannot be read: then the fields are shown by name.
    line: Option<Vec<Step>>,
}

impl Print {
    /// Makes a format text ready. `constants` knows the constants of the kernel's sources that a print fmt may name.
    pub fn new(text: &str, constants: &dyn Fn(&str) -> Option<u64>) -> Print {
        // The common fields may be spoken of too.
        let slots = slots(&format::all_fields(text));
        let line = text.split_once("print fmt:").and_then(|(_, text)| line(text, &slots, constants));
        Print { slots, line }
    }

    /// Whether its print fmt could be read.
    pub fn is_readable(&self) -> bool {
        self.line.is_some()
    }

    /// Appends the line of a record: `raw` begins with its `common_type`. Control characters come out as they are.
    pub fn print(&self, raw: &[u8], big_endian: bool, symbolize: Symbolize<'_>, out: &mut Vec<u8>) {
        let eval = Eval { raw, big: big_endian, slots: &self.slots, symbolize };
        match &self.line {
            Some(line) => line.iter().for_each(|step| eval.step(step, out)),
            None => {
                out.extend_from_slice(b"[FAILED TO PARSE]");
                self.slots.iter().filter(|s| !s.name.starts_with("common_")).for_each(|s| eval.plain(s, out));
            }
        }
    }
}

/// A print fmt's text: its pieces, each with the expressions that it shows.
fn line(text: &str, slots: &[Slot], constants: &dyn Fn(&str) -> Option<u64>) -> Option<Vec<Step>> {
    let mut parser = Parser::new(text, slots, constants);
    let pieces = pieces(&parser.string()?)?;
    let mut line = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let conversion = match piece {
            Piece::Text(text) => {
                line.push(Step::Text(text));
                continue;
            }
            Piece::Value(conversion) => conversion,
        };
        let mut exprs = Vec::new();
        for _ in 0..conversion.arguments() {
            parser.took(",")?.then_some(())?;
            exprs.push(parser.expr()?);
        }
        line.push(Step::of(conversion, exprs, slots));
    }
    // More arguments than places: libtraceevent reads them, and fails where it cannot.
    while !parser.ended() {
        parser.took(",")?.then_some(())?;
        parser.expr()?;
    }
    Some(line)
}

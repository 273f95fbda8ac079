//! A sample with what it takes to show it: what all forms of `tracer script` are handed.

use std::cell::RefCell;

use tracer::{
    perf_data::{
        Endian,
        read::{Info, Sample},
    },
    sink::{Encode as _, escape::hex_byte, text},
};

use super::{events::Known, names::Names, samples::Shape};

/// A sample, and what it takes to show it.
pub struct Sampled<'a> {
    /// Its event's place in the recording.
    pub index: usize,
    pub event: &'a Known,
    pub sample: &'a Sample<'a>,
    pub comm: &'a [u8],
    pub info: &'a Info,
    /// `misc` of its record.
    pub misc: u16,
    pub names: &'a Names,
    /// What shows structs.
    pub args: &'a RefCell<text::Text>,
}

impl Sampled<'_> {
    /// What it is as an event.
    pub fn shape(&self) -> &Shape {
        &self.event.shapes[self.which()]
    }

    /// Which of its event's shapes that is.
    pub fn which(&self) -> usize {
        self.event.shape_of(self.sample.raw.map_or(0, <[u8]>::len))
    }

    /// Appends the raw bytes as the event's print fmt shows them, a struct by its members, or in hexadecimal.
    pub fn trace(&self, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Some(raw) = self.sample.raw else { return };
        if self.event.is_struct(raw.len()) {
            if let Some(event) = self.shape().members(self, scratch) {
                self.args.borrow_mut().event(&event, out);
                // The line goes on.
                out.pop();
            }
            return;
        }
        let big = self.info.endian == Endian::Big;
        match &self.event.print {
            Some(print) => print.print(raw, big, &|address| self.names.kernel(address), out),
            None => raw.iter().for_each(|b| hex_byte(*b, out)),
        }
    }
}

//! COMPRESSED records: pieces of one zstd stream, whose records go over their borders.

use std::io;

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// How much is held unpacked: a record, which its size bounds, and what comes of one step.
const ROOM: usize = 512 << 10;

/// What unpacks one file's stream. It holds [`ROOM`] bytes whatever a piece unpacks to, and zstd its window.
pub(super) struct Inflate {
    decoder: Decoder<'static>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// More may come without more input.
    full: bool,
}

impl Inflate {
    pub fn new() -> io::Result<Inflate> {
        Ok(Inflate { decoder: Decoder::new()?, buffer: vec![0; ROOM], at: 0, end: 0, full: false })
    }

    /// What is unpacked and has not been stepped over.
    #[inline]
    pub fn ahead(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Steps over bytes that are there.
    #[inline]
    pub fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.end);
    }

    /// Whether more may come of what it was given already.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Unpacks as much of `input` as there is room for, and says how much it took.
    ///
    /// # Errors
    ///
    /// Bytes that are no zstd stream.
    pub fn take(&mut self, input: &[u8]) -> io::Result<usize> {
        self.buffer.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        let mut taken = InBuffer::around(input);
        let free = &mut self.buffer[self.end..];
        let room = free.len();
        let mut out = OutBuffer::around(free);
        loop {
            let (before_in, before_out) = (taken.pos(), out.pos());
            self.decoder.run(&mut taken, &mut out)?;
            let still = (taken.pos(), out.pos()) == (before_in, before_out);
            if out.pos() == room || still || taken.pos() == input.len() {
                break;
            }
        }
        self.full = out.pos() == room;
        self.end += out.pos();
        Ok(taken.pos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(mut input: &[u8], step: usize) -> Vec<u8> {
        let mut inflate = Inflate::new().unwrap();
        let mut out = Vec::new();
        while !input.is_empty() || inflate.is_full() {
            let taken = inflate.take(&input[..step.min(input.len())]).unwrap();
            input = &input[taken..];
            // All but the last bytes, as of a record that goes on.
            let count = inflate.ahead().len().saturating_sub(3);
            out.extend_from_slice(&inflate.ahead()[..count]);
            inflate.skip(count);
        }
        out.extend_from_slice(inflate.ahead());
        out
    }

    #[test]
    fn frames_in_pieces_of_any_size() {
        let plain: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut packed = zstd::bulk::compress(&plain[..500_000], 3).unwrap();
        packed.extend(zstd::bulk::compress(&plain[500_000..], 3).unwrap());
        for step in [1 << 20, 1000, 13] {
            assert!(unpack(&packed, step) == plain, "{step}");
        }
    }

    #[test]
    fn a_bomb_does_not_burst() {
        let packed = zstd::bulk::compress(&vec![0; 100 << 20], 3).unwrap();
        assert!(packed.len() < 60_000);
        let mut inflate = Inflate::new().unwrap();
        let (mut at, mut total) = (0, 0);
        while at < packed.len() || inflate.is_full() {
            at += inflate.take(&packed[at..]).unwrap();
            total += inflate.ahead().len();
            let count = inflate.ahead().len();
            inflate.skip(count);
        }
        assert_eq!((total, inflate.buffer.len()), (100 << 20, ROOM));
    }

    #[test]
    fn what_is_no_stream_is_an_error() {
        assert!(Inflate::new().unwrap().take(b"no zstd at all").is_err());
    }
}

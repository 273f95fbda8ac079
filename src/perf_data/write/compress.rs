//! Records into COMPRESSED ones: pieces of one zstd stream.

use std::io;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::perf_data::{Endian, Feature, feature::Compressed, kind, records};

/// The most bytes that become one record: even where they cannot be compressed, they fit into it.
const PIECE: usize = 60 << 10;

/// Compresses records, each piece so far that a reader needs nothing of what follows.
pub struct Compressor {
    encoder: Encoder<'static>,
    endian: Endian,
    level: i32,
    buffer: Vec<u8>,
}

impl Compressor {
    /// A stream of its own; `level` is zstd's, from 1 to 22.
    ///
    /// # Errors
    ///
    /// zstd's, such as a level that there is not.
    pub fn new(endian: Endian, level: i32) -> io::Result<Compressor> {
        Ok(Compressor { encoder: Encoder::new(level)?, endian, level, buffer: vec![0; 2 * PIECE] })
    }

    /// The feature that must stand before the first COMPRESSED record.
    pub fn feature(level: i32) -> Feature {
        // perf drops what is beyond the last of these numbers, and what straddles two records counts too.
        let mmap_len = 4 * PIECE as u32;
        let level = level.unsigned_abs();
        Feature::Compressed(Compressed { kind: Compressed::ZSTD, level, ratio: 0, mmap_len })
    }

    /// Begins another stream: of another file.
    ///
    /// # Errors
    ///
    /// zstd's.
    pub fn restart(&mut self) -> io::Result<()> {
        self.encoder = Encoder::new(self.level)?;
        Ok(())
    }

    /// Appends `records` as COMPRESSED records to `out`.
    ///
    /// # Errors
    ///
    /// zstd's.
    pub fn write(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        records.chunks(PIECE).try_for_each(|piece| self.piece(piece, out))
    }

    fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut to = OutBuffer::around(&mut self.buffer[..]);
        let mut from = InBuffer::around(piece);
        while from.pos() < piece.len() {
            self.encoder.run(&mut from, &mut to)?;
        }
        let left = self.encoder.flush(&mut to)?;
        let len = to.pos();
        let bytes = &self.buffer[..len];
        let put = records::put(kind::COMPRESSED, 0, self.endian, out, |out| out.extend_from_slice(bytes));
        if left > 0 || !put {
            return Err(io::Error::other("a piece that was compressed is larger than a record"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compressed_fits_and_comes_back() {
        let mut seed = 1u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as u8
        };
        let noise: Vec<u8> = (0..200_000).map(|_| random()).collect();
        for level in [1, 3, 22] {
            let mut compressor = Compressor::new(Endian::NATIVE, level).unwrap();
            let mut out = Vec::new();
            for piece in noise.chunks(70_000) {
                compressor.write(piece, &mut out).unwrap();
            }
            let mut bytes = Vec::new();
            let mut rest = &out[..];
            while !rest.is_empty() {
                assert_eq!(Endian::NATIVE.u32_at(rest, 0), Some(kind::COMPRESSED));
                let size = usize::from(Endian::NATIVE.u16_at(rest, 6).unwrap());
                bytes.extend_from_slice(&rest[8..size]);
                rest = &rest[size..];
            }
            let mut decoder = zstd::stream::read::Decoder::new(&bytes[..]).unwrap();
            let mut back = vec![0; noise.len()];
            io::Read::read_exact(&mut decoder, &mut back).unwrap();
            assert!(back == noise);
        }
    }
}

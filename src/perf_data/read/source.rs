//! Where records come from: bytes that are all there, or a pipe.

use std::io::{self, Read};

/// How much is read at once.
const CHUNK: usize = 128 << 10;

/// Bytes, and how far they have been read.
pub(super) enum Source<'a> {
    /// A file, mapped or read.
    Slice { bytes: &'a [u8], at: usize },
    /// What comes as it comes.
    Stream(Stream<'a>),
}

/// A pipe, and what of it is held.
pub(super) struct Stream<'a> {
    read: Box<dyn Read + Send + 'a>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// The place of `buffer[at]`.
    offset: u64,
}

impl<'a> Source<'a> {
    /// All of `bytes` from `at` on.
    pub fn slice(bytes: &'a [u8], at: usize) -> Source<'a> {
        Source::Slice { bytes, at: at.min(bytes.len()) }
    }

    /// What `read` gives; its first byte stands at `offset`.
    pub fn stream(read: Box<dyn Read + Send + 'a>, offset: u64) -> Source<'a> {
        Source::Stream(Stream { read, buffer: Vec::new(), at: 0, end: 0, offset })
    }

    /// Where the next byte stands.
    #[inline]
    pub fn offset(&self) -> u64 {
        match self {
            Source::Slice { at, .. } => *at as u64,
            Source::Stream(stream) => stream.offset,
        }
    }

    /// What is there from the next byte on.
    #[inline]
    pub fn ahead(&self) -> &[u8] {
        match self {
            Source::Slice { bytes, at } => &bytes[*at..],
            Source::Stream(stream) => &stream.buffer[stream.at..stream.end],
        }
    }

    /// All bytes, where all are there.
    #[inline]
    pub fn all(&self) -> Option<&'a [u8]> {
        match self {
            Source::Slice { bytes, .. } => Some(bytes),
            Source::Stream(_) => None,
        }
    }

    /// Sees to it that `need` bytes are ahead; false where there are not so many.
    #[inline]
    pub fn fill(&mut self, need: usize) -> io::Result<bool> {
        match self {
            Source::Slice { bytes, at } => Ok(bytes.len() - *at >= need),
            Source::Stream(stream) => stream.fill(need),
        }
    }

    /// Steps over bytes; false where there are not so many.
    #[inline]
    pub fn skip(&mut self, count: usize) -> io::Result<bool> {
        match self {
            Source::Slice { bytes, at } => {
                let end = at.checked_add(count).filter(|end| *end <= bytes.len());
                *at = end.unwrap_or(bytes.len());
                Ok(end.is_some())
            }
            Source::Stream(stream) => stream.skip(count),
        }
    }
}

impl Stream<'_> {
    fn fill(&mut self, need: usize) -> io::Result<bool> {
        while self.end - self.at < need {
            if self.at > 0 {
                self.buffer.copy_within(self.at..self.end, 0);
                (self.at, self.end) = (0, self.end - self.at);
            }
            // It grows by what has come, not by what a record claims.
            if self.buffer.len() - self.end < CHUNK {
                self.buffer.resize((2 * self.end).max(2 * CHUNK), 0);
            }
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn skip(&mut self, count: usize) -> io::Result<bool> {
        let mut left = count;
        loop {
            let here = left.min(self.end - self.at);
            self.at += here;
            self.offset += here as u64;
            left -= here;
            if left == 0 {
                return Ok(true);
            }
            if !self.fill(1)? {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives seven bytes at most at once.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(out.len()).min(7);
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn a_pipe_and_a_slice_are_alike() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut slice = Source::slice(&bytes, 0);
        let mut stream = Source::stream(Box::new(Slow(&bytes)), 0);
        for (need, skip) in [(8, 3), (100, 0), (50, 90), (1, 100), (63, 62), (2, 0), (1, 1), (1, 1)] {
            let filled = slice.fill(need).unwrap();
            assert_eq!(filled, stream.fill(need).unwrap());
            assert!(!filled || slice.ahead()[..need] == stream.ahead()[..need]);
            assert_eq!(slice.skip(skip).unwrap(), stream.skip(skip).unwrap());
            assert_eq!(slice.offset(), stream.offset());
        }
    }

    #[test]
    fn a_claim_is_no_reason_to_allocate() {
        let mut stream = Source::stream(Box::new(&[1u8, 2, 3][..]), 0);
        assert!(!stream.fill(usize::MAX).unwrap());
        let Source::Stream(inner) = &stream else { unreachable!() };
        assert!(inner.buffer.len() <= 2 * CHUNK);
    }
}

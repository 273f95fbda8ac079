//! Bytes in one piece or, round the end of a ring's data, in two.

use std::borrow::Cow;

/// A run of bytes that may go round the end of a ring's data: `first`, then `second`.
///
/// Positions inside it do not know of the wrap, so a number is read the same wherever it lies:
///
/// ```
/// # use tracer::record::Body;
/// let wrapped = Body::wrapped(&[1, 0, 0], &[0, 7]);
/// assert_eq!(wrapped.u32_at(0), Some(1));
/// assert_eq!(wrapped.u32_at(2), None); // only three bytes from there
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Body<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> Body<'a> {
    /// Bytes in one piece.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Body<'a> {
        Body { first: bytes, second: &[] }
    }

    /// Bytes in two pieces.
    #[inline]
    pub fn wrapped(first: &'a [u8], second: &'a [u8]) -> Body<'a> {
        Body { first, second }
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// True of no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Both pieces; the second is empty where the bytes do not wrap.
    #[inline(always)]
    pub fn pieces(&self) -> [&'a [u8]; 2] {
        [self.first, self.second]
    }

    /// The bytes where they lie in one piece.
    #[inline(always)]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        match (self.first, self.second) {
            (first, []) => Some(first),
            ([], second) => Some(second),
            _ => None,
        }
    }

    /// The `len` bytes from `offset`, or nothing if they are not all there.
    #[inline(always)]
    pub fn range(&self, offset: usize, len: usize) -> Option<Body<'a>> {
        let end = offset.checked_add(len)?;
        let edge = self.first.len();
        if end <= edge {
            return Some(Body::new(&self.first[offset..end]));
        }
        if end > self.len() {
            return None;
        }
        if offset >= edge {
            return Some(Body::new(&self.second[offset - edge..end - edge]));
        }
        Some(Body::wrapped(&self.first[offset..], &self.second[..end - edge]))
    }

    /// Everything from `offset` on.
    #[inline]
    pub fn from(&self, offset: usize) -> Option<Body<'a>> {
        self.range(offset, self.len().checked_sub(offset)?)
    }

    /// `N` bytes at `offset`, by copy.
    #[inline(always)]
    pub fn array_at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if let Some(bytes) = self.first.get(offset..).and_then(|rest| rest.first_chunk::<N>()) {
            return Some(*bytes);
        }
        let range = self.range(offset, N)?;
        let mut out = [0; N];
        if let Some(bytes) = range.contiguous() {
            out.copy_from_slice(bytes);
        } else {
            range.copy_to(&mut out);
        }
        Some(out)
    }

    /// The byte at `offset`.
    #[inline]
    pub fn u8_at(&self, offset: usize) -> Option<u8> {
        self.array_at::<1>(offset).map(|[b]| b)
    }

    /// The u16 at `offset`, in the machine's byte order.
    #[inline]
    pub fn u16_at(&self, offset: usize) -> Option<u16> {
        self.array_at(offset).map(u16::from_ne_bytes)
    }

    /// The u32 at `offset`, in the machine's byte order.
    #[inline(always)]
    pub fn u32_at(&self, offset: usize) -> Option<u32> {
        self.array_at(offset).map(u32::from_ne_bytes)
    }

    /// The u64 at `offset`, in the machine's byte order.
    #[inline(always)]
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        self.array_at(offset).map(u64::from_ne_bytes)
    }

    /// Copies as many bytes as both sides have, and says how many.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let a = self.first.len().min(out.len());
        out[..a].copy_from_slice(&self.first[..a]);
        let b = self.second.len().min(out.len() - a);
        out[a..a + b].copy_from_slice(&self.second[..b]);
        a + b
    }

    /// Appends all bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.first);
        out.extend_from_slice(self.second);
    }

    /// The bytes in one piece, copied only where they wrap.
    pub fn to_contiguous(&self) -> Cow<'a, [u8]> {
        match self.contiguous() {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned([self.first, self.second].concat()),
        }
    }

    /// Each byte in turn.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + 'a {
        self.first.iter().chain(self.second).copied()
    }
}

/// The same bytes, wherever they wrap.
impl PartialEq for Body<'_> {
    fn eq(&self, other: &Body<'_>) -> bool {
        self.len() == other.len() && self.bytes().eq(other.bytes())
    }
}

impl Eq for Body<'_> {}

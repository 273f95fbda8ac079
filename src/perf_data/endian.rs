//! Integers in the byte order of whoever wrote the file.

/// The byte order of a file: that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl Endian {
    /// That of this machine.
    pub const NATIVE: Endian = if cfg!(target_endian = "little") { Endian::Little } else { Endian::Big };

    /// A number as it lies in the file.
    #[inline]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    /// A number as it lies in the file.
    #[inline]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    /// A number as it lies in the file.
    #[inline]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The number at `at`, if all of it is there.
    #[inline]
    pub fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        bytes.get(at..)?.first_chunk().map(|b| self.u16(*b))
    }

    /// The number at `at`, if all of it is there.
    #[inline]
    pub fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..)?.first_chunk().map(|b| self.u32(*b))
    }

    /// The number at `at`, if all of it is there.
    #[inline]
    pub fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        bytes.get(at..)?.first_chunk().map(|b| self.u64(*b))
    }

    /// Appends a number.
    #[inline]
    pub fn put_u16(self, out: &mut Vec<u8>, n: u16) {
        out.extend_from_slice(&match self {
            Endian::Little => n.to_le_bytes(),
            Endian::Big => n.to_be_bytes(),
        });
    }

    /// Appends a number.
    #[inline]
    pub fn put_u32(self, out: &mut Vec<u8>, n: u32) {
        out.extend_from_slice(&match self {
            Endian::Little => n.to_le_bytes(),
            Endian::Big => n.to_be_bytes(),
        });
    }

    /// Appends a number.
    #[inline]
    pub fn put_u64(self, out: &mut Vec<u8>, n: u64) {
        out.extend_from_slice(&match self {
            Endian::Little => n.to_le_bytes(),
            Endian::Big => n.to_be_bytes(),
        });
    }
}

/// Numbers, bytes and strings one after another; `None` where too few are left.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Fields<'a> {
    /// From the first of `bytes` on.
    #[inline]
    pub fn new(bytes: &'a [u8], endian: Endian) -> Fields<'a> {
        Fields { rest: bytes, endian }
    }

    /// The byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    /// The next `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    /// The next two bytes as a number.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(|b| self.endian.u16(b))
    }

    /// The next four bytes as a number.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(|b| self.endian.u32(b))
    }

    /// The next eight bytes as a number.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(|b| self.endian.u64(b))
    }

    /// Bytes up to a NUL, which is stepped over; to the end where there is none.
    pub fn c_string(&mut self) -> &'a [u8] {
        let len = self.rest.iter().position(|b| *b == 0).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest.get(1..).unwrap_or_default();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_were_put() {
        for endian in [Endian::Little, Endian::Big] {
            let mut out = Vec::new();
            endian.put_u16(&mut out, 0x0102);
            endian.put_u32(&mut out, 0x0304_0506);
            endian.put_u64(&mut out, 0x0708_090a_0b0c_0d0e);
            out.extend_from_slice(b"ab\0c");
            let mut fields = Fields::new(&out, endian);
            assert_eq!(fields.u16(), Some(0x0102));
            assert_eq!(fields.u32(), Some(0x0304_0506));
            assert_eq!(fields.u64(), Some(0x0708_090a_0b0c_0d0e));
            assert_eq!((fields.c_string(), fields.c_string(), fields.u8()), (&b"ab"[..], &b"c"[..], None));
        }
        assert_eq!(Endian::Big.u32_at(&[0, 0, 0, 1, 2], 1), Some(0x0000_0102));
        assert_eq!(Endian::Big.u32_at(&[0, 0, 0, 1, 2], 2), None);
    }
}

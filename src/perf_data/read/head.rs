//! How a file begins: its magic, and where its attributes, its records and its features stand.

use crate::error::{Error, ErrorKind, Result};
use crate::perf_data::{Endian, Fields};

/// A piece of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

/// What a file or a pipe says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The byte order of all that follows.
    pub endian: Endian,
    /// Of a file; `None` of a pipe.
    pub file: Option<FileHead>,
}

/// `struct perf_file_header`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// Bytes of each entry of the attributes' section: an attribute, and where its ids stand.
    pub attr_size: u64,
    /// The attributes.
    pub attrs: Section,
    /// The records. Of size 0 where the recording has not ended.
    pub data: Section,
    /// Unused by perf since 2011. In an unfinished file of ours, the records that a pipe would begin with: what tells
    /// of it (see [`crate::perf_data::write`]).
    pub prologue: Section,
    /// Which features there are: bit n of word n / 64.
    pub features: [u64; 4],
}

impl Head {
    /// Bytes that tell a file from a pipe.
    pub const PIPE_SIZE: usize = 16;
    /// Bytes of a file's head.
    pub const FILE_SIZE: usize = 104;

    /// Reads it from the first bytes of a file or a pipe: [`Head::FILE_SIZE`], or fewer where there are no more.
    ///
    /// # Errors
    ///
    /// Bytes that are no such file, or one of before Linux 2.6.36 (`PERFFILE`).
    pub fn parse(bytes: &[u8]) -> Result<Head> {
        let refuse = |why: &str| Error::new(ErrorKind::Runtime, format!("this is no perf.data: {why}"));
        let endian = match bytes.first_chunk::<8>() {
            Some(b"PERFILE2") => Endian::Little,
            Some(b"2ELIFREP") => Endian::Big,
            Some(b"PERFFILE" | b"ELIFFREP") => {
                return Err(Error::new(
                    ErrorKind::Runtime,
                    "this perf.data is of the first version (PERFFILE)",
                )
                .with_help("a perf of before 2013 reads it; record it again"));
            }
            _ => return Err(refuse("it does not begin with PERFILE2")),
        };
        let mut f = Fields::new(&bytes[8..], endian);
        let size = f.u64().ok_or_else(|| refuse("it ends within its head"))?;
        if size == Head::PIPE_SIZE as u64 {
            return Ok(Head { endian, file: None });
        }
        let file = FileHead::parse(&mut f, size, endian).ok_or_else(|| refuse("it ends within its head"))?;
        Ok(Head { endian, file: Some(file) })
    }

    /// Bytes until its first record, or of a file until what its sections say.
    pub fn size(&self) -> usize {
        if self.file.is_some() { Head::FILE_SIZE } else { Head::PIPE_SIZE }
    }
}

impl FileHead {
    fn parse(f: &mut Fields<'_>, size: u64, endian: Endian) -> Option<FileHead> {
        let attr_size = f.u64()?;
        let mut section = || Some(Section { offset: f.u64()?, size: f.u64()? });
        let (attrs, data, prologue) = (section()?, section()?, section()?);
        let mut features = [0; 4];
        // The head of before 2010 ends here.
        if size >= Head::FILE_SIZE as u64 {
            let bytes: [u8; 32] = f.array()?;
            features = bitmap(&bytes, endian);
        }
        Some(FileHead { attr_size, attrs, data, prologue, features })
    }

    /// The numbers of the features, rising: in their order their sections follow the records.
    pub fn features(&self) -> impl Iterator<Item = u32> + '_ {
        (0..256).filter(|id| self.features[*id as usize / 64] >> (id % 64) & 1 == 1)
    }
}

/// The bitmap is made of the writer's `unsigned long`: of a big-endian machine of 32 bits its halves are swapped,
/// which shows in that no host name is said (as `perf` tells it).
fn bitmap(bytes: &[u8; 32], endian: Endian) -> [u64; 4] {
    const HOSTNAME: u64 = 1 << 3;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = endian.u64_at(bytes, 0).unwrap_or(0);
    }
    let halves = words.map(|word| word.rotate_left(32));
    match words[0] & HOSTNAME == 0 && halves[0] & HOSTNAME != 0 {
        true => halves,
        false => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(endian: Endian) -> Vec<u8> {
        let mut out = match endian {
            Endian::Little => b"PERFILE2".to_vec(),
            Endian::Big => b"2ELIFREP".to_vec(),
        };
        for word in [104, 144, 200, 288, 488, 0, 0, 0, 1 << 3 | 1 << 1, 0, 1 << 7, 0] {
            endian.put_u64(&mut out, word);
        }
        out
    }

    #[test]
    fn files_in_both_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = file(endian);
            assert_eq!(bytes.len(), Head::FILE_SIZE);
            let head = Head::parse(&bytes).unwrap();
            let told = head.file.as_ref().unwrap();
            assert_eq!((head.endian, told.attr_size), (endian, 144));
            assert_eq!(told.attrs, Section { offset: 200, size: 288 });
            assert_eq!(told.data, Section { offset: 488, size: 0 });
            assert_eq!(told.features().collect::<Vec<_>>(), [1, 3, 135]);
            for end in 0..bytes.len() {
                assert!(Head::parse(&bytes[..end]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn the_bitmap_of_a_machine_of_32_bits() {
        let mut bytes = file(Endian::Big);
        bytes[72..80].copy_from_slice(&[0, 0, 0, 0x0a, 0, 0, 0, 0]);
        let head = Head::parse(&bytes).unwrap();
        assert_eq!(head.file.unwrap().features().collect::<Vec<_>>()[..2], [1, 3]);
    }

    #[test]
    fn pipes_and_others() {
        let pipe = |magic: &[u8; 8], size: [u8; 8]| Head::parse(&[*magic, size].concat());
        assert_eq!(pipe(b"PERFILE2", 16u64.to_le_bytes()).unwrap().file, None);
        assert_eq!(pipe(b"2ELIFREP", 16u64.to_be_bytes()).unwrap().endian, Endian::Big);
        assert!(pipe(b"PERFFILE", [0; 8]).unwrap_err().to_string().contains("first version"));
        assert!(pipe(b"\x7fELF\0\0\0\0", [0; 8]).unwrap_err().to_string().contains("no perf.data"));
    }
}

//! Strings of features: a length, then the bytes, padded with NULs to 64.

use crate::perf_data::{Endian, Fields};

/// perf's `NAME_ALIGN`.
const ALIGN: usize = 64;

/// The next string, up to its first NUL.
pub(super) fn text(f: &mut Fields<'_>) -> Option<Vec<u8>> {
    let len = f.u32()? as usize;
    let bytes = f.bytes(len)?;
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    Some(bytes[..end].to_vec())
}

/// Appends a string. What stands behind a NUL in it is not read again.
pub(super) fn put_text(text: &[u8], endian: Endian, out: &mut Vec<u8>) {
    let len = (text.len() + 1).next_multiple_of(ALIGN);
    endian.put_u32(out, len as u32);
    let end = out.len() + len;
    out.extend_from_slice(text);
    out.resize(end, 0);
}

/// A number of things, then each.
pub(super) fn list<T>(
    f: &mut Fields<'_>,
    mut one: impl FnMut(&mut Fields<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = f.u32()?;
    (0..count).map(|_| one(f)).collect()
}

/// Appends how many there are, then each.
pub(super) fn put_list<T>(
    all: &[T],
    endian: Endian,
    out: &mut Vec<u8>,
    mut one: impl FnMut(&T, &mut Vec<u8>),
) {
    endian.put_u32(out, all.len() as u32);
    all.iter().for_each(|each| one(each, out));
}

/// The next list of strings.
pub(super) fn texts(f: &mut Fields<'_>) -> Option<Vec<Vec<u8>>> {
    list(f, text)
}

/// Appends a list of strings.
pub(super) fn put_texts(texts: &[Vec<u8>], endian: Endian, out: &mut Vec<u8>) {
    put_list(texts, endian, out, |each, out| put_text(each, endian, out));
}

/// The next list of pairs of strings.
pub(super) fn pairs(f: &mut Fields<'_>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    list(f, |f| Some((text(f)?, text(f)?)))
}

/// Appends a list of pairs of strings.
pub(super) fn put_pairs(pairs: &[(Vec<u8>, Vec<u8>)], endian: Endian, out: &mut Vec<u8>) {
    put_list(pairs, endian, out, |(name, value), out| {
        put_text(name, endian, out);
        put_text(value, endian, out);
    });
}

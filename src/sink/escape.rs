//! Strings of the kernel and of users, which may hold any bytes, made fit for a terminal and for JSON.
//!
//! **Text.** Printable UTF-8 stands as it is. A backslash is `\\`. Every byte of anything else is `\xNN` with
//! two lower-case hexadecimal digits: control characters (C0, DEL, C1), line and paragraph separators, the
//! marks that turn the direction of writing, and whatever is not valid UTF-8. [`unescape`] gives the bytes
//! back.
//!
//! **JSON.** A string is the text with each invalid sequence replaced by U+FFFD. Where that happened, the
//! line has a `bytes` object of the line's own shape that holds the exact bytes in hexadecimal, for example
//! `"comm":"a�","bytes":{"comm":"61ff"}`. A string without an entry there is exact.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// True of characters that are shown as nothing, or as something else than what stands there.
fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether bytes are printable ASCII, and none of them a backslash or `quote`: nearly every name is. Eight are looked
/// at at once.
#[inline]
pub(super) fn is_plain(bytes: &[u8], quote: u8) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    // The top bit of each byte that is zero, as far as the lowest such byte; no byte of `n` has its own set.
    let zero = |n: u64| n.wrapping_sub(ONES) & !n;
    // The same of each byte that is none of the plain ones. A byte that has its own top bit is in `word`.
    let odd = |word: u64| {
        let low = word & !TOPS;
        let control = low.wrapping_sub(ONES * 0x20) & !low;
        let delete = low.wrapping_add(ONES);
        word | control
            | delete
            | zero(low ^ (ONES * u64::from(b'\\')))
            | zero(low ^ (ONES * u64::from(quote)))
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0, |all, word| all | odd(u64::from_ne_bytes(*word)));
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    (words | odd(u64::from_ne_bytes(last))) & TOPS == 0
}

/// Appends `bytes` in the text form.
#[inline]
pub fn text(bytes: &[u8], out: &mut Vec<u8>) {
    match is_plain(bytes, b'\\') {
        true => out.extend_from_slice(bytes),
        false => text_hostile(bytes, out),
    }
}

#[cold]
fn text_hostile(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                c if unseen(c) => utf8.iter().for_each(|&b| byte(b, out)),
                _ => out.extend_from_slice(utf8),
            }
        }
        chunk.invalid().iter().for_each(|&b| byte(b, out));
    }
}

fn byte(b: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    hex_byte(b, out);
}

/// Appends a byte as two hexadecimal digits.
#[inline]
pub fn hex_byte(b: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
}

/// Appends a number in hexadecimal without leading zeros, after `0x`.
#[inline]
pub fn address(n: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 18];
    for (pair, byte) in digits[2..].as_chunks_mut::<2>().0.iter_mut().zip(n.to_be_bytes()) {
        *pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    }
    let zeros = (n.leading_zeros() as usize / 4).min(15);
    digits[zeros..zeros + 2].copy_from_slice(b"0x");
    out.extend_from_slice(&digits[zeros..]);
}

/// The bytes that [`text`] was given; `None` where `escaped` is not in its form.
pub fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    loop {
        match rest {
            [] => return Some(out),
            [b'\\', b'\\', tail @ ..] => {
                out.push(b'\\');
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..] => {
                out.push(digit(*high)? << 4 | digit(*low)?);
                rest = tail;
            }
            [b'\\', ..] => return None,
            [b, tail @ ..] => {
                out.push(*b);
                rest = tail;
            }
        }
    }
}

fn digit(b: u8) -> Option<u8> {
    HEX.iter().position(|&h| h == b).map(|at| at as u8)
}

/// Appends `bytes` as a JSON string with its quotes. False where it is not exact: some bytes were no UTF-8.
#[inline]
pub fn json(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.push(b'"');
    let exact = if is_plain(bytes, b'"') {
        out.extend_from_slice(bytes);
        true
    } else {
        json_hostile(bytes, out)
    };
    out.push(b'"');
    exact
}

fn json_hostile(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let mut exact = true;
    for chunk in bytes.utf8_chunks() {
        json_fragment(chunk.valid(), out);
        if !chunk.invalid().is_empty() {
            exact = false;
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    exact
}

/// Appends text as it stands between the quotes of a JSON string. Whatever a terminal might act on is a
/// `\uNNNN`, also where JSON would let it stand.
pub fn json_fragment(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            // All of these are below U+10000: one escape each.
            c if unseen(c) => {
                out.extend_from_slice(b"\\u");
                hex_byte((c as u32 >> 8) as u8, out);
                hex_byte(c as u8, out);
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Appends `bytes` as a JSON string of hexadecimal digits, the exact form beside [`json`].
pub fn json_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    bytes.iter().for_each(|&b| hex_byte(b, out));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_what_looking_at_each_byte_says() {
        let each =
            |bytes: &[u8]| bytes.iter().all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'\\' | b'"'));
        for len in [1, 7, 8, 9, 16, 21] {
            for at in 0..len {
                for byte in 0..=255 {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = byte;
                    assert_eq!(is_plain(&bytes, b'"'), each(&bytes), "{byte:#x} at {at} of {len}");
                    // What stands before it makes no difference.
                    bytes[0] = b' ';
                    assert_eq!(
                        is_plain(&bytes, b'"'),
                        each(&bytes),
                        "{byte:#x} at {at} of {len} behind a blank"
                    );
                }
            }
        }
        assert!(is_plain(b"", b'"'));
    }
}

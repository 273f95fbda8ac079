//! Numbers appended as text without allocation.

/// Appends a number in decimal.
#[inline]
pub(super) fn decimal(n: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends a number in decimal, at least `width` wide, filled up on the left.
#[inline]
pub(super) fn padded(n: impl itoa::Integer, width: usize, fill: u8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(n).as_bytes();
    fill_up(width.saturating_sub(digits.len()), fill, out);
    out.extend_from_slice(digits);
}

/// Appends `n` times `fill`.
#[inline]
pub(super) fn fill_up(n: usize, fill: u8, out: &mut Vec<u8>) {
    // Nearly always a few: a copy of a constant is cheaper than a loop that may grow.
    match fill {
        b' ' if n <= 16 => out.extend_from_slice(&[b' '; 16][..n]),
        b'0' if n <= 16 => out.extend_from_slice(&[b'0'; 16][..n]),
        _ => out.resize(out.len() + n, fill),
    }
}

/// Appends a point and nine digits: nanoseconds, below a second.
#[inline]
pub(super) fn fraction(ns: u32, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    // With a digit before them they are always nine, and of known size the copy is an instruction or two.
    if let Some((_, digits)) = buffer.format(1_000_000_000 + ns).as_bytes().split_last_chunk::<9>() {
        out.push(b'.');
        out.extend_from_slice(digits);
    }
}

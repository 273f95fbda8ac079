//! The conversions of a print fmt: `%5lu`, `%-16s`, `%pI6c`.

/// A piece of a line: text, or a place for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Value(Conversion),
}

/// How a value is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversion {
    pub left: bool,
    pub zero: bool,
    pub plus: bool,
    pub space: bool,
    pub alternate: bool,
    pub width: Size,
    pub precision: Option<Size>,
    /// Bits of the number.
    pub bits: u32,
    /// `d u x X o c s p`.
    pub kind: u8,
    /// What stands behind a `p`.
    pub more: Vec<u8>,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Of(usize),
    /// `*`: an argument of its own.
    Argument,
}

impl Default for Size {
    fn default() -> Size {
        Size::Of(0)
    }
}

/// The widest that is shown: nothing of the kernel's comes near.
pub(super) const WIDEST: usize = 4096;

/// Takes a format apart; `None` where it has a conversion that is not known.
pub(super) fn pieces(format: &[u8]) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = format;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            text.push(byte);
        } else if let Some(behind) = rest.strip_prefix(b"%") {
            text.push(b'%');
            rest = behind;
        } else {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Value(conversion(&mut rest)?));
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Some(pieces)
}

fn conversion(rest: &mut &[u8]) -> Option<Conversion> {
    let mut c = Conversion { bits: 32, ..Conversion::default() };
    let next = |rest: &mut &[u8]| {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        Some(*first)
    };
    let mut byte = next(rest)?;
    loop {
        match byte {
            b'-' => c.left = true,
            b'0' => c.zero = true,
            b'+' => c.plus = true,
            b' ' => c.space = true,
            b'#' => c.alternate = true,
            _ => break,
        }
        byte = next(rest)?;
    }
    let size = |byte: &mut u8, rest: &mut &[u8]| {
        if *byte == b'*' {
            *byte = next(rest)?;
            return Some(Size::Argument);
        }
        let mut n = 0usize;
        while byte.is_ascii_digit() {
            n = (10 * n + usize::from(*byte - b'0')).min(WIDEST);
            *byte = next(rest)?;
        }
        Some(Size::Of(n))
    };
    c.width = size(&mut byte, rest)?;
    if byte == b'.' {
        byte = next(rest)?;
        c.precision = Some(size(&mut byte, rest)?);
    }
    loop {
        match byte {
            b'h' => c.bits = (c.bits / 2).max(8),
            b'l' | b'L' | b'z' | b'Z' | b'j' | b't' | b'q' => c.bits = 64,
            _ => break,
        }
        byte = next(rest)?;
    }
    c.kind = match byte {
        b'i' => b'd',
        b'd' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' | b'p' => byte,
        _ => return None,
    };
    if c.kind == b'p' {
        c.bits = 64;
        c.more = behind_p(rest);
        *rest = &rest[c.more.len()..];
    }
    Some(c)
}

/// The letters that belong to a `%p`.
fn behind_p(rest: &[u8]) -> Vec<u8> {
    let all: &[&[u8]] = &[
        b"ISpc", b"ISc", b"ISp", b"IS", b"iSpc", b"iSc", b"iSp", b"iS", b"I6c", b"I6", b"I4", b"i6", b"i4",
        b"MFR", b"MF", b"MR", b"mR", b"M", b"m", b"UB", b"UL", b"Ub", b"Ul", b"U", b"hC", b"hD", b"hN", b"h",
        b"SR", b"S", b"sR", b"s", b"F", b"f", b"K", b"x", b"B", b"b",
    ];
    all.iter().find(|letters| rest.starts_with(letters)).map_or(Vec::new(), |letters| letters.to_vec())
}

impl Conversion {
    /// Appends a number as C's printf does.
    pub fn number(&self, value: u64, width: usize, precision: Option<usize>, out: &mut Vec<u8>) {
        let unused = 64 - self.bits;
        if self.kind == b'c' {
            return self.pad(&[value as u8], width, out);
        }
        let signed = ((value << unused) as i64) >> unused;
        let plain = value << unused >> unused;
        let mut digits = [0; 32];
        let mut at = digits.len();
        let (mut n, negative) = match self.kind {
            b'd' => (signed.unsigned_abs(), signed < 0),
            _ => (plain, false),
        };
        let base = match self.kind {
            b'x' | b'X' => 16,
            b'o' => 8,
            _ => 10,
        };
        while n > 0 {
            at -= 1;
            let digit = (n % base) as u8;
            n /= base;
            digits[at] = match digit {
                0..=9 => b'0' + digit,
                _ if self.kind == b'X' => b'A' + digit - 10,
                _ => b'a' + digit - 10,
            };
        }
        if at == digits.len() && precision != Some(0) {
            at -= 1;
            digits[at] = b'0';
        }
        let digits = &digits[at..];
        let sign: &[u8] = match self.kind {
            b'd' if negative => b"-",
            b'd' if self.plus => b"+",
            b'd' if self.space => b" ",
            b'x' if self.alternate && plain != 0 => b"0x",
            b'X' if self.alternate && plain != 0 => b"0X",
            b'o' if self.alternate && plain != 0 => b"0",
            _ => b"",
        };
        let zeros = match precision {
            Some(least) => least.saturating_sub(digits.len()),
            None if self.zero && !self.left => width.saturating_sub(sign.len() + digits.len()),
            None => 0,
        };
        let spaces = width.saturating_sub(sign.len() + zeros + digits.len());
        if !self.left {
            out.resize(out.len() + spaces, b' ');
        }
        out.extend_from_slice(sign);
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(digits);
        if self.left {
            out.resize(out.len() + spaces, b' ');
        }
    }

    /// Appends a string up to its first NUL, as `%s` does.
    pub fn text(&self, text: &[u8], width: usize, precision: Option<usize>, out: &mut Vec<u8>) {
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        self.pad(&text[..end.min(precision.unwrap_or(end))], width, out);
    }

    fn pad(&self, text: &[u8], width: usize, out: &mut Vec<u8>) {
        let spaces = width.saturating_sub(text.len());
        if !self.left {
            out.resize(out.len() + spaces, b' ');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + spaces, b' ');
        }
    }
}

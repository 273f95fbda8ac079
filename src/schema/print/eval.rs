//! What conversions show, with a record in hand.

use std::io::Write as _;

use super::{
    Symbolize,
    conversion::{Conversion, Size, WIDEST},
    expr::{Binary, Dynamic, Expr, Slot},
    network,
};

/// A record, and what it takes to read it.
pub(super) struct Eval<'a> {
    pub raw: &'a [u8],
    pub big: bool,
    pub slots: &'a [Slot],
    pub symbolize: Symbolize<'a>,
}

impl Conversion {
    /// How many arguments it takes.
    pub fn arguments(&self) -> usize {
        let asked = |size: Option<Size>| usize::from(size == Some(Size::Argument));
        1 + asked(Some(self.width)) + asked(self.precision)
    }
}

impl<'a> Eval<'a> {
    /// Appends what a conversion shows.
    pub fn value(&self, conversion: &Conversion, exprs: &[Expr], out: &mut Vec<u8>) {
        let mut exprs = exprs.iter();
        let mut size = |size: Size| match size {
            Size::Of(n) => n,
            Size::Argument => {
                exprs.next().map_or(0, |e| usize::try_from(self.number(e) as u32).unwrap_or(0).min(WIDEST))
            }
        };
        let width = size(conversion.width);
        let precision = conversion.precision.map(size);
        let Some(value) = exprs.next() else { return };
        match conversion.kind {
            b's' => self.text(value, conversion, width, precision, out),
            b'p' => self.pointer(value, conversion, width, out),
            _ => conversion.number(self.number(value), width, precision, out),
        }
    }

    /// A number as it lies; 0 where it is not there.
    #[inline]
    pub fn read(&self, at: usize, size: usize) -> u64 {
        let Some(bytes) = at.checked_add(size).and_then(|end| self.raw.get(at..end)) else { return 0 };
        match *bytes {
            [a] => a.into(),
            [a, b] if self.big => u16::from_be_bytes([a, b]).into(),
            [a, b] => u16::from_le_bytes([a, b]).into(),
            [a, b, c, d] if self.big => u32::from_be_bytes([a, b, c, d]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            _ => match bytes.first_chunk::<8>() {
                Some(eight) if size == 8 && self.big => u64::from_be_bytes(*eight),
                Some(eight) if size == 8 => u64::from_le_bytes(*eight),
                _ => 0,
            },
        }
    }

    /// The bytes of a dynamic field.
    fn dynamic(&self, slot: &Slot) -> &'a [u8] {
        let word = self.read(slot.offset, slot.size) as usize;
        let (mut at, len) = (word & 0xffff, word >> 16 & 0xffff);
        if slot.dynamic == Some(Dynamic::Field) {
            at += slot.offset + slot.size;
        }
        let rest = self.raw.get(at..).unwrap_or_default();
        &rest[..len.min(rest.len())]
    }

    /// The bytes that an expression stands for: a field's or a dynamic field's.
    fn bytes(&self, expr: &Expr) -> &'a [u8] {
        match expr {
            Expr::Field(slot) => {
                let slot = &self.slots[*slot];
                if slot.dynamic.is_some() {
                    return self.dynamic(slot);
                }
                let rest = self.raw.get(slot.offset..).unwrap_or_default();
                // A field of no size is all the rest.
                if slot.size == 0 { rest } else { &rest[..slot.size.min(rest.len())] }
            }
            Expr::Array(slot) | Expr::Str(slot) | Expr::Bitmask(slot) => self.dynamic(&self.slots[*slot]),
            Expr::Cast(_, inner) => self.bytes(inner),
            _ => &[],
        }
    }

    fn number(&self, expr: &Expr) -> u64 {
        match expr {
            Expr::Number(n) => *n,
            Expr::Field(slot) => {
                let slot = &self.slots[*slot];
                self.read(slot.offset, slot.size)
            }
            Expr::ArrayLen(slot) => self.dynamic(&self.slots[*slot]).len() as u64,
            Expr::Cast(bits, inner) => self.number(inner) & (u64::MAX >> (64 - bits.clamp(&1, &64))),
            Expr::Unary(operator, inner) => operator.of(self.number(inner)),
            Expr::Binary(Binary::Or, a, b) => u64::from(self.number(a) != 0 || self.number(b) != 0),
            Expr::Binary(Binary::And, a, b) => u64::from(self.number(a) != 0 && self.number(b) != 0),
            Expr::Binary(operator, a, b) => operator.of(self.number(a), self.number(b)),
            Expr::Cond(test, yes, no) => self.number(if self.number(test) != 0 { yes } else { no }),
            Expr::Index(base, index, width) => self.element(base, self.number(index), *width),
            // What is no number is 0, as to libtraceevent.
            _ => 0,
        }
    }

    fn element(&self, base: &Expr, index: u64, width: Option<usize>) -> u64 {
        let own = match base {
            Expr::Field(slot) | Expr::Array(slot) => self.slots[*slot].element,
            _ => None,
        };
        let width = width.or(own).unwrap_or(1);
        let bytes = self.bytes(base);
        let at = usize::try_from(index).ok().and_then(|index| index.checked_mul(width));
        let element = at.and_then(|at| bytes.get(at..at.checked_add(width)?));
        let Some(element) = element else { return 0 };
        Eval { raw: element, ..*self }.read(0, width)
    }

    /// What `%s` shows.
    fn text(
        &self,
        expr: &Expr,
        conversion: &Conversion,
        width: usize,
        precision: Option<usize>,
        out: &mut Vec<u8>,
    ) {
        let put = |text: &[u8], out: &mut Vec<u8>| conversion.text(text, width, precision, out);
        match expr {
            Expr::Text(text) => put(text, out),
            Expr::Str(slot) => {
                // Its end is its NUL, not its length.
                let slot = &self.slots[*slot];
                put(self.dynamic(slot), out);
            }
            Expr::Field(slot) => {
                let slot = &self.slots[*slot];
                match slot.element.is_none() && slot.size == 8 {
                    // An address of the kernel.
                    true => drop(write!(out, "{:x}", self.read(slot.offset, 8))),
                    false => put(self.bytes(expr), out),
                }
            }
            Expr::Array(_) => put(self.bytes(expr), out),
            Expr::Cast(_, inner) => self.text(inner, conversion, width, precision, out),
            Expr::Cond(test, yes, no) => {
                let chosen = if self.number(test) != 0 { yes } else { no };
                self.text(chosen, conversion, width, precision, out);
            }
            Expr::Flags(value, between, names) => {
                let mut left = self.number(value);
                let mut first = true;
                for (bits, name) in names {
                    if *bits as i64 > 0 && left & bits == *bits {
                        if !std::mem::take(&mut first) {
                            out.extend_from_slice(between);
                        }
                        put(name, out);
                        left &= !bits;
                    }
                }
                if left != 0 {
                    if !first {
                        out.extend_from_slice(between);
                    }
                    let _ = write!(out, "0x{left:x}");
                }
            }
            Expr::Symbolic(value, names) => {
                let value = self.number(value);
                match names.iter().find(|(known, _)| *known == value) {
                    Some((_, name)) => put(name, out),
                    None => drop(write!(out, "0x{value:x}")),
                }
            }
            Expr::Hex(bytes, count, spaced) => {
                let bytes = self.bytes(bytes);
                let count = usize::try_from(self.number(count)).unwrap_or(usize::MAX).min(bytes.len());
                network::hex(&bytes[..count], if *spaced { " " } else { "" }, out);
            }
            Expr::Ints(array, count, size) => self.ints(array, self.number(count), self.number(size), out),
            Expr::Bitmask(_) => self.bitmask(self.bytes(expr), out),
            _ => {}
        }
    }

    fn ints(&self, array: &Expr, count: u64, size: u64, out: &mut Vec<u8>) {
        let Some(size) = usize::try_from(size).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8)) else {
            return;
        };
        let elements = self.bytes(array).chunks_exact(size);
        for (i, element) in elements.take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate() {
            let n = Eval { raw: element, ..*self }.read(0, size);
            let _ = write!(out, "{}{n}", if i > 0 { " " } else { "" });
        }
    }

    /// Words of 32 bits in hexadecimal, the highest first, commas between.
    fn bitmask(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut ordered = bytes.to_vec();
        if self.big {
            ordered.chunks_mut(8).for_each(<[u8]>::reverse);
        }
        for (i, byte) in ordered.iter().enumerate().rev() {
            network::hex(&[*byte], "", out);
            if i > 0 && i % 4 == 0 {
                out.push(b',');
            }
        }
    }

    fn pointer(&self, expr: &Expr, conversion: &Conversion, width: usize, out: &mut Vec<u8>) {
        if let Expr::Text(text) = expr {
            return out.extend_from_slice(text);
        }
        let letters = &*conversion.more;
        let bytes = self.bytes(expr);
        match letters.first() {
            Some(b'S' | b's' | b'F' | b'f' | b'B') => {
                let value = self.number(expr);
                match (self.symbolize)(value) {
                    Some((name, offset)) => {
                        out.extend_from_slice(name.as_bytes());
                        if matches!(letters[0], b'S' | b'F') {
                            let _ = write!(out, "+0x{offset:x}");
                        }
                    }
                    None => drop(write!(out, "0x{value:x}")),
                }
            }
            Some(b'h') => {
                let bytes = if width > 0 { &bytes[..width.min(bytes.len())] } else { bytes };
                network::bytes(letters, bytes, self.big, out);
            }
            Some(_) if network::bytes(letters, bytes, self.big, out) => {}
            _ => match self.number(expr) {
                0 => out.extend_from_slice(b"(nil)"),
                value => drop(write!(out, "0x{value:x}")),
            },
        }
    }

    /// A field by name, where no print fmt says how it is shown.
    pub fn plain(&self, slot: &Slot, out: &mut Vec<u8>) {
        let _ = write!(out, " {}=", slot.name);
        if slot.element.is_some() {
            let bytes = match slot.dynamic {
                Some(_) => self.dynamic(slot),
                None => self.raw.get(slot.offset..).unwrap_or_default(),
            };
            let bytes = if slot.dynamic.is_some() { bytes } else { &bytes[..slot.size.min(bytes.len())] };
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            let printable = |b: &u8| matches!(b, b' '..=b'~' | b'\t'..=b'\r');
            if slot.text && bytes[..end].iter().all(printable) {
                return out.extend_from_slice(&bytes[..end]);
            }
            out.extend_from_slice(b"ARRAY[");
            network::hex(bytes, ", ", out);
            return out.push(b']');
        }
        let value = self.read(slot.offset, slot.size);
        let unused = 64 - 8 * slot.size.clamp(1, 8);
        let signed = ((value << unused) as i64) >> unused;
        let _ = match (slot.pointer || slot.long, slot.signed, slot.size) {
            (true, ..) => write!(out, "0x{value:x}"),
            (_, true, 2) => write!(out, "{signed:2}"),
            (_, true, _) => write!(out, "{signed}"),
            _ => write!(out, "{value}"),
        };
    }
}

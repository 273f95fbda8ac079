//! The steps of a line: text, plain numbers that lie at a known place, and all else.

use super::{
    conversion::{Conversion, Size},
    eval::Eval,
    expr::{Expr, Slot},
};

/// A step of a line.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Text(Vec<u8>),
    Decimal(Decimal),
    Value(Conversion, Vec<Expr>),
}

/// A field shown by nothing but `%d` or `%u`, as most are: no tree has to be walked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    offset: usize,
    size: usize,
    /// Bits of the number that are not shown.
    unused: u32,
    signed: bool,
}

impl Step {
    /// The step of a conversion.
    pub fn of(conversion: Conversion, exprs: Vec<Expr>, slots: &[Slot]) -> Step {
        match decimal(&conversion, &exprs, slots) {
            Some(decimal) => Step::Decimal(decimal),
            None => Step::Value(conversion, exprs),
        }
    }
}

fn decimal(conversion: &Conversion, exprs: &[Expr], slots: &[Slot]) -> Option<Decimal> {
    let &Conversion { left, zero: _, plus, space, alternate: _, width, precision, bits, kind, more: _ } =
        conversion;
    let [Expr::Field(slot)] = exprs else { return None };
    let Slot { offset, size, .. } = *slots.get(*slot)?;
    let bare = !left && !plus && !space && width == Size::Of(0) && precision.is_none();
    (bare && matches!(kind, b'd' | b'u') && matches!(size, 1 | 2 | 4 | 8)).then_some(Decimal {
        offset,
        size,
        unused: 64 - bits,
        signed: kind == b'd',
    })
}

impl Eval<'_> {
    /// Appends what a step shows.
    #[inline]
    pub fn step(&self, step: &Step, out: &mut Vec<u8>) {
        match step {
            Step::Text(text) => out.extend_from_slice(text),
            Step::Decimal(decimal) => self.decimal(decimal, out),
            Step::Value(conversion, exprs) => self.value(conversion, exprs, out),
        }
    }

    #[inline]
    fn decimal(&self, decimal: &Decimal, out: &mut Vec<u8>) {
        let Decimal { offset, size, unused, signed } = *decimal;
        let value = self.read(offset, size) << unused;
        let (n, negative) = match signed {
            true => ((value as i64 >> unused).unsigned_abs(), (value as i64) < 0),
            false => (value >> unused, false),
        };
        if negative {
            out.push(b'-');
        }
        match n {
            0..=9 => out.push(b'0' + n as u8),
            _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(size: usize) -> Slot {
        Slot {
            name: "n".into(),
            offset: 4,
            size,
            signed: true,
            element: None,
            text: false,
            pointer: false,
            long: false,
            dynamic: None,
        }
    }

    #[test]
    fn a_plain_number_is_what_its_conversion_shows() {
        let values =
            [0, 7, 9, 10, 99, 127, 128, 200, 0xffff, 0x8000_0000, 0xffff_fff6, 1 << 40, 1 << 63, u64::MAX];
        for (value, size) in values.into_iter().flat_map(|value| [1, 2, 4, 8].map(|size| (value, size))) {
            let slots = [slot(size)];
            let mut raw = vec![0xee; 4];
            raw.extend_from_slice(&value.to_le_bytes());
            let eval = Eval { raw: &raw, big: false, slots: &slots, symbolize: &|_| None };
            for (kind, bits) in
                [b'd', b'u'].into_iter().flat_map(|kind| [8, 16, 32, 64].map(|bits| (kind, bits)))
            {
                let conversion = Conversion { kind, bits, ..Conversion::default() };
                let (mut quick, mut slow) = (Vec::new(), Vec::new());
                eval.value(&conversion, &[Expr::Field(0)], &mut slow);
                let step = Step::of(conversion, vec![Expr::Field(0)], &slots);
                assert!(matches!(step, Step::Decimal(_)));
                eval.step(&step, &mut quick);
                assert_eq!(quick, slow, "{value:#x} of {size} bytes as {bits} bits of {}", kind as char);
            }
        }
    }

    #[test]
    fn what_is_more_than_a_plain_number_keeps_its_conversion() {
        for conversion in [
            Conversion { kind: b'x', bits: 32, ..Conversion::default() },
            Conversion { kind: b'd', bits: 32, width: Size::Of(3), ..Conversion::default() },
            Conversion { kind: b'd', bits: 32, plus: true, ..Conversion::default() },
        ] {
            assert!(matches!(Step::of(conversion, vec![Expr::Field(0)], &[slot(4)]), Step::Value(..)));
        }
    }
}

//! Parses constants: numbers, times, strings, characters and names.

use winnow::{Parser, combinator::opt, stream::Stream, token::take_while};

use super::{
    lex::{self, Input, Parsed, is_name, next, place, refuse, rest},
    literal::{Literal, Piece, SIZES, TIMES},
};

/// A constant.
pub fn literal(input: &mut Input<'_>) -> Parsed<Literal> {
    let at = place(input);
    match next(input) {
        Some('"') => string(input),
        Some('\'') => character(input),
        Some('-' | '0'..='9') => number(input),
        Some(c) if lex::in_name(c) => Ok(Literal::Name { minus: false, name: lex::name(input)?.to_owned() }),
        _ => refuse(at, "expected a value", "a number, a string in \"…\", or a name such as ENOENT"),
    }
}

/// A plain number from 0, decimal or hexadecimal.
pub fn plain(input: &mut Input<'_>) -> Parsed<Option<u64>> {
    let start = input.checkpoint();
    let word = take_while(0.., lex::in_name).parse_next(input)?;
    let value = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    if value.is_none() {
        input.reset(&start);
    }
    Ok(value)
}

/// A number with or without a unit, or the name behind a `-`.
fn number(input: &mut Input<'_>) -> Parsed<Literal> {
    let at = place(input);
    let minus = opt('-').parse_next(input)?.is_some();
    let start = place(input);
    let word = take_while(0.., |c: char| lex::in_name(c) || c == '.').parse_next(input)?;
    if minus && is_name(word) {
        return Ok(Literal::Name { minus, name: word.to_owned() });
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return refuse(start, "expected a number or a name after '-'", "");
    }
    if let Some(dot) = word.find('.') {
        return refuse(start + dot, "expected a whole number", "a smaller unit has no fraction: 1500us");
    }
    let (digits, radix, unit) = match word.get(..2) {
        Some("0x" | "0X") => (&word[2..], 16, ""),
        Some("0o" | "0O") => (&word[2..], 8, ""),
        _ => {
            let (digits, unit) =
                word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
            (digits, if digits.len() > 1 && digits.starts_with('0') { 8 } else { 10 }, unit)
        }
    };
    let digits_at = start + word.len() - digits.len() - unit.len();
    if let Some(bad) = digits.find(|c: char| !c.is_digit(radix)) {
        let hint = if radix == 8 { "a number that starts with 0 is octal" } else { "" };
        return refuse(digits_at + bad, format!("this is no digit of base {radix}"), hint);
    }
    if digits.is_empty() {
        return refuse(digits_at, format!("expected digits of base {radix}"), "");
    }
    let too_large = || refuse(at, "expected a number of 64 bits", "this is larger");
    let Ok(value) = u64::from_str_radix(digits, radix) else { return too_large() };
    let scaled = |units: &[(&str, u64)]| units.iter().find(|(name, _)| *name == unit).map(|(_, by)| *by);
    if let Some(by) = scaled(&TIMES) {
        return match value.checked_mul(by) {
            _ if minus => refuse(at, "expected a time from 0 on", ""),
            Some(ns) => Ok(Literal::Duration(ns)),
            None => too_large(),
        };
    }
    let by = match scaled(&SIZES) {
        Some(by) => by,
        None if unit.is_empty() => 1,
        None => {
            let hint = "K, M and G are units of size; ns, us, ms, s, m and h of time";
            return refuse(start + word.len() - unit.len(), format!("'{unit}' is no unit"), hint);
        }
    };
    match value.checked_mul(by) {
        Some(value) if !minus => Ok(Literal::Int(value.into())),
        Some(value) if value <= 1 << 63 => Ok(Literal::Int(-i128::from(value))),
        _ => too_large(),
    }
}

fn string(input: &mut Input<'_>) -> Parsed<Literal> {
    let pieces = quoted(input)?;
    let bytes = pieces.iter().map(|piece| match piece {
        Piece::Byte(byte) => Some(*byte),
        Piece::One | Piece::Any => None,
    });
    Ok(match bytes.collect() {
        Some(bytes) => Literal::Str(bytes),
        None => Literal::Glob(pieces),
    })
}

fn character(input: &mut Input<'_>) -> Parsed<Literal> {
    let at = place(input);
    match quoted(input)?.as_slice() {
        [Piece::Byte(byte)] => Ok(Literal::Char(*byte)),
        [Piece::Any] => Ok(Literal::Char(b'*')),
        [Piece::One] => Ok(Literal::Char(b'?')),
        _ => refuse(at, "expected one character of one byte", "strings stand in \"…\""),
    }
}

/// What stands between two quotes of the kind that is next.
fn quoted(input: &mut Input<'_>) -> Parsed<Vec<Piece>> {
    let at = place(input);
    let text = rest(input);
    let quote = next(input);
    let mut pieces = Vec::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        match c {
            c if Some(c) == quote => {
                input.next_slice(i + 1);
                return Ok(pieces);
            }
            '*' => pieces.push(Piece::Any),
            '?' => pieces.push(Piece::One),
            '\\' => {
                let byte = match chars.next().map(|(_, c)| c) {
                    Some('n') => b'\n',
                    Some('t') => b'\t',
                    Some('r') => b'\r',
                    Some('0') => 0,
                    Some(c @ ('\\' | '"' | '\'' | '*' | '?' | '/')) => c as u8,
                    Some('x') => {
                        let mut digit = || chars.next().and_then(|(_, c)| c.to_digit(16));
                        match (digit(), digit()) {
                            (Some(high), Some(low)) => (high << 4 | low) as u8,
                            _ => return refuse(at + i, "expected two hexadecimal digits after '\\x'", ""),
                        }
                    }
                    Some(_) => {
                        let hint = "\\n \\t \\r \\0 \\\\ \\\" \\' \\* \\? \\/ \\xNN are";
                        return refuse(at + i, "this is no escape", hint);
                    }
                    None => break,
                };
                pieces.push(Piece::Byte(byte));
            }
            c => pieces.extend(c.encode_utf8(&mut [0; 4]).bytes().map(Piece::Byte)),
        }
    }
    let quote = quote.unwrap_or('"');
    refuse(at, format!("expected the closing {quote}"), "it opens here")
}

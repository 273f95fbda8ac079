//! What the parsers stand on: the input with its place, its words and blanks, its bounds, and how it is refused.

use std::borrow::Cow;

use winnow::{
    ModalResult, Parser,
    error::ErrMode,
    stream::{LocatingSlice, Location, Stateful},
    token::{one_of, take_while},
};

use super::fault::Fault;
use crate::{Error, Result};

/// A text, with the place in it and the depth of nesting there.
pub type Input<'a> = Stateful<LocatingSlice<&'a str>, u32>;

/// What a parser gives.
pub type Parsed<T> = ModalResult<T, Fault>;

/// The most bytes of a text.
const MAX_LENGTH: usize = 64 << 10;

/// The most `(` and `!` within each other.
const MAX_DEPTH: u32 = 32;

/// Parses a whole text; `noun` is what it should be.
pub fn whole<'a, T>(
    noun: &str,
    text: &'a str,
    mut parser: impl FnMut(&mut Input<'a>) -> Parsed<T>,
) -> Result<T> {
    if text.len() > MAX_LENGTH {
        return Err(Error::usage(format!(
            "a {noun} of {} bytes is too long: {MAX_LENGTH} are the most",
            text.len()
        )));
    }
    let mut input = Input { input: LocatingSlice::new(text), state: 0 };
    let parsed = blanks(&mut input)
        .and_then(|()| parser(&mut input))
        .and_then(|value| blanks(&mut input).map(|()| value))
        .and_then(|value| match rest(&input) {
            "" => Ok(value),
            _ => refuse(place(&input), "expected the end", ""),
        });
    parsed.map_err(|mode| match mode.into_inner() {
        Ok(fault) => fault.explain(noun, text),
        // A whole text is never incomplete.
        Err(_) => Error::usage(format!("a {noun} that ends too early")),
    })
}

/// The byte at which the input stands.
pub fn place(input: &Input<'_>) -> usize {
    input.current_token_start()
}

/// What has not been read.
pub fn rest<'a>(input: &Input<'a>) -> &'a str {
    input.input.as_ref()
}

/// The next character.
pub fn next(input: &Input<'_>) -> Option<char> {
    rest(input).chars().next()
}

/// A refusal at a byte.
pub fn refuse<T>(
    at: usize,
    what: impl Into<Cow<'static, str>>,
    hint: impl Into<Cow<'static, str>>,
) -> Parsed<T> {
    Err(ErrMode::Cut(Fault::new(at, what, hint)))
}

/// Blanks, or none.
pub fn blanks(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., is_blank).void().parse_next(input)
}

/// A name: letters, digits and `_`, no digit first.
pub fn name<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    (one_of(|c: char| in_name(c) && !c.is_ascii_digit()), take_while(0.., in_name)).take().parse_next(input)
}

/// Takes this text if it is the next.
pub fn took(input: &mut Input<'_>, text: &'static str) -> Parsed<bool> {
    winnow::combinator::opt(text).map(|found: Option<&str>| found.is_some()).parse_next(input)
}

/// Parses one level of nesting deeper.
pub fn deeper<'a, T>(input: &mut Input<'a>, parser: impl FnOnce(&mut Input<'a>) -> Parsed<T>) -> Parsed<T> {
    if input.state == MAX_DEPTH {
        let what = format!("'(' and '!' stand more than {MAX_DEPTH} deep");
        return refuse(place(input), what, "");
    }
    input.state += 1;
    let parsed = parser(input);
    input.state -= 1;
    parsed
}

/// Whether a character may stand between words.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Whether a character may stand in a name.
pub fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a character may stand in what is probed.
pub fn in_target(c: char) -> bool {
    in_name(c) || matches!(c, '.' | '$' | '@' | '~' | '*' | '?')
}

/// Whether a text is a name.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(in_name) && !text.starts_with(|c: char| c.is_ascii_digit())
}

//! A refusal: where it is, what was expected there, and how it is told with a caret under the character.

use std::borrow::Cow;

use winnow::{error::ParserError, stream::Location};

use super::lex::Input;
use crate::Error;

/// Why a text is refused.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The byte of the text at which it is refused.
    pub at: usize,
    /// What is wrong, or was expected.
    pub what: Cow<'static, str>,
    /// What stands beside the caret: the way out, if it is short.
    pub hint: Cow<'static, str>,
    /// The way out, if it is long.
    pub help: Option<String>,
}

impl Fault {
    /// A refusal at this byte.
    pub fn new(at: usize, what: impl Into<Cow<'static, str>>, hint: impl Into<Cow<'static, str>>) -> Fault {
        Fault { at, what: what.into(), hint: hint.into(), help: None }
    }

    /// As the user sees it; `noun` is what the text should have been.
    pub fn explain(self, noun: &str, text: &str) -> Error {
        let (shown, column) = window(text, self.at);
        let room = " ".repeat(column);
        // Reasons quote what was typed, which may hold anything.
        let hint = if self.hint.is_empty() { String::new() } else { format!(" {}", plain(&self.hint)) };
        let what = plain(&self.what);
        let error = Error::usage(format!("{noun} '{shown}': {what}\n  {shown}\n  {room}^{hint}"));
        match self.help {
            Some(help) => error.with_help(plain(&help)),
            None => error,
        }
    }
}

impl<'a> ParserError<Input<'a>> for Fault {
    type Inner = Self;

    fn from_input(input: &Input<'a>) -> Fault {
        Fault::new(input.current_token_start(), "this cannot stand here", "")
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

/// What is shown of a text, and the column in it of a byte: all of a short one, the surroundings in a long one.
/// Each character takes one column; what would move the cursor is shown as a blank.
fn window(text: &str, at: usize) -> (String, usize) {
    const BEFORE: usize = 60;
    const AFTER: usize = 40;
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (before, after) = text.split_at(at);
    let start = before.char_indices().rev().nth(BEFORE - 1).map_or(0, |(i, _)| i);
    let end = after.char_indices().nth(AFTER).map_or(after.len(), |(i, _)| i);
    let mut shown = String::from(if start > 0 { "…" } else { "" });
    shown.push_str(&plain(&before[start..]));
    let column = shown.chars().count();
    shown.push_str(&plain(&after[..end]));
    if end < after.len() {
        shown.push('…');
    }
    (shown, column)
}

/// A text with a blank for each character that would move a cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_direction(c) { ' ' } else { c }).collect()
}

/// Whether a character has no width of its own and turns the direction of others, or joins lines.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

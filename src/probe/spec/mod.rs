//! What the user types: `[NAME=]PROVIDER:TARGET[+OFF][/PREDICATE/][{FIELD,…}]`.
//!
//! In comes text; out comes a [`Spec`], or a usage error with a caret under the character that cannot be. Nothing is
//! looked up: whether a function, a field or a name exists is for whoever resolves a spec.
//!
//! ```text
//! TARGET    a name, in which * and ? match; CATEGORY:NAME of t:; PATH:SYMBOL of u: and ur:;
//!           PATH:PROVIDER:NAME of usdt:; FILE[:PROGRAM] of o:, which takes no predicate
//! OFF       bytes, decimal or 0x…, of k: and u:
//! PREDICATE any || any            any = one && one        one = !one | (PREDICATE) | COMPARISON
//! COMPARISON PATH                 is not zero
//!           PATH[:HINT] OP VALUE  OP: == != < <= > >= and &, which asks for any of the bits
//!           PATH[:HINT] in (VALUE, …)
//! VALUE     -12 0x1f 0o17 017 4K 2M 1G · 10ms (ns us ms s m h) · 'c' · "text" · ENOENT -ENOENT
//! FIELD     [ALIAS:]PATH[:HINT] · * for all that is shown without a list
//! PATH      [*…][(struct foo *)]ROOT then .member, ->member, [3] · path(PATH)
//! ```
//!
//! Blanks may stand before and within predicates and field lists. A `:` ends the path of a file where a symbol and
//! all else can be read behind it; `\` before any character makes it part of the path.
//!
//! **Strings.** A string literal matches as a glob where it has `*` or `?` under `==`, `!=` or `in`, as `--comm` does;
//! `\*` and `\?` stand for themselves. There is no `~`: with two operators, `==` with a star in it would be a silent
//! mistake. `\n \t \r \0 \\ \" \' \/ \xNN` are the other escapes; a string is bytes, so `\xff` is one.
//!
//! **Hints.** The word after the last `:` of a field is a hint where it is one of [`Hint`]'s: `a:s` shows `a` as a
//! string. A parameter whose name is a hint stands in parentheses behind an alias: `a:(s)`.
//!
//! **Invariants.** Every value that can be parsed is written by `Display` as a text that parses to the same value.
//! Nothing panics; the time is linear in the text, of which 64 KiB are the most; no more than 32 parentheses and `!`
//! stand within each other, so the stack is bounded too. libbpf and the kernel are not known here.

mod ast;
mod constant;
mod fault;
mod hint;
mod lex;
mod literal;
mod parse;
mod path;
mod predicate;
mod provider;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod round_trip;

use std::str::FromStr;

pub use self::{
    ast::{Expr, Field, Op, Path, Spec, Step},
    hint::Hint,
    literal::{Literal, Piece},
    provider::Provider,
};
use crate::{Error, Result};

/// What of a spec this version cannot serve yet, for a message.
pub fn unsupported(spec: &Spec) -> Option<&'static str> {
    let wild = |text: &str| text.contains(['*', '?']);
    match spec.provider {
        Provider::Usdt if wild(&spec.target) => Some("wildcards among USDT probes"),
        Provider::Object if wild(&spec.target) => Some("wildcards among the programs of an object"),
        _ => None,
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Spec> {
        lex::whole("spec", text, parse::spec)
    }
}

impl FromStr for Expr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Expr> {
        lex::whole("predicate", text, |input| predicate::closed(input, None))
    }
}

impl FromStr for Field {
    type Err = Error;

    fn from_str(text: &str) -> Result<Field> {
        lex::whole("field", text, path::field)
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Path> {
        lex::whole("path", text, path::path)
    }
}

impl FromStr for Hint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Hint> {
        lex::whole("hint", text, path::hint)
    }
}

impl FromStr for Literal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Literal> {
        lex::whole("value", text, constant::literal)
    }
}

//! A predicate to the operations that a program judges it by.

use super::{
    automaton::Automaton,
    capture::{self, Choice},
    fetch::{Fetch, NO_FAULT, Op, Plan, Read},
    hook::Hook,
    locate::Wanted,
    preflight::near,
    spec::{Expr, Hint, Literal, Op as Asked, Path, Piece},
};
use crate::schema::{Kind, Names, Show, errno};

const LESS: u8 = 1;
const EQUAL: u8 = 2;
const MORE: u8 = 4;

/// The longest string that can be compared, in words of eight bytes.
const WORDS: usize = 8;

/// A number that is compared: where it lies, and how.
#[derive(Clone)]
struct Operand {
    at: u16,
    fault: u8,
    mask: u64,
    signed: bool,
    big_endian: u8,
    /// The names that its values have.
    show: Show,
}

/// Adds what a predicate needs to a plan: its fields, and then its operations.
///
/// # Errors
///
/// Why it cannot be judged: a field that is not there, a comparison that has no meaning, no room.
pub fn compile(plan: &mut Plan, predicate: &Expr, hook: &Hook) -> Result<(), String> {
    // A pattern takes what room all else leaves, so that is found out first.
    let mut trial = plan.clone();
    Judge { plan: &mut trial, hook, seen: Vec::new(), pattern_words: 1 }.expression(predicate)?;
    let pattern_words = 1 + trial.own_left();
    Judge { plan, hook, seen: Vec::new(), pattern_words }.expression(predicate)
}

struct Judge<'a> {
    plan: &'a mut Plan,
    hook: &'a Hook,
    /// Numbers that were asked for before.
    seen: Vec<(Path, Option<Hint>, Operand)>,
    /// How many words of a string a pattern is matched with.
    pattern_words: usize,
}

impl Judge<'_> {
    fn push(&mut self, op: Op) -> Result<(), String> {
        self.plan.push(op).map_err(|full| full.to_string())
    }

    fn expression(&mut self, expr: &Expr) -> Result<(), String> {
        match expr {
            Expr::Or(parts) => self.joined(parts, Op::Or),
            Expr::And(parts) => self.joined(parts, Op::And),
            Expr::Not(inner) => {
                self.expression(inner)?;
                self.push(Op::Not)
            }
            Expr::Compare { left, hint, op, right } => self.comparison(left, *hint, *op, right),
            Expr::In { left, hint, set } => {
                for (i, one) in set.iter().enumerate() {
                    self.comparison(left, *hint, Asked::Eq, one)?;
                    if i > 0 {
                        self.push(Op::Or)?;
                    }
                }
                Ok(())
            }
            Expr::Truthy(path) => self.comparison(path, None, Asked::Ne, &Literal::Int(0)),
        }
    }

    fn joined(&mut self, parts: &[Expr], op: Op) -> Result<(), String> {
        for (i, part) in parts.iter().enumerate() {
            self.expression(part)?;
            if i > 0 {
                self.push(op)?;
            }
        }
        Ok(())
    }

    fn comparison(
        &mut self,
        left: &Path,
        hint: Option<Hint>,
        op: Asked,
        right: &Literal,
    ) -> Result<(), String> {
        match right {
            Literal::Str(bytes) => {
                let pieces: Vec<Piece> = bytes.iter().map(|b| Piece::Byte(*b)).collect();
                self.text(left, hint, op, &pieces)
            }
            Literal::Glob(pieces) => self.text(left, hint, op, pieces),
            number => {
                let operand = self.operand(left, hint)?;
                self.number(left, operand, op, number)
            }
        }
    }

    fn number(&mut self, left: &Path, o: Operand, op: Asked, right: &Literal) -> Result<(), String> {
        let value = constant(right, &o).ok_or_else(|| unknown(left, right, &o))?;
        let mut constant = match o.signed {
            true => i64::try_from(value).map(|v| v as u64).ok(),
            false => u64::try_from(value).ok(),
        }
        .ok_or_else(|| format!("'{left}' can never be {value}"))?;
        if o.big_endian > 0 {
            constant = constant.swap_bytes() >> (64 - 8 * u32::from(o.big_endian));
            if !matches!(op, Asked::Eq | Asked::Ne) {
                return Err(format!("'{left}' is in network order: == and != compare it"));
            }
        }
        let compare = |mask, constant, want| Op::Compare {
            at: o.at,
            fault: o.fault,
            mask,
            signed: o.signed,
            constant,
            want,
        };
        self.push(match op {
            Asked::Eq => compare(o.mask, constant, EQUAL),
            Asked::Ne => compare(o.mask, constant, LESS | MORE),
            Asked::Lt => compare(o.mask, constant, LESS),
            Asked::Le => compare(o.mask, constant, LESS | EQUAL),
            Asked::Gt => compare(o.mask, constant, MORE),
            Asked::Ge => compare(o.mask, constant, MORE | EQUAL),
            Asked::Bits => Op::Compare {
                at: o.at,
                fault: o.fault,
                mask: o.mask & constant,
                signed: false,
                constant: 0,
                want: LESS | MORE,
            },
        })
    }

    fn operand(&mut self, path: &Path, hint: Option<Hint>) -> Result<Operand, String> {
        if let Some((.., known)) = self.seen.iter().find(|(p, h, _)| p == path && *h == hint) {
            return Ok(known.clone());
        }
        let operand = match capture::choose(self.hook, path, hint)? {
            Choice::Head { kind: Kind::Chars(_), .. } => return Err(format!("'{path}' is a string")),
            Choice::Head { offset, kind } => {
                let mask = if kind.size() == 4 { u64::from(u32::MAX) } else { u64::MAX };
                Operand {
                    at: offset as u16,
                    fault: NO_FAULT,
                    mask,
                    signed: false,
                    big_endian: 0,
                    show: Show::Plain,
                }
            }
            Choice::Fetched(wanted) => self.fetched(path, wanted)?,
        };
        self.seen.push((path.clone(), hint, operand.clone()));
        Ok(operand)
    }

    fn fetched(&mut self, path: &Path, wanted: Wanted) -> Result<Operand, String> {
        let Wanted { fetch, kind, show, .. } = wanted;
        // A string, or what else a parameter points to, is compared with a number by its address.
        let fetch = match (kind, fetch.read) {
            (Kind::Text | Kind::Bytes, Read::Text(_) | Read::Bytes(_))
                if fetch.steps.is_empty() && fetch.last == 0 && fetch.loc == 0 =>
            {
                Fetch::value(fetch.base)
            }
            (Kind::Text | Kind::Bytes, _) => return Err(format!("'{path}' is no number")),
            _ => fetch,
        };
        let (size, signed) = (kind.size() as u32, matches!(kind, Kind::Signed(_)));
        let mask = if size >= 8 || signed { u64::MAX } else { (1 << (8 * size)) - 1 };
        let big_endian = if let Kind::BigEndian(n) = kind { n } else { 0 };
        let (at, fault) = self.plan.add_judged(fetch).map_err(|full| full.to_string())?;
        Ok(Operand { at, fault, mask, signed, big_endian, show })
    }

    /// A string beside a pattern, word by word; the NUL that ends it is compared too, unless a `*` does.
    fn text(&mut self, path: &Path, hint: Option<Hint>, op: Asked, pattern: &[Piece]) -> Result<(), String> {
        let (mut bytes, mut masks) = (Vec::new(), Vec::new());
        let (body, open) = match pattern.split_last() {
            Some((Piece::Any, body)) => (body, true),
            _ => (pattern, false),
        };
        for piece in body {
            match piece {
                Piece::Byte(b) => (bytes.push(*b), masks.push(0xff)),
                Piece::One => (bytes.push(0), masks.push(0)),
                Piece::Any => return self.pattern(path, hint, op, pattern),
            };
        }
        if !open {
            bytes.push(0);
            masks.push(0xff);
        }
        let words = bytes.len().div_ceil(8).max(1);
        if words > WORDS {
            return Err(format!(
                "a string of {} bytes is too long to be compared: {} are the most",
                body.len(),
                8 * WORDS - 1
            ));
        }
        bytes.resize(8 * words, 0);
        masks.resize(8 * words, 0);
        let (at, fault) = self.text_operand(path, hint, words)?;
        let word = |of: &[u8], i: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&of[8 * i..8 * i + 8]);
            u64::from_ne_bytes(eight)
        };
        for i in 0..words {
            self.push(Op::Compare {
                at: at + 8 * i as u16,
                fault,
                mask: word(&masks, i),
                signed: false,
                constant: word(&bytes, i),
                want: EQUAL,
            })?;
            if i > 0 {
                self.push(Op::And)?;
            }
        }
        self.told(path, op)
    }

    /// A string beside a pattern with a `*` before its end, which a loop over its bytes matches.
    fn pattern(
        &mut self,
        path: &Path,
        hint: Option<Hint>,
        op: Asked,
        pattern: &[Piece],
    ) -> Result<(), String> {
        let automaton = Automaton::new(pattern.iter().copied()).ok_or_else(|| {
            format!("a pattern of more than {} characters besides its '*'", Automaton::TOKENS)
        })?;
        let words = match capture::choose(self.hook, path, hint)? {
            Choice::Head { kind, .. } => kind.size() / 8,
            Choice::Fetched(_) => self.pattern_words,
        };
        let (at, fault) = self.text_operand(path, hint, words.max(1))?;
        let size = 8 * words as u16;
        self.push(Op::Glob { at, size, fault, stay: automaton.stay, accept: automaton.accept })?;
        self.plan.set_pattern(automaton.next).map_err(|full| full.to_string())?;
        self.told(path, op)
    }

    /// What is asked of strings, once the stack says whether they are alike.
    fn told(&mut self, path: &Path, op: Asked) -> Result<(), String> {
        match op {
            Asked::Eq => Ok(()),
            Asked::Ne => self.push(Op::Not),
            _ => Err(format!("'{path}': strings are compared by == and !=")),
        }
    }

    fn text_operand(&mut self, path: &Path, hint: Option<Hint>, words: usize) -> Result<(u16, u8), String> {
        match capture::choose(self.hook, path, hint)? {
            Choice::Head { offset, kind: Kind::Chars(n) } => {
                if 8 * words > usize::from(n) {
                    return Err(format!("'{path}' has {} bytes at most", n - 1));
                }
                Ok((offset as u16, NO_FAULT))
            }
            Choice::Fetched(Wanted { mut fetch, kind: Kind::Text, .. }) => {
                fetch.read = Read::Words(words as u16);
                self.plan.add_judged(fetch).map_err(|full| full.to_string())
            }
            _ => Err(format!("'{path}' is no string: with :str it is read as one")),
        }
    }
}

/// The number that a literal stands for beside an operand, whose values may have names.
fn constant(literal: &Literal, beside: &Operand) -> Option<i128> {
    match literal {
        Literal::Int(value) => Some(*value),
        Literal::Duration(ns) => Some(i128::from(*ns)),
        Literal::Char(c) => Some(i128::from(*c)),
        Literal::Name { minus, name } => {
            let own =
                names(&beside.show).and_then(|n| n.iter().find(|(_, n)| n == name)).map(|(value, _)| value);
            let value = match (own, name.as_str()) {
                (Some(value), _) if beside.signed => i128::from(value as i64),
                (Some(value), _) => i128::from(value),
                (None, "true") => 1,
                (None, "false") => 0,
                (None, name) => i128::from(errno::number(name)?),
            };
            Some(if *minus { -value } else { value })
        }
        _ => None,
    }
}

fn names(show: &Show) -> Option<&Names> {
    match show {
        Show::Enum(names) | Show::Flags(names) => Some(names),
        _ => None,
    }
}

/// Why a literal is no number beside an operand.
fn unknown(left: &Path, right: &Literal, beside: &Operand) -> String {
    let known = names(&beside.show).into_iter().flat_map(Names::iter).map(|(_, name)| name.to_owned());
    let known: Vec<String> = known.collect();
    let hint = match (known.is_empty(), right) {
        (false, Literal::Name { name, .. }) => {
            format!(": values of '{left}' have names; {}", near(name, known, str::to_owned))
        }
        _ => String::new(),
    };
    format!("'{right}' is no number that is known here{hint}")
}

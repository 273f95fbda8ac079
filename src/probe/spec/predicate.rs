//! Parses predicates: `||` over `&&` over `!`, parentheses, and one comparison a field.

use winnow::{
    Parser,
    combinator::{alt, not, opt, separated},
    error::ErrMode,
    stream::Stream,
};

use super::{
    Expr, Literal, Op, constant,
    fault::Fault,
    lex::{Input, Parsed, blanks, deeper, in_name, next, place, refuse, rest, took},
    path,
};

/// The whole condition up to what closes it: `/`, or the end.
pub fn closed(input: &mut Input<'_>, close: Option<char>) -> Parsed<Expr> {
    blanks(input)?;
    let all = any(input)?;
    blanks(input)?;
    if next(input) == close { Ok(all) } else { Err(ErrMode::Cut(unexpected(input, &all, close))) }
}

fn any(input: &mut Input<'_>) -> Parsed<Expr> {
    let mut all: Vec<Expr> = separated(1.., every, (blanks, "||", blanks)).parse_next(input)?;
    Ok(if all.len() == 1 { all.remove(0) } else { Expr::Or(all) })
}

fn every(input: &mut Input<'_>) -> Parsed<Expr> {
    let mut all: Vec<Expr> = separated(1.., one, (blanks, "&&", blanks)).parse_next(input)?;
    Ok(if all.len() == 1 { all.remove(0) } else { Expr::And(all) })
}

fn one(input: &mut Input<'_>) -> Parsed<Expr> {
    match next(input) {
        Some('!') => deeper(input, negated),
        Some('(') if !path::starts_in_parenthesis(input) => deeper(input, group),
        Some('/') | None => refuse(place(input), "expected a condition", "such as pid == 42"),
        _ => comparison(input),
    }
}

fn negated(input: &mut Input<'_>) -> Parsed<Expr> {
    took(input, "!")?;
    blanks(input)?;
    let inner = match next(input) {
        Some('!' | '(') if !path::starts_in_parenthesis(input) => one(input)?,
        Some('/') | None => one(input)?,
        _ => {
            let path = path::path(input)?;
            let end = *input;
            blanks(input)?;
            if rest(input).starts_with(':') || operator(input)?.is_some() || took_in(input)? {
                let mut at = end;
                blanks(&mut at)?;
                let hint = format!("'!' stands before '(' or a field alone: !({path} …)");
                return refuse(place(&at), "expected '&&', '||' or the end after '!'", hint);
            }
            *input = end;
            Expr::Truthy(path)
        }
    };
    Ok(Expr::Not(Box::new(inner)))
}

fn group(input: &mut Input<'_>) -> Parsed<Expr> {
    took(input, "(")?;
    let inner = closed(input, Some(')'))?;
    took(input, ")")?;
    Ok(inner)
}

fn comparison(input: &mut Input<'_>) -> Parsed<Expr> {
    let left = path::path(input)?;
    let hint = if path::took_colon(input)? { Some(path::hint(input)?) } else { None };
    let start = input.checkpoint();
    blanks(input)?;
    if took_in(input)? {
        return Ok(Expr::In { left, hint, set: set(input)? });
    }
    let at = place(input);
    match operator(input)? {
        Some(op) => {
            blanks(input)?;
            let right = constant::literal(input)?;
            if matches!(right, Literal::Str(_) | Literal::Glob(_)) && !matches!(op, Op::Eq | Op::Ne) {
                return refuse(at, "expected '==' or '!='", "no other operator takes a string");
            }
            Ok(Expr::Compare { left, hint, op, right })
        }
        None if hint.is_some() => Err(ErrMode::Cut(unexpected(input, &Expr::Truthy(left), None))),
        None => {
            input.reset(&start);
            Ok(Expr::Truthy(left))
        }
    }
}

fn operator(input: &mut Input<'_>) -> Parsed<Option<Op>> {
    opt(alt((
        "==".value(Op::Eq),
        "!=".value(Op::Ne),
        "<=".value(Op::Le),
        ">=".value(Op::Ge),
        '<'.value(Op::Lt),
        '>'.value(Op::Gt),
        ('&', not('&')).value(Op::Bits),
    )))
    .parse_next(input)
}

/// Takes the word `in` and the blanks behind it.
fn took_in(input: &mut Input<'_>) -> Parsed<bool> {
    let word = ("in", not(winnow::token::one_of(in_name)), blanks).void();
    Ok(opt(word).parse_next(input)?.is_some())
}

/// The constants of a set, with its parentheses.
fn set(input: &mut Input<'_>) -> Parsed<Vec<Literal>> {
    if !took(input, "(")? {
        return refuse(place(input), "expected '(' after 'in'", "a set stands in parentheses: pid in (1, 2)");
    }
    let mut set = Vec::new();
    loop {
        blanks(input)?;
        set.push(constant::literal(input)?);
        blanks(input)?;
        if took(input, ")")? {
            return Ok(set);
        }
        if !took(input, ",")? {
            return refuse(place(input), "expected ',' or ')'", "a ')' closes the set");
        }
    }
}

/// Why what stands behind a condition cannot.
fn unexpected(input: &Input<'_>, before: &Expr, close: Option<char>) -> Fault {
    let after_field = ends_in_field(before);
    let word: String = rest(input).chars().take_while(|c| in_name(*c)).take(8).collect();
    let end = match close {
        Some('/') => "a '/' closes the predicate",
        Some(_) => "a ')' closes the parenthesis",
        None => "",
    };
    let hint = match (next(input), word.as_str()) {
        (None, _) => end,
        (_, "and") => "'&&' means and",
        (_, "or") => "'||' means or",
        (_, "is" | "eq" | "like") if after_field => "'==' compares",
        (_, "not") if after_field => "'!(… in (…))' means not in",
        (_, "ne") if after_field => "'!=' means not equal",
        (Some('=' | '~'), _) if rest(input).starts_with(['~']) || rest(input).starts_with("=~") => {
            "'==' matches '*' and '?' in strings"
        }
        (Some('='), _) if after_field => "'==' compares",
        (Some('=' | '<' | '>' | '!'), _) => "one comparison a field; '&&' joins two",
        (Some('&'), _) => "'&&' means and; '& 6' asks for any of these bits",
        (Some('|'), _) => "'||' means or",
        (Some('+' | '-' | '*' | '%' | '^'), _) => "a predicate does no arithmetic",
        (Some(')'), _) => "no '(' is open",
        (Some('{'), _) if close == Some('/') => "a '/' closes the predicate before the field list",
        (Some('/'), _) if close == Some(')') => "a ')' closes the parenthesis",
        _ if after_field => "== != < <= > >= & in && ||",
        _ => end,
    };
    let what = match (next(input), close) {
        (None | Some('{'), Some(close)) => format!("expected '{close}'"),
        (Some('/'), Some(')')) => "expected ')'".to_owned(),
        _ if after_field => "expected an operator".to_owned(),
        (_, Some(close)) => format!("expected '&&', '||' or '{close}'"),
        _ => "expected '&&', '||' or the end".to_owned(),
    };
    Fault::new(place(input), what, hint)
}

/// Whether a field without a comparison is the last of a condition.
fn ends_in_field(expr: &Expr) -> bool {
    match expr {
        Expr::Or(all) | Expr::And(all) => all.last().is_some_and(ends_in_field),
        Expr::Truthy(_) => true,
        Expr::Not(_) | Expr::Compare { .. } | Expr::In { .. } => false,
    }
}

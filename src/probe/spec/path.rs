//! Parses paths, hints and field lists.

use winnow::{
    Parser,
    combinator::{opt, repeat},
    error::ErrMode,
    stream::Stream,
};

use super::{
    Field, Hint, Path, Step, constant,
    fault::Fault,
    lex::{Input, Parsed, blanks, in_name, is_blank, name, next, place, refuse, rest, took},
};

/// The functions that a path can be given to.
const CALLS: [&str; 1] = ["path"];

/// The most words of a type.
const TYPE_WORDS: usize = 4;

/// A path.
pub fn path(input: &mut Input<'_>) -> Parsed<Path> {
    let derefs = stars(input)?;
    if next(input) != Some('(') || is_cast(input) {
        return bare(input, derefs);
    }
    // In parentheses: `((struct foo *)arg2)->x`, or a name that would be taken for a hint.
    let at = place(input);
    took(input, "(")?;
    blanks(input)?;
    let within = stars(input)?;
    let mut path = bare(input, within)?;
    blanks(input)?;
    if !took(input, ")")? {
        return refuse(place(input), "expected ')'", "it closes the parenthesis around a path");
    }
    if path.call.is_some() && derefs > 0 {
        return refuse(at, "a call gives a string, which points to nothing", "");
    }
    let more = place(input);
    path.steps.extend(steps(input)?);
    if place(input) > more && (within > 0 || path.call.is_some()) {
        return refuse(more, "nothing can follow this parenthesis", "a pointer is followed by itself: a.b.c");
    }
    path.derefs += derefs;
    Ok(path)
}

/// Whether a cast stands here, and not another parenthesis.
pub fn is_cast(input: &Input<'_>) -> bool {
    let mut ahead = *input;
    matches!(cast(&mut ahead), Ok(Some(_)))
}

/// Whether a path starts with the parenthesis here: a cast, or one in a parenthesis that a step follows.
pub fn starts_in_parenthesis(input: &Input<'_>) -> bool {
    if is_cast(input) {
        return true;
    }
    let mut ahead = *input;
    let shape = |input: &mut Input<'_>| -> Parsed<bool> {
        ("(", blanks).void().parse_next(input)?;
        cast(input)?;
        (blanks, name, steps, blanks, ")").void().parse_next(input)?;
        Ok(rest(input).starts_with(['.', '[']) || rest(input).starts_with("->"))
    };
    shape(&mut ahead).unwrap_or(false)
}

/// A path without a parenthesis around it, behind its stars.
fn bare(input: &mut Input<'_>, derefs: u32) -> Parsed<Path> {
    let at = place(input);
    let cast = cast(input)?;
    blanks(input)?;
    let root_at = place(input);
    let root = match opt(name).parse_next(input)? {
        Some(root) => root,
        None if cast.is_some() => {
            return refuse(
                root_at,
                "expected a parameter",
                "a cast stands before a parameter: (struct foo *)arg2.x",
            );
        }
        None => return Err(ErrMode::Cut(no_path(input))),
    };
    if next(input) == Some('(') {
        if !CALLS.contains(&root) {
            return Err(ErrMode::Cut(no_call(root_at, root)));
        }
        if derefs > 0 || cast.is_some() {
            return refuse(at, "a call gives a string, which points to nothing", "");
        }
        return call(input, root);
    }
    let steps = steps(input)?;
    Ok(Path { derefs, cast, call: None, root: root.to_owned(), steps })
}

/// The parenthesis of a call, and the path in it.
fn call(input: &mut Input<'_>, function: &str) -> Parsed<Path> {
    took(input, "(")?;
    blanks(input)?;
    let at = place(input);
    let derefs = stars(input)?;
    let inner = bare(input, derefs)?;
    if inner.call.is_some() {
        return refuse(at, "a call within a call", "path(…) takes a file or path: path(file)");
    }
    blanks(input)?;
    if !took(input, ")")? {
        return refuse(place(input), "expected ')'", format!("it closes '{function}('"));
    }
    Ok(Path { call: Some(function.to_owned()), ..inner })
}

fn stars(input: &mut Input<'_>) -> Parsed<u32> {
    let stars: usize = repeat(0.., ('*', blanks).void()).parse_next(input)?;
    // No text is so long.
    Ok(u32::try_from(stars).unwrap_or(u32::MAX))
}

/// `(struct foo *)`: the type, with a star for each pointer beyond the first.
fn cast(input: &mut Input<'_>) -> Parsed<Option<String>> {
    let start = input.checkpoint();
    let of = |input: &mut Input<'_>| -> Parsed<String> {
        ('(', blanks).void().parse_next(input)?;
        let words: Vec<&str> =
            repeat(1..=TYPE_WORDS, (name, blanks).map(|(word, ())| word)).parse_next(input)?;
        let stars: usize = repeat(1.., ('*', blanks).void()).parse_next(input)?;
        ')'.void().parse_next(input)?;
        let more = "*".repeat(stars - 1);
        Ok(format!("{}{}{more}", words.join(" "), if more.is_empty() { "" } else { " " }))
    };
    match of(input) {
        Ok(cast) => Ok(Some(cast)),
        Err(_) => {
            input.reset(&start);
            Ok(None)
        }
    }
}

/// The members and elements that follow.
fn steps(input: &mut Input<'_>) -> Parsed<Vec<Step>> {
    let mut steps = Vec::new();
    loop {
        if took(input, ".")? || took(input, "->")? {
            match opt(name).parse_next(input)? {
                Some(member) => steps.push(Step::Member(member.to_owned())),
                None => return refuse(place(input), "expected the name of a member", ""),
            }
        } else if took(input, "[")? {
            steps.push(Step::Index(index(input)?));
        } else {
            return Ok(steps);
        }
    }
}

/// A number behind `[`, and the `]`.
fn index(input: &mut Input<'_>) -> Parsed<u64> {
    blanks(input)?;
    let Some(index) = constant::plain(input)? else {
        return refuse(place(input), "expected a number", "'[' takes a constant: arr[3]");
    };
    blanks(input)?;
    match took(input, "]")? {
        true => Ok(index),
        false => refuse(place(input), "expected ']'", ""),
    }
}

/// The hint that stands here, if one does and nothing follows that makes it a path.
fn hint_if_last(input: &mut Input<'_>) -> Parsed<Option<Hint>> {
    let start = input.checkpoint();
    let found = |input: &mut Input<'_>| -> Parsed<Option<Hint>> {
        let word = name(input)?;
        let length = if took(input, "[")? { Some(index(input)?) } else { None };
        let end = *input;
        blanks(input)?;
        let last = !(rest(input).starts_with([':', '.', '[', '(']) || rest(input).starts_with("->"));
        *input = end;
        Ok(Hint::named(word, length).filter(|_| last))
    };
    match found(input) {
        Ok(Some(hint)) => Ok(Some(hint)),
        _ => {
            input.reset(&start);
            Ok(None)
        }
    }
}

/// A hint, where nothing else can stand.
pub fn hint(input: &mut Input<'_>) -> Parsed<Hint> {
    let at = place(input);
    let Some(word) = opt(name).parse_next(input)? else {
        return Err(ErrMode::Cut(Fault { help: Some(hints()), ..Fault::new(at, "expected a hint", "") }));
    };
    let bracket = place(input);
    let length = if took(input, "[")? { Some(index(input)?) } else { None };
    match Hint::named(word, length) {
        Some(hint) => Ok(hint),
        None if Hint::is_word(word) && length.is_none() => {
            refuse(bracket, format!("expected '[' after '{word}'"), format!("{word}[N] shows N bytes"))
        }
        None if Hint::is_word(word) => refuse(bracket, format!("'{word}' takes no length"), ""),
        None => {
            let near = Hint::near(word).map_or_else(String::new, |near| format!("did you mean {near}?"));
            let fault = Fault::new(at, format!("'{word}' is no hint"), near);
            Err(ErrMode::Cut(Fault { help: Some(hints()), ..fault }))
        }
    }
}

fn hints() -> String {
    format!("hints: {}", Hint::list())
}

/// `[ALIAS:]PATH[:HINT]`, or `*` by itself
pub fn field(input: &mut Input<'_>) -> Parsed<Field> {
    let behind = rest(input).strip_prefix('*').map(|behind| behind.trim_start_matches(is_blank));
    if behind.is_some_and(|behind| behind.is_empty() || behind.starts_with([',', '}'])) {
        took(input, "*")?;
        return Ok(Field::all());
    }
    let in_parenthesis = next(input) == Some('(');
    let first = path(input)?;
    if !took_colon(input)? {
        return Ok(Field { alias: None, path: first, hint: None });
    }
    if !first.is_name() || in_parenthesis {
        return Ok(Field { alias: None, path: first, hint: Some(hint(input)?) });
    }
    if let Some(hint) = hint_if_last(input)? {
        return Ok(Field { alias: None, path: first, hint: Some(hint) });
    }
    let path = path(input)?;
    let hint = if took_colon(input)? { Some(hint(input)?) } else { None };
    Ok(Field { alias: Some(first.root), path, hint })
}

/// Takes a `:` and the blanks around it, if it comes next.
pub fn took_colon(input: &mut Input<'_>) -> Parsed<bool> {
    Ok(opt((blanks, ':', blanks)).parse_next(input)?.is_some())
}

/// The fields of a list behind its `{`, and the `}`.
pub fn field_list(input: &mut Input<'_>) -> Parsed<Vec<Field>> {
    let mut fields = Vec::new();
    blanks(input)?;
    if took(input, "}")? {
        return Ok(fields);
    }
    loop {
        fields.push(field(input)?);
        blanks(input)?;
        if took(input, "}")? {
            return Ok(fields);
        }
        let at = place(input);
        if !took(input, ",")? {
            return match next(input) {
                None => refuse(at, "expected '}'", "a '}' closes the field list"),
                Some(';') => refuse(at, "expected ',' or '}'", "a ',' stands between fields"),
                Some(c) if in_name(c) => refuse(at, "expected ',' or '}'", "a ',' stands between fields"),
                _ => refuse(at, "expected ',' or '}'", ""),
            };
        }
        blanks(input)?;
    }
}

/// Why no path stands here.
fn no_path(input: &Input<'_>) -> Fault {
    let hint = match next(input) {
        Some('$' | '@' | '%') => "arguments go by their names, or arg0, arg1, …",
        Some('"' | '\'' | '-' | '0'..='9') => "the constant stands on the right: pid == 42",
        Some('&') => "'&&' stands between two conditions",
        Some('(') => "one parenthesis is enough",
        _ => "a parameter, argN, ret, or a built-in such as comm",
    };
    Fault::new(place(input), "expected a field", hint)
}

/// Why a name cannot be called.
fn no_call(at: usize, word: &str) -> Fault {
    let near = if Hint::is_word(word) { Some(word) } else { Hint::near(word) };
    let hint = match near {
        Some(near) => format!("a hint stands after its field: arg0:{near}"),
        None => "path(…) is the only one".to_owned(),
    };
    Fault::new(at, format!("'{word}' is no function"), hint)
}

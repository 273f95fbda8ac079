//! Parses a spec: its name, provider and target, and what follows them.

use winnow::{error::ErrMode, stream::Stream};

use super::{
    Provider, Spec,
    fault::Fault,
    lex::{Input, Parsed, blanks, in_target, is_blank, is_name, next, place, refuse, rest, took},
    path, predicate,
};

/// How many ends of a file's path are tried.
const MAX_ENDS: usize = 16;

/// A whole spec.
pub fn spec(input: &mut Input<'_>) -> Parsed<Spec> {
    let name = named(input)?;
    let provider = provider(input)?;
    let mut spec = Spec {
        name,
        provider,
        scope: String::new(),
        target: String::new(),
        offset: 0,
        predicate: None,
        fields: None,
    };
    match provider {
        Provider::Object => object(input, &mut spec)?,
        Provider::Tracepoint => {
            spec.scope = words(input)?.to_owned();
            if spec.scope.is_empty() || !took(input, ":")? || !next(input).is_some_and(in_target) {
                return refuse(
                    place(input),
                    "expected t:CATEGORY:NAME",
                    "such as t:sched:sched_process_exec",
                );
            }
            target(input, &mut spec)?;
        }
        provider if provider.has_path() => within_file(input, &mut spec)?,
        _ => target(input, &mut spec)?,
    }
    Ok(spec)
}

/// `NAME=`, if it stands here.
fn named(input: &mut Input<'_>) -> Parsed<Option<String>> {
    let text = rest(input);
    let Some(end) = text.find([':', '/', '{', '=']).filter(|end| text[*end..].starts_with('=')) else {
        return Ok(None);
    };
    let name = &text[..end];
    if !is_name(name) {
        let what = format!("'{}' is no name", name.chars().take(40).collect::<String>());
        return refuse(place(input), what, "letters, digits and '_' make one");
    }
    input.next_slice(end + 1);
    Ok(Some(name.to_owned()))
}

/// `PROVIDER:`; without one, a kprobe.
fn provider(input: &mut Input<'_>) -> Parsed<Provider> {
    let text = rest(input);
    let end =
        text.find(|c: char| matches!(c, ':' | '/' | '{' | '+' | '=') || is_blank(c)).unwrap_or(text.len());
    let word = &text[..end];
    if !text[end..].starts_with(':') {
        return Ok(Provider::Kprobe);
    }
    if let Some(provider) = Provider::named(word) {
        input.next_slice(end + 1);
        return Ok(provider);
    }
    let hint = match Provider::near(word) {
        Some(near) if near.short() == near.long() => format!("did you mean {}?", near.long()),
        Some(near) => format!("did you mean {} ({})?", near.long(), near.short()),
        None if word.contains('.') => format!("a program or library is probed by u:{word}:SYMBOL"),
        None => String::new(),
    };
    let word: String = word.chars().take(40).collect();
    let fault = Fault::new(place(input), format!("'{word}' is no provider"), hint);
    Err(ErrMode::Cut(Fault { help: Some(format!("providers: {}", Provider::list())), ..fault }))
}

/// What is probed, by a name that may have wildcards, and all that follows.
fn target(input: &mut Input<'_>, spec: &mut Spec) -> Parsed<()> {
    let at = place(input);
    spec.target = words(input)?.to_owned();
    if spec.target.is_empty() {
        return match next(input) {
            Some(c) if !matches!(c, '/' | '{' | '+') && !is_blank(c) => no_name(input, spec.provider),
            Some('/') if at == 0 => {
                refuse(at, "expected a provider", "a program or library is probed by u:PATH:SYMBOL")
            }
            None if at == 0 => refuse(at, "an empty spec", "such as s:write or k:vfs_read"),
            _ => {
                let what = format!("what is to be probed is missing after '{}:'", spec.provider.short());
                refuse(at, what, spec.provider.shape())
            }
        };
    }
    if next(input).is_some_and(|c| !matches!(c, '/' | '{' | '+') && !is_blank(c)) {
        return no_name(input, spec.provider);
    }
    after_target(input, spec)
}

/// The characters here that can stand in what is probed.
fn words<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    let text = rest(input);
    let end = text.find(|c| !in_target(c)).unwrap_or(text.len());
    Ok(input.next_slice(end))
}

fn no_name<T>(input: &Input<'_>, provider: Provider) -> Parsed<T> {
    let bad = next(input).map(String::from).unwrap_or_default();
    refuse(place(input), format!("'{bad}' cannot stand in a name"), provider.shape())
}

/// `[+OFF][/PREDICATE/][{FIELD,…}]` and the end.
fn after_target(input: &mut Input<'_>, spec: &mut Spec) -> Parsed<()> {
    let at = place(input);
    if took(input, "+")? {
        if !spec.provider.takes_offset() {
            let what = format!("an offset has no meaning for {}", spec.provider.long());
            return refuse(at, what, "k: and u: take one");
        }
        if spec.target.contains(['*', '?']) {
            return refuse(
                at,
                "an offset has no meaning with wildcards",
                "it is an instruction of one function",
            );
        }
        let digits_at = place(input);
        let digits = words(input)?;
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let Ok(offset) = parsed else {
            let digits: String = digits.chars().take(40).collect();
            let hint = "a number, such as 16 or 0x10";
            return refuse(digits_at, format!("'{digits}' is no offset in bytes"), hint);
        };
        spec.offset = offset;
    }
    let end = place(input);
    blanks(input)?;
    // Either may come first.
    for _ in 0..2 {
        if spec.predicate.is_none() && took(input, "/")? {
            spec.predicate = Some(predicate::closed(input, Some('/'))?);
            took(input, "/")?;
            blanks(input)?;
        }
        if spec.fields.is_none() && took(input, "{")? {
            spec.fields = Some(path::field_list(input)?);
            blanks(input)?;
        }
    }
    match (next(input), &spec.predicate, &spec.fields) {
        (None, ..) => Ok(()),
        (Some(_), None, None) => {
            let hint = if place(input) > end { "a blank cannot stand in a name" } else { "" };
            refuse(place(input), "expected '/', '{' or the end", hint)
        }
        (Some(_), None, Some(_)) => refuse(place(input), "expected '/' or the end", ""),
        (Some(_), Some(_), None) => refuse(place(input), "expected '{' or the end", ""),
        _ => refuse(place(input), "expected the end", ""),
    }
}

/// A file's path, the symbol or USDT probe in it, and all that follows. Paths hold ':' and predicates too, so
/// the path ends at the first ':' behind which all can be read.
fn within_file(input: &mut Input<'_>, spec: &mut Spec) -> Parsed<()> {
    let start = *input;
    let text = rest(input);
    let parts = if spec.provider == Provider::Usdt { 2 } else { 1 };
    let ends = Ends::of(text, parts);
    let mut furthest: Option<ErrMode<Fault>> = None;
    for end in ends.good {
        *input = start;
        input.next_slice(end + 1);
        let mut tried = Spec { scope: unescape(&text[..end]), ..spec.clone() };
        let length = target_length(&text[end + 1..], parts).unwrap_or(0);
        tried.target = input.next_slice(length).to_owned();
        match after_target(input, &mut tried) {
            Ok(()) => {
                *spec = tried;
                return Ok(());
            }
            Err(error) => {
                let at = |error: &ErrMode<Fault>| match error {
                    ErrMode::Cut(fault) | ErrMode::Backtrack(fault) => fault.at,
                    ErrMode::Incomplete(_) => 0,
                };
                if furthest.as_ref().is_none_or(|known| at(known) < at(&error)) {
                    furthest = Some(error);
                }
            }
        }
    }
    if let Some(error) = furthest {
        return Err(error);
    }
    *input = start;
    input.next_slice(ends.odd);
    let hint = match next(input) {
        Some(c) if is_blank(c) => "a blank in a path is written '\\ '",
        Some('{' | '}') => "a brace in a path is written '\\{'",
        _ => "",
    };
    refuse(place(input), format!("expected {}", spec.provider.shape()), hint)
}

/// `FILE[:PROGRAM]` and the field list.
fn object(input: &mut Input<'_>, spec: &mut Spec) -> Parsed<()> {
    let text = rest(input);
    let start = place(input);
    let ends = Ends::of(text, 1);
    let file = ends.good.first().copied().unwrap_or(ends.stop);
    spec.scope = unescape(&text[..file]);
    input.next_slice(file);
    if took(input, ":")? {
        spec.target = words(input)?.to_owned();
    }
    if spec.scope.is_empty() {
        return refuse(start, "what is to be probed is missing after 'o:'", spec.provider.shape());
    }
    let at = place(input);
    after_target(input, spec)?;
    if spec.predicate.is_some() || spec.scope.ends_with('/') {
        return refuse(at, "an object takes no predicate", "its programs are its own");
    }
    Ok(())
}

/// Where the path of a file may end.
struct Ends {
    /// Each ':' behind which a target stands, and then a character that can follow it; the first few.
    good: Vec<usize>,
    /// Where no path goes on: a blank, a brace, or the end.
    stop: usize,
    /// Where the target behind the last ':' is not one.
    odd: usize,
}

impl Ends {
    fn of(text: &str, parts: usize) -> Ends {
        let mut good = Vec::new();
        let mut colon = None;
        let mut chars = text.char_indices();
        let mut stop = text.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    chars.next();
                }
                ':' if at == 0 => {
                    stop = 0;
                    break;
                }
                ':' => {
                    colon = Some(at);
                    if target_length(&text[at + 1..], parts).is_some() {
                        good.push(at);
                        if good.len() == MAX_ENDS {
                            break;
                        }
                    }
                }
                c if is_blank(c) || matches!(c, '{' | '}') => {
                    stop = at;
                    break;
                }
                _ => {}
            }
        }
        let odd = match colon {
            Some(colon) if stop == text.len() => stop - text[colon + 1..].trim_start_matches(in_target).len(),
            _ => stop,
        };
        Ends { good, stop, odd }
    }
}

/// The length of the target at the start of a text, of one or two names, if it can end there.
fn target_length(text: &str, parts: usize) -> Option<usize> {
    let mut length = 0;
    for part in 0..parts {
        if part > 0 {
            length += usize::from(text[length..].starts_with(':'));
        }
        let rest = &text[length..];
        let words = rest.len() - rest.trim_start_matches(in_target).len();
        if words == 0 || part > 0 && !text[..length].ends_with(':') {
            return None;
        }
        length += words;
    }
    let next = text[length..].chars().next();
    next.is_none_or(|c| matches!(c, '/' | '{' | '+') || is_blank(c)).then_some(length)
}

/// A path without the `\` that keep its characters from ending it.
fn unescape(text: &str) -> String {
    let mut chars = text.chars();
    let mut path = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        path.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    path
}

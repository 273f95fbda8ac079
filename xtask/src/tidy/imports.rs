//! Which room may import which: arrows point down only, and some not at all.

use super::{File, Finding};

/// The rooms, the highest first; a room may import those below its own row.
const ROWS: [&[&str]; 9] = [
    &["cli", "main"],
    &["bench"],
    &["frontend"],
    &["session"],
    &["sink"],
    &["ring", "event", "probe", "perf_data", "symbol"],
    &["schema"],
    &["ledger", "record"],
    &["error"],
];

/// What points down, or to the side of a row, and may not be all the same.
const NEVER: [(&str, &str, &str); 1] =
    [("record", "error", "a record is bytes: what it cannot read is `None` or a small enum")];

/// Imports of other rooms in `src`, its tests included as long as they do not stand at the end of the file.
pub fn check(file: &File) -> Vec<Finding> {
    let Some(inside) = file.path.strip_prefix("src/").filter(|path| path.ends_with(".rs")) else {
        return Vec::new();
    };
    let room = inside.split(['/', '.']).next().unwrap_or_default();
    if room == "lib" {
        return Vec::new();
    }
    let Some(row) = row(room) else {
        return vec![(
            1,
            format!("the room `{room}` is not in the import table (xtask/src/tidy/imports.rs)"),
        )];
    };
    let code = file.code();
    let end = code.iter().position(|line| line.trim() == "#[cfg(test)]").unwrap_or(code.len());
    let text = code[..end].join("\n");
    let mut findings = Vec::new();
    for (at, other) in imported(&text, depth(inside)) {
        let other = if matches!(other.as_str(), "Error" | "ErrorKind" | "Result") {
            "error".to_owned()
        } else {
            other
        };
        let Some(theirs) = self::row(&other) else { continue };
        let line = text[..at].lines().count().max(1);
        if let Some((_, _, why)) = NEVER.iter().find(|(from, to, _)| *from == room && *to == other) {
            findings.push((line, format!("`{room}` imports `{other}`: {why}")));
        } else if other != room && theirs <= row {
            findings.push((line, format!("`{room}` imports `{other}`, which does not lie below it")));
        }
    }
    findings
}

fn row(room: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&room))
}

/// How many `super::` lead from a file's module to the crate's root.
fn depth(inside: &str) -> usize {
    let slashes = inside.matches('/').count();
    if inside.ends_with("/mod.rs") { slashes } else { slashes + 1 }
}

/// The names directly under the crate's root that a text uses, each with its place.
fn imported(text: &str, depth: usize) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in text.match_indices(&root) {
            // `$crate::` and a longer chain of `super::` are other paths.
            if text[..at].ends_with([':', '$'])
                || text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                continue;
            }
            let rest = &text[at + root.len()..];
            let found = if rest.starts_with('{') { group(rest) } else { vec![ident(rest)] };
            names.extend(found.into_iter().filter(|name| !name.is_empty()).map(|name| (at + 1, name)));
        }
    }
    names
}

/// The first names within one pair of braces: of `{a::b, c::{d, e}}`, `a` and `c`.
fn group(text: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (0, Vec::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '{' => {
                depth += 1;
                fresh = depth == 1;
            }
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' => fresh = depth == 1,
            c if fresh && !c.is_whitespace() => {
                names.push(ident(&text[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn ident(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&file(path, text)).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        assert_eq!(found("src/ring/forward.rs", "//! x\nuse crate::session::Session;\n"), [2]);
        assert_eq!(found("src/sink/text.rs", "fn f() { crate::frontend::poll() }\n"), [1]);
        assert_eq!(found("src/schema/mod.rs", "use super::event::Event;\n"), [1]);
        assert_eq!(found("src/schema/btf.rs", "use super::super::event::Event;\n"), [1]);
    }

    #[test]
    fn an_import_to_the_side_is_found_within_braces() {
        assert_eq!(
            found("src/ring/set.rs", "use crate::{\n    error::{Error, probe},\n    probe::Spec,\n};\n"),
            [1]
        );
        assert_eq!(found("src/probe/mod.rs", "use crate::ring::Ring;\n"), [1]);
        assert_eq!(found("src/record/mod.rs", "use crate::{Error};\n"), [1]);
    }

    #[test]
    fn what_points_down_passes() {
        assert!(
            found(
                "src/ring/set.rs",
                "use crate::record::Body;\nuse crate::{Error, Result, ledger::Books};\n"
            )
            .is_empty()
        );
        assert!(
            found("src/ring/set.rs", "// use crate::session::X;\nuse super::sys;\nuse crate::ring::sys;\n")
                .is_empty()
        );
        assert!(found("src/lib.rs", "pub use crate::session::Session;\n").is_empty());
        assert!(
            found("src/record/body.rs", "#[cfg(test)]\nmod tests { use crate::ring::mock; }\n").is_empty()
        );
    }

    #[test]
    fn a_room_without_a_place_in_the_table_is_found() {
        assert_eq!(found("src/attic/mod.rs", ""), [1]);
    }
}

//! Rules on a source file: its head, its length, its unsafe, and what has one home.

use super::{File, Finding};

/// The files that may hold unsafe code.
const UNSAFE: [&str; 15] = [
    "src/cli/script/input.rs",
    "src/probe/counters.rs",
    "src/probe/libbpf.rs",
    "src/ring/array.rs",
    "src/ring/heap.rs",
    "src/ring/mapping.rs",
    "src/ring/slots.rs",
    "src/ring/sys.rs",
    "src/session/arrays.rs",
    "tests/it/bpf.rs",
    "tests/it/ring_live.rs",
    "tests/live/program.rs",
    "tests/live/unmap.rs",
    "xtask/peers/src/libbpf.rs",
    "xtask/peers/src/plain.rs",
];

/// A file's greatest length in lines; 100 to 300 is what it should have.
const LONGEST: usize = 450;

/// A Rust file opens with one `//!` sentence.
pub fn head(file: &File) -> Vec<Finding> {
    if !file.is(&["rs"]) {
        return Vec::new();
    }
    let doc = file.text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let first: Vec<&str> = doc.take_while(|line| !line.is_empty()).collect();
    match first.last() {
        None => vec![(1, "the file does not open with a `//!` sentence that says what it is".to_owned())],
        Some(last) if !last.ends_with(['.', ':']) => {
            vec![(
                first.len(),
                "the first paragraph of the file's `//!` is no sentence: it has no full stop".to_owned(),
            )]
        }
        Some(_) => Vec::new(),
    }
}

/// No file is so long that it must do two things.
pub fn length(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let counts = file.is(&["rs", "c", "h"]) && !file.path.ends_with("vmlinux.h");
    if counts && lines > LONGEST {
        return vec![(
            lines,
            format!("{lines} lines are more than {LONGEST}: the file does more than one thing"),
        )];
    }
    Vec::new()
}

/// Unsafe stands in the listed files only, each with a `JUSTIFICATION:`, and each use below a `SAFETY:`.
pub fn unsafety(file: &File) -> Vec<Finding> {
    if !file.is(&["rs"]) {
        return Vec::new();
    }
    let code = file.code();
    let mut findings = Vec::new();
    let uses = code.iter().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    for (at, line) in uses {
        if !UNSAFE.contains(&file.path.as_str()) {
            findings.push((
                at + 1,
                "unsafe outside the files that are listed for it (xtask/src/tidy/source.rs)".to_owned(),
            ));
        } else if !line.contains("unsafe fn") && !line.contains("unsafe extern") && !argued(&file.text, at) {
            findings.push((at + 1, "unsafe without a `SAFETY:` above it".to_owned()));
        }
    }
    if UNSAFE.contains(&file.path.as_str())
        && file.text.contains("unsafe")
        && !file.text.contains("JUSTIFICATION:")
    {
        findings.push((1, "a file with unsafe has no `JUSTIFICATION:`".to_owned()));
    }
    findings
}

/// Whether a `SAFETY:` comment ends in one of the four lines above: a statement may begin before its unsafe block.
fn argued(text: &str, at: usize) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_comment = |line: usize| lines[line].trim_start().starts_with("//");
    if lines[at].contains("SAFETY:") {
        return true;
    }
    let Some(end) = (at.saturating_sub(4)..at).rev().find(|line| is_comment(*line)) else { return false };
    (0..=end).rev().take_while(|line| is_comment(*line)).any(|line| lines[line].contains("SAFETY:"))
}

/// The files that make system calls for which there is no wrapper.
const SYSTEM_CALLS: [&str; 3] = ["src/ring/sys.rs", "src/ring/slots.rs", "tests/it/bpf.rs"];

/// libbpf-rs is used in `probe` only, and `syscall` in the files listed for it.
pub fn homes(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("src/") || !file.is(&["rs"]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, line) in file.code().iter().enumerate() {
        if has_word(line, "libbpf_rs") && !file.path.starts_with("src/probe/") {
            findings.push((at + 1, "libbpf-rs outside `probe`".to_owned()));
        }
        if line.contains("libc::syscall") && !SYSTEM_CALLS.contains(&&*file.path) {
            findings.push((at + 1, format!("a raw system call outside {}", SYSTEM_CALLS.join(", "))));
        }
    }
    findings
}

/// Whether a word stands in a line as a word of its own.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// A text with its comments and the insides of its string literals blanked, line for line.
pub fn code(text: &str) -> Vec<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (skipped, kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), "")
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), "")
        } else if raw_string(rest).is_some_and(|_| !out.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        {
            (raw_string(rest).unwrap_or(1), "\"\"")
        } else if rest.starts_with('"') {
            (string(rest), "\"\"")
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            (rest.find("\"'").map_or(1, |at| at + 2), "' '")
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.push_str(kept);
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        rest = &rest[skipped..];
    }
    out.lines().map(str::to_owned).collect()
}

/// The length of the string literal that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = true; // the opening quote is not the closing one
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at + 1,
            '\\' if !escaped => escaped = true,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length of the raw string literal that a text begins with, if it does.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r').or_else(|| text.strip_prefix("br"))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    if !after[hashes..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let begin = text.len() - after.len() + hashes + 1;
    Some(text[begin..].find(&close).map_or(text.len(), |end| begin + end + close.len()))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_file_without_a_sentence_is_found() {
        assert_eq!(head(&file("src/a.rs", "use std::fs;\n")).len(), 1);
        assert_eq!(head(&file("src/a.rs", "//! no stop\n\nfn f() {}\n")).len(), 1);
        assert!(head(&file("src/a.rs", "//! A sentence\n//! in two lines.\n//!\n//! more\n")).is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "x\n".repeat(LONGEST + 1);
        assert_eq!(length(&file("src/a.rs", &text)).len(), 1);
        assert!(length(&file("bpf/vmlinux.h", &text)).is_empty());
        assert!(length(&file("src/a.rs", &text[2..])).is_empty());
    }

    #[test]
    fn unsafe_in_another_file_is_found() {
        let text = "//! x.\nfn f() { unsafe { g() } }\n";
        assert_eq!(unsafety(&file("src/record/body.rs", text))[0].0, 2);
        let text = "// unsafe\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert!(unsafety(&file("src/record/body.rs", text)).is_empty());
    }

    #[test]
    fn unsafe_without_its_argument_is_found() {
        let (why, safety) = ("//! JUSTIFICATION: x.\n", "// SAFETY: in two\n// lines.\n");
        let block = "let a =\n    unsafe { g() };\n";
        let found = |text: &str| unsafety(&file("src/ring/sys.rs", text)).len();
        assert_eq!(found(&format!("{why}{safety}{block}")), 0);
        assert_eq!(found(&format!("{why}\n{block}")), 1);
        assert_eq!(found(&format!("{why}// a word\n{block}")), 1);
        assert_eq!(found(&format!("{safety}{block}")), 1);
    }

    #[test]
    fn what_has_one_home_is_found_elsewhere() {
        assert_eq!(homes(&file("src/session.rs", "use libbpf_rs::Map;\n")).len(), 1);
        assert!(homes(&file("src/probe/object.rs", "use libbpf_rs::Map;\n")).is_empty());
        assert_eq!(homes(&file("src/probe/object.rs", "libc::syscall(1)\n")).len(), 1);
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "a /* b\nc */ d // e\n\"f \\\" g\" h r#\"i \" j\"# k '\"' l";
        assert_eq!(code(text), ["a ", " d ", "\"\" h \"\" k ' ' l"]);
    }
}

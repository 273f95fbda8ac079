//! `cargo xtask tidy`: the house rules, checked over every file that is kept in git or could be.
//!
//! Each rule is a function from one file to what is wrong in it; the tests plant a violation and see it found.

mod imports;
mod source;
mod words;

use crate::report::Stage;
use crate::sh;
use anyhow::{Result, bail};
use std::path::Path;

/// One file, as the rules see it.
pub struct File {
    /// Its path from the root.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// What is wrong, and in which line (from 1).
pub type Finding = (usize, String);

/// A rule's name, and the rule.
type Rule = (&'static str, fn(&File) -> Vec<Finding>);

const RULES: [Rule; 7] = [
    ("imports point down", imports::check),
    ("a file says what it is", source::head),
    ("a file is short", source::length),
    ("unsafe is listed, justified, and argued", source::unsafety),
    ("libbpf-rs and raw system calls have one home", source::homes),
    ("plain words", words::banned),
    ("no machine is named", words::places),
];

/// Checks every rule; the exit code is 1 if one is broken.
pub fn run() -> Result<u8> {
    let mut stage = Stage::default();
    check(&mut stage);
    Ok(u8::from(stage.failed()))
}

/// Checks every rule, each counted once.
pub fn check(stage: &mut Stage) {
    let files = match files() {
        Ok(files) => files,
        Err(error) => return stage.check("tidy", Err(error)),
    };
    for (name, rule) in RULES {
        let mut count = 0;
        for file in &files {
            for (line, what) in rule(file) {
                println!("{}:{line}: {what}", file.path);
                count += 1;
            }
        }
        let outcome = if count == 0 { Ok(()) } else { Err(anyhow::anyhow!("{count} findings above")) };
        stage.check(name, outcome);
    }
}

/// Every text file that git keeps, or would keep if it were added. Links are seen as what they point to, once.
fn files() -> Result<Vec<File>> {
    let list =
        sh::text(&mut sh::cmd("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut files = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        let at = sh::root().join(path);
        if !std::fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        if let Ok(text) = std::fs::read_to_string(&at) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    if files.is_empty() {
        bail!("git lists no file: tidy runs in a clone");
    }
    Ok(files)
}

impl File {
    /// Whether the path ends so.
    pub fn is(&self, ends: &[&str]) -> bool {
        Path::new(&self.path).extension().and_then(|end| end.to_str()).is_some_and(|end| ends.contains(&end))
    }

    /// The lines of a Rust or C file with comments and the insides of string literals blanked, line for line.
    pub fn code(&self) -> Vec<String> {
        source::code(&self.text)
    }
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

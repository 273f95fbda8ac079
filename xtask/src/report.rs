//! The count of a test run: by stage, and in the closing line.

use crate::failures::{Failures, brief};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many passed, failed, and were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Ran and held.
    pub passed: u64,
    /// Ran and did not hold, or did not run to its end.
    pub failed: u64,
    /// Did not run, for a reason that was printed.
    pub skipped: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// One stage while it runs.
#[derive(Debug, Default)]
pub struct Stage {
    tally: Tally,
    failures: Vec<String>,
    skips: Vec<String>,
}

impl Stage {
    /// Whether anything in it has failed.
    pub fn failed(&self) -> bool {
        self.tally.failed > 0
    }

    /// Whether nothing has been counted in it.
    pub fn is_empty(&self) -> bool {
        self.tally == Tally::default()
    }

    /// A thing that holds or does not.
    pub fn check(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.tally.passed += 1,
            Err(error) => {
                println!("FAILED: {name}: {error:#}");
                self.tally.failed += 1;
                self.failures.push(format!("{name}: {}", brief(&format!("{error:#}"))));
            }
        }
    }

    /// A thing that was not run.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("skipped: {name}: {reason}");
        self.tally.skipped += 1;
        self.skips.push(format!("{name}: {reason}"));
    }

    /// A run of cargo's tests: their own counts, and a failure more if it fails without one (it did not build).
    pub fn tests(&mut self, name: &str, prefix: &str, command: &mut Command) {
        match stream(prefix, command) {
            Ok(seen) => self.take(name, seen),
            Err(error) => self.check(name, Err(error)),
        }
    }

    /// Takes what a streamed run of tests has shown.
    pub fn take(&mut self, name: &str, mut seen: Seen) {
        let told = seen.failures.told();
        let uncounted = if !seen.success && seen.tally.failed == 0 {
            Some("the command failed before it could count")
        } else if seen.success && seen.tally == Tally::default() && seen.closings == 0 {
            Some("the command ended well, but no test runner closed on a count")
        } else {
            (seen.tally.failed > 0 && told.is_empty()).then_some("no test runner said which")
        };
        if let Some(reason) = uncounted {
            println!("FAILED: {name}: {reason}");
            seen.tally.failed = seen.tally.failed.max(1);
            self.failures.push(format!("{name}: {reason}"));
        }
        self.failures.extend(told.iter().map(|told| format!("{name}: {told}")));
        self.tally.add(seen.tally);
        self.skips.extend(seen.skips.into_iter().map(|skip| format!("{name}: {skip}")));
    }
}

/// What a run of tests printed about itself.
#[derive(Debug, Default)]
pub struct Seen {
    tally: Tally,
    closings: u64,
    skips: Vec<String>,
    failures: Failures,
    success: bool,
}

impl Seen {
    fn line(&mut self, line: &str) {
        self.failures.line(line);
        if line.starts_with("test result: ") {
            self.closings += 1;
            self.tally.add(Tally {
                passed: before(line, " passed"),
                failed: before(line, " failed"),
                skipped: before(line, " ignored"),
            });
        } else if let Some((name, reason)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored"))
        {
            self.skips.push(format!("{}{reason}", name.trim()));
        }
    }
}

/// The number that stands before a word.
fn before(line: &str, word: &str) -> u64 {
    let head = line.split(word).next().unwrap_or_default();
    head.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs a command whose standard output goes to ours line by line, each with a prefix, and is read on the way.
pub fn stream(prefix: &str, command: &mut Command) -> Result<Seen> {
    let words = crate::sh::shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{words}`"))?;
    let mut seen = Seen::default();
    let lines = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    for line in lines.split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{words}` prints"))?;
        let line = String::from_utf8_lossy(&line);
        writeln!(std::io::stdout().lock(), "{prefix}{line}").context("cannot print")?;
        seen.line(&line);
    }
    seen.success = child.wait().with_context(|| format!("cannot wait for `{words}`"))?.success();
    Ok(seen)
}

/// The whole run.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<(String, f32, Stage)>,
}

impl Report {
    /// Runs one stage under its heading.
    pub fn stage(&mut self, name: &str, what: &str, body: impl FnOnce(&mut Stage)) {
        println!("\n== {name}: {what}");
        let begin = Instant::now();
        let mut stage = Stage::default();
        body(&mut stage);
        self.rows.push((name.to_owned(), begin.elapsed().as_secs_f32(), stage));
    }

    /// Prints the summary, the closing line last, and returns the exit code.
    pub fn close(&self) -> u8 {
        let mut total = Tally::default();
        println!("\n== summary");
        for (name, seconds, stage) in &self.rows {
            println!("{name:<8} {seconds:>7.1} s  {}", stage.tally);
            total.add(stage.tally);
        }
        for (name, _, stage) in &self.rows {
            for skip in &stage.skips {
                println!("skipped in {name}: {skip}");
            }
        }
        for (name, _, stage) in &self.rows {
            for failure in &stage.failures {
                println!("FAILED in {name}: {failure}");
            }
        }
        if total.passed + total.failed == 0 {
            println!("no test ran");
            total.failed = 1;
        }
        println!("{total}");
        u8::from(total.failed > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, success: bool) -> Stage {
        let mut seen = Seen { success, ..Seen::default() };
        text.lines().for_each(|line| seen.line(line));
        let mut stage = Stage::default();
        stage.take("x", seen);
        stage
    }

    #[test]
    fn closing_lines_are_summed_and_skips_are_kept() {
        let stage = seen(
            "test a ... ok\ntest b   ... ignored (no kprobes here)\n\nfailures:\n\n---- c ----\nwhy\n\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n",
            false,
        );
        assert_eq!(stage.tally, Tally { passed: 5, failed: 1, skipped: 1 });
        assert_eq!(stage.skips, ["x: b (no kprobes here)"]);
        assert_eq!(stage.failures, ["x: c\n    why"]);
    }

    #[test]
    fn a_run_that_did_not_build_is_a_failure() {
        let stage = seen("", false);
        assert_eq!(stage.tally.failed, 1);
        assert_eq!(stage.failures, ["x: the command failed before it could count"]);
    }

    #[test]
    fn a_failure_that_nobody_named_is_said() {
        let closing = "test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        let stage = seen(closing, false);
        assert_eq!((stage.tally.failed, stage.failures.len()), (2, 1));
    }

    #[test]
    fn a_check_that_fails_says_why() {
        let mut stage = Stage::default();
        stage.check("layout", Err(anyhow::anyhow!("line 3 is too long")));
        assert_eq!(stage.failures, ["layout: line 3 is too long"]);
    }

    #[test]
    fn a_run_that_says_nothing_is_a_failure() {
        assert_eq!(seen("", true).tally.failed, 1);
    }

    #[test]
    fn a_report_without_a_test_fails() {
        assert_eq!(Report::default().close(), 1);
    }
}

//! `cargo xtask fuzz`: the targets of tests/fuzz, on the nightly compiler, under AddressSanitizer.
//!
//! A target that `tests/fuzz/Cargo.toml` lists as `planted = […]` under `[package.metadata.xtask]` is built once more
//! with `--cfg planted_fault`, and then must fail: a fuzzer that finds nothing is worth what it finds when there is
//! something.

use crate::report::Stage;
use crate::sh;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

const DIR: &str = "tests/fuzz";

/// `fuzz [TARGET] [SECS]`
pub fn run(args: &[String]) -> Result<u8> {
    let tools = tools()?;
    let (mut names, mut seconds) = (Vec::new(), 60);
    for arg in args {
        match arg.parse() {
            Ok(number) => seconds = number,
            Err(_) => names.push(arg.clone()),
        }
    }
    let known = names_of(&manifest_text()?, "name");
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target `{name}`: there are {}", known.join(", "));
    }
    let names = if names.is_empty() { known } else { names };
    for name in &names {
        println!("{name}: {seconds} s");
        sh::must(&mut fuzz(&tools, name, seconds, false))?;
    }
    Ok(0)
}

/// Every target for its time, then the planted faults; two at a time.
pub fn stage(stage: &mut Stage, seconds: u64) {
    if !manifest().is_file() {
        return stage.skip("fuzz", &format!("there is no {}", manifest().display()));
    }
    let (tools, text) = match (tools(), manifest_text()) {
        (Ok(tools), Ok(text)) => (tools, text),
        (Err(error), _) => return stage.skip("fuzz", &format!("{error:#}")),
        (_, Err(error)) => return stage.check("fuzz", Err(error)),
    };
    let plain = names_of(&text, "name").into_iter().map(|name| (name, false));
    let planted = list_of(&text, "planted").into_iter().map(|name| (name, true));
    let mut jobs: Vec<(String, bool)> = plain.chain(planted).collect();
    for with_fault in [false, true] {
        if let Some((name, _)) = jobs.iter().find(|(_, planted)| *planted == with_fault) {
            let built = sh::text(&mut cargo_fuzz(&tools, "build", name, with_fault));
            if let Err(error) = built {
                return stage.check("the fuzz targets build", Err(error));
            }
        }
    }
    jobs.reverse();
    let (jobs, done) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let next = || jobs.lock().ok()?.pop();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, planted)) = next() {
                    let outcome = one(&tools, &name, seconds, planted);
                    if let Ok(mut done) = done.lock() {
                        done.push((if planted { format!("{name}, fault planted") } else { name }, outcome));
                    }
                }
            });
        }
    });
    for (name, outcome) in done.into_inner().unwrap_or_default() {
        if outcome.is_ok() {
            println!("{name}: ok");
        }
        stage.check(&name, outcome);
    }
}

fn one(tools: &str, name: &str, seconds: u64, planted: bool) -> Result<()> {
    let mut command = fuzz(tools, name, seconds, planted);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", sh::shown(&command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), planted) {
        (true, false) => Ok(()),
        // The fuzzer's own word for a find; anything else that failed is no find.
        (false, true) if said.contains("SUMMARY: ") => Ok(()),
        (true, true) => bail!("the planted fault was not found in {seconds} s"),
        (false, _) => bail!("`{}` failed:\n{}", sh::shown(&command), end_of(&said)),
    }
}

fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

fn fuzz(tools: &str, name: &str, seconds: u64, planted: bool) -> Command {
    let mut command = cargo_fuzz(tools, "run", name, planted);
    command.args(["--", &format!("-max_total_time={seconds}"), "-timeout=20", "-rss_limit_mb=4096"]);
    command
}

/// `cargo fuzz`; with a fault planted it has a target folder, a corpus and artifacts of its own.
fn cargo_fuzz(tools: &str, what: &str, name: &str, planted: bool) -> Command {
    let mut command = sh::nightly(["fuzz", what, "--fuzz-dir", DIR, "--target-dir"]);
    command.arg(sh::root().join(if planted { "target/fuzz-planted" } else { "target/fuzz" }));
    if what == "run" {
        let corpus = sh::root()
            .join(if planted { "target/fuzz-planted" } else { "target/fuzz" })
            .join("corpus")
            .join(name);
        if planted {
            let _ = std::fs::remove_dir_all(&corpus);
        }
        let _ = std::fs::create_dir_all(&corpus);
        command.arg(name).arg(corpus);
    }
    if planted {
        command.env("RUSTFLAGS", "--cfg planted_fault");
    }
    command.env("PATH", tools);
    command
}

/// A PATH with cargo-fuzz on it, installed under `target` if need be.
fn tools() -> Result<String> {
    if !sh::succeeds(&mut sh::nightly(["--version"])) {
        bail!("no nightly compiler is here, and the sanitizer needs one (rustup toolchain install nightly)");
    }
    let own = sh::root().join("target/tools/bin");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    if !sh::succeeds(sh::nightly(["fuzz", "--version"]).env("PATH", &path)) {
        println!(
            "missing on this machine: cargo-fuzz, which drives the fuzz targets; it goes to target/tools"
        );
        // Without optimising it: it only starts what does the work, and that takes minutes less.
        let words = ["install", "cargo-fuzz", "--locked", "--quiet", "--debug", "--root", "target/tools"];
        sh::text(&mut sh::cargo(words)).context("cannot install cargo-fuzz")?;
    }
    Ok(path)
}

/// The fuzz targets' manifest.
pub fn manifest() -> PathBuf {
    sh::root().join(DIR).join("Cargo.toml")
}

fn manifest_text() -> Result<String> {
    let file = manifest();
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// The values of a key in the manifest's `[[bin]]` tables.
fn names_of(text: &str, key: &str) -> Vec<String> {
    let tables = text.split("[[bin]]").skip(1).map(|table| table.split("\n[").next().unwrap_or(table));
    tables.filter_map(|table| Some(value(table, key)?.trim_matches('"').to_owned())).collect()
}

/// The strings of a one-line list.
fn list_of(text: &str, key: &str) -> Vec<String> {
    let list = value(text, key).unwrap_or_default().trim_matches(['[', ']']);
    list.split(',')
        .map(|word| word.trim().trim_matches('"').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_says_the_targets() {
        let text = "[package]\nname = \"x\"\n[package.metadata.xtask]\nplanted = [\"ring\"]\n\
            [[bin]]\nname = \"ring\"\npath = \"ring.rs\"\n\n[[bin]]\nname = \"record\"\n[features]\nname = \"no\"\n";
        assert_eq!(names_of(text, "name"), ["ring", "record"]);
        assert_eq!(list_of(text, "planted"), ["ring"]);
        assert!(list_of("[package]\n", "planted").is_empty());
    }
}

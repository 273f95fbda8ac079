//! What a record costs on its way, in instructions: counted by callgrind and held against a committed baseline.

use crate::report::Stage;
use crate::sh;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How far above its baseline a cost may be, in percent.
const SLACK: f64 = 5.0;
/// The two numbers of passes whose difference is counted: what comes before the first record is in both.
const PASSES: [u64; 2] = [2, 6];

/// Runs the stage.
pub fn stage(stage: &mut Stage) {
    let program = match build() {
        Ok(program) => program,
        Err(error) => return stage.check("the costs' program builds", Err(error)),
    };
    stage.tests("no path allocates", "", &mut sh::cmd(&program.display().to_string(), [""; 0]));
    if sh::find("valgrind").is_none() {
        return stage.skip("instructions a record", "valgrind is not here");
    }
    match compare(&program) {
        Ok(None) => stage.check("instructions a record", Ok(())),
        Ok(Some(reason)) => stage.skip("instructions a record", &reason),
        Err(error) => stage.check("instructions a record", Err(error)),
    }
}

/// The program, built as users build the crate.
fn build() -> Result<PathBuf> {
    let words = [
        "test",
        "--no-run",
        "--profile",
        "cost",
        "--no-default-features",
        "--features",
        "test-utils",
        "--locked",
    ];
    let mut build = sh::cargo(words);
    build.args(["--package", "tracer", "--test", "cost", "--message-format", "json"]);
    // What a whole run sets for its own builds would change what is counted.
    build.env_remove("RUSTFLAGS");
    let said = sh::text(&mut build)?;
    let program = said.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    program.context("cargo told of no executable")
}

/// Where the baseline lies.
fn baseline() -> PathBuf {
    sh::root().join("tests/fixtures/cost.txt")
}

/// A reason why nothing can be compared, or nothing where all is as it was. With `TRACER_BLESS` set, writes anew.
fn compare(program: &std::path::Path) -> Result<Option<String>> {
    let compiler = sh::text(&mut sh::cmd("rustc", ["--version"]))?;
    let compiler = format!("{} {}", compiler.trim(), std::env::consts::ARCH);
    let text = std::fs::read_to_string(baseline()).unwrap_or_default();
    let bless = std::env::var_os("TRACER_BLESS").is_some();
    let (written, known) = read(&text);
    if !bless && written != compiler {
        return Ok(Some(format!("the baseline is that of {written}, and this is {compiler}")));
    }
    let mut now = BTreeMap::new();
    for path in sh::text(&mut sh::cmd(&program.display().to_string(), ["list"]))?.lines() {
        now.insert(path.to_owned(), cost(program, path)?);
    }
    if bless {
        let lines: String = now.iter().map(|(path, cost)| format!("{path} {cost:.1}\n")).collect();
        let head = "# Instructions a record, by path; see xtask/src/cost.rs.";
        std::fs::write(baseline(), format!("{head}\n# {compiler}\n{lines}"))?;
        return Ok(None);
    }
    let mut risen = Vec::new();
    for (path, cost) in &now {
        let before = known.get(path).with_context(|| format!("the baseline has no line for {path}"))?;
        let percent = 100.0 * (cost / before - 1.0);
        println!("{path:>8}: {cost:7.1} instructions a record, {percent:+.1} % of the baseline's {before}");
        if percent > SLACK {
            risen.push(format!("{path} by {percent:.1} %"));
        }
    }
    if risen.is_empty() {
        return Ok(None);
    }
    bail!(
        "risen by more than {SLACK} %: {}; if that is its price, write a new baseline (TRACER_BLESS=1 cargo xtask test \
         --only cost) and say why in the commit",
        risen.join(", ")
    )
}

/// The compiler that a baseline is of, and the costs by path.
fn read(text: &str) -> (String, BTreeMap<String, f64>) {
    let compiler = text.lines().filter_map(|line| line.strip_prefix("# rustc")).next().unwrap_or_default();
    let line = |line: &str| {
        let (path, cost) = line.split_once(' ')?;
        Some((path.to_owned(), cost.parse().ok()?))
    };
    (format!("rustc{compiler}"), text.lines().filter_map(line).collect())
}

/// Instructions a record on one path.
fn cost(program: &std::path::Path, path: &str) -> Result<f64> {
    let mut seen = Vec::new();
    for passes in PASSES {
        let words = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=cost::consume*"];
        let mut command = sh::cmd("valgrind", words);
        command.arg(program).arg(path).arg(passes.to_string());
        let output = command.output().context("cannot run valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected : "));
        let instructions = collected.and_then(|(_, n)| n.trim().parse::<f64>().ok());
        let records = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok();
        let (Some(instructions), Some(records)) = (instructions, records) else {
            bail!("`{}` told no counts: {said}", sh::shown(&command));
        };
        seen.push((instructions, records));
    }
    Ok((seen[1].0 - seen[0].0) / (seen[1].1 - seen[0].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_read() {
        let (compiler, costs) = read("# Instructions.\n# rustc 1.2.3 (abc) x86_64\ndrain 12.5\njson 300\n");
        assert_eq!(compiler, "rustc 1.2.3 (abc) x86_64");
        assert_eq!((costs["drain"], costs["json"]), (12.5, 300.0));
    }
}

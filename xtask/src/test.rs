//! `cargo xtask test`: every test, in stages, with one count at the end.

use crate::kernels::{self, KERNELS, Kernel};
use crate::report::{Report, Seen, Stage, stream};
use crate::setup::{self, For};
use crate::{bench, cost, features, fuzz, sh, tidy, vm};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// What was asked for.
struct Options {
    quick: bool,
    only: Vec<String>,
    without: Vec<String>,
    fuzz_seconds: u64,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let mut options = Self { quick: false, only: Vec::new(), without: Vec::new(), fuzz_seconds: 30 };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().with_context(|| format!("{arg} takes a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--only" => options.only.push(value()?),
                "--without" => options.without.push(Kernel::named(&value()?)?.name.to_owned()),
                "--fuzz-time" => {
                    let text = value()?;
                    options.fuzz_seconds =
                        text.parse().with_context(|| format!("`{text}` is no number of seconds"))?;
                }
                other => bail!("test does not know `{other}`: see cargo xtask --help"),
            }
        }
        if let Some(stage) = options.only.iter().find(|stage| !STAGES.iter().any(|(name, ..)| name == stage))
        {
            let names: Vec<_> = STAGES.iter().map(|(name, ..)| *name).collect();
            bail!("no stage `{stage}`: there are {}", names.join(", "));
        }
        Ok(options)
    }

    fn wants(&self, stage: &str) -> bool {
        let left_out = self.quick && matches!(stage, "guests" | "fuzz");
        if self.only.is_empty() { !left_out } else { self.only.iter().any(|only| only == stage) }
    }
}

/// A stage's name, its heading, and its body.
type Row = (&'static str, &'static str, fn(&Options, &mut Stage));

/// The cheap and telling ones first.
const STAGES: [Row; 13] = [
    ("tidy", "the house rules", |_, stage| tidy::check(stage)),
    ("fmt", "the layout of the Rust files", fmt),
    ("clippy", "lints, all of them errors", clippy),
    ("features", "what users build who want some rooms only", |_, stage| features::stage(stage)),
    ("docs", "the documentation builds without a warning", docs),
    ("c", "the layout of the C files", c_layout),
    ("unit", "tests that need no rights: units, documentation, tests/it", unit),
    ("host", "live tests on this machine's own kernel", host),
    ("memory", "the tests of ring and record, with every access watched", memory),
    ("cost", "what a record costs, in instructions and allocations", |_, stage| cost::stage(stage)),
    ("miri", "the pure rooms under Miri", miri),
    ("guests", "live tests on other kernels, in guests", guests),
    ("fuzz", "each fuzz target for its time, and the planted faults found", |options, stage| {
        fuzz::stage(stage, options.fuzz_seconds);
    }),
];

/// Runs the stages and returns 1 if anything failed.
pub fn run(args: &[String]) -> Result<u8> {
    let options = Options::read(args)?;
    setup::set_up(For::Testing)?;
    let mut report = Report::default();
    for (name, what, body) in STAGES.iter().filter(|(name, ..)| options.wants(name)) {
        report.stage(name, what, |stage| body(&options, stage));
    }
    Ok(report.close())
}

/// `cargo WORDS` with the profile and the features that every stage shares, so that they share their builds.
fn cargo(command: &str, words: &[&str]) -> Command {
    let mut cargo = sh::cargo([command, "--profile", "ci", "--all-features", "--locked"]);
    cargo.args(words);
    cargo
}

fn fmt(_: &Options, stage: &mut Stage) {
    stage.check("cargo fmt", sh::must(&mut sh::cargo(["fmt", "--all", "--check"])));
    for (what, manifest) in [("the fuzz targets", fuzz::manifest()), ("the peers", bench::manifest())] {
        if manifest.is_file() {
            stage.check(
                &format!("cargo fmt of {what}"),
                sh::must(sh::cargo(["fmt", "--check", "--manifest-path"]).arg(manifest)),
            );
        }
    }
}

fn clippy(_: &Options, stage: &mut Stage) {
    let words = ["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    stage.check("cargo clippy", sh::must(&mut cargo("clippy", &words)));
    let mut peers = sh::cargo(["clippy", "--profile", "ci", "--locked", "--quiet", "--manifest-path"]);
    peers.arg(bench::manifest()).args(["--target-dir", "target", "--", "-D", "warnings"]);
    stage.check("cargo clippy of the peers", sh::must(&mut peers));
}

fn docs(_: &Options, stage: &mut Stage) {
    let words = ["--no-deps", "--package", "tracer", "--lib", "--quiet"];
    stage.check("cargo doc", sh::must(cargo("doc", &words).env("RUSTDOCFLAGS", "-D warnings")));
}

fn c_layout(_: &Options, stage: &mut Stage) {
    let files = files_in("bpf", &["c", "h"]);
    // The subset of the kernel's types keeps the kernel's layout.
    let files: Vec<_> = files.into_iter().filter(|file| !file.ends_with("vmlinux.h")).collect();
    if files.is_empty() {
        return stage.skip("clang-format", "there are no C files");
    }
    stage.check("clang-format", sh::must(sh::cmd("clang-format", ["--dry-run", "-Werror"]).args(files)));
}

fn unit(_: &Options, stage: &mut Stage) {
    let mut words = vec!["--workspace", "--no-fail-fast", "--lib", "--bins"];
    let tests = pure_tests();
    words.extend(tests.iter().flat_map(|test| ["--test", test.as_str()]));
    stage.tests("units and tests/it", "", &mut cargo("test", &words));
    stage.tests("documentation", "", &mut cargo("test", &["--package", "tracer", "--doc"]));
}

fn host(_: &Options, stage: &mut Stage) {
    let mut words = vec!["--package", "tracer", "--test", "live_host"];
    if !sh::is_root() {
        if sh::find("sudo").is_none() {
            return stage.skip("live_host", "it needs root, and there is no sudo here");
        }
        words.extend(["--config", "target.'cfg(all())'.runner = ['sudo', '--']"]);
    }
    stage.tests("live_host", "", &mut cargo("test", &words));
}

/// The same tests once more, under an eye that sees every access: AddressSanitizer where a nightly compiler is, which
/// costs twice the time, else valgrind, which costs thirty times and so sees fewer rounds. Not those on kernel rings
/// (`ring_live`): what a kernel writes, neither sees.
fn memory(_: &Options, stage: &mut Stage) {
    let tests = pure_tests();
    let tests = tests.iter().flat_map(|test| ["--test", test.as_str()]);
    let names = ["--", "ring", "record", "--skip", "live"];
    if sh::succeeds(&mut sh::nightly(["--version"])) {
        // With a target named, build scripts and macros are left as they are.
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let words = [
            "test",
            "--profile",
            "ci",
            "--all-features",
            "--locked",
            "--package",
            "tracer",
            "--no-fail-fast",
        ];
        let mut command = sh::nightly(words);
        command.args(["--target-dir", "target/asan", "--target", &target, "--lib"]).args(tests).args(names);
        command
            .env("RUSTFLAGS", "-Zsanitizer=address --cap-lints=allow")
            .env("ASAN_OPTIONS", "detect_leaks=0");
        stage.tests("AddressSanitizer", "", &mut command);
    } else if sh::find("valgrind").is_some() {
        let runner =
            "target.'cfg(all())'.runner = ['valgrind', '-q', '--error-exitcode=97', '--fair-sched=yes']";
        let mut command =
            cargo("test", &["--package", "tracer", "--no-fail-fast", "--config", runner, "--lib"]);
        command.args(tests).args(names).env("TRACER_TEST_ATTEMPTS", "2000");
        stage.tests("valgrind", "", &mut command);
    } else {
        return stage.skip("memory", "neither a nightly compiler nor valgrind is here");
    }
    if stage.is_empty() {
        stage.skip("memory", "no test has `ring` or `record` in its name");
    }
}

fn miri(_: &Options, stage: &mut Stage) {
    if !sh::succeeds(&mut sh::nightly(["miri", "--version"])) {
        return stage
            .skip("miri", "no nightly with the Miri component is here (rustup +nightly component add miri)");
    }
    let tests = pure_tests();
    let words =
        ["miri", "test", "--all-features", "--locked", "--package", "tracer", "--no-fail-fast", "--lib"];
    let mut command = sh::nightly(words);
    command.args(tests.iter().flat_map(|test| ["--test", test.as_str()]));
    command.args(["--", "ring", "record", "--skip", "live"]).env("TRACER_TEST_ATTEMPTS", "2000");
    stage.tests("miri", "", command.env("MIRIFLAGS", "-Zmiri-disable-isolation"));
}

/// Two guests at a time: each keeps one of two CPUs busy.
fn guests(options: &Options, stage: &mut Stage) {
    let mut wanted = VecDeque::new();
    for kernel in &KERNELS {
        if options.without.iter().any(|name| name == kernel.name) {
            stage.skip(kernel.name, "--without");
        } else if kernel.is_here() {
            wanted.push_back(kernel);
        } else if let Err(error) = kernels::can_fetch() {
            stage.skip(kernel.name, &format!("{error:#}"));
        } else {
            match kernel.fetch() {
                Ok(()) => wanted.push_back(kernel),
                Err(error) => stage.check(kernel.name, Err(error)),
            }
        }
    }
    if wanted.is_empty() {
        return;
    }
    let targets: Vec<&str> = wanted.iter().flat_map(|kernel| ["--test", kernel.target]).collect();
    if let Err(error) = sh::must(cargo("test", &["--package", "tracer", "--no-run"]).args(targets)) {
        return stage.check("the guests' tests build", Err(error));
    }
    let wanted = Mutex::new(wanted);
    let done: Mutex<Vec<(&'static Kernel, Result<Seen>)>> = Mutex::default();
    let next = || wanted.lock().ok()?.pop_front();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(kernel) = next() {
                    let prefix = format!("[{}] ", kernel.name);
                    // One at a time within a guest's tests: the other CPU is the other guest's.
                    let seen = stream(
                        &prefix,
                        vm::guest(kernel).args(["--locked", "--quiet", "--", "--test-threads=1"]),
                    );
                    if let Ok(mut done) = done.lock() {
                        done.push((kernel, seen));
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_default();
    for (kernel, seen) in done {
        match seen {
            Ok(seen) => stage.take(kernel.name, seen),
            Err(error) => stage.check(kernel.name, Err(anyhow!(error))),
        }
    }
}

/// The test targets that need no rights: every folder of `tests` with a `main.rs`, and every file.
fn pure_tests() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(sh::root().join("tests")) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let tests = paths
        .filter(|path| path.join("main.rs").is_file() || path.extension().is_some_and(|end| end == "rs"));
    let mut names: Vec<_> = tests.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    // It has a stage of its own.
    names.retain(|name| name != "cost");
    names.sort();
    names
}

fn files_in(dir: &str, ends: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(sh::root().join(dir)) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().and_then(|end| end.to_str()).is_some_and(|end| ends.contains(&end)))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Result<Options> {
        Options::read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn quick_leaves_out_what_is_slow() {
        let quick = options(&["--quick"]).unwrap();
        assert!(quick.wants("unit") && !quick.wants("guests") && !quick.wants("fuzz"));
        let only = options(&["--only", "guests", "--without", "5.10"]).unwrap();
        assert!(only.wants("guests") && !only.wants("unit"));
        assert_eq!(only.without, ["5.10"]);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for words in
            [&["--only", "x"][..], &["--without", "4.19"], &["--fast"], &["--fuzz-time", "soon"], &["--only"]]
        {
            assert!(options(words).is_err(), "{words:?}");
        }
    }
}

//! One test as a process of its own: what it breaks, leaks or never ends is its own.

use crate::TESTS;
use crate::context::Context;
use crate::guest::Setting;
use crate::job::tail;
use crate::table::{Test, Verdict};
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The variable that names the test a process is to run.
pub const NAME: &str = "TRACER_LIVE_TEST";
/// The variable that has what tests print shown, also of those that pass.
const SHOW: &str = "TRACER_LIVE_SHOW";
/// The variable that names the file a test's verdict goes to.
const VERDICT: &str = "TRACER_LIVE_VERDICT";

/// The test of that name.
pub fn named(name: &str) -> Option<&'static Test> {
    TESTS.iter().copied().flatten().find(|test| test.name == name)
}

/// The process of one test.
pub fn main(name: &str) -> ExitCode {
    let verdict = match named(name) {
        Some(test) => caught(test),
        None => Verdict::Fail(format!("no test is named `{name}`")),
    };
    let file = std::env::var_os(VERDICT).unwrap_or_default();
    let text = serde_json::to_string(&verdict).expect("a verdict is JSON");
    match std::fs::write(&file, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: cannot write the verdict to {}: {error}", Path::new(&file).display());
            ExitCode::FAILURE
        }
    }
}

fn caught(test: &'static Test) -> Verdict {
    let ctx = match Setting::here().and_then(|setting| Context::new(test, setting)) {
        Ok(ctx) => ctx,
        Err(error) => return Verdict::Fail(format!("{error:#}")),
    };
    let run = std::panic::AssertUnwindSafe(|| Verdict::from((test.run)(&ctx)));
    let verdict = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Verdict::Fail(format!("panicked: {}", words.unwrap_or("without a word")))
    });
    if !matches!(verdict, Verdict::Fail(_)) {
        let _ = std::fs::remove_dir_all(&ctx.scratch);
    }
    verdict
}

/// Whether what tests print is shown though they pass.
pub fn shown() -> bool {
    std::env::var_os(SHOW).is_some()
}

/// Runs a test on the host; what it wrote is part of a failure's message.
pub fn run_on_host(test: &Test) -> Verdict {
    let run = || -> Result<Verdict> {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let log = tempfile::NamedTempFile::new_in(dir).context("cannot make a file for the test's output")?;
        let verdict = supervise(test.name, test.limit, dir, Some(log.as_file()))?;
        if shown() {
            print!("{}", std::fs::read_to_string(log.path()).unwrap_or_default());
        }
        Ok(match verdict {
            Verdict::Fail(message) => {
                let log = std::fs::read(log.path()).unwrap_or_default();
                Verdict::Fail(format!("{message}\n--- its output\n{}", tail(&String::from_utf8_lossy(&log))))
            }
            other => other,
        })
    };
    run().unwrap_or_else(|error| Verdict::Fail(format!("{error:#}")))
}

/// Runs a test in a process of its own, kills it at its limit, and returns what it answered.
pub fn supervise(name: &str, limit: Duration, dir: &Path, log: Option<&File>) -> Result<Verdict> {
    let file = tempfile::NamedTempFile::new_in(dir).context("cannot make a file for the test's verdict")?;
    let program = std::env::current_exe().context("cannot find our own program")?;
    let mut command = Command::new(program);
    command.env(NAME, name).env(VERDICT, file.path()).stdin(Stdio::null()).process_group(0);
    if let Some(log) = log {
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
    }
    let mut child = command.spawn().context("cannot start the test's process")?;
    let group = Pid::from_raw(child.id().cast_signed());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for the test's process")? {
            break status;
        }
        if begin.elapsed() > limit {
            let _ = killpg(group, Signal::SIGKILL);
            child.wait().context("cannot wait for the test's process")?;
            return Ok(Verdict::Fail(format!("ran past its limit of {} s and was killed", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // What the test has left running ends with it.
    let _ = killpg(group, Signal::SIGKILL);
    let text = std::fs::read_to_string(file.path()).unwrap_or_default();
    Ok(serde_json::from_str(&text)
        .unwrap_or_else(|_| Verdict::Fail(format!("its process ended without a verdict: {status}"))))
}

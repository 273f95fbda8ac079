//! Another program, run with a time limit, its output kept.

use crate::context::Context;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A program to run: its output goes to files in the test's folder, so that a full pipe can hold up nothing
/// and a test can look at it meanwhile.
pub struct Job {
    command: Command,
    limit: Duration,
    stdout: Option<Stdio>,
    out: PathBuf,
    err: PathBuf,
}

impl Job {
    /// A program with arguments, no standard input, and a minute.
    pub fn new<S: AsRef<OsStr>>(
        ctx: &Context,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(program);
        // A group of its own, so that a limit ends its children too.
        command.args(args).stdin(Stdio::null()).process_group(0);
        let [out, err] = ["out", "err"].map(|end| ctx.scratch.join(format!("{number}.{end}")));
        Self { command, limit: Duration::from_secs(60), stdout: None, out, err }
    }

    /// Another limit.
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Anything else about the command: environment, folder, user, standard streams but the two that are kept.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// Another standard output than the file, of which nothing is kept then.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Result<Running> {
        let words = self.words();
        let file =
            |path: &Path| File::create(path).with_context(|| format!("cannot make {}", path.display()));
        let stdout = match self.stdout.take() {
            Some(stdout) => stdout,
            None => file(&self.out)?.into(),
        };
        self.command.stdout(stdout).stderr(file(&self.err)?);
        let child = self.command.spawn().with_context(|| format!("cannot run `{words}`"))?;
        Ok(Running { child, words, end: Instant::now() + self.limit, out: self.out, err: self.err })
    }

    /// Runs it to its end; only running past its limit is an error, an exit status is not.
    pub fn run(self) -> Result<Ran> {
        self.start()?.finish()
    }

    /// Runs it to its end; anything but success is an error that shows its output.
    pub fn succeed(self) -> Result<Ran> {
        let ran = self.run()?;
        if !ran.status.success() {
            bail!("{ran}");
        }
        Ok(ran)
    }

    fn words(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// A program that runs; it and its children are killed when this goes.
pub struct Running {
    child: Child,
    words: String,
    end: Instant,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Its pid, which is its process group too.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Sends it a signal, and not its children.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        nix::sys::signal::kill(self.pid(), signal)
            .with_context(|| format!("cannot send {signal} to `{}`", self.words))
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        text(&self.out)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        text(&self.err)
    }

    /// Waits until a condition on it holds; its limit is ours too, and so is its end.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Result<()> {
        while !holds(self) {
            let ended = self.child.try_wait()?;
            if (ended.is_some() || Instant::now() > self.end) && !holds(self) {
                let how = ended
                    .map_or("did not come in its time".to_owned(), |status| format!("never came ({status})"));
                bail!("`{}`: {what} {how}\n{}", self.words, streams(&self.stdout(), &self.stderr()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Result<Ran> {
        let status = loop {
            if let Some(status) =
                self.child.try_wait().with_context(|| format!("cannot wait for `{}`", self.words))?
            {
                break status;
            }
            if Instant::now() > self.end {
                let shown = streams(&self.stdout(), &self.stderr());
                bail!("`{}` ran past its limit and was killed\n{shown}", self.words);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Ran { words: self.words.clone(), status, stdout: self.stdout(), stderr: self.stderr() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    words: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ran {
    /// Its exit code as a shell tells it: 128 and the signal's number if one ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}\n{}", self.words, self.status, streams(&self.stdout, &self.stderr))
    }
}

fn text(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

/// Both streams, the end of each: what a failure shows.
fn streams(out: &str, err: &str) -> String {
    format!("--- stdout\n{}\n--- stderr\n{}\n---", tail(out), tail(err))
}

/// The last 4,000 bytes or so, from a line's beginning.
pub fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(4000);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if from > 0 {
        from += text[from..].find('\n').map_or(0, |line| line + 1);
    }
    text[from..].trim_end()
}

//! A tracing program that runs beside us: started, seen to be attached, stopped, and asked what it lost.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to attach, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// What it is left to settle in once it is attached.
const SETTLE: Duration = Duration::from_millis(100);

/// Makes bpftrace find tracefs where none is mounted: `$0` and what follows is what is run.
const WITH_TRACEFS: &str = "for fs in debugfs:debug tracefs:tracing; do \
    mount -t ${fs%:*} none /sys/kernel/${fs#*:} 2>/dev/null; done; exec \"$0\" \"$@\"";

/// A running program whose events go to /dev/null.
pub struct Tool {
    child: Child,
    ready: Ready,
    errors: PathBuf,
}

/// By what a program is seen to be attached.
enum Ready {
    /// It has made this file.
    File(PathBuf),
    /// It has said something.
    Word,
}

impl Tool {
    /// `tracer run` on this process.
    pub fn tracer(program: &Path, spec: &str, scratch: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let me = std::process::id().to_string();
        // Else its parent, which is us, would be left out.
        command.args(["run", "-p", &me, "--include-self", "-o", "/dev/null", spec]);
        Self::start(command, Ready::Word, scratch)
    }

    /// bpftrace with a program for one probe.
    pub fn bpftrace(program: &str, scratch: &Path) -> Result<Self> {
        let mark = scratch.join("ready");
        let _ = std::fs::remove_file(&mark);
        // It runs this when it begins to read, and by then all is attached.
        let script = format!("BEGIN {{ system(\"touch {}\"); }} {program}", mark.display());
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", WITH_TRACEFS, "bpftrace", "--unsafe", "-e", &script]);
        Self::start(command, Ready::File(mark), scratch)
    }

    fn start(mut command: Command, ready: Ready, scratch: &Path) -> Result<Self> {
        let errors = scratch.join("errors");
        let file = std::fs::File::create(&errors).context("cannot make a file for what it says")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let mut tool = Self { child, ready, errors };
        let until = Instant::now() + PATIENCE;
        while !tool.is_ready() {
            if let Some(status) = tool.child.try_wait()? {
                bail!("it ended before it was attached: {status}\n{}", tool.said());
            }
            ensure!(Instant::now() < until, "it was not attached in {PATIENCE:?}\n{}", tool.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(SETTLE);
        Ok(tool)
    }

    fn is_ready(&self) -> bool {
        match &self.ready {
            Ready::File(file) => file.exists(),
            Ready::Word => !self.said().is_empty(),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Ends it as Ctrl-C does; how many events it says it has lost.
    pub fn stop(mut self) -> Result<u64> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).context("cannot stop it")?;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < until, "it did not end in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = self.said();
        ensure!(!said.contains("balanced: no"), "its books do not balance\n{said}");
        // `… events in 1.0 s (12/s), 12 missing` is the tracer's.
        let lost =
            |line: &str| -> Option<u64> { line.strip_suffix(" missing")?.rsplit(' ').next()?.parse().ok() };
        Ok(said.lines().filter_map(lost).sum())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

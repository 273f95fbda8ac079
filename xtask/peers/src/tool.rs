//! A tracing program that runs beside us: started, seen to be attached, stopped, and asked what it lost.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to attach, and to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// What it is left to settle in once it is attached.
const SETTLE: Duration = Duration::from_millis(100);

/// Makes bpftrace find tracefs where none is mounted: `$0` and what follows is what is run.
const WITH_TRACEFS: &str = "for fs in debugfs:debug tracefs:tracing; do \
    mount -t ${fs%:*} none /sys/kernel/${fs#*:} 2>/dev/null; done; exec \"$0\" \"$@\"";

/// A running program.
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
    /// It has opened a perf event.
    PerfEvent,
}

impl Tool {
    /// The tracer on this process: `words` are a command and its options, but for those that name the process.
    pub fn tracer(program: &Path, words: &[&str], scratch: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let me = std::process::id().to_string();
        // Else its parent, which is us, would be left out.
        command.args(words).args(["-p", &me, "--include-self"]);
        Self::start(command, Ready::Word, scratch)
    }

    /// bpftrace with a program for one probe, and options.
    pub fn bpftrace(program: &str, words: &[&str], scratch: &Path) -> Result<Self> {
        let mark = scratch.join("ready");
        let _ = std::fs::remove_file(&mark);
        // It runs this when it begins to read, and by then all is attached.
        let script = format!("BEGIN {{ system(\"touch {}\"); }} {program}", mark.display());
        let mut command = Self::with_tracefs("bpftrace");
        command.args(words).args(["--unsafe", "-e", &script]);
        Self::start(command, Ready::File(mark), scratch)
    }

    /// `perf record` of an event of this process.
    pub fn perf(event: &str, output: &Path, scratch: &Path) -> Result<Self> {
        let mut command = Self::with_tracefs("perf");
        command.args(["record", "-e", event, "-p", &std::process::id().to_string(), "-o"]).arg(output);
        Self::start(command, Ready::PerfEvent, scratch)
    }

    fn with_tracefs(program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", WITH_TRACEFS, program]);
        command
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
            Ready::PerfEvent => {
                let fds = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
                let is_event = |fd: &Path| {
                    std::fs::read_link(fd).is_ok_and(|to| to.as_os_str() == "anon_inode:[perf_event]")
                };
                fds.is_ok_and(|fds| fds.flatten().any(|fd| is_event(&fd.path())))
            }
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Ends it as Ctrl-C does; what it has said.
    pub fn stop(mut self) -> Result<String> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).context("cannot stop it")?;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < until, "it did not end in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = self.said();
        ensure!(!said.contains("balanced: no"), "its books do not balance\n{said}");
        Ok(said)
    }
}

/// How many events the tracer says it has, and how many are missing: `… events in 1.0 s (12/s), 12 missing`.
pub fn told(said: &str) -> (u64, u64) {
    let both = |line: &str| -> Option<(u64, u64)> {
        let events = line.split_once(" events in ")?.0.parse().ok()?;
        let missing =
            line.split_once("/s)")?.1.strip_prefix(", ").and_then(|rest| rest.strip_suffix(" missing"));
        Some((events, missing.map_or(Some(0), |n| n.parse().ok())?))
    };
    said.lines().find_map(both).unwrap_or_default()
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Pid 1 of a guest: mounts, a raw console, then one test after another as it is asked.

use super::{Ask, Say, Setting};
use crate::child;
use crate::table::Verdict;
use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is mounted, and where; a kernel that lacks one is told by the tests that need it.
const MOUNTS: [(&str, &str); 10] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("securityfs", "/sys/kernel/security"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("bpf", "/sys/fs/bpf"),
    ("cgroup2", "/sys/fs/cgroup"),
    // Not over /tmp, where the target folder may lie.
    ("tmpfs", "/scratch"),
];

/// A host that asks nothing for so long is gone, and so are we: the kernel panics at pid 1's end, and QEMU ends.
const IDLE: Duration = Duration::from_secs(600);

/// Never returns.
pub fn main() -> ! {
    if let Err(error) = serve() {
        println!("pid 1: {error:#}");
    }
    std::process::exit(1)
}

fn serve() -> Result<()> {
    let setting = Setting::here()?.context("pid 1 is no guest's: there is no setting")?;
    for (kind, at) in MOUNTS {
        if kind == "devpts" {
            let _ = std::fs::create_dir(at);
        }
        let none: Option<&str> = None;
        if let Err(error) = mount(Some(kind), at, Some(kind), MsFlags::empty(), none) {
            println!("pid 1: cannot mount {kind} on {at}: {error}");
        }
    }
    // Only what makes the kernel panic comes to the console.
    let _ = std::fs::write("/proc/sys/kernel/printk", "1 4 1 1");
    let _ = quiet("ip", ["link", "set", "lo", "up"]);
    raw_console()?;
    say(&setting, &Say::Ready)?;
    let stdin = std::io::stdin();
    let mut lines = BufReader::new(stdin.lock());
    loop {
        if lines.buffer().is_empty() {
            let idle = PollTimeout::try_from(IDLE).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            anyhow::ensure!(
                poll(&mut fds, idle).context("cannot wait for the host")? > 0,
                "the host asks nothing"
            );
        }
        let mut line = String::new();
        anyhow::ensure!(
            lines.read_line(&mut line).context("cannot read from the host")? > 0,
            "the host is gone"
        );
        let ask: Ask =
            serde_json::from_str(line.trim()).with_context(|| format!("cannot understand `{line}`"))?;
        say(&setting, &Say::Started)?;
        let said = match ask {
            Ask::Test(name, limit) => {
                let done = child::supervise(&name, Duration::from_millis(limit), Path::new("/scratch"), None);
                Say::Done(done.unwrap_or_else(|error| Verdict::Fail(format!("{error:#}"))))
            }
            Ask::Command(words, limit) => Say::Exit(command(&words, Duration::from_millis(limit))),
        };
        end_all();
        say(&setting, &said)?;
    }
}

/// One line of ours. It begins with a line's end, as a test may have left one open.
fn say(setting: &Setting, say: &Say) -> Result<()> {
    let text = serde_json::to_string(say).context("cannot write an answer")?;
    let mut out = std::io::stdout().lock();
    write!(out, "\n@@{} {text}\n", setting.nonce)
        .and_then(|()| out.flush())
        .context("cannot write to the console")
}

/// Bytes go through the serial line as they are.
fn raw_console() -> Result<()> {
    let stdin = std::io::stdin();
    let mut terminal = tcgetattr(&stdin).context("cannot read the console's settings")?;
    cfmakeraw(&mut terminal);
    tcsetattr(&stdin, SetArg::TCSANOW, &terminal).context("cannot make the console raw")
}

/// Nothing of a test outlives it.
fn end_all() {
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn quiet<const N: usize>(program: &str, args: [&str; N]) -> std::io::Result<()> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().map(drop)
}

/// A command with the console as its output; its exit code as a shell tells it.
fn command(words: &[String], limit: Duration) -> i32 {
    let Some((program, args)) = words.split_first() else { return 127 };
    let mut child = match Command::new(program).args(args).stdin(Stdio::null()).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("pid 1: cannot run `{program}`: {error}");
            return 127;
        }
    };
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                println!("pid 1: `{program}` ran past its limit");
                return 124;
            }
            Err(error) => {
                println!("pid 1: cannot wait for `{program}`: {error}");
                return 126;
            }
        }
    }
}

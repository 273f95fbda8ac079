//! A command of the user's, started stopped, let go once probes are attached, and waited for.
//!
//! The child first is this very program, which waits for a word on a pipe and then becomes the command; so it has
//! its process id, by which it is traced from its `execve` on, before it runs an instruction of its own.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::{Pid, pipe},
};
use tracer::{Error, ErrorKind, Result, frontend::Control};

use super::signal;

/// The first argument of the child while it waits; no subcommand has such a name.
const WAITING: &str = "__wait-for-go";

/// If this process is the waiting child: waits, then becomes the command. Returns only if that failed.
pub fn trampoline() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()?.to_str() != Some(WAITING) {
        return None;
    }
    let fd = args.next()?.into_string().ok()?;
    let mut go = [0];
    // Opened by name, as a descriptor number has no owner; it is closed by the exec.
    let told = File::open(format!("/proc/self/fd/{fd}")).and_then(|mut pipe| pipe.read_exact(&mut go));
    if told.is_err() {
        // Whoever would trace it has gone.
        return Some(ExitCode::from(1));
    }
    if let Ok(fd) = fd.parse::<i32>() {
        let _ = nix::unistd::close(fd);
    }
    signal::unblock();
    let program = args.next()?;
    let error = Command::new(&program).args(args).exec();
    super::say(&format!("tracer: cannot run '{}': {error}", program.to_string_lossy()));
    Some(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// A command that waits to be let go.
pub struct Waiting {
    child: Child,
    go: OwnedFd,
}

/// A command that runs.
pub struct Running {
    pid: Pid,
    status: Arc<Mutex<Option<ExitStatus>>>,
}

impl Waiting {
    /// Starts the child. Its stdout is our stderr where `aside`, so that events have stdout to themselves.
    pub fn start(cmd: &[OsString], aside: bool) -> Result<Waiting> {
        let cannot = |what: &str, e: std::io::Error| {
            Error::caused(ErrorKind::Runtime, format!("starting '{}': {what}", cmd[0].to_string_lossy()), e)
        };
        let (wait, go) = pipe().map_err(|e| cannot("making a pipe", e.into()))?;
        fcntl(&go, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
            .map_err(|e| cannot("setting up a pipe", e.into()))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WAITING).arg(wait.as_raw_fd().to_string()).args(cmd);
        if aside {
            let stderr = std::io::stderr();
            let copy = std::os::fd::AsFd::as_fd(&stderr).try_clone_to_owned();
            command.stdout(Stdio::from(copy.map_err(|e| cannot("giving it our stderr", e))?));
        }
        let child = command.spawn().map_err(|e| cannot("starting the child", e))?;
        Ok(Waiting { child, go })
    }

    /// Its process id, which the command will have.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go; `control` is woken and told to stop when it has ended.
    pub fn go(self, control: Control) -> Result<Running> {
        let Waiting { mut child, go } = self;
        let cannot = |e| Error::caused(ErrorKind::Runtime, "letting the command go", e);
        File::from(go).write_all(b"g").map_err(cannot)?;
        let pid = Pid::from_raw(child.id() as i32);
        let status = Arc::new(Mutex::new(None));
        let theirs = status.clone();
        let wait = move || {
            let ended = child.wait().ok();
            if let Ok(mut status) = theirs.lock() {
                *status = ended;
            }
            control.stop();
        };
        thread::Builder::new().name("command".into()).spawn(wait).map_err(cannot)?;
        Ok(Running { pid, status })
    }
}

impl Running {
    /// How it ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status.lock().ok().and_then(|status| *status)
    }

    /// Its exit code as a shell would give it, if it has ended; else it is asked to end by SIGTERM.
    pub fn finish(&self) -> Option<u8> {
        match self.status() {
            Some(status) => {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                Some(u8::try_from(code).unwrap_or(1))
            }
            None => {
                let _ = kill(self.pid, Signal::SIGTERM);
                None
            }
        }
    }
}

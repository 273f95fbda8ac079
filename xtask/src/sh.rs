//! Other programs: found, run, read, with errors that name the whole command.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

/// The workspace's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// A command that runs in the workspace's root.
pub fn cmd<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// The cargo that runs us.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    cmd(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), args)
}

/// The nightly cargo, free of what the cargo that runs us has put in the environment.
pub fn nightly<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = cmd("cargo", ["+nightly"]);
    command.args(args);
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// The same command as root: as it is, or by sudo.
pub fn as_root<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<Command> {
    if is_root() {
        return Ok(cmd(program, args));
    }
    if find("sudo").is_none() {
        bail!("`{program}` must run as root, and there is no sudo here: run this command again as root");
    }
    let mut command = cmd("sudo", ["--"]);
    command.arg(program).args(args);
    Ok(command)
}

/// Whether we are root, by the owner of our own process.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Where a program is, along PATH.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command with our own standard streams.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("cannot run `{}`", shown(command)))
}

/// Runs a command with our own standard streams; anything but success is an error.
pub fn must(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command in silence; whether it succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    quiet(command).is_ok_and(|output| output.status.success())
}

/// Runs a command in silence and returns what it wrote; anything but success is an error that carries it.
pub fn text(command: &mut Command) -> Result<String> {
    let output = quiet(command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}: {}", shown(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn quiet(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{}`", shown(command)))
}

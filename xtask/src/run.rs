//! `cargo xtask run`: set up, build in release, and trace.

use crate::setup::{self, For};
use crate::sh;
use anyhow::Result;
use std::os::unix::process::ExitStatusExt;

/// Runs `tracer run ARGS`, ten seconds of its default where there are none, and passes its exit status on.
pub fn run(args: &[String]) -> Result<u8> {
    setup::set_up(For::Building)?;
    sh::must(&mut sh::cargo(["build", "--release", "--package", "tracer", "--bin", "tracer"]))?;
    let tracer = sh::root().join("target/release/tracer").display().to_string();
    let mut command = sh::as_root(&tracer, ["run"])?;
    if args.is_empty() {
        command.args(["--duration", "10s"])
    } else {
        command.args(args)
    };
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    if !sh::is_root() {
        eprintln!("+ {}", sh::shown(&command));
    }
    let status = sh::status(&mut command)?;
    // A signal's status as a shell tells it.
    Ok(status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .and_then(|code| code.try_into().ok())
        .unwrap_or(1))
}

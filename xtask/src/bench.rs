//! `cargo xtask bench`: measurements that compare.

use crate::setup::{self, For};
use crate::sh;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// `bench peers [ARGS]`: builds the readers that are compared, and runs them as root.
pub fn run(args: &[String]) -> Result<u8> {
    let Some(("peers", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) else {
        bail!("bench takes `peers`");
    };
    setup::set_up(For::Building)?;
    let mut build = sh::cargo(["build", "--release", "--locked", "--target-dir", "target/peers"]);
    sh::must(build.arg("--manifest-path").arg(manifest()))?;
    let program = sh::root().join("target/peers/release/tracer-peers").display().to_string();
    let status = sh::status(&mut sh::as_root(&program, rest)?)?;
    Ok(status.code().and_then(|code| code.try_into().ok()).unwrap_or(1))
}

/// The peers' manifest.
pub fn manifest() -> PathBuf {
    sh::root().join("xtask/peers/Cargo.toml")
}

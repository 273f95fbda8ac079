//! `cargo xtask bench`: measurements that compare.

use crate::setup::{self, For};
use crate::sh;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// `bench peers|paced|fields [ARGS]`: builds what is compared, and runs it as root.
pub fn run(args: &[String]) -> Result<u8> {
    let (which, rest) = match args.split_first() {
        Some((first, rest)) if ["peers", "paced", "fields"].contains(&first.as_str()) => {
            (first.as_str(), rest)
        }
        _ => bail!("bench takes `peers`, `paced` or `fields`"),
    };
    let mut words = Vec::new();
    if which == "fields" {
        setup::set_up(For::Testing)?;
        if sh::find("bpftrace").is_none() {
            bail!("fields are measured beside bpftrace, which is not here: install it by hand");
        }
        sh::must(&mut sh::cargo(["build", "--release", "--package", "tracer", "--bin", "tracer"]))?;
        words.extend(["fields".to_owned(), sh::root().join("target/release/tracer").display().to_string()]);
    } else {
        setup::set_up(For::Building)?;
    }
    if which == "paced" {
        words.push(which.to_owned());
    }
    words.extend(rest.iter().cloned());
    let mut build = sh::cargo(["build", "--release", "--locked", "--target-dir", "target/peers"]);
    sh::must(build.arg("--manifest-path").arg(manifest()))?;
    let program = sh::root().join("target/peers/release/tracer-peers").display().to_string();
    let status = sh::status(&mut sh::as_root(&program, words)?)?;
    Ok(status.code().and_then(|code| code.try_into().ok()).unwrap_or(1))
}

/// The peers' manifest.
pub fn manifest() -> PathBuf {
    sh::root().join("xtask/peers/Cargo.toml")
}

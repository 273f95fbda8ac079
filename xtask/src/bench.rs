//! `cargo xtask bench`: measurements that compare.

use crate::script;
use crate::setup::{self, For};
use crate::sh;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// What can be measured.
const ALL: [&str; 6] = ["peers", "paced", "fields", "onward", "script", "cpus"];

/// `bench peers|paced|fields|onward|script|cpus [ARGS]`: builds what is compared, and runs it, as root if need be.
pub fn run(args: &[String]) -> Result<u8> {
    let (which, rest) = match args.split_first() {
        Some((first, rest)) if ALL.contains(&first.as_str()) => (first.as_str(), rest),
        _ => bail!("bench takes one of {}", ALL.join(", ")),
    };
    if which == "script" {
        return script::run(rest);
    }
    if which == "cpus" {
        return cpus(rest);
    }
    let mut words = vec![which.to_owned()];
    let others: &[&str] = match which {
        "fields" => &["bpftrace"],
        "onward" => &["bpftrace", "perf"],
        _ => &[],
    };
    if others.is_empty() {
        setup::set_up(For::Building)?;
    } else {
        setup::set_up(For::Testing)?;
        for other in others {
            if sh::find(other).is_none() {
                bail!("{which} is measured beside {other}, which is not here: install it by hand");
            }
        }
        sh::must(&mut sh::cargo(["build", "--release", "--package", "tracer", "--bin", "tracer"]))?;
        words.push(sh::root().join("target/release/tracer").display().to_string());
    }
    words.extend(rest.iter().cloned());
    let mut build = sh::cargo(["build", "--release", "--locked", "--target-dir", "target/peers"]);
    sh::must(build.arg("--manifest-path").arg(manifest()))?;
    let program = sh::root().join("target/peers/release/tracer-peers").display().to_string();
    let status = sh::status(&mut sh::as_root(&program, words)?)?;
    Ok(status.code().and_then(|code| code.try_into().ok()).unwrap_or(1))
}

/// A machine of 256 CPUs over rings that have no kernel: tests that print what they measure, and need no right.
fn cpus(args: &[String]) -> Result<u8> {
    if !args.is_empty() {
        bail!("bench cpus takes no arguments");
    }
    setup::set_up(For::Building)?;
    let build = ["test", "--release", "--package", "tracer", "--no-default-features", "--test", "it"];
    let run = ["--features", "probe,test-utils", "_cpus::", "--", "--nocapture", "--test-threads", "1"];
    sh::must(&mut sh::cargo(build.iter().chain(&run)))?;
    Ok(0)
}

/// The peers' manifest.
pub fn manifest() -> PathBuf {
    sh::root().join("xtask/peers/Cargo.toml")
}

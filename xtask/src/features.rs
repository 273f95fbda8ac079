//! Each combination of features that makes sense builds without a warning, on other machines too, and the package from
//! what it packs.

use crate::report::Stage;
use crate::sh;
use anyhow::{Result, bail};

/// What users take alone: rings without libbpf, the grammar, recordings, names, and specs in with events out.
const COMBINATIONS: [&str; 10] = [
    "ring",
    "spec",
    "perf-data",
    "symbol",
    "channel",
    "tokio",
    "probe",
    "probe,channel",
    "probe,perf-data",
    "channel,tokio",
];
/// What must build for machines that are not here: the rooms that need no C compiler.
const ELSEWHERE: [&str; 3] = ["ring", "spec", "channel"];
/// Weakly ordered, and of 32 bits.
const TARGETS: [&str; 2] = ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu"];

/// Runs the stage.
pub fn stage(stage: &mut Stage) {
    for features in COMBINATIONS {
        stage.check(&format!("--features {features}"), check(features, None));
    }
    for target in TARGETS {
        if let Err(reason) = installed(target) {
            stage.skip(target, &format!("{reason:#}"));
            continue;
        }
        for features in ELSEWHERE {
            stage.check(&format!("--features {features} for {target}"), check(features, Some(target)));
        }
    }
    stage.check("cargo package", package());
}

/// By clippy, whose `-D warnings` is the package's alone: what it depends on stays as other stages have built it.
fn check(features: &str, target: Option<&str>) -> Result<()> {
    let mut cargo =
        sh::cargo(["clippy", "--profile", "ci", "--locked", "--quiet", "--package", "tracer", "--lib"]);
    cargo.args(["--no-default-features", "--features", features]);
    target.iter().for_each(|target| _ = cargo.args(["--target", target]));
    sh::must(cargo.args(["--", "-D", "warnings"]))
}

/// Has the standard library for a target, by rustup where it is not here.
fn installed(target: &str) -> Result<()> {
    if sh::find("rustup").is_none() {
        bail!("its standard library is not here, and there is no rustup");
    }
    sh::text(&mut sh::cmd("rustup", ["target", "add", target])).map(drop)
}

/// What would be published holds all that the rooms without libbpf are built from.
fn package() -> Result<()> {
    let words = ["package", "--package", "tracer", "--locked", "--allow-dirty", "--quiet"];
    sh::must(sh::cargo(words).args(["--no-default-features", "--features", "ring"]))
}

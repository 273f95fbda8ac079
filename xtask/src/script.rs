//! `cargo xtask bench script`: a recording read and shown, beside `perf script`, and its records scanned.

use crate::setup::{self, For};
use crate::sh;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// A smaller recording is over before it has told anything.
const LEAST: u64 = 200_000_000;
/// Writes that are recorded: each takes 136 bytes.
const WRITES: &str = "count=2000000";
const ROUNDS: usize = 3;
/// The columns of both: ours without being asked.
const COLUMNS: &str = "comm,pid,tid,cpu,time,event,trace";
/// What is to be reached: times as fast as perf, and GB/s.
const FASTER: f64 = 5.0;
const SCANNED: f64 = 1.0;

/// `bench script [FILE]`: builds ours, records where no file is named, and measures in turn; fails below the targets.
pub fn run(args: &[String]) -> Result<u8> {
    setup::set_up(For::Testing)?;
    if sh::find("perf").is_none() {
        bail!("script is measured beside perf, which is not here: install it by hand");
    }
    let build = ["build", "--release", "--package", "tracer", "--bin", "tracer", "--example", "records"];
    sh::must(&mut sh::cargo(build))?;
    let release = sh::root().join("target/release");
    let tracer = release.join("tracer").display().to_string();
    let file = match args {
        [] => record(&tracer)?,
        [file] => PathBuf::from(file),
        _ => bail!("bench script takes one recording at most"),
    };
    let size = file.metadata().with_context(|| format!("cannot look at {}", file.display()))?.len();
    if size < LEAST {
        bail!("{} has {size} bytes, which is too little to measure by: {LEAST} or more", file.display());
    }
    let name = file.display().to_string();
    let perf = ["perf", "script", "--ns", "-F", COLUMNS, "-i", &name];
    let ours = [&*tracer, "script", "-F", COLUMNS, &name];
    println!("{name}: {:.0} MB, medians of {ROUNDS} rounds in turn", size as f64 / 1e6);
    let mut missed = false;
    let (to_perf, to_ours) = (sh::root().join("target/script.perf"), sh::root().join("target/script.ours"));
    for (what, perf_out, our_out) in [
        ("to /dev/null", Path::new("/dev/null"), Path::new("/dev/null")),
        ("to a file", &*to_perf, &*to_ours),
    ] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(timed(&perf, perf_out)?);
            times[1].push(timed(&ours, our_out)?);
        }
        let [theirs, own] = times.map(median);
        missed |= theirs / own < FASTER;
        println!(
            "{what}: perf script {theirs:.2} s, tracer script {own:.2} s: {:.1} times as fast",
            theirs / own
        );
    }
    let alike = sh::status(&mut sh::cmd("cmp", [&to_perf, &to_ours]))?.success();
    println!("the text is {}", if alike { "the same to the byte" } else { "NOT the same" });
    let _ = (std::fs::remove_file(&to_perf), std::fs::remove_file(&to_ours));
    let records = release.join("examples/records").display().to_string();
    let scans: Vec<f64> = (0..ROUNDS).map(|_| scanned(&records, &name)).collect::<Result<_>>()?;
    let scan = median(scans);
    println!("records scanned at {scan:.2} GB/s");
    Ok(u8::from(missed || !alike || scan < SCANNED))
}

/// Records writes of one byte, and gives the file.
fn record(tracer: &str) -> Result<PathBuf> {
    let file = sh::root().join("target/script.data");
    let name = file.display().to_string();
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", WRITES];
    let words = ["record", "-o", &name, "s:write{fd,count,ret}", "--"];
    sh::must(&mut sh::as_root(tracer, words.into_iter().chain(dd))?)?;
    Ok(file)
}

/// Seconds by the clock that a command takes to write to a file.
fn timed(words: &[&str], out: &Path) -> Result<f64> {
    let file = File::create(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut command = sh::as_root(words[0], &words[1..])?;
    command.stdout(file).stderr(Stdio::null());
    let start = Instant::now();
    sh::must(&mut command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// GB/s of one scan.
fn scanned(records: &str, file: &str) -> Result<f64> {
    let told = sh::as_root(records, [file])?.output().with_context(|| format!("cannot run {records}"))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let rate = told.lines().find_map(|line| line.strip_suffix(" GB/s")?.parse().ok());
    rate.with_context(|| format!("{records} told no rate: {told}"))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

//! `tracer record --flight`: what snapshots hold, what asks for them, and what is between two.

use crate::context::Context;
use crate::job::{Ran, Running};
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("record_flight::two_snapshots_by_a_signal", two_snapshots_by_a_signal),
    // These two are of seconds, which an emulated machine does not keep.
    Test::new("record_flight::a_window_of_time", a_window_of_time).on_host(),
    Test::new("record_flight::a_trigger", a_trigger).on_host(),
    Test::new("record_flight::the_failure_of_the_command", the_failure_of_the_command),
    Test::new("record_flight::what_cannot_be", what_cannot_be),
];

const SPEC: &str = "s:write{fd,count,ret}";

fn scratch(ctx: &Context) -> (PathBuf, String) {
    let file = ctx.scratch.join("x.data");
    let path = file.display().to_string();
    (file, path)
}

/// The file of the `n`th snapshot of so many.
fn nth(file: &Path, n: usize, of: usize) -> PathBuf {
    if n == of { file.to_owned() } else { PathBuf::from(format!("{}.{n}", file.display())) }
}

/// What `tracer script` reads in a file, gaps among the events.
fn lines(ctx: &Context, file: &Path) -> Result<Vec<Value>> {
    let path = file.display().to_string();
    let ran = ctx.tracer(["script", "-f", "json", &path]).succeed()?;
    ran.stdout.lines().map(|line| serde_json::from_str(line).context("a line is no JSON")).collect()
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or(0)
}

fn events(lines: &[Value]) -> impl Iterator<Item = &Value> {
    lines.iter().filter(|line| line["type"] == "event")
}

/// Writes `count` times for as long as it is let.
fn writes(count: u64) -> String {
    format!("while :; do dd if=/dev/zero of=/dev/null bs={count} count=200 status=none; done")
}

/// Asks for a snapshot and waits for it.
fn snapshot(tracer: &mut Running, n: usize) -> Result<()> {
    tracer.signal(Signal::SIGUSR2)?;
    tracer.until("a snapshot", |job| job.stderr().matches("snapshot: ").count() == n)
}

fn balanced(ran: &Ran) {
    assert!(ran.stderr.contains("balanced: yes"), "{ran}");
}

/// Each CPU's numbers go up by one within a snapshot, go on in the next behind the hole that it tells, and stand in
/// one of the two.
fn two_snapshots_by_a_signal(ctx: &Context) -> Outcome {
    let (file, path) = scratch(ctx);
    let words = ["record", "-o", &path, "--flight", "64K", SPEC, "--", "sh", "-c", &writes(512)];
    let mut tracer = ctx.tracer(words).start()?;
    std::thread::sleep(Duration::from_secs(1));
    assert!(!file.exists(), "nothing is written unasked");
    snapshot(&mut tracer, 1)?;
    let first = lines(ctx, &file)?;
    std::thread::sleep(Duration::from_secs(1));
    snapshot(&mut tracer, 2)?;
    std::thread::sleep(Duration::from_secs(1));
    tracer.signal(Signal::SIGINT)?;
    let ran = tracer.finish()?;
    balanced(&ran);
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut told = 0;
    for n in 1..=3 {
        let lines = lines(ctx, &nth(&file, n, 3))?;
        if n == 1 {
            assert_eq!(lines, first, "it was whole when it was taken");
        }
        let mut time = 0;
        let mut gaps: HashMap<u64, u64> = HashMap::new();
        for line in &lines[1..] {
            let cpu = number(line, "cpu");
            match line["type"].as_str() {
                Some("gap") => *gaps.entry(cpu).or_default() += number(line, "count"),
                Some("event") => {
                    let missed = gaps.remove(&cpu).unwrap_or(0);
                    told += missed;
                    let before = last.insert(cpu, number(line, "seq")).unwrap_or(0);
                    assert_eq!(
                        number(line, "seq"),
                        before + missed + 1,
                        "of CPU {cpu} in snapshot {n}\n{ran}"
                    );
                    assert!(number(line, "time") >= time, "in order");
                    time = number(line, "time");
                }
                _ => {}
            }
        }
        assert!(events(&lines).count() > 500, "snapshot {n}: {ran}");
    }
    // The ledger has what was overwritten behind the last one too.
    let said = |text: &str, before: &str| -> u64 {
        let words = text.split(before).next().unwrap_or_default();
        words.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let snapshots: u64 = ran
        .stderr
        .lines()
        .filter(|l| l.contains("overwritten before"))
        .map(|l| said(l, " overwritten"))
        .sum();
    assert!(told > 1000 && told == snapshots, "{told} told: {ran}");
    assert!(told <= said(&ran.stderr, " of them overwritten"), "{told} told: {ran}");
    Ok(())
}

fn a_window_of_time(ctx: &Context) -> Outcome {
    let (file, path) = scratch(ctx);
    let dd = |count| format!("dd if=/dev/zero of=/dev/null bs={count} count=20 status=none");
    let done = ctx.scratch.join("done");
    let script = format!("{}; sleep 3; {}; : > '{}'; exec sleep 60", dd(111), dd(222), done.display());
    let words = ["record", "-o", &path, "--flight", "2s", SPEC, "--", "sh", "-c", &script];
    let mut tracer = ctx.tracer(words).start()?;
    tracer.until("both have written", |_| done.exists())?;
    snapshot(&mut tracer, 1)?;
    tracer.signal(Signal::SIGINT)?;
    let ran = tracer.finish()?;
    balanced(&ran);
    let lines = lines(ctx, &nth(&file, 1, 2))?;
    let counts: Vec<u64> = events(&lines).map(|event| number(&event["args"], "count")).collect();
    assert_eq!(counts, [222; 20], "{ran}");
    Ok(())
}

/// The event that met it is in the snapshot, also where the command ends at once.
fn a_trigger(ctx: &Context) -> Outcome {
    let (file, path) = scratch(ctx);
    let dd = |size, n| format!("dd if=/dev/zero of=/dev/null bs={size} count={n} status=none");
    let script = format!("{0}; {1}; sleep 2; {0}; {1}", dd(512, 3000), dd(777, 1));
    let words =
        ["record", "-o", &path, "--flight", "64K", "--trigger", "count == 777 && comm == \"dd\"", SPEC];
    let ran = ctx.tracer(words.into_iter().chain(["--", "sh", "-c", &script])).succeed()?;
    balanced(&ran);
    assert!(ran.stderr.contains("trigger: met 2 times, 0 more missing"), "{ran}");
    assert_eq!(ran.stderr.matches(", on the trigger").count(), 2, "{ran}");
    for n in 1..=2 {
        let lines = lines(ctx, &nth(&file, n, 2))?;
        let met = events(&lines).filter(|event| event["args"]["count"] == 777).count();
        assert_eq!(met, 1, "snapshot {n}: {ran}");
        assert!(events(&lines).count() > 100, "what led to it: {ran}");
    }
    let words = ["record", "-o", &path, "--flight", "64K", "--trigger", "nothing == 1", SPEC, "--", "true"];
    let ran = ctx.tracer(words).run()?;
    assert!(ran.code() == 2 || ran.code() == 4, "{ran}");
    assert!(ran.stderr.contains("nothing"), "{ran}");
    Ok(())
}

fn the_failure_of_the_command(ctx: &Context) -> Outcome {
    let (file, path) = scratch(ctx);
    let dd = "dd if=/dev/zero of=/dev/null bs=512 count=3000 status=none";
    let record = |end: &str| {
        let script = format!("{dd}; {end}");
        ctx.tracer(["record", "-o", &path, "--flight", "64K", SPEC, "--", "sh", "-c", &script]).run()
    };
    let ran = record("exit 0")?;
    assert!(ran.code() == 0 && !file.exists(), "{ran}");
    balanced(&ran);
    for (end, code, said) in [("exit 3", 3, "exit status: 3"), ("kill -9 $$", 137, "signal: 9")] {
        let ran = record(end)?;
        assert!(ran.code() == code && ran.stderr.contains(said), "{ran}");
        balanced(&ran);
        let lines = lines(ctx, &file)?;
        // A gap for each CPU: dd may have run on more than one.
        let gaps = lines.iter().filter(|line| line["type"] == "gap");
        let (held, gap) =
            (events(&lines).count() as u64, gaps.map(|line| number(line, "count")).sum::<u64>());
        assert!(held > 300 && gap > 0 && held + gap >= 3000, "{held} and {gap}: {ran}");
        assert!(!ctx.scratch.join("x.data.1").exists(), "one snapshot");
    }
    Ok(())
}

fn what_cannot_be(ctx: &Context) -> Outcome {
    let start = Instant::now();
    for (words, code) in [
        (&["--flight", "1M", "-o", "-"][..], 2),
        (&["--flight", "1M", "--rotate", "1M"], 2),
        (&["--flight", "1M", "-n", "5"], 2),
        (&["--flight", "0"], 2),
        (&["--trigger", "ret < 0"], 2),
        (&["--flight", "1M", "--trigger", "ret <"], 2),
        (&["--flight", "1M", "o:nowhere.bpf.o"], 2),
        (&["--flight", "1M", "-o", "/nowhere/x.data"], 6),
        (&["--keep", "3"], 2),
    ] {
        let ran = ctx.tracer(["record"].iter().chain(words).chain(&["--", "true"])).run()?;
        assert_eq!(ran.code(), code, "{words:?}: {ran}");
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    Ok(())
}

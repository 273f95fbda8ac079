//! `-- CMD`, limits, output files and the rest of what a run is told.

use crate::context::Context;
use crate::job::Ran;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::Result;
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("command::its_status_is_ours", its_status_is_ours),
    Test::new("command::its_output_stays_apart", its_output_stays_apart),
    Test::new(
        "command::it_is_asked_to_end_when_the_limit_is_first",
        it_is_asked_to_end_when_the_limit_is_first,
    ),
    Test::new("command::it_is_traced_with_its_children", it_is_traced_with_its_children),
    Test::new("command::a_missing_probe_in_three_ways", a_missing_probe_in_three_ways),
    Test::new("command::loss_beyond_what_is_allowed", loss_beyond_what_is_allowed),
    Test::new("command::every_form_of_time_and_output", every_form_of_time_and_output),
    Test::new("command::a_dry_run_runs_nothing", a_dry_run_runs_nothing),
    Test::new("command::a_duration", a_duration),
];

fn run(ctx: &Context, words: &[&str]) -> Result<Ran> {
    ctx.tracer(["run", "-f", "json"].iter().chain(words)).run()
}

fn its_status_is_ours(ctx: &Context) -> Outcome {
    let cases: [(&[&str], i32); 5] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["no-such-program-anywhere"], 127),
        (&["/dev/null"], 126),
    ];
    for (command, code) in cases {
        let words: Vec<&str> = ["s:write", "--"].iter().chain(command).copied().collect();
        let ran = run(ctx, &words)?;
        assert_eq!(ran.code(), code, "{ran}");
        Trace::read(&ran.stdout)?.sound()?;
    }
    Ok(())
}

fn its_output_stays_apart(ctx: &Context) -> Outcome {
    let ran = run(ctx, &["s:write", "--", "echo", "words of its own"])?;
    let trace = Trace::read(&ran.stdout)?;
    assert!(trace.events().count() == 1 && ran.stderr.contains("words of its own\n"), "{ran}");
    let file = ctx.scratch.join("events").display().to_string();
    let ran = run(ctx, &["-o", &file, "s:write", "--", "echo", "words of its own"])?;
    assert_eq!(ran.stdout, "words of its own\n");
    let trace = Trace::read(&std::fs::read_to_string(&file)?)?;
    assert_eq!(trace.events().count(), 1);
    assert_eq!(trace.events().next().map(|event| event.arg("count")), Some(17));
    trace.sound()
}

fn it_is_asked_to_end_when_the_limit_is_first(ctx: &Context) -> Outcome {
    let said = ctx.scratch.join("said");
    let script = format!(
        "trap 'echo asked > {}; exit 9' TERM; dd if=/dev/zero of=/dev/null bs=1 count=100 status=none; while :; do sleep 0.1; done",
        said.display()
    );
    let mut tracer =
        ctx.tracer(["run", "-f", "json", "-n", "5", "s:write", "--", "sh", "-c", &script]).start()?;
    tracer.until("the footer", |job| job.stdout().contains("\"footer\""))?;
    let ends = Instant::now() + Duration::from_secs(20);
    while !said.exists() && Instant::now() < ends {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(said.exists(), "the command was not asked to end");
    let ran = tracer.finish()?;
    assert_eq!(ran.code(), 0, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    assert_eq!(trace.events().count(), 5);
    Ok(())
}

/// From its first instruction, and all that it starts.
fn it_is_traced_with_its_children(ctx: &Context) -> Outcome {
    let dd = |count: u32| format!("dd if=/dev/zero of=/dev/null bs=1 count={count} status=none");
    let script = format!("{}; ({} & {}; wait); sh -c '{}'", dd(10), dd(20), dd(30), dd(40));
    let ran = run(ctx, &["rt:sched_process_exec", "s:write", "--", "sh", "-c", &script])?;
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    let writes = trace.events().filter(|event| event.event == "write" && event.comm == "dd").count();
    assert_eq!(writes, 100, "{ran}");
    let first = trace.events().min_by_key(|event| event.time).map(|event| (&*event.event, &*event.comm));
    assert_eq!(first, Some(("sched_process_exec", "sh")), "{ran}");
    Ok(())
}

fn a_missing_probe_in_three_ways(ctx: &Context) -> Outcome {
    let with = |how: &[&str]| {
        let words: Vec<&str> =
            how.iter().chain(&["f:no_such_function", "s:write", "--", "true"]).copied().collect();
        run(ctx, &words)
    };
    for how in [&[][..], &["--missing", "error"]] {
        let ran = with(how)?;
        assert!(ran.code() == 4 && ran.stdout.is_empty() && ran.stderr.contains("no_such_function"), "{ran}");
    }
    let ran = with(&["--missing", "warn"])?;
    assert!(ran.code() == 0 && ran.stderr.contains("f:no_such_function: cannot attach"), "{ran}");
    assert_eq!(Trace::read(&ran.stdout)?.header.probes.len(), 1);
    let ran = with(&["--missing", "ignore"])?;
    assert!(ran.code() == 0 && !ran.stderr.contains("no_such_function"), "{ran}");
    let ran = run(ctx, &["--missing", "ignore", "f:no_such_function", "--", "true"])?;
    assert_eq!(ran.code(), 4, "{ran}");
    Ok(())
}

fn loss_beyond_what_is_allowed(ctx: &Context) -> Outcome {
    let dd = ["s:write", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=20000", "status=none"];
    // Bytes that are half the ring, and a sweep that is long: most are lost.
    let with = |how: &[&str]| {
        let small = ["-m", "4K", "--wakeup", "2K"];
        run(ctx, &[how, &small, &dd].concat())
    };
    let ran = with(&["--fail-on-loss"])?;
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    assert!(trace.footer.missing > 0 && ran.code() == 5, "{ran}");
    for (how, code) in [(&["--fail-on-loss=20000"][..], 0), (&[], 0)] {
        let ran = with(how)?;
        assert_eq!(ran.code(), code, "{ran}");
    }
    Ok(())
}

fn every_form_of_time_and_output(ctx: &Context) -> Outcome {
    let dd = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=10", "status=none"];
    for time in ["none", "delta", "mono", "wall", "utc"] {
        let ran = ctx.tracer(["run", "-q", "-t", time].iter().chain(&dd)).succeed()?;
        let lines = ran.stdout.lines().filter(|line| line.contains("write: fd=1 buf=0x")).count();
        assert!(lines == 10 && ran.stderr.is_empty(), "{ran}");
    }
    let ran = ctx.tracer(["run", "-q", "--fields", "comm,count"].iter().chain(&dd)).succeed()?;
    let line = ran.stdout.lines().next().unwrap_or_default();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>().join(" "), "dd count=1", "{ran}");
    for format in ["hex", "raw"] {
        let ran = ctx.tracer(["run", "-q", "-f", format].iter().chain(&dd)).succeed()?;
        assert!(ran.stdout.len() > 10 * 52 && ran.stderr.is_empty(), "{ran}");
    }
    Ok(())
}

fn a_dry_run_runs_nothing(ctx: &Context) -> Outcome {
    let mark = ctx.scratch.join("mark");
    let ran = run(ctx, &["--dry-run", "s:write", "--", "touch", &mark.display().to_string()])?;
    assert_eq!((ran.code(), &*ran.stdout), (0, ""), "{ran}");
    assert!(ran.stderr.starts_with("s:write: ") && !mark.exists(), "{ran}");
    Ok(())
}

fn a_duration(ctx: &Context) -> Outcome {
    let ran = run(ctx, &["--duration", "1500ms", "--comm", "nobody-has-it", "s:write"])?;
    assert_eq!(ran.code(), 0, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    let words = ran.stderr.lines().find(|line| line.starts_with("0 events in ")).unwrap_or_default();
    let seconds: f64 = words.split(' ').nth(3).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    assert!((1.4..10.0).contains(&seconds), "{ran}");
    Ok(())
}

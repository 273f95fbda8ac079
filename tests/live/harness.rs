//! That the harness keeps what it promises the other tests.

use crate::context::Context;
use crate::fail;
use crate::table::{Outcome, Test, Variant, Verdict};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("harness::a_job_ends_at_its_limit", a_job_ends_at_its_limit),
    Test::new("harness::a_job_is_watched_and_signalled", a_job_is_watched_and_signalled),
    Test::new("harness::a_job_that_fails_shows_its_output", a_job_that_fails_shows_its_output),
    Test::new("harness::dd_is_there", dd_is_there).seconds(60),
    Test::new("harness::a_skip_elsewhere_is_a_failure", a_skip_elsewhere_is_a_failure),
    Test::new("harness::the_hosts_cpus_are_left_alone", the_hosts_cpus_are_left_alone).on_host(),
    Test::new("harness::nobody_runs_the_tracer", nobody_runs_the_tracer).in_guests(),
    Test::new("harness::nothing_outlives_its_test", leaves_a_process_behind).in_guests(),
    Test::new("harness::nothing_outlived_its_test", finds_no_process_left).in_guests(),
    Test::new("harness::two_cpus_run_at_the_same_time", two_cpus_run_at_the_same_time)
        .with(Variant::Parallel),
];

fn a_job_ends_at_its_limit(ctx: &Context) -> Outcome {
    let begin = Instant::now();
    let error = ctx.job("sleep", ["600"]).seconds(1).run().unwrap_err().to_string();
    assert!(error.contains("`sleep 600` ran past its limit"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    Ok(())
}

fn a_job_is_watched_and_signalled(ctx: &Context) -> Outcome {
    let script = "trap 'echo got >&2; exit 3' USR1; echo $WORD; while :; do sleep 0.1; done";
    let mut running = ctx
        .job("sh", ["-c", script])
        .with(|command| {
            command.env("WORD", "ready");
        })
        .start()?;
    running.until("`ready`", |job| job.stdout().contains("ready"))?;
    running.signal(Signal::SIGUSR1)?;
    let ran = running.finish()?;
    assert_eq!((ran.code(), ran.stderr.as_str()), (3, "got\n"), "{ran}");
    Ok(())
}

fn a_job_that_fails_shows_its_output(ctx: &Context) -> Outcome {
    let error =
        ctx.job("sh", ["-c", "echo out; echo err >&2; kill -KILL $$"]).succeed().unwrap_err().to_string();
    assert!(["signal: 9", "out", "err"].iter().all(|word| error.contains(word)), "{error}");
    Ok(())
}

fn dd_is_there(ctx: &Context) -> Outcome {
    let ran = ctx.dd(1000, 1).succeed()?;
    assert_eq!(ran.stdout, "");
    Ok(())
}

fn a_skip_elsewhere_is_a_failure(_: &Context) -> Outcome {
    let verdict = || Verdict::Skip("a reason".to_owned());
    let nowhere = Test::new("x", |_| Ok(()));
    let Err(failed) = crate::report(&nowhere, verdict()) else {
        fail!("a skip passed where none is allowed")
    };
    assert!(failed.message().is_some_and(|message| message.ends_with("a reason")));
    let here = Test::new("x", |_| Ok(())).may_skip(&[crate::table::Kernel::OURS]);
    assert!(crate::report(&here, verdict()).is_ok());
    Ok(())
}

fn the_hosts_cpus_are_left_alone(ctx: &Context) -> Outcome {
    assert!(ctx.offline(1).is_err());
    Ok(())
}

/// The tracer's path is open to a user without rights.
fn nobody_runs_the_tracer(ctx: &Context) -> Outcome {
    let tracer = ctx.tracer_path().display().to_string();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", &tracer, "--version"];
    ctx.job("setpriv", user).succeed()?;
    Ok(())
}

fn leaves_a_process_behind(ctx: &Context) -> Outcome {
    ctx.job("sh", ["-c", "setsid sleep 54321 >/dev/null 2>&1 &"]).succeed()?;
    Ok(())
}

fn finds_no_process_left(_: &Context) -> Outcome {
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&line).contains("54321"),
            "{} is still there",
            entry.path().display()
        );
    }
    Ok(())
}

/// With two threads of QEMU, two busy loops take little more time than one; no bound is put on that here, as the host
/// may be loaded: only that both run to their end.
fn two_cpus_run_at_the_same_time(ctx: &Context) -> Outcome {
    assert_eq!(ctx.variant, Variant::Parallel);
    let busy = |cpu: &'static str| {
        ctx.job("taskset", ["-c", cpu, "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
    };
    let (one, two) = (busy("0").start()?, busy("1").start()?);
    assert!(one.finish()?.status.success() && two.finish()?.status.success());
    Ok(())
}

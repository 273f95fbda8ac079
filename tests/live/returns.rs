//! Returns and their entries: arguments, return value and latency of one call, never of two.

use crate::context::Context;
use crate::program::{self, RECURSIVE};
use crate::table::{Outcome, Test};
use crate::trace::Trace;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("returns::of_system_calls", of_system_calls),
    Test::new("returns::of_a_call_that_replaces_its_registers", of_a_call_that_replaces_its_registers),
    Test::new("returns::of_a_recursive_function", of_a_recursive_function),
    Test::new("returns::of_kernel_functions", of_kernel_functions).in_guests(),
    Test::new("returns::calls_that_do_not_return", calls_that_do_not_return),
];

fn trace(ctx: &Context, specs: &[&str], command: &[&str]) -> anyhow::Result<Trace> {
    let words: Vec<&str> =
        ["run", "-f", "json"].iter().chain(specs).chain(&["--"]).chain(command).copied().collect();
    Trace::read(&ctx.tracer(words).succeed()?.stdout)
}

fn pairs_hold(seen: &Trace) -> Outcome {
    assert_eq!(seen.identity("pairs").and_then(|identity| identity.holds), Some(true));
    seen.sound()
}

fn of_system_calls(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=100", "status=none"];
    // With the latency an entry is kept; without it all is at hand at the return.
    for fields in ["{fd,count,ret,lat}", "{fd,count,ret}"] {
        let seen = trace(ctx, &[&format!("s:write/comm==\"dd\"/{fields}")], &dd)?;
        assert_eq!(seen.events().count(), 100, "{fields}");
        for event in seen.events() {
            assert_eq!((event.arg("fd"), event.arg("count"), event.arg("ret")), (1, 7, 7), "{event:?}");
            assert!(!fields.contains("lat") || (1..1_000_000_000).contains(&event.arg("lat")), "{event:?}");
        }
        pairs_hold(&seen)?;
    }
    // A predicate on what is known at the return alone.
    let seen = trace(ctx, &["s:write/ret==7 && lat<1s/{count}", "s:write/ret!=7/{ret}"], &dd)?;
    assert_eq!(seen.events().filter(|event| event.comm == "dd").count(), 100);
    pairs_hold(&seen)
}

/// execve leaves no argument where it was.
fn of_a_call_that_replaces_its_registers(ctx: &Context) -> Outcome {
    let seen = trace(ctx, &["s:execve{filename:x,argv,ret}"], &["sh", "-c", "exec dd count=0 status=none"])?;
    let good = seen.events().filter(|event| event.arg("ret") == 0).collect::<Vec<_>>();
    assert!(!good.is_empty());
    assert!(
        good.iter().all(|event| event.text("filename") != "0x0" && event.text("argv") != "0x0"),
        "{good:?}"
    );
    pairs_hold(&seen)
}

fn of_a_recursive_function(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let command: Vec<&str> = [&*me].into_iter().chain(program::args(&["recursion", "9", "20"])).collect();
    let seen = trace(ctx, &[&format!("ur:{me}:{RECURSIVE}{{n:arg0:u64,ret:u64,lat}}")], &command)?;
    assert_eq!(seen.events().count(), 200);
    let mut events: Vec<_> = seen.events().collect();
    events.sort_by_key(|event| event.time);
    for (i, event) in events.iter().enumerate() {
        // The innermost returns first, and whoever called it later and with more.
        let n = (i % 10) as u64;
        assert_eq!((event.arg("n"), event.arg("ret")), (n, n * (n + 1) / 2), "event {i}: {event:?}");
        assert!(n == 0 || event.arg("lat") > events[i - 1].arg("lat"), "event {i}: {event:?}");
    }
    pairs_hold(&seen)
}

fn of_kernel_functions(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=100", "status=none"];
    for provider in ["kr", "fr"] {
        let spec = format!("{provider}:vfs_read/comm==\"dd\"/{{count,ret:d,lat}}");
        let seen = trace(ctx, &[&spec], &dd)?;
        let reads = seen.events().filter(|event| event.arg("count") == 512).count();
        assert_eq!(reads, 100, "{spec}");
        for event in seen.events() {
            assert!(event.arg("ret") <= event.arg("count") && event.arg("lat") > 0, "{event:?}");
        }
        pairs_hold(&seen)?;
        assert_eq!(seen.footer.probes[0].paired, seen.footer.probes[0].stored, "{spec}");
    }
    Ok(())
}

/// Neither an entry that waits at the stop nor a return whose entry was before the start is guessed at.
fn calls_that_do_not_return(ctx: &Context) -> Outcome {
    let sleeps = "sleep 0.5 & exec sleep 30";
    let words =
        ["run", "-f", "json", "--duration", "2s", "s:clock_nanosleep{ret,lat}", "--", "sh", "-c", sleeps];
    let seen = Trace::read(&ctx.tracer(words).succeed()?.stdout)?;
    let slept: Vec<u64> = seen.events().map(|event| event.arg("lat")).collect();
    assert!(matches!(slept[..], [lat] if lat >= 500_000_000), "{slept:?}");
    let probe = &seen.footer.probes[0];
    assert_eq!((probe.stored, probe.paired, probe.waiting), (2, 1, Some(1)));
    pairs_hold(&seen)
}

//! `--order`: two CPUs at once, and the events come by their times.

use crate::context::Context;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::Result;

/// The tests of this file.
pub const TESTS: &[Test] = &[Test::new("order::two_cpus_by_time", two_cpus_by_time)];

const WRITES: u64 = 20_000;

fn run(ctx: &Context, order: &str) -> Result<Trace> {
    let dd = format!("dd if=/dev/zero of=/dev/null bs=64 count={WRITES} status=none");
    let both = format!("{dd} & {dd}; wait");
    let words = ["run", "-f", "json", "-m", "8M", "--order", order, "s:write{count}/comm==\"dd\"/"];
    let ran = ctx.tracer(words.into_iter().chain(["--", "sh", "-c", &both])).seconds(110).succeed()?;
    Trace::read(&ran.stdout)
}

fn two_cpus_by_time(ctx: &Context) -> Outcome {
    for order in ["time", "strict", "cpu"] {
        let trace = run(ctx, order)?;
        trace.sound()?;
        // A trampoline's program does not run where the same is preempted on that CPU: the kernel counts those calls.
        let missed = trace.skipped();
        // Among them are those of other processes.
        let told = trace.events().count() as u64;
        assert!(
            told <= 2 * WRITES && told + missed >= 2 * WRITES,
            "--order {order}: {told}, {missed} missed"
        );
        assert_eq!(trace.footer.missing, 0, "--order {order}");
        let mut last = std::collections::HashMap::new();
        for event in trace.events() {
            let stream = if order == "cpu" { event.cpu } else { 0 };
            let before = last.insert(stream, event.time).unwrap_or(0);
            assert!(event.time >= before, "--order {order}: {event:?} after {before}");
        }
    }
    Ok(())
}

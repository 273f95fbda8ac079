//! A third party that empties a slot of our perf event array is noticed and named.

use crate::context::Context;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore, MapHandle};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// The tests of this file.
pub const TESTS: &[Test] = &[Test::new("theft::an_emptied_slot_is_named", an_emptied_slot_is_named)];

/// The id of the perf event array that a process holds.
fn array_of(pid: Pid) -> Result<u32> {
    /// `BPF_MAP_TYPE_PERF_EVENT_ARRAY`
    const KIND: &str = "map_type:\t4";
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))?.flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if text.lines().any(|line| line == KIND) {
            let id = text.lines().find_map(|line| line.strip_prefix("map_id:"));
            return Ok(id.context("a map without an id")?.trim().parse()?);
        }
    }
    anyhow::bail!("the tracer holds no perf event array")
}

fn an_emptied_slot_is_named(ctx: &Context) -> Outcome {
    let path = ctx.renamed("dd", "dd-robbed")?;
    let mut tracer = ctx.tracer(["run", "-f", "json", "--comm", "dd-robbed", "s:write"]).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    let dd = |count: &'static str| {
        ctx.job("taskset", ["-c", "1", &path, "if=/dev/zero", "of=/dev/null", "bs=1", count, "status=none"])
            .succeed()
    };
    dd("count=100")?;
    // The wake rule follows the rate, and a change of it writes the slot anew: a theft just before one is undone by it.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let array = MapHandle::from_map_id(array_of(tracer.pid())?)?;
    array.delete(&1u32.to_ne_bytes())?;
    dd("count=50")?;
    tracer.until("an error line", |job| job.stdout().contains("\"error\""))?;
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    assert_eq!(ran.code(), 5, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    let errors: Vec<&str> = trace.errors().collect();
    assert!(matches!(errors[..], [error] if error.contains("slot of CPU 1")), "{errors:?}");
    assert!(!trace.footer.balanced);
    let tail = trace.identity("tail").context("the tail")?;
    assert!(
        tail.holds == Some(false)
            && tail.remarks.iter().any(|why| why.contains("cpu 1") && why.contains("slot"))
    );
    // All else still adds up.
    let others = trace.footer.identities.iter().filter(|identity| identity.name != "tail");
    for identity in others {
        assert!(identity.holds != Some(false), "{identity:?}");
    }
    assert_eq!((trace.events().count(), trace.failed("enoent"), trace.in_gaps()), (100, 50, 50));
    assert!(ran.stderr.contains("balanced: no: tail"), "{ran}");
    Ok(())
}

//! Programs that interrupt each other on one CPU never write into each other's events.

use crate::context::Context;
use crate::program::{self, TARGET};
use crate::table::{Kernel, Outcome, Test, Variant};
use crate::trace::Trace;
use std::collections::BTreeMap;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("preempt::three_threads_on_one_cpu", three_threads_on_one_cpu).in_guests(),
    Test::new("preempt::three_threads_on_one_cpu_preemptible", three_threads_on_one_cpu)
        .with(Variant::PreemptFull)
        .may_skip(&[Kernel::V5_10]),
];

const THREADS: u64 = 3;
const TURNS: u64 = 2500;

/// Each thread calls a function with its id and its turn, and writes as many bytes as its id is great: so an event
/// that holds another thread's values shows.
fn three_threads_on_one_cpu(ctx: &Context) -> Outcome {
    if ctx.variant == Variant::PreemptFull && ctx.version() < (5, 12) {
        crate::skip!("the kernel {} does not know preempt=", ctx.release);
    }
    let me = ctx.program_path()?;
    let entry = format!("call=u:{me}:{TARGET}");
    let turns = TURNS.to_string();
    let mut words = vec!["run", "-v", "-f", "json", "-m", "4M", &entry, "write=fr:ksys_write", "--", &me];
    words.extend(program::args(&["threads", "3", &turns]));
    let ran = ctx.tracer(words).seconds(110).succeed()?;
    let trace = Trace::read(&ran.stdout)?;
    trace.sound()?;
    let mut turns = BTreeMap::<u32, Vec<u64>>::new();
    let mut levels = BTreeMap::<u8, u64>::new();
    for event in trace.events() {
        let me = u64::from(event.tid);
        *levels.entry(event.level).or_default() += 1;
        if event.event == "call" {
            assert_eq!(event.arg("arg0"), me, "another thread's argument: {event:?}");
            turns.entry(event.tid).or_default().push(event.arg("arg1"));
        } else if event.arg("count") != event.arg("ret") || event.arg("count") != me {
            panic!("another thread's values: {event:?}");
        }
    }
    let delivered = trace.events().count() as u64;
    let scratch = trace.failed("scratch");
    // A trampoline's program that was preempted is not run again on its CPU until it has ended.
    let missed = trace.skipped();
    let in_gaps = trace.in_gaps();
    println!(
        "{delivered} events, {scratch} without scratch, {in_gaps} in gaps, {missed} missed; by level {levels:?}"
    );
    assert_eq!(turns.len() as u64, THREADS);
    // What was missed is not known by task: it may be others' writes too.
    let rest = 2 * THREADS * TURNS - (delivered + scratch + in_gaps);
    assert!(rest <= missed && (missed == 0 || missed - rest < 100), "{rest} of {missed} missed");
    // What a thread did comes in its order.
    assert!(turns.values().all(|turns| turns.is_sorted_by(|a, b| a < b)));
    Ok(())
}

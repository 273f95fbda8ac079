//! `tracer bench`: every workload, hook and reader balances, and what was measured can be compared and drawn.

use crate::context::Context;
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result};
use serde_json::Value;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("bench::every_workload_balances", every_workload_balances),
    Test::new("bench::every_hook_of_this_kernel", every_hook_of_this_kernel),
    Test::new("bench::the_ringbuf_on_the_same_work", the_ringbuf_on_the_same_work),
    Test::new("bench::a_full_ring_is_told", a_full_ring_is_told),
    Test::new("bench::compared_and_drawn", compared_and_drawn).on_host(),
    Test::new("bench::what_cannot_be", what_cannot_be),
];

/// Short, and by JSON.
const SHORT: [&str; 6] = ["bench", "--json", "--rounds", "1", "--duration", "200ms"];

fn measure(ctx: &Context, words: &[&str]) -> Result<Vec<Value>> {
    let ran = ctx.tracer(SHORT.iter().chain(words)).seconds(110).succeed()?;
    let parse = |line: &str| serde_json::from_str(line).with_context(|| format!("no JSON: {line}"));
    ran.stdout.lines().map(parse).collect()
}

/// Of a case's only round.
fn of<'a>(case: &'a Value, name: &str) -> &'a Value {
    &case["rounds"][0][name]
}

fn number(case: &Value, name: &str) -> u64 {
    of(case, name).as_u64().unwrap_or_else(|| panic!("{name} of {case}"))
}

fn every_workload_balances(ctx: &Context) -> Outcome {
    let words =
        ["--workload", "write,paced,burst,drain", "--rate", "1000", "--payload", "16,64", "--gather", "1,5"];
    let cases = measure(ctx, &words)?;
    assert_eq!(cases.len(), 4 * 2 * 2);
    for case in &cases {
        assert_eq!(case["balanced"], true, "{case}");
        let (received, failed) = (number(case, "received"), number(case, "failed"));
        assert!(received > 0, "{case}");
        assert_eq!(number(case, "calls"), received + failed, "{case}");
        if case["case"]["gather"] == 5 {
            let records = number(case, "records");
            assert!(records >= received.div_ceil(5) && records < received / 5 + 8, "{case}");
        }
        // What is paced carries its time, gathered or not.
        assert_eq!(of(case, "age").is_null(), case["case"]["workload"]["paced"].is_null(), "{case}");
    }
    Ok(())
}

fn every_hook_of_this_kernel(ctx: &Context) -> Outcome {
    let mut worked = 0;
    for hook in ["fentry", "kprobe", "tp", "raw-tp", "uprobe"] {
        let ran = ctx.tracer(SHORT.iter().chain(&["--attach", hook])).seconds(110).run()?;
        match ran.code() {
            0 => {
                let case: Value = serde_json::from_str(&ran.stdout)?;
                assert!(number(&case, "received") > 0 && case["balanced"] == true, "{ran}");
                worked += 1;
            }
            // This host has no kprobes and no fentry.
            code => assert!(code == 4 && ran.stderr.contains("attaching the benchmark"), "{ran}"),
        }
    }
    let least = if ctx.kernel == crate::table::Kernel::Host { 3 } else { 5 };
    assert!(worked >= least, "{worked} hooks");
    Ok(())
}

fn the_ringbuf_on_the_same_work(ctx: &Context) -> Outcome {
    let cases =
        measure(ctx, &["--reader", "ringbuf,tuned-ringbuf", "--workload", "write,burst", "-m", "64K"])?;
    assert_eq!(cases.len(), 4);
    for case in &cases {
        assert_eq!(case["balanced"], true, "{case}");
        assert!(number(case, "received") > 0, "{case}");
    }
    Ok(())
}

/// A burst into one page loses, and the loss stands beside the rate.
fn a_full_ring_is_told(ctx: &Context) -> Outcome {
    let cases = measure(ctx, &["--workload", "burst", "--payload", "1024", "-m", "4K"])?;
    let [case] = cases.as_slice() else { panic!("{cases:?}") };
    assert!(number(case, "failed") > 0 && case["balanced"] == true, "{case}");
    assert_eq!(
        number(case, "lost"),
        of(case, "accounts")["failed"]["enospc"].as_u64().unwrap_or(0),
        "{case}"
    );
    assert!(case["loss"].as_f64().is_some_and(|loss| loss > 0.0), "{case}");
    Ok(())
}

fn compared_and_drawn(ctx: &Context) -> Outcome {
    let (base, plot) = (ctx.scratch.join("base.json"), ctx.scratch.join("plot.svg"));
    let sweep = ["--payload", "16,128"];
    let first = ctx.tracer(SHORT.iter().chain(&sweep)).succeed()?;
    std::fs::write(&base, &first.stdout)?;
    let (base, plot_name) = (base.display().to_string(), plot.display().to_string());
    let words = ["bench", "--rounds", "1", "--duration", "100ms", "--compare", &base, "--plot", &plot_name];
    let ran = ctx.tracer(words.iter().chain(&sweep)).succeed()?;
    assert!(ran.stdout.starts_with("recv "), "{ran}");
    assert_eq!(ran.stdout.lines().filter(|line| line.starts_with("  rate ")).count(), 2, "{ran}");
    let drawn = std::fs::read_to_string(&plot)?;
    assert!(drawn.starts_with("<svg") && drawn.contains("events received a second"), "{drawn:.200}");
    let other = ctx.tracer(["bench", "--rounds", "1", "--duration", "50ms", "--compare", &base]).succeed()?;
    assert!(!other.stdout.contains("not there"), "{other}");
    Ok(())
}

fn what_cannot_be(ctx: &Context) -> Outcome {
    let refused: [(&[&str], &str); 9] = [
        (&["--payload", "20"], "multiple of 8"),
        (&["--payload", "8"], "multiple of 8"),
        (&["--payload", "1M"], "multiple of 8"),
        (&["--gather", "0"], "cannot share a record"),
        (&["--gather", "100000"], "cannot share a record"),
        (&["--producers", "0"], "--producers 0"),
        (&["--producers", "100000"], "not one that this process may run on"),
        (&["--sample", "raw+colour"], "no field of a sample"),
        (&["--rounds", "0"], "measure nothing"),
    ];
    for (words, why) in refused {
        let ran = ctx.tracer(["bench", "--duration", "50ms"].iter().chain(words)).run()?;
        assert!(ran.code() == 2 && ran.stderr.contains(why), "{words:?}: {ran}");
    }
    let plot = ctx.scratch.join("none.svg").display().to_string();
    let ran = ctx.tracer(["bench", "--rounds", "1", "--duration", "50ms", "--plot", &plot]).run()?;
    assert!(ran.code() == 2 && ran.stderr.contains("varies"), "{ran}");
    Ok(())
}

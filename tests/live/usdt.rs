//! USDT probes: their arguments by the notes, predicates on them, and what is said where there is none.

use crate::context::Context;
use crate::program;
use crate::table::{Kernel, Outcome, Test};
use crate::trace::Trace;
use anyhow::Result;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("usdt::every_kind_of_argument", every_kind_of_argument).may_skip(&[Kernel::V5_10]),
    Test::new("usdt::fields_and_predicates", fields_and_predicates).may_skip(&[Kernel::V5_10]),
    Test::new("usdt::what_is_not_there", what_is_not_there),
];

/// Traces this program as it passes its probe ten times.
fn trace(ctx: &Context, rest: &str) -> Result<Trace> {
    let me = ctx.program_path()?;
    let spec = format!("usdt:{me}:tracer_live:greeting{rest}");
    let program = program::args(&["greets", "10"]);
    let words = ["run", "-f", "json", &spec, "--", &me];
    let ran = ctx.tracer(words.iter().chain(&program)).succeed()?;
    Trace::read(&ran.stdout)
}

/// Before 5.15 libbpf cannot tell the sites of a position-independent program apart, which this one is.
fn has_cookies(ctx: &Context) -> Result<bool> {
    if ctx.version() >= (5, 15) {
        return Ok(true);
    }
    let spec = format!("usdt:{}:tracer_live:greeting", ctx.program_path()?);
    let ran = ctx.tracer(["run", &spec]).run()?;
    assert!(ran.code() == 3 && ran.stderr.contains("5.15") && ran.stderr.contains("-no-pie"), "{ran}");
    Ok(false)
}

fn every_kind_of_argument(ctx: &Context) -> Outcome {
    if !has_cookies(ctx)? {
        crate::skip!("the kernel {} has no BPF cookies", ctx.release);
    }
    let trace = trace(ctx, "")?;
    trace.sound()?;
    let args = |event: &crate::trace::Event| [0, 1, 3, 4, 5].map(|i| event.arg(&format!("arg{i}")));
    let seen: Vec<[u64; 5]> = trace.events().map(args).collect();
    let expected: Vec<[u64; 5]> = (1..=10_u64)
        .map(|i| [(-(i as i64)).cast_unsigned(), i << 40, i, i % 2, (-9_i64).cast_unsigned()])
        .collect();
    assert_eq!(seen, expected);
    assert!(trace.events().all(|event| event.event == "greeting" && event.arg("arg2") != 0));
    Ok(())
}

fn fields_and_predicates(ctx: &Context) -> Outcome {
    if !has_cookies(ctx)? {
        crate::skip!("the kernel {} has no BPF cookies", ctx.release);
    }
    let seen = trace(ctx, "/arg0<-3 && arg4==1/{text:arg2:str, arg0}")?;
    seen.sound()?;
    let shown: Vec<(&str, u64)> =
        seen.events().map(|event| (event.text("text"), event.arg("arg0").wrapping_neg())).collect();
    assert_eq!(shown, [("hello, probe", 5), ("hello, probe", 7), ("hello, probe", 9)]);
    let seen = trace(ctx, "/arg2:str==\"hello*\" && arg3 in (2, 8)/{arg3}")?;
    seen.sound()?;
    assert_eq!(seen.events().map(|event| event.arg("arg3")).collect::<Vec<_>>(), [2, 8]);
    // And those of other tests that pass the probe at this moment.
    assert!(seen.footer.probes[0].filtered >= 8);
    Ok(())
}

fn what_is_not_there(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let cases = [
        (format!("usdt:{me}:tracer_live:meeting"), 4, "tracer_live:greeting"),
        (format!("usdt:{}:tracer_live:greeting", ctx.tracer_path().display()), 4, "no such probe"),
        ("usdt:/no/such/file:a:b".to_owned(), 4, "/no/such/file"),
        ("usdt:/proc/self/status:a:b".to_owned(), 4, "a program or a library is wanted"),
        (format!("usdt:{me}:tracer_live:greeting{{arg6}}"), 2, "arg6"),
    ];
    for (spec, code, says) in cases {
        let ran = ctx.tracer(["run", &spec]).run()?;
        assert!(ran.code() == code && ran.stderr.contains(says) && ran.stdout.is_empty(), "{ran}");
    }
    Ok(())
}

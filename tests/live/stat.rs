//! `tracer stat`: what was counted in the kernel, held against what was done.

use crate::context::Context;
use crate::job::Ran;
use crate::program::{self, TARGET};
use crate::table::{Kernel, Outcome, Test, Variant};
use anyhow::{Context as _, Result};
use serde_json::Value;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("stat::counts_sums_and_histograms", counts_sums_and_histograms),
    Test::new("stat::by_key", by_key),
    Test::new("stat::by_stack", by_stack),
    Test::new("stat::latencies_of_calls", latencies_of_calls),
    Test::new("stat::latencies_of_functions", latencies_of_functions).in_guests(),
    Test::new("stat::of_a_pattern", of_a_pattern).in_guests(),
    Test::new("stat::a_full_map", a_full_map),
    Test::new("stat::intervals_add_up", intervals_add_up),
    Test::new("stat::as_text", as_text),
    Test::new("stat::refusals_and_exit_codes", refusals_and_exit_codes),
    Test::new("stat::three_threads_on_one_cpu", three_threads_on_one_cpu).in_guests(),
    Test::new("stat::three_threads_on_one_cpu_preemptible", three_threads_on_one_cpu)
        .with(Variant::PreemptFull)
        .may_skip(&[Kernel::V5_10]),
];

/// What `tracer stat -f json` wrote.
struct Stat {
    lines: Vec<Value>,
    footer: Value,
    ran: Ran,
}

impl Stat {
    fn run(ctx: &Context, words: &[&str]) -> Result<Stat> {
        let ran = ctx.tracer(["stat", "-v", "-f", "json"].iter().chain(words)).seconds(110).run()?;
        let mut lines = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}")))
            .collect::<Result<Vec<Value>>>()?;
        let footer = lines.pop().with_context(|| format!("nothing was written\n{ran}"))?;
        Ok(Stat { lines, footer, ran })
    }

    /// The line of a key, as JSON has it.
    fn key(&self, key: impl Into<Value>) -> &Value {
        let key = key.into();
        let mut found = self.lines.iter().filter(|line| line["type"] == "stat" && line["key"] == key);
        let first = found.next().unwrap_or_else(|| panic!("no {key} in\n{}", self.ran));
        assert!(found.next().is_none(), "{key} is twice in\n{}", self.ran);
        first
    }

    fn account(&self, name: &str) -> u64 {
        number(&self.footer["probes"][0][name])
    }

    /// The books balance, with the identities that counting has, and each count stands in them.
    fn sound(&self) {
        assert_eq!((&self.footer["type"], &self.footer["balanced"]), (&"footer".into(), &true.into()));
        for name in ["accounts", "pairs", "tallies", "runs"] {
            let mut identities = self.footer["identities"].as_array().into_iter().flatten();
            let identity = identities.find(|identity| identity["name"] == name);
            assert_eq!(
                identity.map(|identity| &identity["holds"]),
                Some(&true.into()),
                "{name}\n{}",
                self.ran
            );
        }
        let counts =
            self.lines.iter().filter(|line| line["type"] == "stat").map(|line| number(&line["count"]));
        let probes = self.footer["probes"].as_array().into_iter().flatten();
        let tallied: u64 = probes.map(|probe| number(&probe["tallied"])).sum();
        assert_eq!(counts.sum::<u64>(), tallied, "{}", self.ran);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

const DD: [&str; 6] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=1000", "status=none"];

fn counts_sums_and_histograms(ctx: &Context) -> Outcome {
    let dd = |words: &[&str]| Stat::run(ctx, &[words, &["--"], &DD].concat());
    let seen = dd(&["s:write{count}"])?;
    seen.sound();
    let [line] = &seen.lines[..] else { crate::fail!("{}", seen.ran) };
    assert_eq!(line["spec"], "s:write{count}");
    for (name, n) in [("count", 1000), ("values", 1000), ("sum", 7000), ("min", 7), ("max", 7)] {
        assert_eq!(line[name], n, "{name}\n{}", seen.ran);
    }
    assert_eq!(line["histogram"], serde_json::json!([{"from": 4, "to": 8, "count": 1000}]));
    assert!(line["rate"].as_f64().is_some_and(|rate| rate > 1.0), "{line}");
    // The same by the flag, without a histogram; and a predicate that lets nothing through.
    let seen = dd(&["s:write", "--sum", "count"])?;
    seen.sound();
    let [line] = &seen.lines[..] else { crate::fail!("{}", seen.ran) };
    assert_eq!((&line["sum"], &line["spec"]), (&7000.into(), &"s:write".into()));
    assert!(line.get("histogram").is_none(), "{line}");
    let seen = dd(&["s:write/count==8/{count}"])?;
    seen.sound();
    assert_eq!((seen.lines[0]["count"].clone(), seen.account("tallied")), (0.into(), 0), "{}", seen.ran);
    // Nothing but the number of runs.
    let seen = dd(&["t:raw_syscalls:sys_enter/id==1/{}"])?;
    seen.sound();
    if cfg!(target_arch = "x86_64") {
        assert!(seen.lines[0]["count"] == 1000 && seen.lines[0].get("sum").is_none(), "{}", seen.ran);
    }
    Ok(())
}

fn by_key(ctx: &Context) -> Outcome {
    let two = "for n in 3 5; do dd if=/dev/zero of=/dev/null bs=$n count=${n}0 status=none; done
               dd if=/dev/zero of=/dev/full bs=9 count=1 status=none; exit 3";
    let sh = |words: &[&str]| {
        Stat::run(ctx, &[&["s:write/comm==\"dd\" && fd==1/"], words, &["--", "sh", "-c", two]].concat())
    };
    let seen = sh(&["--by", "count", "--hist", "ret"])?;
    seen.sound();
    assert_eq!((seen.ran.code(), seen.lines.len()), (3, 3), "{}", seen.ran);
    assert_eq!((&seen.key(3)["count"], &seen.key(3)["sum"]), (&30.into(), &90.into()), "{}", seen.ran);
    assert_eq!((&seen.key(5)["count"], &seen.key(5)["sum"]), (&50.into(), &250.into()), "{}", seen.ran);
    // The most frequent first.
    assert_eq!(seen.lines[0]["key"], 5);
    // What is below zero has a sign, and a bucket of its own.
    let full = seen.key(9);
    assert_eq!((&full["sum"], &full["min"], &full["max"]), (&(-28).into(), &(-28).into(), &(-28).into()));
    assert_eq!(full["histogram"], serde_json::json!([{"from": null, "to": 0, "count": 1}]));
    let seen = sh(&["--by", "ret", "--sum", "count"])?;
    seen.sound();
    assert_eq!((&seen.key(-28)["count"], &seen.key(5)["sum"]), (&1.into(), &250.into()), "{}", seen.ran);
    let seen = sh(&["--by", "comm", "--sum", "ret"])?;
    seen.sound();
    assert_eq!((&seen.key("dd")["count"], &seen.key("dd")["sum"]), (&81.into(), &312.into()), "{}", seen.ran);
    let seen = sh(&["--by", "pid", "--sum", "count"])?;
    seen.sound();
    assert_eq!(seen.lines.len(), 3, "one for each dd\n{}", seen.ran);
    Ok(())
}

fn by_stack(ctx: &Context) -> Outcome {
    let words = [&["s:write", "--by", "kstack", "--sum", "count", "--"], &DD[..]].concat();
    let seen = Stat::run(ctx, &words)?;
    seen.sound();
    // Stacks, as there may be more than one: whoever else begins or ends to trace system calls changes how they are
    // entered.
    let mut within = 0;
    for line in &seen.lines {
        let frames = line["key"].as_array().with_context(|| format!("no stack\n{}", seen.ran))?;
        let mut names = frames.iter().filter_map(|frame| frame["symbol"].as_str());
        if names.any(|name| name.contains("syscall")) {
            within += number(&line["count"]);
        }
        assert_eq!(line["by"], "kstack", "{}", seen.ran);
    }
    assert!(within > 900, "{}", seen.ran);
    let sum: u64 = seen.lines.iter().map(|line| number(&line["sum"])).sum();
    assert_eq!(sum, 7000, "{}", seen.ran);
    Ok(())
}

/// Latencies that were measured, and as many as there were calls.
fn latencies(seen: &Stat, least: u64) {
    seen.sound();
    let line = &seen.lines[0];
    assert_eq!((&line["of"], &line["values"]), (&"lat".into(), &line["count"]), "{}", seen.ran);
    let [count, sum, min, max] = ["count", "sum", "min", "max"].map(|name| number(&line[name]));
    assert!(count >= 100 && min > 0 && min <= max && max < 60_000_000_000, "{}", seen.ran);
    assert!((count * min..=count * max).contains(&sum) && max >= least, "{}", seen.ran);
    assert_eq!(seen.account("paired"), count, "{}", seen.ran);
}

fn latencies_of_calls(ctx: &Context) -> Outcome {
    latencies(&Stat::run(ctx, &[&["s:write", "--"], &DD[..]].concat())?, 0);
    let sleeps = "i=0; while [ $i -lt 100 ]; do dd if=/dev/zero of=/dev/null count=1 status=none; i=$((i+1)); done; sleep 0.3";
    let seen = Stat::run(ctx, &["s:wait4", "--", "sh", "-c", &format!("{sleeps}; :")])?;
    latencies(&seen, 300_000_000);
    Ok(())
}

fn latencies_of_functions(ctx: &Context) -> Outcome {
    for spec in ["kr:vfs_read", "fr:vfs_read"] {
        latencies(&Stat::run(ctx, &[&[spec, "--"], &DD[..]].concat())?, 0);
    }
    let words = [&["k:vfs_write/comm==\"dd\"/", "--by", "count", "--"], &DD[..]].concat();
    let seen = Stat::run(ctx, &words)?;
    seen.sound();
    assert_eq!(seen.key(7)["count"], 1000, "{}", seen.ran);
    Ok(())
}

fn of_a_pattern(ctx: &Context) -> Outcome {
    for (pattern, name) in [("k:vfs_*", "k:vfs_write"), ("kr:vfs_*", "kr:vfs_write")] {
        let words = [&["--missing", "ignore", "--comm", "dd", pattern, "--"], &DD[..]].concat();
        let seen = Stat::run(ctx, &words)?;
        seen.sound();
        let writes = seen.lines.iter().find(|line| line["spec"] == name);
        assert_eq!(writes.map(|line| &line["count"]), Some(&1000.into()), "{}", seen.ran);
    }
    Ok(())
}

/// What there is no room for is counted as that, and what there is room for is whole.
fn a_full_map(ctx: &Context) -> Outcome {
    let sizes = "for n in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/dev/null bs=$n count=10 status=none; done";
    let with = |words: &[&str]| {
        let spec = "s:write/comm==\"dd\" && fd==1/{count}";
        Stat::run(
            ctx,
            &[words, &["--max-entries", "3", "--by", "count", spec, "--", "sh", "-c", sizes]].concat(),
        )
    };
    let seen = with(&[])?;
    seen.sound();
    let no_room = number(&seen.footer["probes"][0]["failed"]["nomem"]);
    assert_eq!(seen.account("tallied") + no_room, 80, "{}", seen.ran);
    assert!((10..=50).contains(&(80 - no_room)) && seen.ran.code() == 0, "{}", seen.ran);
    assert!(seen.ran.stderr.contains("--max-entries"), "{}", seen.ran);
    assert_eq!(with(&["--fail-on-loss"])?.ran.code(), 5);
    Ok(())
}

fn intervals_add_up(ctx: &Context) -> Outcome {
    let script =
        "for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=7 count=100 status=none; sleep 0.4; done";
    let words = ["--interval", "200ms", "s:write{count}", "--comm", "dd", "--", "sh", "-c", script];
    let seen = Stat::run(ctx, &words)?;
    seen.sound();
    let parts: Vec<&Value> = seen.lines.iter().filter(|line| line["type"] == "interval").collect();
    assert!(parts.len() >= 4, "{}", seen.ran);
    let sum = |name: &str| parts.iter().map(|line| number(&line[name])).sum::<u64>();
    assert_eq!((sum("count"), sum("sum")), (300, 2100), "{}", seen.ran);
    assert_eq!(seen.lines.last().map(|line| &line["count"]), Some(&300.into()), "{}", seen.ran);
    Ok(())
}

fn as_text(ctx: &Context) -> Outcome {
    let words = [&["stat", "--by", "comm", "s:write{count}", "--"], &DD[..]].concat();
    let ran = ctx.tracer(words).succeed()?;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let [head, key, bar] = lines[..] else { crate::fail!("{ran}") };
    assert!(head.starts_with("s:write{count} by comm: 1000 in ") && head.ends_with("/s)"), "{ran}");
    assert!(
        key.starts_with("comm=\"dd\": 1000 (") && key.ends_with("count 7000 in all, 7.0 on average, 7 to 7"),
        "{ran}"
    );
    assert_eq!(bar, format!("[4, 8) {:>20} |{}|", 1000, "@".repeat(52)));
    assert!(
        ran.stderr.contains("tallied 1000")
            && ran.stderr.contains("balanced: yes (accounts, pairs, tallies)"),
        "{ran}"
    );
    let ran = ctx.tracer([&["stat", "-q", "s:write", "--"], &DD[..]].concat()).succeed()?;
    let head = ran.stdout.lines().next().unwrap_or_default();
    assert!(head.contains("; lat ") && head.contains("s on average") && ran.stderr.is_empty(), "{ran}");
    Ok(())
}

fn refusals_and_exit_codes(ctx: &Context) -> Outcome {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["s:openat", "--by", "filename"], 2, "kstack"),
        (&["s:openat", "--hist", "filename"], 2, "there is no sum of filename"),
        (&["s:write{fd}", "--hist", "count"], 2, "has no 'count'"),
        (&["s:write", "--hist", "ret", "--sum", "ret"], 2, "cannot be used with"),
        (&["t:sched:sched_switch", "--hist", "lat"], 2, "that is known at a return"),
        (&["s:write", "--by", "fd["], 2, "--by"),
        (&["s:write", "--max-entries", "0"], 2, "max-entries"),
        (&["t:sched:no_such_tracepoint"], 4, "no such tracepoint"),
    ];
    for (words, code, said) in cases {
        let ran = ctx.tracer(["stat"].iter().chain(words).chain(&["--", "true"])).run()?;
        assert!(ran.code() == code && ran.stdout.is_empty() && ran.stderr.contains(said), "{ran}");
    }
    let ran = ctx.tracer(["stat", "--", "sh", "-c", "exit 9"]).run()?;
    assert_eq!(ran.code(), 9, "{ran}");
    // When the time ends the run, the command is told, and all is well.
    let ran = ctx.tracer(["stat", "--duration", "500ms", "--", "sleep", "50"]).run()?;
    assert_eq!(ran.code(), 0, "{ran}");
    Ok(())
}

/// Programs that interrupt each other share no tally: counts, sums and bounds of each thread are its own.
fn three_threads_on_one_cpu(ctx: &Context) -> Outcome {
    const TURNS: u64 = 2500;
    if ctx.variant == Variant::PreemptFull && ctx.version() < (5, 12) {
        crate::skip!("the kernel {} does not know preempt=", ctx.release);
    }
    let me = ctx.program_path()?;
    let spec = format!("u:{me}:{TARGET}");
    let turns = TURNS.to_string();
    let threads = program::args(&["threads", "3", &turns]);
    let each =
        Stat::run(ctx, &[&[&spec, "--by", "arg0", "--hist", "arg1:u64", "--", &me], &threads[..]].concat())?;
    each.sound();
    assert_eq!(each.lines.len(), 3, "{}", each.ran);
    for line in &each.lines {
        let [count, min, max, sum] = ["count", "min", "max", "sum"].map(|name| number(&line[name]));
        assert_eq!((count, max - min), (TURNS, TURNS - 1), "{}", each.ran);
        assert_eq!(sum, (min + max) * TURNS / 2, "{}", each.ran);
    }
    // One key that all share.
    let all = Stat::run(ctx, &[&[&spec, "--hist", "arg1:u64", "--", &me], &threads[..]].concat())?;
    all.sound();
    let line = &all.lines[0];
    assert_eq!((&line["count"], &line["values"]), (&(3 * TURNS).into(), &(3 * TURNS).into()), "{}", all.ran);
    let one = number(&each.lines[0]["sum"]);
    assert_eq!(number(&line["sum"]), 3 * one, "{}", all.ran);
    Ok(())
}

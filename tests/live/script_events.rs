//! What `tracer script` makes of samples beyond their lines: names of addresses, fields, and structs of BPF programs.
//!
//! On the host alone: perf is not in the guests.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::context::Context;
use crate::script::recordings;
use crate::table::{Kernel, Outcome, Test};
use crate::{fail, skip};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    judged("script_events::call_chains_are_those_of_perf", call_chains_are_those_of_perf),
    judged("script_events::what_programs_put_out_has_fields", what_programs_put_out_has_fields),
    Test::new("script_events::stacks_faults_and_the_boot_are_told_once", told_once).on_host(),
    Test::new("script_events::fields_are_columns", fields_are_columns).on_host(),
];

const fn judged(name: &'static str, run: fn(&Context) -> Outcome) -> Test {
    Test::new(name, run).on_host().may_skip(&[Kernel::Host]).seconds(200)
}

const OUTPUT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/output.bpf.o"));

/// The objects of one recording as `-f json` writes them.
fn ndjson(ctx: &Context, args: &[&str], file: &str) -> Result<Vec<Value>> {
    let ran = ctx.tracer([&["script", "-f", "json"], args, &[file]].concat()).succeed()?;
    Ok(ran.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Records a command with its stacks; the path of the recording.
fn record(ctx: &Context, spec: &str, command: &[&str]) -> Result<String> {
    let file = ctx.scratch.join("x.data").display().to_string();
    ctx.tracer([&["record", "-k", "-U", "-o", &file, spec, "--"], command].concat()).succeed()?;
    Ok(file)
}

/// A line without the name of its symbol; whether it is a frame with one.
fn nameless(line: &str) -> (String, Option<&str>) {
    let frame = line.strip_prefix('\t').map(str::trim_start).and_then(|rest| rest.split_once(' '));
    let named = frame.and_then(|(at, rest)| Some((at, rest.split_once('+')?)));
    match named {
        Some((at, (name, rest))) => (format!("{at} +{rest}"), Some(name)),
        None => (line.to_owned(), None),
    }
}

fn call_chains_are_those_of_perf(ctx: &Context) -> Outcome {
    if !Path::new("/usr/bin/perf").exists() {
        skip!("perf is not here");
    }
    let mut files = Vec::new();
    for name in ["callchain.data", "clock-fp.data"] {
        files.extend(recordings(ctx, name)?.iter().map(|path| path.display().to_string()));
    }
    files.sort();
    files.dedup();
    files.push(record(
        ctx,
        "s:write",
        &["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=50", "status=none"],
    )?);
    assert_eq!(files.len(), 3, "{files:?}");
    let (mut frames, mut same) = (0, 0);
    for file in &files {
        let clock = file.ends_with("clock-fp.data");
        let columns = if clock { "comm,pid,tid,time,event" } else { "comm,pid,tid,cpu,time,event,trace" };
        // Without any of these there are no names of functions, which programs have several of.
        for more in ["ip", "ip,dso", "ip,sym,symoff,dso"] {
            let columns = format!("{columns},{more}");
            // Of functions that are inlined perf would show places in the file for addresses.
            let theirs = ctx
                .job("perf", ["script", "--no-inline", "--ns", "-F", &columns, "-i", file])
                .succeed()?
                .stdout;
            let ours = ctx.tracer(["script", "-F", &columns, file]).succeed()?.stdout;
            if !more.contains("sym") {
                let mut both = theirs.lines().zip(ours.lines());
                assert!(theirs == ours, "{file}, {columns}: {:?}", both.find(|(a, b)| a != b));
                continue;
            }
            let (theirs, ours): (Vec<_>, Vec<_>) = (theirs.lines().collect(), ours.lines().collect());
            assert_eq!(theirs.len(), ours.len(), "{file}");
            for (theirs, ours) in theirs.iter().zip(&ours) {
                // perf makes up names for what leads to a library; blazesym does not.
                if theirs.contains("@plt+") {
                    continue;
                }
                let (their_rest, their_name) = nameless(theirs);
                let (our_rest, our_name) = nameless(ours);
                if their_rest != our_rest {
                    fail!("{file}: {theirs:?}, and ours {ours:?}");
                }
                frames += usize::from(our_name.is_some());
                same += usize::from(our_name.is_some() && our_name == their_name);
            }
        }
    }
    // The others are other names of the same functions.
    assert!(frames > 400 && 2 * same > frames, "{same} of {frames} names are alike");
    // What is shown where nothing is asked for.
    let usual = ctx.tracer(["script", &files[2]]).succeed()?.stdout;
    let all = "comm,pid,tid,cpu,time,event,trace,ip,sym,symoff,dso";
    assert_eq!(usual, ctx.tracer(["script", "-F", all, &files[2]]).succeed()?.stdout);
    assert!(usual.contains("do_syscall_64+0x") && usual.contains(" ([kernel.kallsyms])\n"), "{usual}");
    // Folded, a process's functions have names too.
    let folded = ctx.tracer(["script", "-f", "folded", &files[2]]).succeed()?.stdout;
    let line = folded.lines().find(|line| line.starts_with("dd;")).unwrap_or_default();
    assert!(
        line.contains("write") && line.contains("do_syscall_64_[k]") && line.ends_with(" 50"),
        "{folded}"
    );
    Ok(())
}

fn what_programs_put_out_has_fields(ctx: &Context) -> Outcome {
    if !Path::new("/usr/bin/perf").exists() {
        skip!("perf is not here");
    }
    let object = ctx.scratch.join("output.bpf.o");
    std::fs::write(&object, OUTPUT)?;
    let loads = format!("{}/map:channel.event=evt/", object.display());
    let file = ctx.scratch.join("x.data").display().to_string();
    let dd = ["taskset", "-c", "0", "dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=5", "status=none"];
    let flags = ["record", "-o", &file, "-e", "bpf-output/no-inherit=1,name=evt/", "-e", &loads, "--"];
    let ran = ctx.job("perf", [&flags[..], &dd].concat()).run()?;
    if !ran.status.success() {
        skip!("this perf loads no objects: {}", ran.stderr);
    }
    let lines = |args: &[&str]| -> Result<Vec<String>> {
        let ran = ctx.tracer([&["script"], args, &[&file]].concat()).succeed()?;
        Ok(ran
            .stdout
            .lines()
            .filter(|l| l.contains("dd") && !l.contains("sys_enter"))
            .map(str::to_owned)
            .collect())
    };
    // By its size alone.
    let by_size = lines(&["-F", "comm,event,trace"])?;
    assert_eq!(by_size.len(), 5, "{by_size:?}");
    for line in &by_size {
        let fields = "evt: count=7 fd=1 kind=LARGE name=\"dd\" row=[0, 0, ";
        assert!(line.contains(fields) && line.ends_with(", 77]"), "{line}");
    }
    assert_eq!(lines(&["-F", "comm,event,trace", "--event", "evt=struct written"])?, by_size);
    assert!(lines(&["-F", "comm,count,kind"])?.iter().all(|l| l.trim() == "dd count=7 kind=LARGE"));
    assert_eq!(lines(&["-f", "csv", "-F", "comm,event,count,kind,name"])?, vec!["dd,evt,7,5,dd"; 5]);
    // Its raw bytes begin with a number of eight.
    assert!(lines(&["-F", "comm,number", "--event", "evt=never"])?.iter().all(|l| l.trim() == "dd number=7"));
    let objects = ndjson(ctx, &[], &file)?;
    let events: Vec<_> =
        objects.iter().filter(|o| o["event"] == "evt.written" && o["comm"] == "dd").collect();
    assert_eq!(events.len(), 5);
    assert!(events.iter().all(|e| e["args"]["count"] == 7 && e["shown"]["kind"] == "LARGE"), "{events:?}");
    let named = ndjson(ctx, &["--event", "evt=written"], &file)?;
    assert_eq!(named.iter().filter(|o| o["event"] == "evt" && o["comm"] == "dd").count(), 5);
    for (asked, why) in [("evt=writen", "did you mean written?"), ("evt2=written", "there are evt")] {
        let ran = ctx.tracer(["script", "--event", asked, &file]).run()?;
        assert!(ran.code() == 2 && ran.stderr.contains(why), "{ran}");
    }
    Ok(())
}

fn told_once(ctx: &Context) -> Outcome {
    // Its second argument is no address that could be read.
    let code = "import ctypes; ctypes.CDLL(None).syscall(257, -100, ctypes.c_void_p(1), 0)";
    let file = record(ctx, "s:openat", &["python3", "-c", code])?;
    let lines = ctx.tracer(["script", "-f", "json", &file]).succeed()?.stdout;
    let objects: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    assert_eq!(objects[0]["boot_id"], boot_id.trim());
    let fields = objects[0]["probes"][0]["fields"].as_array().cloned().unwrap_or_default();
    let named = |name: &str| fields.iter().filter(|f| f["name"] == name).count();
    assert_eq!((named("kstack"), named("ustack")), (1, 1), "{fields:?}");
    let events: Vec<_> = objects.iter().filter(|o| o["type"] == "event").collect();
    for (line, event) in lines.lines().filter(|l| l.contains("\"type\":\"event\"")).zip(&events) {
        assert_eq!((line.matches("\"kstack\":").count(), line.matches("\"ustack\":").count()), (1, 1));
        assert!(event["args"]["ustack"].is_array() && event["args"]["kstack"].is_array(), "{event}");
    }
    let named = |e: &&&Value| e["args"]["kstack"].to_string().contains("do_syscall_64");
    assert!(events.len() > 10 && events.iter().filter(named).count() == events.len());
    let faulty: Vec<_> = events.iter().filter(|e| e["faults"].is_array()).collect();
    let one =
        |e: &&&&Value| e["faults"] == serde_json::json!(["filename"]) && e["args"]["filename"].is_null();
    assert!(!faulty.is_empty() && faulty.iter().filter(one).count() == faulty.len(), "{faulty:?}");
    let text = ctx.tracer(["script", "-F", "trace", &file]).succeed()?.stdout;
    assert_eq!(text.lines().filter(|l| l.ends_with(" faults=filename")).count(), faulty.len(), "{text}");
    Ok(())
}

fn fields_are_columns(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=3", "count=4", "status=none"];
    let file = record(ctx, "s:write{fd,count,ret}", &dd)?;
    let script = |args: &[&str]| ctx.tracer([&["script"], args, &[&file]].concat()).run();
    let text = script(&["-F", "comm,ret,count"])?.stdout;
    assert_eq!(text.lines().map(str::trim).collect::<Vec<_>>(), ["dd ret=3 count=3"; 4]);
    let csv = script(&["-f", "csv", "-F", "count,comm,fd"])?.stdout;
    assert_eq!(csv, format!("comm,count,fd\n{}", "dd,3,1\n".repeat(4)));
    let objects = ndjson(ctx, &["-F", "comm,count"], &file)?;
    let events: Vec<_> = objects.iter().filter(|o| o["type"] == "event").collect();
    let wanted = serde_json::json!({"type": "event", "comm": "dd", "args": {"count": 3}});
    assert!(events.len() == 4 && events.iter().all(|e| **e == wanted), "{events:?}");
    let refused = script(&["-F", "comm,cuont"])?;
    assert!(refused.code() == 2 && refused.stderr.contains("did you mean count?"), "{refused}");
    assert!(refused.stdout.is_empty(), "{refused}");
    Ok(())
}

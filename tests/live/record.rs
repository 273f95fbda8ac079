//! `tracer record`, judged by perf: fields by name, names of tasks, order, stacks, pipes, rotation, compression.
//!
//! What perf judges is on the host alone: it is not in the guests.

use crate::context::Context;
use crate::job::Ran;
use crate::table::{Kernel, Outcome, Test};
use crate::{fail, objects, skip};
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    judged("record::every_event_by_the_names_of_its_fields", every_event_by_the_names_of_its_fields),
    judged("record::a_pipe_is_live", a_pipe_is_live),
    judged("record::fields_are_typed_in_ctf", fields_are_typed_in_ctf),
    judged("record::stacks_are_call_chains", stacks_are_call_chains),
    judged("record::two_cpus_in_order_and_compressed", two_cpus_in_order_and_compressed),
    judged("record::losses_agree_with_the_ledger", losses_agree_with_the_ledger),
    judged("record::each_rotated_file_is_whole", each_rotated_file_is_whole),
    judged("record::objects_by_their_types", objects_by_their_types),
    Test::new("record::a_full_disk", a_full_disk).on_host(),
    Test::new("record::a_killed_recording_keeps_what_was_written", a_killed_recording),
    Test::new("record::what_was_there_is_moved_aside", what_was_there_is_moved_aside),
];

const fn judged(name: &'static str, run: fn(&Context) -> Outcome) -> Test {
    Test::new(name, run).on_host().may_skip(&[Kernel::Host])
}

const SPEC: &str = "s:write{fd,count,ret}";

fn there(program: &str) -> bool {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/bin";
    folders.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// Records a command to a file of the test's own.
fn record(ctx: &Context, flags: &[&str], command: &[&str]) -> Result<(PathBuf, Ran)> {
    let file = ctx.scratch.join("x.data");
    let path = file.display().to_string();
    let words = [&["record", "-o", &path], flags, &["--"], command].concat();
    Ok((file, ctx.tracer(words).succeed()?))
}

fn utc(command: &mut std::process::Command) {
    command.env("TZ", "UTC");
}

/// What perf says of a file; it complains of what events could not show, had they been there.
fn perf(ctx: &Context, args: &[&str], file: &Path) -> Result<(String, String)> {
    let path = file.display().to_string();
    let words = [args, &["-i", &path]].concat();
    let ran = ctx.job("perf", words).with(utc).succeed()?;
    let told = |line: &&str| !line.starts_with("'trace' not valid for");
    let errors = ran.stderr.split_inclusive('\n').filter(told).collect();
    Ok((ran.stdout, errors))
}

macro_rules! need {
    ($program:literal) => {
        if !there($program) {
            skip!(concat!($program, " is not installed (cargo xtask setup --tests installs it)"));
        }
    };
}

/// The number behind a word in the summary.
fn summary(ran: &Ran, word: &str) -> u64 {
    let behind = ran.stderr.split(word).nth(1).unwrap_or_default();
    behind.split_whitespace().next().and_then(|n| n.trim_end_matches(',').parse().ok()).unwrap_or(0)
}

const DD: [&str; 6] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=1000", "status=none"];

fn every_event_by_the_names_of_its_fields(ctx: &Context) -> Outcome {
    need!("perf");
    let (file, ran) = record(ctx, &[SPEC], &DD)?;
    let (out, err) = perf(ctx, &["script"], &file)?;
    let line = "tracer:write: fd=1 count=512 ret=512";
    let lines: Vec<&str> = out.lines().filter(|l| l.ends_with(line)).collect();
    assert_eq!(lines.len(), 1000, "{out}{err}");
    assert!(lines.iter().all(|l| l.trim_start().starts_with("dd ")), "every event has its task's name");
    assert_eq!(out.lines().count() as u64, summary(&ran, "+ emitted "), "{ran}");
    assert!(ran.stderr.contains("balanced: yes") && err.is_empty(), "{ran}{err}");
    let (out, err) = perf(ctx, &["report", "--stdio", "-s", "tracer:write.count"], &file)?;
    assert!(err.is_empty(), "where the kernel lies is told: {err}");
    assert!(out.lines().any(|l| l.trim().starts_with("100.00%") && l.trim().ends_with("512")), "{out}");
    let (out, _) = perf(ctx, &["evlist", "--trace-fields"], &file)?;
    assert!(out.contains("tracer:write: trace_fields:") && out.contains(",fd,count,ret"), "{out}");
    let (out, _) = perf(ctx, &["script", "-F", "+tod"], &file)?;
    let today = ctx.job("date", ["-u", "+%Y-%m-%d"]).succeed()?;
    assert!(out.lines().all(|l| l.contains(today.stdout.trim())), "{today}{out}");
    let (out, _) = perf(ctx, &["report", "--header-only", "-I"], &file)?;
    for fact in [
        "# hostname : ",
        "# cpudesc : ",
        "# total memory : ",
        "# cmdline : ",
        "# clockid: monotonic",
        "# pmu mappings:",
        "bpf_prog_",
        "# btf info of id ",
    ] {
        assert!(out.contains(fact), "{fact}: {out}");
    }
    Ok(())
}

fn a_pipe_is_live(ctx: &Context) -> Outcome {
    need!("perf");
    let tracer = ctx.tracer_path().display();
    let script = format!(
        "{tracer} record -q -o - '{SPEC}' -- sh -c 'echo x > /dev/null; exec sleep 5' | stdbuf -oL perf script -i -"
    );
    let mut both = ctx.job("sh", ["-c", &script]).start()?;
    both.until("a process sleeps", |_| sleeping("sleep 5"))?;
    let start = Instant::now();
    both.until("the first line", |job| job.stdout().contains("tracer:write: fd=1 count=2 ret=2"))?;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let ran = both.finish()?;
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");

    let pipe = ctx.scratch.join("pipe.data");
    let script = format!("{tracer} record -o - '{SPEC}' -- {} > {}", DD.join(" "), pipe.display());
    let ran = ctx.job("sh", ["-c", &script]).succeed()?;
    let script = format!("perf script -i - < {}", pipe.display());
    let out = ctx.job("sh", ["-c", &script]).succeed()?.stdout;
    assert_eq!(out.lines().filter(|l| l.ends_with("tracer:write: fd=1 count=512 ret=512")).count(), 1000);
    assert_eq!(out.lines().count() as u64, summary(&ran, "+ emitted "), "{ran}");
    Ok(())
}

/// Whether a process of this command line is there.
fn sleeping(words: &str) -> bool {
    let lines = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        line.strip_suffix(b"\0")
            .is_some_and(|line| line.iter().map(|b| if *b == 0 { b' ' } else { *b }).eq(words.bytes()))
    })
}

fn fields_are_typed_in_ctf(ctx: &Context) -> Outcome {
    need!("perf");
    need!("babeltrace2");
    let (file, _) = record(ctx, &["s:write{fd,count,ret}", "s:openat{filename,ret}"], &DD)?;
    let folder = ctx.scratch.join("ctf").display().to_string();
    perf(ctx, &["data", "convert", "--to-ctf", &folder], &file)?;
    let out = ctx.job("babeltrace2", [&folder]).succeed()?.stdout;
    let writes =
        out.lines().filter(|l| l.contains("tracer:write:") && l.contains("fd = 1, count = 512, ret = 512 }"));
    assert_eq!(writes.count(), 1000, "{out}");
    assert!(out.contains("filename = \"/dev/zero\", ret = "), "{out}");
    Ok(())
}

fn stacks_are_call_chains(ctx: &Context) -> Outcome {
    need!("perf");
    let (file, _) = record(ctx, &["-k", "-U", SPEC], &DD)?;
    let (out, _) = perf(ctx, &["script", "-F", "comm,event,trace,ip,sym,dso"], &file)?;
    let frames = |text: &str| out.lines().filter(|l| l.contains(text)).count();
    assert!(frames("do_syscall_64") >= 1000, "of the kernel: {out}");
    assert!(frames("libc.so") >= 1000, "of the process: {out}");
    let (out, err) = perf(ctx, &["report", "--stdio", "-g", "-s", "comm"], &file)?;
    assert!(out.contains("--do_syscall_64") || out.contains("do_syscall_64"), "{out}{err}");
    Ok(())
}

fn two_cpus_in_order_and_compressed(ctx: &Context) -> Outcome {
    need!("perf");
    let cpus = ctx.online()?;
    let loops: Vec<String> = cpus
        .iter()
        .map(|cpu| {
            format!(
                "taskset -c {cpu} sh -c 'for i in $(seq 200); do {} & wait; done' &",
                DD.join(" ").replace("1000", "20")
            )
        })
        .collect();
    // At the end passes read all that is there, however busy the machine was before.
    let script = format!("{} wait; sleep 1", loops.join(" "));
    for flags in
        [&["-m", "4M", SPEC][..], &["-m", "4M", "-z", SPEC], &["-m", "4M", "-z9", "--gather", "8", SPEC]]
    {
        let (file, ran) = record(ctx, flags, &["sh", "-c", &script])?;
        let (out, err) = perf(ctx, &["script", "--ns", "-F", "comm,time,event,trace"], &file)?;
        let writes = out
            .lines()
            .filter(|l| l.trim_start().starts_with("dd ") && l.ends_with("fd=1 count=512 ret=512"));
        let lost = summary(&ran, "/s), ");
        assert_eq!(writes.count() as u64 + lost, 200 * 20 * cpus.len() as u64, "{ran}{err}");
        let (_, err) = perf(ctx, &["report", "--stdio", "-s", "comm"], &file)?;
        assert!(!err.contains("out of order"), "{err}");
        let (out, _) = perf(ctx, &["script", "-D"], &file)?;
        let rounds = out.lines().filter(|l| l.contains("FINISHED_ROUND")).count();
        assert!(rounds > 2, "{rounds} rounds");
    }
    Ok(())
}

fn losses_agree_with_the_ledger(ctx: &Context) -> Outcome {
    need!("perf");
    let many: Vec<String> = DD.iter().map(|word| word.replace("1000", "200000")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (file, ran) = record(ctx, &["-m", "8K", SPEC], &many)?;
    let lost = summary(&ran, "/s), ");
    assert!(lost > 0 && ran.stderr.contains("balanced: yes"), "{ran}");
    let (out, _) = perf(ctx, &["script", "--show-lost-events", "-F", "comm,cpu,time,event,trace"], &file)?;
    let told =
        out.lines().filter_map(|l| l.split("PERF_RECORD_LOST lost ").nth(1)?.trim().parse::<u64>().ok());
    assert_eq!(told.sum::<u64>(), lost, "{ran}");
    let events = out.lines().filter(|l| l.contains("tracer:write")).count() as u64;
    assert_eq!(events, summary(&ran, "+ emitted "), "{ran}");
    Ok(())
}

fn each_rotated_file_is_whole(ctx: &Context) -> Outcome {
    need!("perf");
    for (keep, compress) in [("100", false), ("2", true)] {
        let name = format!("kept-{keep}.data");
        let path = ctx.scratch.join(&name).display().to_string();
        let dd = DD.map(|word| if word == "count=1000" { "count=200" } else { word }).join(" ");
        let script = format!("for i in $(seq 60); do {dd}; sleep 0.02; done");
        let mut words = vec!["record", "-m", "4M", "--rotate", "150ms", "--keep", keep, "-o", &path, SPEC];
        words.extend(compress.then_some("-z"));
        let ran = ctx.tracer(words.into_iter().chain(["--", "sh", "-c", &script])).succeed()?;
        let mut files = vec![PathBuf::from(&path)];
        files.extend(
            (1..)
                .map(|n| PathBuf::from(format!("{path}.{n}")))
                .skip_while(|f| !f.exists())
                .take_while(|f| f.exists()),
        );
        let mut events = 0;
        for file in &files {
            let (out, err) = perf(ctx, &["script"], file)?;
            assert!(
                out.lines().all(|l| l.contains("tracer:write: fd=") && !l.trim_start().starts_with(':')),
                "{out}"
            );
            assert!(err.is_empty(), "{err}");
            events += out.lines().count() as u64;
        }
        let finished = ran.stderr.matches("finished: ").count();
        assert!(finished >= 3, "{ran}");
        if keep == "2" {
            assert_eq!(files.len(), 3, "{files:?}\n{ran}");
        } else {
            assert_eq!((files.len(), events), (finished + 1, summary(&ran, "+ emitted ")), "{ran}");
        }
    }
    Ok(())
}

fn objects_by_their_types(ctx: &Context) -> Outcome {
    need!("perf");
    let spec = format!("o:{}", objects::file(ctx, objects::THREE)?.display());
    let file = ctx.scratch.join("x.data");
    let ours = format!("only_tgid={}", std::process::id());
    let path = file.display().to_string();
    let words =
        ["record", "-o", &path, &spec, "--event", "by_word=asked", "--set", &ours, "--set", "small=-3"];
    let mut tracer = ctx.tracer(words).start()?;
    tracer.until("the object is read", |job| job.stderr().contains("'ring' is read"))?;
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        nix::unistd::getppid();
    }
    std::thread::sleep(Duration::from_millis(500));
    tracer.signal(Signal::SIGINT)?;
    let ran = tracer.finish()?;
    let (out, err) = perf(ctx, &["script"], &file)?;
    for line in [
        "tracer:asked: number=101 twice=202",
        "tracer:sized: number=102 square=10404 cube=1061208",
        "tracer:ringed: number=100 text=ring",
        "negative=-3 ",
        " first=5 second=99 third=-3 inner_low=-2 ",
        " row=01 00 00 00 03 00 mac=de 00 00 00 00 ad ",
    ] {
        assert!(out.contains(line), "{line}\n{out}{err}{ran}");
    }
    assert!(ran.stderr.contains("balanced: yes"), "{ran}");
    Ok(())
}

fn a_full_disk(ctx: &Context) -> Outcome {
    let (folder, copy) = (ctx.scratch.join("small"), ctx.scratch.join("x.data"));
    std::fs::create_dir_all(&folder)?;
    let script = format!(
        "mount -t tmpfs -o size=256k none {0} && {1} record -o {0}/x.data '{SPEC}' -- {2}; \
         code=$?; cp {0}/x.data {3}; exit $code",
        folder.display(),
        ctx.tracer_path().display(),
        DD.join(" ").replace("1000", "20000"),
        copy.display()
    );
    let ran = ctx.job("unshare", ["-m", "sh", "-c", &script]).run()?;
    assert_eq!(ran.code(), 6, "{ran}");
    for said in ["No space left on device", "make room there", "(not written at the end)", "balanced: yes"] {
        assert!(ran.stderr.contains(said), "{said}: {ran}");
    }
    // What fitted is all there, to the last event that the ledger calls delivered.
    let bytes = std::fs::read(&copy).context("cannot read the recording")?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default()) as usize;
    // Where its end fitted all the same, it is finished, and that stands behind the records.
    let (data, size) = (word(40), word(48));
    let end = if size > 0 { data + size } else { bytes.len() };
    assert_eq!(whole_records(&bytes[..end], data)?, summary(&ran, "x.data: delivered "), "{ran}");
    Ok(())
}

/// Its header says that nothing is there yet, and where what describes it lies; its records are whole.
fn a_killed_recording(ctx: &Context) -> Outcome {
    let file = ctx.scratch.join("x.data");
    let path = file.display().to_string();
    let script = format!("{}; exec sleep 60", DD.join(" "));
    let mut tracer = ctx.tracer(["record", "-o", &path, SPEC, "--", "sh", "-c", &script]).start()?;
    tracer.until("the events are written", |_| std::fs::metadata(&file).is_ok_and(|m| m.len() > 140_000))?;
    tracer.signal(Signal::SIGKILL)?;
    tracer.finish()?;
    let bytes = std::fs::read(&file).context("cannot read the recording")?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default()) as usize;
    let (data, size, prologue, len) = (word(40), word(48), word(56), word(64));
    assert!(size == 0 && len > 0 && prologue + len <= data, "{data} {size} {prologue} {len}");
    let text = String::from_utf8_lossy(&bytes[prologue..prologue + len]);
    assert!(text.contains("name: write\nID: ") && text.contains("tracer:write"), "its formats are told");
    let samples = whole_records(&bytes, data)?;
    if samples < 500 {
        fail!("{samples} samples");
    }
    Ok(())
}

/// How many samples stand behind the head of an unfinished file, which must end with a whole record.
fn whole_records(bytes: &[u8], from: usize) -> Result<u64> {
    let (mut at, mut samples) = (from, 0);
    while let Some(head) = bytes.get(at..at + 8) {
        samples += u64::from(head[..4] == 9u32.to_ne_bytes());
        at += usize::from(u16::from_ne_bytes([head[6], head[7]])).max(8);
    }
    anyhow::ensure!(at == bytes.len(), "records end at {at} of {}", bytes.len());
    Ok(samples)
}

fn what_was_there_is_moved_aside(ctx: &Context) -> Outcome {
    std::fs::write(ctx.scratch.join("x.data"), "older")?;
    let (file, _) = record(ctx, &[SPEC], &["true"])?;
    assert_eq!(std::fs::read_to_string(ctx.scratch.join("x.data.old"))?, "older");
    assert!(std::fs::read(&file)?.starts_with(b"PERFILE2"));
    for (words, code) in
        [(&["-o", "-", "--rotate", "1M"][..], 2), (&["-o", "/nowhere/x.data"], 6), (&["-z99"], 2)]
    {
        let ran = ctx.tracer(["record"].iter().chain(words).chain(&["--", "true"])).run()?;
        assert_eq!(ran.code(), code, "{ran}");
    }
    Ok(())
}

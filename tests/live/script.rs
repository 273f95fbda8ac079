//! `tracer script`, judged by perf: recordings that perf itself made, read to the record and to the letter.
//!
//! On the host alone: perf is not in the guests.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::context::Context;
use crate::table::{Kernel, Outcome, Test};
use crate::{fail, skip};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    judged("script::records_and_lines_are_those_of_perf", records_and_lines_are_those_of_perf),
    judged("script::what_is_repaired_reads_as_before", what_is_repaired_reads_as_before),
    judged("script::a_recording_as_ctf_has_each_field", a_recording_as_ctf_has_each_field),
];

const fn judged(name: &'static str, run: fn(&Context) -> Outcome) -> Test {
    Test::new(name, run).on_host().may_skip(&[Kernel::Host]).seconds(400)
}

/// Recordings made now, in the test's own folder: all, or one.
pub fn recordings(ctx: &Context, only: &str) -> Result<Vec<PathBuf>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/record.sh");
    let folder = ctx.scratch.join("recordings");
    ctx.job("sh", [script.as_os_str(), folder.as_os_str(), only.as_ref()]).seconds(300).succeed()?;
    let mut all: Vec<PathBuf> = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.is_dir() || path.extension().is_some_and(|end| end == "data"));
    all.sort();
    Ok(all)
}

/// Offset, size and kind of each record, as `perf script -D` tells them.
fn dumped(text: &str) -> Vec<(u64, u64, u64)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let line = |line: &str| {
        let (place, kind) = line.split_once("]: event: ")?;
        let (place, size) = place.split_once(" [")?;
        Some((number(place.split_once('@')?.0)?, number(size)?, kind.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The same as we tell it. perf counts from behind a pipe's first sixteen bytes.
fn told(text: &str, pipe: bool) -> Vec<(u64, u64, u64)> {
    let hex = |text: &str| u64::from_str_radix(text.trim_matches(['[', ']']).strip_prefix("0x")?, 16).ok();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let place = words.next()?;
        let place = place.split_once(':').map_or(place, |(_, offset)| offset);
        Some((hex(place)? - if pipe { 16 } else { 0 }, hex(words.next()?)?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// What a header says of the recording, and not of the file.
fn facts(text: &str) -> Vec<&str> {
    const OTHERS: [&str; 7] = [
        "# captured on",
        "# header version",
        "# data offset",
        "# data size",
        "# feat offset",
        "# missing features",
        "# ====",
    ];
    let told = |line: &&str| !OTHERS.iter().any(|other| line.starts_with(other)) && line.trim_end() != "#";
    text.lines().filter(|line| !line.is_empty()).filter(told).collect()
}

/// What perf 6.1 shows wrong: it takes `a & (b | c)` for `(a & b) | c`. In all formats of 6.18 these are the two.
const MISREAD: [(&str, &str); 2] =
    [(" timer:timer_start: ", " flags="), (" kmem:mm_page_alloc_extfrag: ", " fragmenting=")];

/// A line up to what perf shows wrong.
fn rightly(line: &str) -> &str {
    let misread = MISREAD.iter().find(|(event, _)| line.contains(event));
    misread.and_then(|(_, field)| line.find(field)).map_or(line, |at| &line[..at])
}

/// The recording as perf reads it, which ended on it: where another recording on this machine asks for build ids, the
/// kernel marks the mappings of this one as having them.
fn mended(ctx: &Context, path: &Path) -> Result<PathBuf> {
    let mended = ctx.scratch.join("mended.data");
    let words = ["repair".as_ref(), path.as_os_str(), "-o".as_ref(), mended.as_os_str()];
    let told = ctx.tracer(words).succeed()?;
    anyhow::ensure!(
        told.stderr.contains("bore the mark of a build id"),
        "perf ends on {}, and nothing was mended: {told}",
        path.display()
    );
    Ok(mended)
}

/// How many records, lines, and lines of headers were compared.
#[derive(Debug, Default)]
struct Compared {
    records: usize,
    lines: usize,
    headers: usize,
}

impl Compared {
    fn recording(&mut self, ctx: &Context, name: &str, path: &Path) -> Outcome {
        let (mut file, mut pipe) = (path.display().to_string(), name.starts_with("pipe"));
        let mut theirs = ctx.job("perf", ["script", "-D", "-i", &file]).run()?;
        if theirs.status.signal().is_some() {
            // What was mended is no pipe.
            (file, pipe) = (mended(ctx, path)?.display().to_string(), false);
            theirs = ctx.job("perf", ["script", "-D", "-i", &file]).succeed()?;
        }
        let ours = ctx.tracer(["script", "--dump", &file]).succeed()?;
        let (theirs, ours) = (dumped(&theirs.stdout), told(&ours.stdout, pipe));
        if theirs != ours {
            let first = theirs.iter().zip(&ours).find(|(a, b)| a != b);
            fail!(
                "{name}: {} records, and ours {}; the first that differ: {first:?}",
                theirs.len(),
                ours.len()
            );
        }
        self.records += ours.len();
        let theirs = ctx.job("perf", ["report", "--header-only", "-I", "-i", &file]).run()?;
        let ours = ctx.tracer(["script", "--header-only", &file]).succeed()?;
        let (theirs, ours) = (facts(&theirs.stdout), facts(&ours.stdout));
        let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
        if !missing.is_empty() || theirs.len() != ours.len() {
            fail!(
                "{name}: perf's header has {} lines, ours {}; missing: {missing:?}",
                theirs.len(),
                ours.len()
            );
        }
        self.headers += theirs.len();
        // A column that some event does not have makes perf end. It shows call chains, pipes' at least, without being
        // asked.
        for fields in ["comm,pid,tid,cpu,time,event,trace", "comm,pid,tid,time,event,trace"] {
            let theirs = ctx.job("perf", ["script", "--ns", "-F", fields, "-i", &file]).run()?;
            if !theirs.status.success() || name == "pipe-clock.data" {
                continue;
            }
            let ours = ctx.tracer(["script", "-F", fields, &file]).succeed()?;
            let [theirs, ours] =
                [&theirs, &ours].map(|ran| ran.stdout.lines().map(rightly).collect::<Vec<_>>());
            if theirs != ours {
                let first = theirs.iter().zip(&ours).find(|(a, b)| a != b);
                fail!("{name}: {} lines, and ours {}: {first:?}", theirs.len(), ours.len());
            }
            self.lines += ours.len();
            break;
        }
        Ok(())
    }
}

fn records_and_lines_are_those_of_perf(ctx: &Context) -> Outcome {
    if !Path::new("/usr/bin/perf").exists() {
        skip!("perf is not here");
    }
    let mut compared = Compared::default();
    for path in recordings(ctx, "")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What perf cannot read, or shows in another form.
        if !["cut.data", "killed.data", "stat.data", "lost.data"].contains(&&*name) {
            compared.recording(ctx, &name, &path)?;
        }
    }
    assert!(
        compared.records > 10_000 && compared.lines > 5_000 && compared.headers > 500,
        "too few were compared: {compared:?}"
    );
    Ok(())
}

fn what_is_repaired_reads_as_before(ctx: &Context) -> Outcome {
    if !Path::new("/usr/bin/perf").exists() {
        skip!("perf is not here");
    }
    let all = recordings(ctx, "killed.data")?;
    let Some(killed) = all.iter().find(|path| path.ends_with("killed.data")) else { fail!("no killed.data") };
    let (killed, whole) =
        (killed.display().to_string(), ctx.scratch.join("whole.data").display().to_string());
    ctx.tracer(["repair", &killed, "-o", &whole]).succeed()?;
    let fields = "comm,pid,tid,time,event,trace";
    let before = ctx.tracer(["script", "-F", "comm,pid,tid,time", &killed]).succeed()?;
    let after = ctx.tracer(["script", "-F", "comm,pid,tid,time", &whole]).succeed()?;
    let (count, kept) = (before.stdout.lines().count(), after.stdout.lines().count());
    assert!(count > 100 && before.stdout == after.stdout, "{count} lines, repaired {kept}");
    let ours = ctx.tracer(["script", "-F", fields, &whole]).succeed()?;
    let theirs = ctx.job("perf", ["script", "--ns", "-F", fields, "-i", &whole]).succeed()?;
    assert!(
        ours.stdout == theirs.stdout,
        "{:?}",
        ours.stdout.lines().zip(theirs.stdout.lines()).find(|(a, b)| a != b)
    );
    Ok(())
}

fn a_recording_as_ctf_has_each_field(ctx: &Context) -> Outcome {
    if !["/usr/bin/perf", "/usr/bin/babeltrace2"].iter().all(|path| Path::new(path).exists()) {
        skip!("perf or babeltrace2 is not here");
    }
    let (mut events, mut fields) = (0, 0);
    for file in recordings(ctx, "data-loc.data")? {
        let file = file.display().to_string();
        let folder = ctx.scratch.join("ctf").display().to_string();
        ctx.tracer(["convert", &file, "--to", "ctf", "-o", &folder]).succeed()?;
        let told = ctx.job("babeltrace2", [&folder]).succeed()?;
        assert!(told.stderr.is_empty(), "{}", told.stderr);
        let ndjson = ctx.tracer(["convert", &file, "--to", "ndjson", "-o", "-"]).succeed()?;
        let lines: Vec<serde_json::Value> =
            ndjson.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let all: Vec<_> = lines.iter().filter(|line| line["type"] == "event").collect();
        assert_eq!(told.stdout.lines().count(), all.len());
        for (line, event) in told.stdout.lines().zip(all) {
            let name = event["event"].as_str().unwrap_or_default();
            let mut wanted = vec![format!(" {name}: "), format!(" cpu_id = {}, ", event["cpu"])];
            for (key, value) in event["args"].as_object().into_iter().flatten() {
                let value = value.as_bool().map_or_else(|| value.clone(), |truth| u8::from(truth).into());
                wanted.push(format!(" {key} = {value}"));
                fields += 1;
            }
            let missing: Vec<_> = wanted.iter().filter(|text| !line.contains(&**text)).collect();
            assert!(missing.is_empty(), "{missing:?} not in {line}");
            events += 1;
        }
    }
    assert!(events > 5 && fields > 10, "{events} events, {fields} fields");
    Ok(())
}

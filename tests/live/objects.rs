//! Users' objects: their events by name, their losses, and what none of them can do to us.

use crate::context::Context;
use crate::kit::{balanced, caught, remarks};
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use tracer::event::{Carries, NO_CPU};
use tracer::ledger::Report;
use tracer::probe::{Spec, foreign::Settings};
use tracer::ring::Budget;
use tracer::schema::OwnedValue::{self, Bool, Bytes, Pointer, Signed, Text, Unsigned};
use tracer::session::{Options, Session};
use tracer::sink::{Item, Memory};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("objects::events_by_tag_word_and_size", events_by_tag_word_and_size),
    Test::new("objects::a_program_by_name", a_program_by_name).in_guests(),
    Test::new("objects::losses_are_told_map_by_map", losses_are_told_map_by_map),
    Test::new(
        "objects::variables_of_an_object_that_nobody_linked",
        variables_of_an_object_that_nobody_linked,
    )
    .on_host(),
    Test::new(
        "objects::a_tracepoint_where_tracefs_is_not_mounted",
        a_tracepoint_where_tracefs_is_not_mounted,
    )
    .on_host(),
    Test::new("objects::a_size_that_two_structs_have", a_size_that_two_structs_have),
    Test::new("objects::oversized_outputs_do_no_harm", oversized_outputs_do_no_harm),
    Test::new("objects::beside_probes_of_ours", beside_probes_of_ours),
    Test::new("objects::nothing_stays_behind", nothing_stays_behind),
];

/// Three arrays and a ringbuf; see tests/fixtures/object.
pub const THREE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/three.bpf.o"));
const OVERSIZED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/oversized.bpf.o"));

/// An object as a file of the test's own.
pub fn file(ctx: &Context, bytes: &[u8]) -> Result<PathBuf> {
    let path = ctx.scratch.join("mine.bpf.o");
    std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Settings that have an object see this process alone.
pub fn settings(set: &[(&str, &str)], events: &[(&str, &str)]) -> Settings {
    let pairs = |of: &[(&str, &str)]| of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let mut settings = Settings { set: pairs(set), events: pairs(events) };
    settings.set.push(("only_tgid".into(), std::process::id().to_string()));
    settings
}

/// A session of one object whose programs see `n` calls of this process.
fn run(spec: &str, settings: Settings, rings: usize, n: u64) -> Result<(Memory, Report)> {
    let mut options = Options { objects: settings, probes: 0, ..Options::default() };
    options.rings.size = rings;
    let spec: Spec = spec.parse()?;
    let mut session = Session::start(options, std::slice::from_ref(&spec))?;
    session.check_objects()?;
    let mut sink = Memory::new();
    session.header(&mut sink)?;
    calls(n);
    while session.drain(Budget::ALL, &mut sink)?.more {}
    let report = session.stop(&mut sink)?;
    Ok((sink, report))
}

/// Calls getppid.
fn calls(n: u64) {
    (0..n).for_each(|_| {
        let _ = std::os::unix::process::parent_id();
    });
}

/// The fields of the events of one name, in order.
fn events<'a>(sink: &'a Memory, of: &str) -> Vec<&'a [(String, OwnedValue)]> {
    let one = |item: &'a Item| match item {
        Item::Event { name, fields, .. } if name == of => Some(&**fields),
        _ => None,
    };
    sink.items.iter().filter_map(one).collect()
}

fn numbers(sink: &Memory, of: &str) -> Vec<u64> {
    let first = |fields: &[(String, OwnedValue)]| match fields.first() {
        Some((_, Unsigned(n))) => *n,
        other => panic!("{other:?}"),
    };
    events(sink, of).into_iter().map(first).collect()
}

const WORDS: [(&str, &str); 5] =
    [("base", "1000"), ("small", "-5"), ("loud", "true"), ("paint", "GREEN"), ("label", "ten bytes!")];

fn check_all(sink: &Memory, report: &Report, n: u64) -> Outcome {
    let text = |s: &str| Text(s.as_bytes().to_vec());
    let expected: Vec<(&str, OwnedValue)> = vec![
        ("number", Unsigned(1100)),
        ("address", Pointer(0xffff_8880_0000_1000)),
        ("negative", Signed(-5)),
        ("color", Unsigned(7)),
        ("truth", Bool(true)),
        ("name", text("ten bytes!")),
        ("first", Unsigned(5)),
        ("second", Unsigned(99)),
        ("third", Signed(-3)),
        ("inner.low", Signed(-2)),
        ("inner.deep.letter", Signed(i64::from(b'x'))),
        ("inner.deep.yes", Bool(true)),
        ("row", Bytes([1_u16, 0, 3].iter().flat_map(|n| n.to_ne_bytes()).collect())),
        ("mac", Bytes(vec![0xde, 0, 0, 0, 0, 0xad])),
        ("either", Unsigned(0x0101_0101)),
        ("or", Bytes(vec![1; 4])),
    ];
    let seen: Vec<(&str, OwnedValue)> =
        events(sink, "tagged")[0].iter().map(|(name, value)| (&**name, value.clone())).collect();
    for ((name, value), (seen_name, seen_value)) in expected.iter().zip(&seen) {
        // Compilers differ on the signs of enums and of plain char.
        let same = match (value, seen_value) {
            (Unsigned(a), Signed(b)) | (Signed(b), Unsigned(a)) => *a as i64 == *b,
            (a, b) => a == b,
        };
        assert!(name == seen_name && same, "{name} {value:?}: {seen_name} {seen_value:?}");
    }
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
    let all: Vec<u64> = (1100..1100 + n).collect();
    for of in ["tagged", "asked", "sized", "ringed"] {
        assert_eq!(numbers(sink, of), all, "{of}");
    }
    let cube = &events(sink, "sized")[1][2];
    assert_eq!(*cube, ("cube".to_owned(), Unsigned(1101 * 1101 * 1101)));
    assert_eq!(events(sink, "ringed")[0][1], ("text".to_owned(), text("ring")));
    for item in &sink.items {
        let Item::Event { cpu, time, wire, name, .. } = item else { continue };
        let task = (wire.carries, wire.tgid);
        if name == "ringed" {
            assert_eq!((*cpu, *time, task), (NO_CPU, None, (Carries::Nothing, 0)));
        } else {
            assert!(time.is_some() && task == (Carries::Ids, std::process::id()), "{item:?}");
        }
    }
    balanced(report)?;
    let known: Vec<_> = report.identities.iter().filter(|i| i.holds == Some(true)).map(|i| i.name).collect();
    let unknown: Vec<_> = report.identities.iter().filter(|i| i.holds.is_none()).map(|i| i.name).collect();
    assert!(known.starts_with(&["sinks", "tail", "corruption", "foreign records"]), "{known:?}");
    assert!(unknown.starts_with(&["accounts", "sequence"]) && unknown.contains(&"ringbufs"), "{unknown:?}");
    assert_eq!((report.decoded(), report.missing()), (4 * n, 0));
    Ok(())
}

fn events_by_tag_word_and_size(ctx: &Context) -> Outcome {
    let spec = format!("o:{}", file(ctx, THREE)?.display());
    let (sink, report) = run(&spec, settings(&WORDS, &[("by_word", "asked")]), 1 << 16, 20)?;
    check_all(&sink, &report, 20)?;
    let Some(Item::Header(names)) = sink.items.first() else { panic!("{:?}", sink.items.first()) };
    for name in ["tagged", "by_tag", "asked", "by_word", "sized", "by_size", "ringed", "ring"] {
        assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
    }
    Ok(())
}

fn a_program_by_name(ctx: &Context) -> Outcome {
    let spec = format!("o:{}:on_kprobe", file(ctx, THREE)?.display());
    let (sink, report) = run(&spec, settings(&WORDS, &[("by_word", "struct asked")]), 1 << 16, 5)?;
    check_all(&sink, &report, 5)
}

fn losses_are_told_map_by_map(ctx: &Context) -> Outcome {
    let spec = format!("o:{}", file(ctx, THREE)?.display());
    let n = 3000;
    let (sink, report) = run(&spec, settings(&[], &[("by_word", "asked")]), 4096, n)?;
    balanced(&report)?;
    assert_eq!(report.feeds.len(), 4);
    for feed in &report.feeds[..3] {
        assert_eq!(feed.decoded() + feed.lost(), n, "{feed:?}");
        assert!(feed.lost() > n / 2, "{feed:?}");
    }
    let told: u64 = sink.gaps().filter_map(|gap| gap.count).sum();
    assert_eq!(told, report.missing());
    assert_eq!(report.missing(), report.feeds[..3].iter().map(|f| f.lost()).sum::<u64>());
    // What was not lost is numbered as it would have been with nothing lost.
    for (of, level) in [("tagged", 4), ("asked", 5), ("sized", 6)] {
        for cpu in ctx.online()? {
            let seqs = sink.items.iter().filter_map(|item| match item {
                Item::Event { cpu: its, wire, name, .. } if name == of && *its == cpu => {
                    assert_eq!(wire.level, level);
                    Some(wire.seq)
                }
                _ => None,
            });
            assert!(seqs.is_sorted_by(|a, b| a < b), "{of} on {cpu}");
        }
    }
    Ok(())
}

/// An object as the compiler alone leaves it: where its variables lie is for whoever opens it to find.
fn variables_of_an_object_that_nobody_linked(ctx: &Context) -> Outcome {
    emits_its_variables(ctx, PLAIN)
}

/// A tracepoint's program needs tracefs, which need not be mounted.
fn a_tracepoint_where_tracefs_is_not_mounted(ctx: &Context) -> Outcome {
    emits_its_variables(ctx, &PLAIN.replace("raw_tp/sched_process_exec", "tp/sched/sched_process_exec"))
}

fn emits_its_variables(ctx: &Context, text: &str) -> Outcome {
    let (source, object) = (ctx.scratch.join("plain.bpf.c"), ctx.scratch.join("plain.bpf.o"));
    std::fs::write(&source, text)?;
    let args = ["-g", "-O2", "-target", "bpf", "-c"].map(std::ffi::OsString::from).to_vec();
    let files = [source.into_os_string(), "-o".into(), object.clone().into_os_string()];
    ctx.job("clang", args.into_iter().chain(files)).succeed()?;
    let spec = format!("o:{}", object.display());
    let without = "umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug; exec \"$@\"";
    let tracer = ctx.tracer_path().display().to_string();
    let words = ["-m", "sh", "-c", without, "sh", &tracer, "run", "-f", "json", "--set", "second=7"];
    let rest = ["--set", "third=9", &spec, "--", "true"];
    let ran = ctx.job("unshare", words.into_iter().chain(rest)).succeed()?;
    assert!(ran.stdout.contains(r#""args":{"a":1,"b":7,"c":9}"#), "{ran}");
    assert!(ran.stdout.contains(r#""balanced":true"#), "{ran}");
    Ok(())
}

/// Emits its three variables at each exec.
const PLAIN: &str = r#"
#define SEC(name) __attribute__((section(name), used))
struct event { unsigned int a, b, c; };
struct { int (*type)[4]; int (*key_size)[4]; int (*value_size)[4]; } events SEC(".maps");
static long (*output)(void *, void *, unsigned long long, void *, unsigned long long) = (void *)25;
const volatile unsigned int first = 1, second = 2, third = 3;
SEC("raw_tp/sched_process_exec") int on_exec(void *ctx)
{
	struct event event = {first, second, third};
	output(ctx, &events, 0xffffffffULL, &event, sizeof(event));
	return 0;
}
struct event *unused_event;
char LICENSE[] SEC("license") = "GPL";
"#;

fn a_size_that_two_structs_have(ctx: &Context) -> Outcome {
    let spec = format!("o:{}", file(ctx, THREE)?.display());
    let (sink, report) = run(&spec, settings(&[], &[]), 1 << 16, 3)?;
    balanced(&report)?;
    let shown = events(&sink, "by_word");
    // CPU by CPU is how they come.
    let bytes = [100_u32.to_ne_bytes(), 200_u32.to_ne_bytes()].concat();
    let is_first = |fields: &&[(String, OwnedValue)]| matches!(&fields[0], (name, Bytes(raw)) if name == "raw" && raw.starts_with(&bytes) && raw.len() == 12);
    assert!(shown.iter().any(is_first), "{shown:?}");
    let said =
        sink.items.iter().filter(|i| matches!(i, Item::Note(text) if text.contains("asked, ringed"))).count();
    assert_eq!((shown.len(), said), (3, 1), "said once: {:?}", sink.items);
    assert_eq!(report.feeds[1].cpus.iter().map(|c| c.as_bytes).sum::<u64>(), 3);
    Ok(())
}

/// K8: whatever runs over what is unread, each event handed on is one that was put out, and the damage is told.
fn oversized_outputs_do_no_harm(ctx: &Context) -> Outcome {
    let spec = format!("o:{}", file(ctx, OVERSIZED)?.display());
    for (size, every, ring) in
        [("65532", "10", 1 << 20), ("65532", "1", 1 << 16), ("65736", "3", 1 << 16), ("65736", "1", 1 << 12)]
    {
        let set = [("size", size), ("every", every)];
        let (sink, report) = run(&spec, settings(&set, &[("events", "good")]), ring, 500)?;
        let damage: u64 = report.feeds[0].cpus.iter().map(|c| c.corruptions).sum();
        assert!(damage > 0, "{size} {every} {ring}: {report:?}");
        caught_alone(&report, "corruption")?;
        let gaps = sink.gaps().filter(|gap| gap.count.is_none()).count();
        assert_eq!(gaps as u64, damage);
        let told = sink
            .items
            .iter()
            .filter(|i| matches!(i, Item::Note(text) if text.contains("65516") && text.contains("corrupt")));
        assert!((1..=ctx.online()?.len()).contains(&told.count()), "told once a ring");
    }
    let path = format!("o:{}", file(ctx, OVERSIZED)?.display());
    let run = ["run", "-q", &path, "--set", "only_tgid=0", "--set", "size=65532", "--duration", "1s"];
    assert_eq!(ctx.tracer(run).run()?.code(), 0, "nothing was put out, and the ends were proved");
    Ok(())
}

/// No identity fails but this, or the tail where a marker fell to the damage.
fn caught_alone(report: &Report, name: &str) -> Outcome {
    let failed: Vec<_> =
        report.identities.iter().filter(|i| i.holds == Some(false)).map(|i| i.name).collect();
    let tail = failed.contains(&"tail");
    let lost = failed.contains(&"foreign lost");
    let names: Vec<&str> = [(tail, "tail"), (true, name), (lost, "foreign lost")]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    Ok(caught(report, &names)?)
}

fn beside_probes_of_ours(ctx: &Context) -> Outcome {
    let object: Spec = format!("o:{}", file(ctx, THREE)?.display()).parse()?;
    let ours: Spec = "rt:sys_enter/id==110 || id==173/{id}".parse()?;
    let mut options = Options { objects: settings(&[], &[]), ..Options::default() };
    options.filter.targets = vec![tracer::probe::Target::Process(std::process::id())];
    let mut session = Session::start(options, &[object, ours])?;
    let mut sink = Memory::new();
    calls(40);
    while session.drain(Budget::ALL, &mut sink)?.more {}
    let report = session.stop(&mut sink)?;
    balanced(&report)?;
    assert_eq!(events(&sink, "sys_enter").len(), 40, "{report:#?}");
    assert_eq!(numbers(&sink, "sized").len(), 40);
    assert_eq!(report.decoded(), 5 * 40);
    let holds = |name: &str| report.identities.iter().find(|i| i.name == name).map(|i| i.holds);
    assert_eq!(holds("records"), Some(Some(true)));
    assert_eq!(holds("accounts"), Some(None));
    assert!(remarks(&report, "accounts").contains("no accounts"));
    Ok(())
}

fn nothing_stays_behind(ctx: &Context) -> Outcome {
    let spec = format!("o:{}", file(ctx, THREE)?.display());
    run(&spec, settings(&[], &[]), 4096, 1)?;
    let before = crate::kit::descriptors()?;
    for _ in 0..5 {
        run(&spec, settings(&[], &[]), 4096, 1)?;
    }
    assert_eq!(crate::kit::descriptors()?, before);
    Ok(())
}

//! `tracer read --map`: an array that somebody else's program fills, and whose program goes on.

use crate::context::Context;
use crate::objects::{THREE, file};
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result};
use libbpf_rs::{Link, MapCore as _, MapHandle, Object, ObjectBuilder, PerfBufferBuilder};
use nix::mount::{MsFlags, mount, umount};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::PathBuf;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("pinned::is_read_and_its_program_goes_on", is_read_and_its_program_goes_on),
    Test::new("pinned::a_taken_slot_is_refused_or_stolen", a_taken_slot_is_refused_or_stolen),
    Test::new("pinned::what_is_no_such_map", what_is_no_such_map),
];

/// Somebody else's object: loaded and attached by this process, its array pinned.
struct Theirs {
    object: Object,
    _link: Link,
    folder: PathBuf,
    pin: String,
    file: String,
}

impl Theirs {
    fn new(ctx: &Context) -> Result<Self> {
        let folder = ctx.scratch.join("bpf");
        std::fs::create_dir(&folder)?;
        mount(Some("bpf"), &folder, Some("bpf"), MsFlags::empty(), None::<&str>).context("mounting bpffs")?;
        let file = file(ctx, THREE)?;
        let mut open = ObjectBuilder::default().open_file(&file)?;
        for mut map in open.maps_mut().filter(|m| m.name().to_string_lossy().ends_with(".rodata")) {
            // The first variable of the section.
            let bytes = map.initial_value_mut().context("no .rodata")?;
            bytes[..4].copy_from_slice(&std::process::id().to_ne_bytes());
        }
        let mut object = open.load()?;
        let link =
            object.progs_mut().find(|p| p.name() == "on_raw_tracepoint").context("no program")?.attach()?;
        let pin = folder.join("events");
        let mut map = object.maps_mut().find(|m| m.name() == "by_size").context("no map")?;
        map.pin(&pin)?;
        let (pin, file) = (pin.display().to_string(), file.display().to_string());
        Ok(Self { object, _link: link, folder, pin, file })
    }

    /// How often its program has run to the end.
    fn calls(&self) -> Result<u32> {
        let data = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(".data"));
        let bytes = data
            .context("no .data")?
            .lookup(&0_u32.to_ne_bytes(), libbpf_rs::MapFlags::ANY)?
            .context("no value")?;
        Ok(u32::from_ne_bytes(bytes[..4].try_into()?) - 100)
    }

    fn array(&self) -> Result<MapHandle> {
        Ok(MapHandle::from_pinned_path(&self.pin)?)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = umount(&self.folder);
    }
}

fn fire(n: u64) {
    (0..n).for_each(|_| {
        let _ = std::os::unix::process::parent_id();
    });
}

/// Runs `tracer read` while this process makes 50 calls that their program sees.
fn read(ctx: &Context, theirs: &Theirs, words: &[&str]) -> Result<(crate::job::Ran, Vec<Value>)> {
    let args = ["read", "-f", "json", "--map", &theirs.pin];
    let mut tracer = ctx.tracer(args.iter().chain(words)).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    fire(50);
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    let lines = ran.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok((ran, lines))
}

fn is_read_and_its_program_goes_on(ctx: &Context) -> Outcome {
    let theirs = Theirs::new(ctx)?;
    let (ran, lines) = read(ctx, &theirs, &["--event", "sized", "--btf", &theirs.file])?;
    assert_eq!(ran.code(), 0, "{ran}");
    let numbers: Vec<u64> = (lines.iter().filter(|l| l["type"] == "event"))
        .map(|l| {
            assert_eq!((&l["event"], &l["pid"]), (&"sized".into(), &std::process::id().into()), "{l}");
            assert_eq!(l["args"]["square"].as_u64(), l["args"]["number"].as_u64().map(|n| n * n));
            l["args"]["number"].as_u64().unwrap_or_default()
        })
        .collect();
    assert_eq!(numbers, (100..150).collect::<Vec<u64>>());
    let footer = lines.last().context("a footer")?;
    assert_eq!(footer["balanced"], true, "{ran}");
    let unknown = ran.stderr.lines().find(|l| l.starts_with("balanced: yes")).unwrap_or_default();
    assert!(unknown.contains("foreign records") && unknown.contains("unknown: accounts, sequence"), "{ran}");
    // Their program goes on, into slots that are empty again; by size and as bytes it is the same.
    fire(7);
    assert_eq!(theirs.calls()?, 57);
    let (ran, lines) = read(ctx, &theirs, &["--btf", &theirs.file])?;
    assert!(ran.code() == 0 && lines.iter().filter(|l| l["event"] == "sized").count() == 50, "{ran}");
    let (ran, lines) = read(ctx, &theirs, &[])?;
    let bytes = lines.iter().filter(|l| l["args"]["raw"].as_str().is_some_and(|raw| raw.len() == 56));
    assert_eq!((ran.code(), bytes.count()), (0, 50), "{ran}");
    assert_eq!(theirs.calls()?, 157);
    Ok(())
}

fn a_taken_slot_is_refused_or_stolen(ctx: &Context) -> Outcome {
    let theirs = Theirs::new(ctx)?;
    let map = theirs.array()?;
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = count.clone();
    let reader = PerfBufferBuilder::new(&map)
        .sample_cb(move |_, _: &[u8]| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
        .build()?;
    let args = ["read", "--map", &theirs.pin];
    let ran = ctx.tracer(args).run()?;
    assert_eq!((ran.code(), &*ran.stdout), (3, ""), "{ran}");
    assert!(ran.stderr.contains("slot 0") && ran.stderr.contains("--steal"), "{ran}");
    // Looking has taken nothing from it.
    fire(20);
    reader.consume()?;
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 20);
    let (ran, lines) = read(ctx, &theirs, &["--steal", "--btf", &theirs.file])?;
    assert_eq!((ran.code(), lines.iter().filter(|l| l["type"] == "event").count()), (0, 50), "{ran}");
    reader.consume()?;
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 20, "its slots were taken");
    assert_eq!(theirs.calls()?, 70);
    Ok(())
}

fn what_is_no_such_map(ctx: &Context) -> Outcome {
    let theirs = Theirs::new(ctx)?;
    let other = theirs.folder.join("ring");
    let mut object = theirs.object.maps().find(|m| m.name() == "ring").context("no map")?;
    MapHandle::from_map_id(object.info()?.info.id)?.pin(&other)?;
    let _ = &mut object;
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--map", "/no/such/pin"], 3, "/no/such/pin"),
        (&["--map", &other.display().to_string()], 2, "RingBuf"),
        (&["--map", &theirs.pin, "--event", "sized"], 2, "--btf"),
        (&["--map", &theirs.pin, "--event", "sizd", "--btf", &theirs.file], 2, "sized"),
        (&["--map", &theirs.pin, "--btf", "/no/such/file"], 4, "/no/such/file"),
    ];
    for (words, code, says) in cases {
        let ran = ctx.tracer(["read"].iter().chain(words)).run()?;
        assert!(ran.code() == code && ran.stdout.is_empty() && ran.stderr.contains(says), "{ran}");
    }
    Ok(())
}

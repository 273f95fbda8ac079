//! What a record costs on its way, in instructions, and that it allocates nothing once buffers have grown.
//!
//! Without arguments it is a test: each path runs until its buffers have grown, and then must not allocate. With a
//! path's name and a number it runs so many rings full of records and prints how many those were, for whoever counts
//! instructions meanwhile (`cargo xtask test --only cost`); with `list` it prints the paths' names.

use std::{hint::black_box, ops::ControlFlow, process::ExitCode};

use tracer::{
    event::Event,
    record::{SampleFormat, sample_type},
    ring::{
        Budget, ItemKind, Options, Set,
        mock::{Mock, Producer},
    },
    schema::{Field, Kind, Schema},
    sink::{
        Clock, Encode, Header, Probe,
        hex::Hex,
        json::{self, Json},
        raw::Raw,
        text::{self, Text},
    },
};

/// Bytes of the ring.
const RING: usize = 1 << 18;
/// Raw bytes of an event: 4 mod 8, as our programs emit them.
const EVENT: usize = 100;
const NAME: &[u8] = b"/usr/lib/os-release";

/// What is done with each record.
type Path = (&'static str, fn() -> Box<dyn FnMut(&mut Set) -> u64>);

const PATHS: [Path; 7] = [
    ("drain", || Box::new(drain)),
    ("records", || Box::new(records)),
    ("decode", || {
        Box::new(|set| {
            decoded(set, |event| {
                black_box(event.fields().count());
            })
        })
    }),
    ("text", || encoded(Text::new(text::Options::default()))),
    ("json", || encoded(Json::new(json::Options::default()))),
    ("hex", || encoded(Hex::new(false))),
    ("raw", || encoded(Raw::new())),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "list") {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let path = words.first().and_then(|name| PATHS.iter().find(|(known, _)| known == name));
    match (path, words.get(1).and_then(|passes| passes.parse().ok())) {
        (Some((_, path)), Some(passes)) => {
            let mut work = Work::new(path());
            println!("{}", (0..passes).map(|_| work.pass()).sum::<u64>());
            ExitCode::SUCCESS
        }
        _ => test(),
    }
}

/// No path allocates in its steady state.
fn test() -> ExitCode {
    let mut failed = 0;
    println!("\nrunning {} tests", PATHS.len());
    for (name, path) in PATHS {
        let mut work = Work::new(path());
        for _ in 0..3 {
            work.pass();
        }
        let mut records = 0;
        let counts = allocation_counter::measure(|| records = work.pass());
        let ok = counts.count_total == 0 && records > 1000;
        println!("test allocates_nothing::{name} ... {}", if ok { "ok" } else { "FAILED" });
        if !ok {
            println!("{} allocations for {records} records", counts.count_total);
        }
        failed += usize::from(!ok);
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    let passed = PATHS.len() - failed;
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    ExitCode::from(u8::from(failed > 0))
}

/// A mock ring, filled and drained in turn.
struct Work {
    set: Set,
    producer: Producer,
    event: [u8; EVENT],
    seq: u32,
    path: Box<dyn FnMut(&mut Set) -> u64>,
}

impl Work {
    fn new(path: Box<dyn FnMut(&mut Set) -> u64>) -> Work {
        let sample_type = sample_type::RAW | sample_type::TIME;
        let options = Options { sample_type, ..Options::default() };
        let mock = Mock::new(0, RING, SampleFormat { sample_type, sample_id_all: true }, 0);
        let Ok(set) = Set::of_mocks(&options, vec![mock.reader]) else { panic!("a set of one mock") };
        Work { set, producer: mock.producer, event: event(), seq: 0, path }
    }

    /// A ring full of records on their way; how many.
    fn pass(&mut self) -> u64 {
        loop {
            self.seq += 1;
            self.event[12..16].copy_from_slice(&self.seq.to_ne_bytes());
            self.producer.fields().time = 1_000_000_007 * u64::from(self.seq);
            if self.producer.room() < 2 * EVENT || self.producer.output(&self.event).is_err() {
                break;
            }
        }
        consume(&mut self.path, &mut self.set)
    }
}

/// What is counted: the producer is not. The name is known to `xtask/src/cost.rs`.
#[inline(never)]
fn consume(path: &mut dyn FnMut(&mut Set) -> u64, set: &mut Set) -> u64 {
    path(set)
}

fn drain(set: &mut Set) -> u64 {
    let mut sum = 0u64;
    let drained = set.drain(Budget::ALL, |item| {
        if let ItemKind::Sample(sample) = item.kind {
            sum = sum.wrapping_add(sample.raw().and_then(|raw| raw.u64_at(12)).unwrap_or(0));
        }
        ControlFlow::Continue(())
    });
    black_box(sum);
    drained.records
}

fn records(set: &mut Set) -> u64 {
    let mut bytes = 0u64;
    let drained = set.drain_records(Budget::ALL, |_, entry| {
        if let tracer::ring::Entry::Record(record) = entry {
            bytes += u64::from(record.header.size);
        }
        ControlFlow::Continue(())
    });
    black_box(bytes);
    drained.records
}

fn decoded(set: &mut Set, mut f: impl FnMut(&Event<'_>)) -> u64 {
    thread_local!(static SCHEMA: &'static Schema = Box::leak(Box::new(schema())));
    let schema = SCHEMA.with(|schema| *schema);
    let drained = set.drain(Budget::ALL, |item| {
        if let ItemKind::Sample(sample) = item.kind {
            let raw = sample.raw().unwrap_or_default();
            match Event::decode(item.cpu, sample.time(), raw, |_| Some(schema)) {
                Some(event) => f(&event),
                None => panic!("an event that does not fit its schema"),
            }
        }
        ControlFlow::Continue(())
    });
    drained.records
}

fn encoded<E: Encode + 'static>(mut encode: E) -> Box<dyn FnMut(&mut Set) -> u64> {
    let mut out = Vec::new();
    let schema = schema();
    let probes = [Probe { schema: &schema, attached: "by hand", headed: true }];
    let clock = Clock::default();
    encode.header(&Header { host: "h", release: "r", boot_id: "b", clock, probes: &probes }, &mut out);
    Box::new(move |set| {
        out.clear();
        let n = decoded(set, |event| encode.event(event, &mut out));
        black_box(out.len());
        n
    })
}

/// An integer each way, a pointer, and a string.
fn schema() -> Schema {
    Schema {
        name: "open".into(),
        spec: "s:openat".into(),
        fields: vec![
            Field::new("dfd", "int", Kind::Signed(4), 52),
            Field::new("count", "size_t", Kind::Unsigned(8), 56),
            Field::new("buf", "const char *", Kind::Pointer, 64),
            Field::new("filename", "const char *", Kind::Text, 72),
        ],
    }
}

fn event() -> [u8; EVENT] {
    let mut event = [0; EVENT];
    let mut put = |at: usize, bytes: &[u8]| event[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &1u16.to_ne_bytes());
    put(16, &1234u32.to_ne_bytes());
    put(20, &1235u32.to_ne_bytes());
    put(36, b"workload");
    put(52, &(-100i32).to_ne_bytes());
    put(56, &4096u64.to_ne_bytes());
    put(64, &0x7fff_dead_beef_u64.to_ne_bytes());
    put(72, &((NAME.len() as u64) << 16 | 80).to_ne_bytes());
    put(80, NAME);
    event
}

//! What breaks perf, each by a test of its own: the recordings of the sink do none of it.
//!
//! The numbers are those by which each was found out; where perf is here it says whether a recording that obeys is
//! read, and of some, that one which does not is not.

use std::{fs, io::Read, os::fd::AsFd, time::Duration};

use tracer::{
    perf_data::{
        Attr, Endian, Feature,
        feature::{Cpus, id},
        kind,
        read::Reader,
        records::{self, Comm, IdEntry, IdIndex},
    },
    record::sample_type,
    schema::{Kind, Schema, tracefs},
    sink::{Header, PerfData, Probe, Sink, perf_data::Options},
};

use crate::{
    perf_fixture::{Made, judge, perf},
    sink_fixture::{WRITE, event, gap, raw, report, with_header},
};

/// The bytes of a recording by the sink.
fn made(pipe: bool, options: Options, tell: impl FnOnce(&mut PerfData)) -> Vec<u8> {
    let end = |sink: &mut PerfData| {
        with_header(|h| sink.header(h)).unwrap();
        tell(sink);
        sink.settle(Duration::from_secs(5)).unwrap();
        sink.footer(&report()).unwrap();
    };
    if !pipe {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.data");
        end(&mut PerfData::create(&path, options, None).unwrap());
        return fs::read(&path).unwrap();
    }
    let (mut read, write) = std::io::pipe().unwrap();
    let mut sink = PerfData::pipe("pipe", write.as_fd(), options, None).unwrap();
    drop(write);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).map(|_| bytes)
    });
    end(&mut sink);
    drop(sink);
    reader.join().unwrap().unwrap()
}

/// The raw bytes of an event of the first probe.
fn numbered(seq: u32) -> Vec<u8> {
    let mut raw = raw(seq, 0, b"dd");
    raw[8..10].copy_from_slice(&1u16.to_ne_bytes());
    raw
}

fn hand(sink: &mut PerfData, cpu: u32, seq: u32) -> tracer::Result<()> {
    sink.event(&event(cpu, u64::from(seq) * 1000, &numbered(seq)))
}

fn few(pipe: bool) -> Vec<u8> {
    made(pipe, Options::default(), |sink| {
        for seq in 1..4 {
            hand(sink, seq % 2, seq).unwrap();
        }
    })
}

/// Each record's kind and body, and what was known by the end.
fn all(bytes: &[u8]) -> (Vec<(u32, Vec<u8>)>, Reader<'_>) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(next) = reader.next_record().unwrap() {
        out.push((next.record.kind, next.record.body.to_vec()));
    }
    (out, reader)
}

fn samples(all: &[(u32, Vec<u8>)]) -> impl Iterator<Item = &[u8]> {
    all.iter().filter(|(kind, _)| *kind == kind::SAMPLE).map(|(_, body)| &body[..])
}

/// Where the raw bytes of a sample of ours without a stack begin.
const RAW: usize = 52;

#[test]
fn gotcha_1_the_raw_bytes_open_with_the_events_own_number() {
    let bytes = few(false);
    let (records, reader) = all(&bytes);
    let config = reader.info().events.all()[0].attr.config;
    assert!((1..=u64::from(u16::MAX)).contains(&config));
    assert_eq!(samples(&records).count(), 3);
    for body in samples(&records) {
        assert_eq!(u64::from(Endian::NATIVE.u16_at(body, RAW).unwrap()), config);
    }
}

#[test]
fn gotcha_2_every_event_has_an_address() {
    for pipe in [false, true] {
        let bytes = few(pipe);
        let (_, reader) = all(&bytes);
        assert!(reader.info().events.all().iter().all(|e| e.attr.sample_type & sample_type::IP != 0));
    }
    if perf() {
        judge(&few(false), false, &["script"]);
    }
}

#[test]
fn gotcha_3_every_format_says_how_it_is_printed() {
    let text = tracefs::text(&WRITE, "write", 0x7001, true);
    let print = text.lines().find(|line| line.starts_with("print fmt: ")).unwrap();
    assert!(WRITE.fields.iter().all(|f| print.contains(&format!("{}=", f.name))), "{print}");
    let none = Schema { fields: vec![], ..WRITE.clone() };
    assert!(tracefs::text(&none, "none", 1, true).contains("print fmt: \""));
    if perf() {
        let (out, _) = judge(&few(false), false, &["script"]);
        assert!(out.contains("tracer:write: fd=1 ") && !out.contains("FAILED TO PARSE"), "{out}");
    }
}

#[test]
fn gotcha_4_each_task_is_named_before_its_first_event_and_no_later() {
    let bytes = few(false);
    let (records, _) = all(&bytes);
    let comm = records.iter().position(|(kind, _)| *kind == kind::COMM).unwrap();
    let sample = records.iter().position(|(kind, _)| *kind == kind::SAMPLE).unwrap();
    let body = &records[comm].1;
    assert!(comm < sample && Comm::parse(body, Endian::NATIVE).is_some_and(|c| c.comm == b"dd"));
    // pid and tid, and the time 0.
    let trailer = body.len() - 32;
    assert_eq!(Endian::NATIVE.u64_at(body, trailer + 8), Some(0));
    if perf() {
        let (out, _) = judge(&bytes, false, &["script", "-F", "comm,event"]);
        assert!(out.lines().all(|line| line.trim_start().starts_with("dd ")), "{out}");
    }
}

#[test]
fn gotcha_5_events_have_their_names() {
    let (file, pipe) = (few(false), few(true));
    let (_, reader) = all(&file);
    let Some(Feature::Events(named)) = reader.info().feature(id::EVENT_DESC) else { panic!("no names") };
    assert_eq!(named[0].name, b"tracer:write");
    let updates = all(&pipe).0.iter().filter(|(kind, _)| *kind == kind::EVENT_UPDATE).count();
    assert_eq!(updates, 1);
    if perf() {
        assert_eq!(judge(&file, false, &["evlist"]).0.lines().next(), Some("tracer:write"));
        assert!(judge(&pipe, true, &["script"]).0.contains("tracer:write:"));
    }
}

#[test]
fn gotcha_6_attributes_have_a_size_that_every_perf_takes() {
    assert_eq!(Attr::SIZE, 128);
    let bytes = few(false);
    assert_eq!(Endian::NATIVE.u64_at(&bytes, 16), Some(128 + 16));
    let at = Endian::NATIVE.u64_at(&bytes, 24).unwrap() as usize;
    assert_eq!(Endian::NATIVE.u32_at(&bytes, at + 4), Some(128), "as it says itself");
}

#[test]
fn gotcha_7_what_perf_cannot_do_without_is_told() {
    for pipe in [false, true] {
        let bytes = few(pipe);
        let (_, reader) = all(&bytes);
        for id in [id::HOSTNAME, id::OSRELEASE, id::VERSION, id::ARCH, id::CPUDESC] {
            let told = reader.info().feature(id);
            assert!(
                matches!(told, Some(Feature::Text(_, text)) if !text.is_empty()),
                "feature {id}: {told:?}"
            );
        }
    }
    if perf() {
        let json = to_json(&few(false));
        assert_eq!(json["headers"]["hostname"], "host\"1");
    }
}

/// What `perf data convert --to-json` makes of it.
fn to_json(bytes: &[u8]) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.json");
    judge(bytes, false, &["data", "convert", "--to-json", &out.display().to_string()]);
    serde_json::from_slice(&fs::read(&out).unwrap()).unwrap()
}

#[test]
fn gotcha_8_no_event_is_of_a_cpu_beyond_the_last() {
    let bytes = few(false);
    let (_, reader) = all(&bytes);
    let Some(Feature::Cpus(Cpus { available, online })) = reader.info().feature(id::NRCPUS) else {
        panic!("not told")
    };
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last: u32 = possible.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    assert_eq!(*available, last + 1);
    assert!(online <= available);
}

#[test]
fn gotcha_9_only_records_that_every_perf_knows() {
    for pipe in [false, true] {
        for compress in [None, Some(1)] {
            let bytes = made(pipe, Options { compress, ..Options::default() }, |sink| {
                hand(sink, 1, 5).unwrap();
                sink.gap(&gap()).unwrap();
                sink.caught_up().unwrap();
            });
            let (records, _) = all(&bytes);
            assert!(records.iter().all(|(kind, _)| *kind <= kind::COMPRESSED), "pipe: {pipe}");
        }
    }
    if perf() {
        // One that tells which CPU each id is of is among those.
        let mut made = Made::new(Endian::NATIVE, &["write"]);
        let entry = IdEntry { id: 1, index: 0, cpu: u64::MAX, tid: u64::MAX };
        let index = IdIndex { entries: vec![entry], guests: None };
        records::put(kind::ID_INDEX, 0, Endian::NATIVE, &mut made.records, |out| {
            index.write(Endian::NATIVE, out);
        });
        made.sample(0, 100, 0, 1_000_000_100, 1, "x");
        for (bytes, pipe) in [(made.file(), false), (made.pipe(), true)] {
            let (out, _) = judge(&bytes, pipe, &["script"]);
            assert!(out.contains("tracer:write: count=1"), "{out}");
        }
    }
}

#[test]
fn gotcha_10_no_feature_that_an_older_perf_lacks_and_no_end_mark() {
    let bytes = few(true);
    let (records, _) = all(&bytes);
    let features: Vec<u64> = records
        .iter()
        .filter(|(kind, _)| *kind == kind::HEADER_FEATURE)
        .map(|(_, body)| Endian::NATIVE.u64_at(body, 0).unwrap())
        .collect();
    assert!(features.len() > 5 && features.iter().all(|id| (1..=31).contains(id)), "{features:?}");
    let file = few(false);
    let bits = |word: usize| Endian::NATIVE.u64_at(&file, 72 + 8 * word).unwrap();
    assert_eq!((bits(0) >> 32, bits(1), bits(2), bits(3)), (0, 0, 0, 0));
    if perf() {
        judge(&bytes, true, &["report", "--stdio"]);
    }
}

#[test]
fn gotcha_11_rounds_end_only_where_nothing_older_can_come() {
    let bytes = made(false, Options::default(), |sink| {
        // CPUs are read in turn, so the times of each pass begin anew.
        for pass in 0..4 {
            for cpu in [0, 1] {
                (0..50).for_each(|i| hand(sink, cpu, 1 + pass * 100 + 2 * i + cpu).unwrap());
            }
            std::thread::sleep(Duration::from_millis(60));
            sink.caught_up().unwrap();
        }
    });
    let (records, _) = all(&bytes);
    assert!(records.iter().filter(|(kind, _)| *kind == kind::FINISHED_ROUND).count() >= 2);
    if perf() {
        let (out, err) = judge(&bytes, false, &["script", "--ns", "-F", "time"]);
        let times: Vec<&str> = out.lines().map(str::trim).collect();
        assert!(times.len() == 400 && times.is_sorted() && !err.contains("out of order"), "{err}");
    }
}

#[test]
fn gotcha_12_every_id_is_of_an_event() {
    for pipe in [false, true] {
        let bytes = few(pipe);
        let (records, reader) = all(&bytes);
        let known = &reader.info().events;
        for body in samples(&records) {
            let id = Endian::NATIVE.u64_at(body, 0).unwrap();
            assert!(known.of_id(id).is_some(), "{id}");
        }
        for (_, body) in records.iter().filter(|(kind, _)| *kind == kind::COMM) {
            let id = Endian::NATIVE.u64_at(body, body.len() - 8).unwrap();
            assert!(known.of_id(id).is_some(), "{id}");
        }
    }
}

#[test]
fn gotcha_13_no_record_is_larger_than_its_header_can_say() {
    let mut made = Made::new(Endian::NATIVE, &["write"]);
    made.sample(0, 1, 0, 1_000_000_100, 1, &"x".repeat(65_400));
    let before = made.records.len();
    made.sample(0, 1, 0, 1_000_000_200, 1, &"x".repeat(66_000));
    assert_eq!(made.records.len(), before, "not begun");
    let large = [&numbered(5)[..], &vec![7; 70_000]].concat();
    let bytes = self::made(false, Options::default(), |sink| sink.event(&event(1, 5, &large)).unwrap());
    let (records, _) = all(&bytes);
    let body = samples(&records).next().unwrap();
    assert!(body.len() + 8 <= usize::from(u16::MAX) && body.len() > 65_000, "{}", body.len());
    if perf() {
        assert!(judge(&bytes, false, &["script"]).0.contains("fd=1 "));
    }
}

#[test]
fn gotcha_14_no_compressed_record_becomes_more_than_was_told() {
    for pipe in [false, true] {
        let options = Options { compress: Some(3), ..Options::default() };
        let bytes = made(pipe, options, |sink| (1..20_000).for_each(|seq| hand(sink, 1, seq).unwrap()));
        let (_, reader) = all(&bytes);
        let Some(Feature::Compressed(how)) = reader.info().feature(id::COMPRESSED) else {
            panic!("not told")
        };
        // No more than a batch becomes one record, and a batch is 64 KiB and one event.
        assert!(how.kind == 1 && how.mmap_len >= 2 * 65_536, "{how:?}");
        if perf() {
            let (out, _) = judge(&bytes, pipe, &["script", "-F", "event"]);
            assert_eq!(out.lines().count(), 19_999, "perf drops what is beyond without a word");
        }
    }
}

#[test]
fn gotcha_15_keys_of_perfs_json_stay_perfs() {
    if !perf() {
        return;
    }
    let mut schema = WRITE.clone();
    for (field, name) in schema.fields.iter_mut().zip(["pid", "comm", "cpu", "timestamp", "callchain"]) {
        field.name = name.into();
        field.kind = if field.kind == Kind::Pointer { Kind::Unsigned(8) } else { field.kind };
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let mut sink = PerfData::create(&path, Options::default(), None).unwrap();
    let probe = Probe { schema: &schema, attached: "by hand", headed: true };
    with_header(|h| sink.header(&Header { probes: &[probe], ..h.clone() })).unwrap();
    hand(&mut sink, 1, 5).unwrap();
    sink.settle(Duration::from_secs(5)).unwrap();
    sink.footer(&report()).unwrap();
    let json = to_json(&fs::read(&path).unwrap());
    let sample = &json["samples"][0];
    // Of a key that is there twice a reader takes the last.
    assert_eq!((&sample["comm"], &sample["tid"]), (&"dd".into(), &1235.into()), "{sample}");
}

#[test]
fn gotcha_16_a_loss_is_a_record_that_perf_shows() {
    let bytes = made(false, Options::default(), |sink| {
        hand(sink, 1, 5).unwrap();
        sink.gap(&gap()).unwrap();
    });
    let (records, _) = all(&bytes);
    let body = records.iter().find(|(kind, _)| *kind == kind::LOST).map(|(_, body)| body).unwrap();
    assert_eq!(Endian::NATIVE.u64_at(body, 8), Some(13));
    if perf() {
        let (out, _) = judge(&bytes, false, &["script", "--show-lost-events"]);
        assert!(out.lines().any(|l| l.contains("PERF_RECORD_LOST lost 13")), "{out}");
        let (_, err) = judge(&bytes, false, &["script"]);
        assert!(err.contains("lost 1 chunks"), "{err}");
    }
}

//! perf.data as a sink: what a session told it, read back from files and pipes.

use std::{
    io::Read,
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

use tracer::{
    event::{Event, Wire},
    perf_data::{
        Feature, feature, kind,
        read::{Next, Reader},
        records::{Comm, Lost},
    },
    record::Body,
    schema::{Field, Kind, Schema},
    sink::{Header, PerfData, Probe, Sink, perf_data::Options},
};

use crate::sink_fixture::{WRITE, event, gap, hand, raw, report, with_header};

fn create(path: &Path, options: Options) -> PerfData {
    let mut sink = PerfData::create(path, options, None).unwrap();
    with_header(|h| sink.header(h)).unwrap();
    sink
}

fn end(sink: &mut PerfData) {
    sink.settle(Duration::from_secs(5)).unwrap();
    sink.footer(&report()).unwrap();
}

/// One of each record of a recording, by what is told of it.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Comm(u32, String),
    Sample { cpu: u32, time: u64, raw: Vec<u8>, chain: Option<Vec<u64>> },
    Lost { cpu: u32, time: u64, count: u64 },
    Round,
}

fn told(next: &Next<'_>) -> Option<Told> {
    let record = &next.record;
    let event = next.info.events.of(record)?;
    let format = next.info.events.get(event)?.attr.format();
    let id = format.sample_id(&record.native());
    Some(match record.kind {
        kind::COMM => {
            let comm = Comm::parse(record.body, record.endian)?;
            Told::Comm(comm.tid, String::from_utf8_lossy(comm.comm).into_owned())
        }
        kind::LOST => {
            let (id, lost) = (id?, Lost::parse(record.body, record.endian)?);
            Told::Lost { cpu: id.cpu?, time: id.time?, count: lost.lost }
        }
        kind::SAMPLE => {
            let native = record.native();
            let sample = format.sample(&native)?;
            let mut raw = Vec::new();
            sample.raw()?.append_to(&mut raw);
            let chain = sample.callchain().map(Iterator::collect);
            Told::Sample { cpu: sample.cpu()?, time: sample.time()?, raw, chain }
        }
        _ => return None,
    })
}

fn all(bytes: &[u8]) -> Vec<Told> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(next) = reader.next_record().unwrap() {
        match next.record.kind {
            kind::FINISHED_ROUND => out.push(Told::Round),
            _ => out.extend(told(&next)),
        }
    }
    assert!(reader.info().notes.is_empty(), "{:?}", reader.info().notes.all());
    out
}

fn samples(told: &[Told]) -> usize {
    told.iter().filter(|t| matches!(t, Told::Sample { .. })).count()
}

/// The raw bytes as they lie in the file: its type is the one that the format text says.
fn typed(mut raw: Vec<u8>) -> Vec<u8> {
    let number = 0x7000 + u16::from_ne_bytes([raw[8], raw[9]]);
    raw[..2].copy_from_slice(&number.to_ne_bytes());
    raw
}

#[test]
fn a_file_holds_what_the_sink_was_told_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    for compress in [None, Some(1), Some(22)] {
        let path = dir.path().join("x.data");
        let mut sink = create(&path, Options { compress, ..Options::default() });
        hand(&mut sink, 1, 5).unwrap();
        sink.gap(&gap()).unwrap();
        hand(&mut sink, 0, 6).unwrap();
        end(&mut sink);
        assert_eq!((sink.counts().delivered, sink.counts().dropped_sink), (2, 0));
        let bytes = std::fs::read(&path).unwrap();
        let sample = |cpu, seq: u32| Told::Sample {
            cpu,
            time: u64::from(seq) * 1000,
            raw: typed(raw(seq, 0, b"dd")),
            chain: None,
        };
        let expected = [
            Told::Comm(1235, "dd".into()),
            sample(1, 5),
            Told::Lost { cpu: 1, time: 2_083_223_456_789, count: 13 },
            sample(0, 6),
        ];
        assert_eq!(all(&bytes), expected, "{compress:?}");
        let reader = Reader::new(&bytes).unwrap();
        let span = reader.info().feature(feature::id::SAMPLE_TIME);
        assert_eq!(span, Some(&Feature::SampleTime(5000, 6000)));
        let host = reader.info().feature(feature::id::HOSTNAME);
        assert_eq!(host, Some(&Feature::Text(feature::id::HOSTNAME, b"host\"1".to_vec())));
    }
}

#[test]
fn a_pipe_holds_the_same() {
    let (mut read, write) = std::io::pipe().unwrap();
    let mut sink = PerfData::pipe("pipe", write.as_fd(), Options::default(), None).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).map(|_| bytes)
    });
    drop(write);
    with_header(|h| sink.header(h)).unwrap();
    for seq in 0..1000 {
        hand(&mut sink, 1, seq).unwrap();
    }
    end(&mut sink);
    assert!(sink.rotate().unwrap().is_none(), "a pipe has no files");
    drop(sink);
    let told = all(&reader.join().unwrap().unwrap());
    assert_eq!((samples(&told), told.len()), (1000, 1001));
}

#[test]
fn a_mark_stands_behind_passes_that_read_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let mut sink = create(&path, Options::default());
    let start = Instant::now();
    let mut passes = 0;
    while start.elapsed() < Duration::from_millis(400) {
        hand(&mut sink, 1, passes).unwrap();
        sink.caught_up().unwrap();
        sink.flush().unwrap();
        passes += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    end(&mut sink);
    let told = all(&std::fs::read(&path).unwrap());
    let rounds = told.iter().filter(|t| **t == Told::Round).count();
    assert!((1..=8).contains(&rounds), "{rounds} of {passes} passes");
    assert_eq!(samples(&told), passes as usize);
}

#[test]
fn rotated_files_hold_each_event_once_and_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    // Of an earlier recording: its number is not taken again.
    std::fs::write(dir.path().join("x.data.3"), "older").unwrap();
    let mut sink = create(&path, Options { compress: Some(1), keep: Some(2), ..Options::default() });
    let mut names = Vec::new();
    for seq in 0..5000 {
        hand(&mut sink, 1, seq).unwrap();
        if seq % 1000 == 999 && seq < 4000 {
            names.push(sink.rotate().unwrap().unwrap());
        }
    }
    end(&mut sink);
    let numbers: Vec<_> = names.iter().map(|n| n.extension().unwrap().to_str().unwrap()).collect();
    assert_eq!(numbers, ["4", "5", "6", "7"]);
    assert!(!names[0].exists() && !names[1].exists(), "two are kept");
    for file in [&names[2], &names[3], &path] {
        let told = all(&std::fs::read(file).unwrap());
        assert_eq!((samples(&told), told.len()), (1000, 1001), "{}: and a task's name", file.display());
    }
    assert_eq!(sink.counts().delivered, 5000);
}

#[test]
fn stacks_are_callchains_of_every_sample() {
    let field = |name, kind, offset| Field::new(name, "u64", kind, offset);
    let stacks = vec![
        field("ustack", Kind::Stack { user: true }, 52),
        field("kstack", Kind::Stack { user: false }, 60),
    ];
    let schema = Schema { name: "a".into(), spec: "k:a".into(), fields: stacks };
    let probes = [&schema, &*WRITE].map(|schema| Probe { schema, attached: "by hand", headed: true });
    let mut bytes = vec![0; 52];
    bytes[8] = 1;
    for (at, count) in [(68u64, 1u64), (76, 2)] {
        bytes.extend_from_slice(&((8 * count) << 16 | at).to_ne_bytes());
    }
    for address in [0x40_1000u64, 0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000] {
        bytes.extend_from_slice(&address.to_ne_bytes());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let mut sink = PerfData::create(&path, Options::default(), None).unwrap();
    with_header(|h| sink.header(&Header { probes: &probes, ..h.clone() })).unwrap();
    sink.event(&Event::decode(0, Some(1), Body::new(&bytes), |_| Some(&schema)).unwrap()).unwrap();
    let other = raw(7, 0, b"dd");
    sink.event(&event(0, 2, &other)).unwrap();
    end(&mut sink);
    let (kernel, user) = (-128i64 as u64, -512i64 as u64);
    let expected = vec![kernel, 0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000, user, 0x40_1000];
    let chains: Vec<_> = all(&std::fs::read(&path).unwrap())
        .into_iter()
        .filter_map(|t| if let Told::Sample { chain, .. } = t { chain } else { None })
        .collect();
    assert_eq!(chains, [expected, vec![]]);
}

#[test]
fn a_foreign_event_stands_behind_a_head_and_the_largest_is_cut() {
    let rest = Field::new("bytes", "u8[]", Kind::Rest, 0);
    let schema = Schema { name: "mine".into(), spec: "o:mine".into(), fields: vec![rest] };
    let probes = [Probe { schema: &schema, attached: "theirs", headed: false }];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let mut sink = PerfData::create(&path, Options::default(), None).unwrap();
    with_header(|h| sink.header(&Header { probes: &probes, ..h.clone() })).unwrap();
    for len in [5, 8, 12, 65_508] {
        let bytes = vec![0xab; len];
        let wire = Wire::foreign(1, 4, 9, Some((3, 4)));
        sink.event(&Event {
            cpu: 0,
            time: Some(1),
            wire,
            schema: &schema,
            raw: Body::new(&bytes),
            late: false,
        })
        .unwrap();
    }
    end(&mut sink);
    let mut seen = Vec::new();
    for told in all(&std::fs::read(&path).unwrap()) {
        let Told::Sample { raw, .. } = told else { continue };
        assert_eq!((raw.len() + 4) % 8, 0);
        let word = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4), word(8), word(12) & 0xffff), (0x7001, 4, 9, 16));
        let len = (word(12) >> 16) as usize;
        assert!(raw[16..16 + len].iter().all(|b| *b == 0xab) && raw[16 + len..].iter().all(|b| *b == 0));
        seen.push(len);
    }
    assert_eq!(seen[..3], [5, 8, 12]);
    assert!((65_400..65_508).contains(&seen[3]), "{seen:?}");
}

/// What is dropped for want of room is a LOST record before the next event of its CPU.
#[test]
fn a_reader_that_is_slow_is_told_what_it_missed() {
    let (mut read, write) = std::io::pipe().unwrap();
    let mut sink = PerfData::pipe("pipe", write.as_fd(), Options::default(), None).unwrap();
    drop(write);
    with_header(|h| sink.header(h)).unwrap();
    // More than all batches hold.
    const EVENTS: u32 = 200_000;
    for seq in 0..EVENTS {
        hand(&mut sink, 1, seq).unwrap();
    }
    let dropped = sink.counts().dropped_queue;
    assert!(dropped > 0);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).map(|_| bytes)
    });
    end(&mut sink);
    let counts = sink.counts();
    drop(sink);
    let told = all(&reader.join().unwrap().unwrap());
    let lost: u64 =
        told.iter().filter_map(|t| if let Told::Lost { count, .. } = t { Some(*count) } else { None }).sum();
    assert_eq!((lost, samples(&told) as u64), (dropped, counts.delivered));
    assert_eq!(counts.delivered + counts.dropped_queue, u64::from(EVENTS));
}

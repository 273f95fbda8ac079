//! Recordings that the writer made, judged by perf: files and pipes, of this byte order and the other.

use tracer::perf_data::{
    Attr, Endian, Feature,
    feature::{BuildId, CpuTopology, NumaNode, id},
    kind,
    read::Reader,
    records,
    write::Compressor,
};

use crate::perf_fixture::{Made, judge, perf};

const SCRIPT: [&str; 4] = ["script", "--ns", "-F", "comm,pid,tid,cpu,time,event,trace"];
const ORDERS: [Endian; 2] = [Endian::Little, Endian::Big];

/// Two tasks, two kinds of events, two CPUs whose events stand one after another in two rounds.
fn two(endian: Endian) -> Made {
    let mut made = Made::new(endian, &["write", "openat"]);
    made.comm(100, "dd", 0);
    made.comm(200, "worker", 0);
    made.sample(0, 100, 0, 1_000_000_100, 4096, "/tmp/out");
    made.sample(1, 100, 0, 1_000_000_300, 1, "");
    made.sample(0, 200, 1, 1_000_000_200, 1 << 40, "/var/log/x");
    made.round();
    made.sample(0, 100, 0, 1_000_000_400, 7, "y");
    made.round();
    made
}

const LINES: &str = "\
dd 100/100 [000] 1.000000100: tracer:write: count=4096 ret=-4096 path=/tmp/out
worker 200/200 [001] 1.000000200: tracer:write: count=1099511627776 ret=-1099511627776 path=/var/log/x
dd 100/100 [000] 1.000000300: tracer:openat: count=1 ret=-1 path=
dd 100/100 [000] 1.000000400: tracer:write: count=7 ret=-7 path=y
";

/// Lines with every run of blanks made one.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n");
    lines.collect()
}

#[test]
fn perf_prints_fields_by_name_from_a_file_of_either_byte_order() {
    if !perf() {
        return;
    }
    for endian in ORDERS {
        let (out, err) = judge(&two(endian).file(), false, &SCRIPT);
        assert_eq!((&*plain(&out), &*err), (LINES, ""), "{endian:?}");
    }
}

#[test]
fn perf_prints_the_same_from_a_pipe() {
    if !perf() {
        return;
    }
    // perf reads no pipe of the other byte order: not its own either.
    let (out, err) = judge(&two(Endian::NATIVE).pipe(), true, &SCRIPT);
    assert_eq!((&*plain(&out), &*err), (LINES, ""));
}

#[test]
fn default_output_and_dumps_go_through_to_the_end() {
    if !perf() {
        return;
    }
    let made = two(Endian::NATIVE);
    for args in [&["script"][..], &["report", "--stdio"], &["report", "--stats"], &["script", "--header"]] {
        let (out, err) = judge(&made.file(), false, args);
        assert!(!out.is_empty() && !err.contains("failed"), "{args:?}: {out}{err}");
    }
    let (dump, _) = judge(&made.file(), false, &["script", "-D"]);
    for (name, count) in [("SAMPLE", 4), ("COMM", 2), ("FINISHED_ROUND", 2)] {
        let found = dump.lines().filter(|l| l.contains(&format!("PERF_RECORD_{name}"))).count();
        assert_eq!(found, count, "{name}\n{dump}");
    }
    let by_count = ["report", "--stdio", "-s", "comm,tracer:write.count"];
    let (out, _) = judge(&made.file(), false, &by_count);
    assert!(out.lines().any(|l| l.contains("dd") && l.contains("4096")), "{out}");
    let (out, _) = judge(&made.pipe(), true, &["report", "--stdio", "-s", "pid"]);
    assert!(out.contains("33.33%") && out.contains("worker"), "no mark of the last feature ends it: {out}");
}

#[test]
fn perf_reads_every_fact_of_the_header() {
    if !perf() {
        return;
    }
    let mut made = two(Endian::NATIVE);
    made.opening.features.extend([
        Feature::TotalMem(1 << 20),
        Feature::CpuTopology(CpuTopology {
            sockets: vec![b"0-3".to_vec()],
            threads: vec![b"0-1".to_vec(), b"2-3".to_vec()],
            cpus: vec![(0, 0), (0, 0), (1, 0), (1, 0)],
            dies: Some((vec![b"0-3".to_vec()], vec![0; 4])),
        }),
        Feature::Numa(vec![NumaNode { node: 0, total: 9000, free: 4000, cpus: b"0-3".to_vec() }]),
        Feature::Pmus(vec![(1, b"software".to_vec()), (2, b"tracepoint".to_vec())]),
        Feature::BuildIds(vec![BuildId { misc: 2, pid: -1, id: vec![0xab; 20], file: b"/bin/dd".to_vec() }]),
        // One that no perf knows yet is left out: a pipe with it would end `perf report`.
        Feature::Other(40, vec![0; 8]),
    ]);
    for endian in ORDERS {
        let mut of = Made::new(endian, &["write"]);
        of.opening.features = made.opening.features.clone();
        let (out, _) = judge(&of.file(), false, &["report", "--header-only", "-I"]);
        for fact in [
            "# hostname : judged",
            "# os release : 6.1.0",
            "# perf version : 0.1",
            "# arch : x86_64",
            "# nrcpus avail : 4",
            "# cpudesc : a CPU",
            "# total memory : 1048576 kB",
            "# cmdline : tracer record",
            "# event : name = tracer:write",
            "# sibling sockets : 0-3",
            "# node0 meminfo  : total = 9000 kB, free = 4000 kB",
            "# pmu mappings: software = 1, tracepoint = 2",
            "# clockid: monotonic (1)",
            "# time of first sample : 1.000000",
        ] {
            assert!(out.contains(fact), "{endian:?}: {fact}\n{out}");
        }
    }
    let (ids, _) = judge(&made.file(), false, &["buildid-list"]);
    assert!(ids.contains(&"ab".repeat(20)), "{ids}");
    judge(&made.pipe(), true, &["report", "--stdio"]);
}

#[test]
fn events_keep_their_names_and_fields() {
    if !perf() {
        return;
    }
    for endian in ORDERS {
        let (out, _) = judge(&two(endian).file(), false, &["evlist", "--trace-fields"]);
        let expected =
            "tracer:write: trace_fields: count,ret,path\ntracer:openat: trace_fields: count,ret,path";
        assert!(out.contains(expected), "{out}");
        let (out, _) = judge(&two(endian).file(), false, &["evlist", "-v"]);
        assert!(out.contains("sample_type: IP|TID|TIME|CPU|PERIOD|RAW|IDENTIFIER"), "{out}");
        assert!(out.contains("use_clockid: 1") && out.contains("comm_exec: 1"), "{endian:?}: {out}");
    }
}

#[test]
fn the_wall_clock_is_told() {
    if !perf() {
        return;
    }
    let (out, _) = judge(&two(Endian::NATIVE).file(), false, &["script", "--ns", "-F", "tod,event"]);
    assert!(plain(&out).starts_with("2023-11-14 22:13:20.000000100 tracer:write"), "{out}");
}

#[test]
fn a_loss_is_told_at_its_place() {
    if !perf() {
        return;
    }
    let mut made = two(Endian::NATIVE);
    made.lost(1, 42, 1_000_000_500);
    let (out, err) = judge(&made.file(), false, &["script", "--show-lost-events"]);
    assert!(out.lines().any(|l| l.contains("PERF_RECORD_LOST lost 42")), "{out}");
    assert!(!err.contains("out of order"), "{err}");
}

#[test]
fn rounds_out_of_order_are_said_by_perf_so_that_silence_means_order() {
    if !perf() {
        return;
    }
    let mut made = two(Endian::NATIVE);
    made.sample(0, 100, 0, 1_000_000_000, 8, "older than two rounds ago");
    made.round();
    let (_, err) = judge(&made.file(), false, &["report", "--stdio"]);
    assert!(err.contains("out of order"), "{err}");
}

#[test]
fn compressed_records_are_read_from_files_and_pipes() {
    if !perf() {
        return;
    }
    let mut made = two(Endian::NATIVE);
    let mut expected = LINES.to_owned();
    let long = "p".repeat(40_000);
    for i in 0..20 {
        made.sample(0, 100, 0, 1_000_001_000 + i, i, &long);
        let ret = (i as i64).wrapping_neg();
        expected +=
            &format!("dd 100/100 [000] 1.0000010{i:02}: tracer:write: count={i} ret={ret} path={long}\n");
    }
    made.opening.features.push(Compressor::feature(3));
    let mut compressed = Vec::new();
    let mut compressor = Compressor::new(Endian::NATIVE, 3).unwrap();
    // In pieces that end within records.
    for piece in made.records.chunks(100_001) {
        compressor.write(piece, &mut compressed).unwrap();
    }
    assert!(compressed.len() * 20 < made.records.len());
    made.records = compressed;
    for (bytes, pipe) in [(made.file(), false), (made.pipe(), true)] {
        let (out, err) = judge(&bytes, pipe, &SCRIPT);
        assert!(plain(&out) == expected, "pipe {pipe}: {} bytes, {err}", out.len());
    }
}

#[test]
fn the_largest_sample() {
    if !perf() {
        return;
    }
    let mut made = two(Endian::NATIVE);
    made.sample(0, 100, 0, 1_000_000_500, 5, &"x".repeat(65_400));
    let (out, _) = judge(&made.file(), false, &SCRIPT);
    assert!(out.len() > 65_400 && out.trim_end().ends_with(&"x".repeat(1000)));
    let before = made.records.len();
    made.sample(0, 100, 0, 1_000_000_600, 6, &"x".repeat(65_500));
    assert_eq!(made.records.len(), before, "one that a header cannot tell is not begun");
}

#[test]
fn the_facts_that_need_no_judge() {
    let made = two(Endian::Little);
    for bytes in [made.file(), made.pipe()] {
        assert_eq!(&bytes[..8], b"PERFILE2");
    }
    assert_eq!(&two(Endian::Big).file()[..8], b"2ELIFREP");
    let file = made.file();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!((word(8), word(16)), (104, Attr::SIZE as u64 + 16), "attributes that every perf takes");
    assert_eq!(word(48), made.records.len() as u64);
    assert_eq!((word(56), word(64)), (0, 0), "no prologue is told once there is a table");
    let bits = word(72);
    for id in [id::TRACING_DATA, id::HOSTNAME, id::OSRELEASE, id::VERSION, id::ARCH, id::EVENT_DESC] {
        assert!(bits >> id & 1 == 1, "feature {id}");
    }
    assert_eq!((bits >> 32, word(80), word(88), word(96)), (0, 0, 0, 0), "no feature above 31");
    assert_eq!((made.records.len() % 8, word(40) % 8), (0, 0));
}

#[test]
fn what_is_written_is_what_is_read_in_both_orders_from_files_and_pipes() {
    for endian in ORDERS {
        let made = two(endian);
        for (bytes, is_pipe) in [(made.file(), false), (made.pipe(), true)] {
            let mut reader = Reader::new(&bytes).unwrap();
            let mut records = Vec::new();
            while let Some(next) = reader.next_record().unwrap() {
                // A pipe begins with what stands in a file's sections.
                let is_head = matches!(
                    next.record.kind,
                    kind::HEADER_ATTR | kind::HEADER_FEATURE | kind::TRACING_DATA | kind::EVENT_UPDATE
                );
                assert!(is_pipe || !is_head);
                if !is_head {
                    next.record.write(&mut records);
                }
            }
            assert!(records == made.records, "{endian:?}, pipe: {is_pipe}");
            let info = reader.info();
            for feature in &made.opening.features {
                let same = match feature {
                    Feature::TracingData(data) => info.tracing.as_ref() == Some(&**data),
                    other => info.feature(other.id()) == Some(other),
                };
                assert!(same, "{endian:?}, pipe: {is_pipe}: feature {}", feature.id());
            }
            for (read, written) in info.events.all().iter().zip(&made.opening.events) {
                assert_eq!((&read.attr, &read.ids), (&written.attr, &written.ids));
            }
            assert!(info.notes.is_empty(), "{:?}", info.notes.all());
        }
    }
}

#[test]
fn a_file_that_was_cut_short_has_a_prologue() {
    let made = two(Endian::Little);
    let (head, layout) = made.opening.file();
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
    assert_eq!((word(40), word(48)), (layout.data_at, 0));
    assert_eq!(layout.data_at, head.len() as u64);
    let (at, len) = (word(56) as usize, word(64) as usize);
    let mut rest = &head[at..at + len];
    let mut seen = Vec::new();
    while rest.len() >= records::HEADER {
        let kind = Endian::Little.u32_at(rest, 0).unwrap();
        let size = usize::from(Endian::Little.u16_at(rest, 6).unwrap());
        seen.push(kind);
        let follows = match kind {
            kind::TRACING_DATA => Endian::Little.u32_at(rest, 8).unwrap() as usize,
            _ => 0,
        };
        rest = &rest[size + follows..];
    }
    assert_eq!(seen.iter().filter(|kind| **kind == kind::TRACING_DATA).count(), 1);
    assert_eq!(seen.iter().filter(|kind| **kind == kind::HEADER_FEATURE).count(), 10);
}

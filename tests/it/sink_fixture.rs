//! Events, gaps and headers made by hand for the tests of the sinks.

use std::{sync::LazyLock, time::Duration};

use tracer::{
    event::{Cause, Event, Gap},
    ledger::{Accounts, CpuReport, Identity, ProbeReport, Report, SinkReport, Tail},
    record::Body,
    schema::{Field, Kind, Schema},
    sink::{Clock, Encode, Header, Note, Probe, Sink},
};

/// What `write` carries, and a field of each other kind.
pub static WRITE: LazyLock<Schema> = LazyLock::new(|| Schema {
    name: "write".into(),
    spec: "s:write".into(),
    fields: vec![
        Field::new("fd", "unsigned int", Kind::Unsigned(4), 52),
        Field::new("buf", "const char *", Kind::Pointer, 56),
        Field::new("count", "size_t", Kind::Unsigned(8), 64),
        Field::new("ret", "long", Kind::Signed(8), 72),
        Field::new("sync", "bool", Kind::Bool, 80),
    ],
});

/// The raw bytes of a `write`, 84 of them: 4 mod 8, as the kernel leaves them.
pub fn raw(seq: u32, level: u8, comm: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 84];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(10, &[level]);
    put(12, &seq.to_ne_bytes());
    put(16, &1234u32.to_ne_bytes());
    put(20, &1235u32.to_ne_bytes());
    put(24, &1000u32.to_ne_bytes());
    put(28, &(1u64 << 60 | 7).to_ne_bytes());
    put(36, comm);
    put(52, &1u32.to_ne_bytes());
    put(56, &0x7fff_dead_beef_u64.to_ne_bytes());
    put(64, &(u64::MAX - 1).to_ne_bytes());
    put(72, &(-9i64).to_ne_bytes());
    put(80, &[1]);
    raw
}

/// Decodes them.
pub fn event(cpu: u32, time: u64, raw: &[u8]) -> Event<'_> {
    Event::decode(cpu, Some(time), Body::new(raw), |_| Some(&*WRITE)).unwrap()
}

/// Hands a sink one event of CPU `cpu`, numbered and timed by `seq`.
pub fn hand(sink: &mut dyn Sink, cpu: u32, seq: u32) -> tracer::Result<()> {
    sink.event(&event(cpu, u64::from(seq) * 1000, &raw(seq, 0, b"dd")))
}

/// A hole of 13.
pub fn gap() -> Gap {
    Gap {
        cpu: 1,
        count: Some(13),
        cause: Cause::Lost,
        seq: Some((101, 113)),
        level: Some(0),
        after: Some(2_083_123_456_789),
        before: Some(2_083_223_456_789),
    }
}

/// Calls `f` with a header of one probe.
pub fn with_header<T>(f: impl FnOnce(&Header<'_>) -> T) -> T {
    f(&Header {
        host: "host\"1",
        release: "6.12.0",
        boot_id: "0b4f1c2e-0000-4000-8000-000000000001",
        clock: Clock { monotonic: 2_000_000_000_000, realtime: 1_772_370_245_123_456_789 },
        probes: &[Probe { schema: &WRITE, attached: "kprobe on __x64_sys_write", headed: true }],
    })
}

/// A ledger that balances.
pub fn report() -> Report {
    let accounts = Accounts { fired: 4, filtered: 1, emitted: 3, ..Accounts::default() };
    let mut runs = Identity::new("runs", "run count = fired");
    runs.unknown("BPF_ENABLE_STATS: not allowed".into());
    Report {
        elapsed: Duration::from_secs(2).as_nanos() as u64,
        beyond: 0,
        probes: vec![ProbeReport {
            name: "write".into(),
            spec: "s:write".into(),
            attached: "kprobe on __x64_sys_write".into(),
            accounts,
            pattern: None,
            waiting: None,
            recursion_misses: None,
            missed: None,
        }],
        feeds: vec![],
        cpus: vec![CpuReport { cpu: 1, emitted: 4, decoded: 3, ..CpuReport::default() }],
        sinks: vec![SinkReport { name: "stdout".into(), delivered: 3, ..SinkReport::default() }],
        excluded: 2,
        tail: Tail::Proved,
        identities: vec![Identity::new("lost", "ENOSPC = LOST records = PERF_FORMAT_LOST"), runs],
    }
}

/// A name that clears the screen, ends the line, ends a JSON string, is no UTF-8 and turns the writing round.
pub const HOSTILE: &[u8] = b"\x1b[2J\n\"\\\xff\xc2\x9b\xe2\x80\xae";

/// One of each thing in a format.
pub fn stream(encode: &mut dyn Encode) -> Vec<u8> {
    let mut out = Vec::new();
    with_header(|h| encode.header(h, &mut out));
    encode.event(&event(1, 2_083_123_456_789, &raw(5, 0, b"dd")), &mut out);
    encode.gap(&gap(), &mut out);
    encode.event(&event(12, 2_083_223_456_789, &raw(114, 2, HOSTILE)), &mut out);
    encode.gap(&Gap { count: None, cause: Cause::Corrupt, seq: None, ..gap() }, &mut out);
    encode.gap(&Gap { count: None, seq: None, after: None, before: None, ..gap() }, &mut out);
    encode.gap(&Gap { count: Some(1), cause: Cause::Dropped, before: None, ..gap() }, &mut out);
    encode.note(&Note::Error("ring of cpu 3:\x1b[2J \"bad\""), &mut out);
    encode.note(&Note::Probe("k:vfs_write: attached"), &mut out);
    encode.note(&Note::Stats(&Report { identities: vec![], ..report() }), &mut out);
    encode.footer(&report(), &mut out);
    out
}

/// Compares with a file of `tests/fixtures`; with `TRACER_BLESS` set, writes it.
pub fn golden(name: &str, got: &[u8]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sink").join(name);
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let got = String::from_utf8(got.to_vec()).unwrap().replace(&version, "\"version\":\"0.0.0\"");
    if std::env::var_os("TRACER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap();
    for (got, want) in got.lines().zip(want.lines()) {
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(got, want, "{name}");
}

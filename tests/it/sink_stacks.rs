//! Stacks and what else is shown by name, in text, in JSON, and folded with its accounts.

use std::{
    fs::File,
    io::Read,
    os::fd::AsFd,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde_json::{Value as Json, json};
use tracer::{
    event::{Cause, Event, Gap, Wire},
    record::Body,
    schema::{Field, Kind, Names, Schema, Show},
    sink::{self, Counts, Encode, Outlet, Sink, folded::Folded, json, text},
    symbol::Symbols,
};

use crate::sink_fixture::{gap, raw, report};

/// Two stacks and some values that people see by another form than programs.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let field = |i: u32, name: &str, kind, show| Field {
        name: name.into(),
        type_name: "t".into(),
        kind,
        show,
        offset: Wire::SIZE as u32 + 8 * i,
        fault: None,
    };
    let names = Names::new([(1, "READ".into()), (4, "EXEC\"".into())]);
    Schema {
        name: "e".into(),
        spec: "k:e".into(),
        fields: vec![
            field(0, "ret", Kind::Signed(8), Show::Errno),
            field(1, "kstack", Kind::Stack { user: false }, Show::Plain),
            field(2, "ustack", Kind::Stack { user: true }, Show::Plain),
            field(3, "flags", Kind::Unsigned(4), Show::Flags(Arc::new(names))),
            field(4, "addr", Kind::Bytes, Show::Sockaddr),
            field(5, "list", Kind::Bytes, Show::Array { width: 8, signed: false }),
        ],
    }
});

/// The raw bytes of an event with these stacks.
fn bytes(ret: i64, flags: u64, kernel: &[u64], user: &[u64]) -> Vec<u8> {
    let mut bytes = raw(1, 0, b"d;d\n")[..Wire::SIZE].to_vec();
    let words = |of: &[u64]| -> Vec<u8> { of.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    let address = [&2_u16.to_ne_bytes()[..], &[0, 80, 127, 0, 0, 1]].concat();
    let dynamic = [words(kernel), words(user), address, words(&[1, u64::MAX])];
    let mut at = Wire::SIZE + 6 * 8;
    let places: Vec<u64> = dynamic
        .iter()
        .map(|part| {
            at += part.len();
            (part.len() << 16 | (at - part.len())) as u64
        })
        .collect();
    bytes.extend(words(&[ret as u64, places[0], places[1], flags, places[2], places[3]]));
    bytes.extend(dynamic.concat());
    bytes
}

fn event(bytes: &[u8]) -> Event<'_> {
    Event::decode(1, Some(5), Body::new(bytes), |_| Some(&*SCHEMA)).unwrap()
}

fn written(encode: &mut dyn Encode, bytes: &[u8]) -> String {
    let mut out = Vec::new();
    encode.event(&event(bytes), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn text_has_stacks_beneath_the_line_and_names_in_it() {
    let mut text = text::Text::new(text::Options::default());
    let line = written(&mut text, &bytes(-2, 0x15, &[0xffff_ffff_8100_0000, 0x10], &[0x7f00]));
    let (first, beneath) = line.split_once('\n').unwrap();
    assert!(
        first.ends_with(
            " e: ret=-ENOENT flags=READ|EXEC\"|0x10 addr=127.0.0.1:80 list=[1, 18446744073709551615]"
        ),
        "{line}"
    );
    assert_eq!(beneath, "\tffffffff81000000\n\t              10\n\t            7f00\n");
    let line = written(&mut text, &bytes(5, 0, &[], &[]));
    assert!(line.contains(" e: ret=5 kstack=[] ustack=[] flags=0 "), "{line}");
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn json_keeps_numbers_and_tells_how_they_are_shown() {
    let mut json = json::Json::new(json::Options::default());
    let line = written(&mut json, &bytes(-2, 0x15, &[0xffff_ffff_8100_0000], &[]));
    let line: Json = serde_json::from_str(&line).unwrap();
    let args = json!({"ret": -2, "kstack": [{"addr": "0xffffffff81000000"}], "ustack": [], "flags": 0x15,
        "addr": "127.0.0.1:80", "list": [1, u64::MAX]});
    assert_eq!(line["args"], args);
    assert_eq!(line["shown"], json!({"ret": "-ENOENT", "flags": "READ|EXEC\"|0x10"}));
    let mut json = json::Json::new(json::Options { int_strings: true });
    let line: Json = serde_json::from_str(&written(&mut json, &bytes(5, 0, &[], &[]))).unwrap();
    assert_eq!(
        (&line["args"]["ret"], &line["args"]["list"]),
        (&json!("5"), &json!(["1", u64::MAX.to_string()]))
    );
    assert_eq!(line["shown"], json!({"flags": "0"}));
}

fn folded_into(file: &File) -> Folded {
    let outlet = Outlet::new("file", file.as_fd(), sink::Options::default()).unwrap();
    Folded::new(Symbols::new(false, false), outlet)
}

#[test]
fn folded_stacks_are_counted_and_written_at_the_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut folded = folded_into(file.as_file());
    let (often, once) = (bytes(0, 0, &[0xa, 0xb], &[0xc]), bytes(0, 0, &[], &[]));
    for _ in 0..3 {
        folded.event(&event(&often)).unwrap();
    }
    folded.event(&event(&once)).unwrap();
    for gap in [gap(), gap(), Gap { cause: Cause::Corrupt, count: None, ..gap() }] {
        folded.gap(&gap).unwrap();
    }
    folded.flush().unwrap();
    assert_eq!(folded.counts(), Counts::default());
    folded.settle(Duration::from_secs(5)).unwrap();
    folded.footer(&report()).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(text, "d_d_;0xc;0xb_[k];0xa_[k] 3\nd_d_ 1\n[lost] 26\n[unknown] 1\n");
    assert_eq!(folded.counts(), Counts { delivered: 4, ..Counts::default() });
}

#[test]
fn too_many_different_stacks_are_counted_beside_them() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut folded = folded_into(file.as_file());
    let most = 1 << 16;
    for i in 0..most + 10 {
        folded.event(&event(&bytes(0, 0, &[i], &[]))).unwrap();
    }
    // One that is known is counted still.
    folded.event(&event(&bytes(0, 0, &[0], &[]))).unwrap();
    folded.settle(Duration::from_secs(30)).unwrap();
    folded.footer(&report()).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(text.lines().count() as u64, most + 1);
    assert!(text.starts_with("d_d_;0x0_[k] 2\n") && text.ends_with("\n[overflow] 10\n"), "{}", &text[..200]);
    assert_eq!(folded.counts(), Counts { delivered: most + 11, ..Counts::default() });
}

#[test]
fn folded_stacks_that_nobody_takes_are_dropped_and_counted() {
    let (reader, writer) = std::io::pipe().unwrap();
    let outlet = Outlet::new("pipe", writer.as_fd(), sink::Options::default()).unwrap();
    let mut folded = Folded::new(Symbols::new(false, false), outlet);
    // More than a pipe and the outlet's own batches hold.
    let total = 20_000;
    for i in 0..total {
        let user: Vec<u64> = (0..16).map(|j| u64::MAX - (16 * i + j)).collect();
        folded.event(&event(&bytes(0, 0, &[], &user))).unwrap();
    }
    let _ = folded.settle(Duration::from_millis(100));
    let _ = folded.footer(&report());
    let counts = folded.counts();
    assert_eq!(counts.delivered + counts.dropped_sink, total);
    assert!(counts.dropped_sink > 0 && counts.delivered > 0, "{counts:?}");
    drop(writer);
    drop(folded);
    let mut text = String::new();
    let mut reader = reader;
    reader.read_to_string(&mut text).unwrap();
    // The last line may have gone out in part, which does not count.
    let whole = text.matches(" 1\n").count() as u64;
    assert_eq!(whole, counts.delivered);
}

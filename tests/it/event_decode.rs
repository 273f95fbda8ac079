//! Raw bytes decoded by their schema: every kind and size, wrapped anywhere, too short, or of no probe.

use tracer::{
    event::{Event, Wire},
    record::Body,
    schema::{Field, Kind, OwnedValue, Schema, Show, Value},
};

use crate::sink_fixture::{WRITE, raw};

fn schema(kind: Kind, offset: u32) -> Schema {
    let field =
        Field { name: "x".into(), type_name: "t".into(), kind, show: Show::Plain, offset, fault: None };
    Schema { name: "e".into(), spec: "k:e".into(), fields: vec![field] }
}

#[test]
fn the_head_is_read_wherever_it_wraps() {
    let bytes = raw(0xfffe_fdfc, 3, b"sixteen bytes ok");
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        let wire = Wire::parse(&Body::wrapped(first, second)).unwrap();
        assert_eq!((wire.probe, wire.level, wire.seq), (0, 3, 0xfffe_fdfc));
        assert_eq!((wire.tgid, wire.pid, wire.uid, wire.cgroup), (1234, 1235, 1000, 1 << 60 | 7));
        assert_eq!(wire.comm(), b"sixteen bytes ok", "a name of all sixteen bytes has no NUL");
    }
}

#[test]
fn a_name_ends_at_its_first_nul() {
    let bytes = raw(0, 0, b"a\0stale");
    assert_eq!(Wire::parse(&Body::new(&bytes)).unwrap().comm(), b"a");
    let bytes = raw(0, 0, b"");
    assert_eq!(Wire::parse(&Body::new(&bytes)).unwrap().comm(), b"");
}

#[test]
fn every_kind_and_size() {
    let data = 0xf1e2_d3c4_b5a6_9788_u64;
    let cases = [
        (Kind::Unsigned(1), Value::Unsigned(0x88)),
        (Kind::Unsigned(2), Value::Unsigned(0x9788)),
        (Kind::Unsigned(4), Value::Unsigned(0xb5a6_9788)),
        (Kind::Unsigned(8), Value::Unsigned(data)),
        (Kind::Signed(1), Value::Signed(i64::from(0x88_u8 as i8))),
        (Kind::Signed(2), Value::Signed(i64::from(0x9788_u16 as i16))),
        (Kind::Signed(4), Value::Signed(i64::from(0xb5a6_9788_u32 as i32))),
        (Kind::Signed(8), Value::Signed(data as i64)),
        (Kind::Bool, Value::Bool(true)),
        (Kind::Pointer, Value::Pointer(data)),
    ];
    for (kind, expected) in cases {
        let schema = schema(kind, 52);
        let mut bytes = [0; 60];
        // The low bytes first in any order of bytes: narrow fields hold the low part of `data`.
        let value = match kind.size() {
            1 => vec![data as u8],
            2 => (data as u16).to_ne_bytes().to_vec(),
            4 => (data as u32).to_ne_bytes().to_vec(),
            _ => data.to_ne_bytes().to_vec(),
        };
        bytes[52..52 + value.len()].copy_from_slice(&value);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let event = Event::decode(0, None, Body::wrapped(first, second), |_| Some(&schema)).unwrap();
            let read: Vec<_> = event.fields().map(|(f, v)| (f.name.as_str(), v)).collect();
            assert_eq!(read, [("x", expected)], "{kind:?} wrapped at {at}");
        }
    }
}

#[test]
fn bytes_that_do_not_fit_their_schema_are_no_event() {
    let bytes = raw(0, 0, b"dd");
    for len in 0..=bytes.len() {
        let event = Event::decode(0, None, Body::new(&bytes[..len]), |_| Some(&*WRITE));
        // The last field is one byte at 80; three bytes of padding follow.
        assert_eq!(event.is_some(), len >= 81, "{len} bytes");
    }
    assert!(Event::decode(0, None, Body::new(&bytes), |_| None).is_none(), "a probe nobody knows");
    let far = schema(Kind::Unsigned(8), u32::MAX);
    assert!(Event::decode(0, None, Body::new(&bytes), |_| Some(&far)).is_none());
}

#[test]
fn the_probe_is_the_one_that_the_bytes_name() {
    let mut bytes = raw(0, 0, b"dd");
    bytes[8..10].copy_from_slice(&0x1234_u16.to_ne_bytes());
    let mut asked = 0;
    Event::decode(0, None, Body::new(&bytes), |id| {
        asked = id;
        Some(&*WRITE)
    });
    assert_eq!(asked, 0x1234);
}

#[test]
fn a_schema_of_no_fields_needs_the_head_alone() {
    let schema = Schema { name: "e".into(), spec: "k:e".into(), fields: vec![] };
    let bytes = raw(0, 0, b"dd");
    let event = Event::decode(0, None, Body::new(&bytes[..52]), |_| Some(&schema)).unwrap();
    assert_eq!(event.fields().count(), 0);
    assert!(Event::decode(0, None, Body::new(&bytes[..51]), |_| Some(&schema)).is_none());
}

/// Raw bytes with two slots: which fields could not be read, and a string's place and length.
fn with_text(faults: u64, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; Wire::SIZE];
    bytes.extend(faults.to_ne_bytes());
    let place = (Wire::SIZE + 16) as u64;
    bytes.extend(((text.len() as u64) << 16 | place).to_ne_bytes());
    bytes.extend(text);
    bytes
}

#[test]
fn strings_end_at_their_nul_and_faults_are_no_values() {
    let at = Wire::SIZE as u32;
    let field = |kind| Field {
        name: "path".into(),
        type_name: "const char *".into(),
        kind,
        show: Show::Plain,
        offset: at + 8,
        fault: Some((at, 3)),
    };
    let decoded = |bytes: &[u8], kind| {
        let schema = Schema { name: "e".into(), spec: "s:e".into(), fields: vec![field(kind)] };
        let values: Option<Vec<OwnedValue>> = Event::decode(0, None, Body::new(bytes), |_| Some(&schema))
            .map(|event| event.fields().map(|(_, value)| value.into()).collect());
        values.unwrap_or_default()
    };
    let good = with_text(0, b"/etc/x\0");
    assert_eq!(decoded(&good, Kind::Text), [OwnedValue::Text(b"/etc/x".to_vec())]);
    assert_eq!(decoded(&good, Kind::Bytes), [OwnedValue::Bytes(b"/etc/x\0".to_vec())]);
    assert_eq!(decoded(&with_text(1 << 3, b""), Kind::Text), [OwnedValue::Fault]);
    assert_eq!(decoded(&with_text(1 << 2, b"y"), Kind::Text), [OwnedValue::Text(b"y".to_vec())]);
    // A place beyond the event has no value, and is not read.
    let mut bad = good;
    bad[Wire::SIZE + 9] = 0xff;
    assert_eq!(decoded(&bad, Kind::Text), []);
}

#[test]
fn a_stack_is_whole_addresses_innermost_first() {
    let at = Wire::SIZE as u32;
    let field = |user| Field {
        name: "stack".into(),
        type_name: String::new(),
        kind: Kind::Stack { user },
        show: Show::Plain,
        offset: at + 8,
        fault: Some((at, 0)),
    };
    let calls = [0xffff_ffff_8123_4567_u64, 0xffff_ffff_8100_0001];
    let mut bytes: Vec<u8> = calls.iter().flat_map(|a| a.to_ne_bytes()).collect();
    // A walk that was cut off within an address: that one does not count.
    bytes.extend([1, 2, 3]);
    for user in [false, true] {
        let schema = Schema { name: "e".into(), spec: "k:e".into(), fields: vec![field(user)] };
        let raw = with_text(0, &bytes);
        for at in 0..=raw.len() {
            let (first, second) = raw.split_at(at);
            let event = Event::decode(0, None, Body::wrapped(first, second), |_| Some(&schema)).unwrap();
            let Some((_, Value::Stack(stack))) = event.fields().next() else { panic!("no stack") };
            assert_eq!((stack.user, stack.len()), (user, 2));
            assert!(stack.addresses().eq(calls), "wrapped at {at}");
            assert!(stack.addresses().rev().eq([calls[1], calls[0]]));
            assert_eq!(OwnedValue::from(Value::Stack(stack)), OwnedValue::Stack(calls.to_vec()));
        }
    }
}

//! Events of foreign programs: the kinds that only they have, and what sinks write for what they do not carry.

use serde_json::{Value as Json, json};
use tracer::{
    event::{Carries, Event, NO_CPU, Wire},
    record::Body,
    schema::{Field, Kind, OwnedValue, Schema},
    sink::{
        Encode,
        hex::Hex,
        json,
        raw::{Data, Raw, frames},
        text::{Options, Text},
    },
};

use crate::support::Random;

fn schema(kinds: &[(Kind, u32)]) -> Schema {
    let field = |(i, &(kind, offset)): (usize, &(Kind, u32))| Field::new(&format!("f{i}"), "t", kind, offset);
    Schema {
        name: "e".into(),
        spec: "o:x.bpf.o".into(),
        fields: kinds.iter().enumerate().map(field).collect(),
    }
}

fn event<'a>(schema: &'a Schema, wire: Wire, raw: Body<'a>) -> Option<Event<'a>> {
    let cpu = if wire.carries == Carries::Nothing { NO_CPU } else { 3 };
    let time = (wire.carries != Carries::Nothing).then_some(7);
    Event { cpu, time, wire, schema, raw, late: false }.whole()
}

#[test]
fn a_bitfield_is_its_bits_wherever_they_lie() {
    let mut random = Random(1);
    for width in 1..=64_u8 {
        for first in 0..8_u8 {
            let bytes = random.bytes(12);
            // Bit by bit, as the ABI numbers them: from the lowest of the first byte, or from the highest.
            let bit = |i: usize| match cfg!(target_endian = "little") {
                true => u64::from(bytes[i / 8] >> (i % 8) & 1),
                false => u64::from(bytes[i / 8] >> (7 - i % 8) & 1),
            };
            let bits = (0..usize::from(width)).map(|i| 16 + usize::from(first) + i);
            let expected = bits.enumerate().fold(0, |n, (i, at)| match cfg!(target_endian = "little") {
                true => n | bit(at) << i,
                false => n << 1 | bit(at),
            });
            let value = |signed| {
                let schema = schema(&[(Kind::Bits { first, width, signed }, 2)]);
                let (a, b) = bytes.split_at(random.below(13));
                let event =
                    event(&schema, Wire::foreign(1, 4, 1, None), Body::wrapped(a, b)).expect("long enough");
                event.fields().map(|(_, v)| OwnedValue::from(v)).collect::<Vec<_>>()
            };
            let mut value = value;
            assert_eq!(value(false), [OwnedValue::Unsigned(expected)], "{width} bits from {first}");
            let sign = 64 - u32::from(width);
            let expected = ((expected << sign) as i64) >> sign;
            assert_eq!(value(true), [OwnedValue::Signed(expected)], "{width} bits from {first}, signed");
        }
    }
}

#[test]
fn arrays_in_place_and_the_rest() {
    let schema = schema(&[(Kind::Chars(300), 0), (Kind::Inline(5), 300), (Kind::Rest, 302)]);
    let mut bytes = vec![b'x'; 308];
    bytes[280] = 0;
    let wire = Wire::foreign(1, 4, 1, Some((5, 6)));
    let of = |bytes| event(&schema, wire, Body::new(bytes));
    let values: Vec<_> = of(&bytes).unwrap().fields().map(|(_, v)| OwnedValue::from(v)).collect();
    let text = OwnedValue::Text(vec![b'x'; 280]);
    let bytes_of = |n| OwnedValue::Bytes(vec![b'x'; n]);
    assert_eq!(values, [text, bytes_of(5), bytes_of(6)]);
    assert!(of(&bytes[..305]).is_some() && of(&bytes[..304]).is_none(), "the end of the last whole field");
}

fn written(encode: &mut dyn Encode, wire: Wire) -> Vec<u8> {
    let schema = schema(&[(Kind::Unsigned(4), 0), (Kind::Bits { first: 0, width: 33, signed: false }, 4)]);
    let raw = [&7_u32.to_ne_bytes()[..], &[1; 8]].concat();
    let mut out = Vec::new();
    encode.event(&event(&schema, wire, Body::new(&raw)).unwrap(), &mut out);
    out
}

#[test]
fn what_an_event_does_not_carry_is_null_or_a_dash() {
    let (task, nothing) = (Wire::foreign(2, 4, 9, Some((5, 6))), Wire::foreign(2, 5, 9, None));
    let mut form = json::Json::new(json::Options { int_strings: true });
    let mut line = |wire| serde_json::from_slice::<Json>(&written(&mut form, wire)).unwrap();
    let seen = line(task);
    let args = json!({"f0": 7, "f1": (0x1_0101_0101_u64).to_string()});
    let expected = json!({
        "type": "event", "cpu": 3, "time": "7", "seq": 9, "level": 4, "event": "e", "pid": 5, "tid": 6,
        "uid": null, "cgroup": null, "comm": null, "args": args,
    });
    assert_eq!(seen, expected);
    let seen = line(nothing);
    for key in ["cpu", "time", "pid", "tid", "uid", "cgroup", "comm"] {
        assert_eq!(seen.get(key), Some(&Json::Null), "{key}");
    }
    let text = |wire| String::from_utf8(written(&mut Text::new(Options::default()), wire)).unwrap();
    assert_eq!(
        text(task),
        "               -       5/6       [003]      0.000000007: e: f0=7 f1=4311810305\n"
    );
    assert!(text(nothing).starts_with("               -       -/-       [  -]"), "{}", text(nothing));
    let hex = written(&mut Hex::new(false), nothing);
    assert!(
        hex.starts_with(b". cpu - seq 9 level 5: e: raw 12 bytes\n"),
        "{}",
        String::from_utf8_lossy(&hex)
    );
}

#[test]
fn a_raw_frame_names_the_schema() {
    let header = tracer::sink::Header {
        host: "h",
        release: "r",
        boot_id: "b",
        clock: tracer::sink::Clock::default(),
        probes: &[],
    };
    let mut form = Raw::new();
    let mut out = Vec::new();
    form.header(&header, &mut out);
    out.extend(written(&mut form, Wire::foreign(2, 4, 9, Some((5, 6)))));
    let raw = [&7_u32.to_ne_bytes()[..], &[1; 8]].concat();
    let read: Vec<_> = frames(&out).collect::<Result<_, _>>().unwrap();
    assert_eq!(read[1], Data::Foreign { cpu: 3, time: Some(7), probe: 2, seq: 9, raw: &raw });
}

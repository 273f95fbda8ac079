//! NDJSON: golden lines, and what readers rely on.

use serde_json::Value;
use tracer::sink::{
    Encode,
    json::{Json, Options},
};

use crate::sink_fixture::{HOSTILE, event, golden, raw, stream};

fn lines(int_strings: bool) -> Vec<Value> {
    let out = stream(&mut Json::new(Options { int_strings }));
    let text = String::from_utf8(out).expect("valid UTF-8");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    text.lines().map(|l| serde_json::from_str(l).expect(l)).collect()
}

#[test]
fn golden_json() {
    golden("stream.ndjson", &stream(&mut Json::default()));
}

#[test]
fn golden_json_with_integers_as_strings() {
    golden("stream-int-strings.ndjson", &stream(&mut Json::new(Options { int_strings: true })));
}

#[test]
fn the_header_is_first_and_the_footer_last() {
    let lines = lines(false);
    assert_eq!(lines[0]["type"], "header");
    assert_eq!(lines[0]["schema"], "tracer/1");
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "footer");
    assert_eq!(last["balanced"], true);
    assert_eq!(last["probes"][0]["missed"], Value::Null, "unknown is never 0");
}

#[test]
fn integers_are_exact_and_addresses_are_strings() {
    let event = &lines(false)[1];
    assert_eq!(event["args"]["count"].as_u64(), Some(u64::MAX - 1));
    assert_eq!(event["args"]["ret"].as_i64(), Some(-9));
    assert_eq!(event["args"]["buf"], "0x7fffdeadbeef");
    assert_eq!(event["args"]["sync"], true);
    assert_eq!(event.get("level"), None);
    let event = &lines(true)[1];
    assert_eq!(event["args"]["count"], "18446744073709551614");
    assert_eq!(event["time"], "2083123456789");
    assert_eq!(event["args"]["fd"], 1, "32 bits stay a number");
}

#[test]
fn hostile_names_come_back_to_the_byte() {
    let event = lines(false).into_iter().find(|l| l.get("bytes").is_some()).unwrap();
    let hex: String = HOSTILE.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(event["bytes"]["comm"], hex);
    assert_eq!(event["comm"], String::from_utf8_lossy(HOSTILE).as_ref());
}

#[test]
fn no_time_is_null() {
    let raw = raw(1, 0, b"dd");
    let mut out = Vec::new();
    Json::default().event(&tracer::event::Event { time: None, ..event(0, 0, &raw) }, &mut out);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap()["time"], Value::Null);
}

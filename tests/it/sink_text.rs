//! The text form, column by column.

use tracer::sink::{
    Encode, TimeFormat,
    text::{Column, Options, Text},
};

use crate::sink_fixture::{event, golden, raw, stream, with_header};

fn line(text: &mut Text, time: u64, comm: &[u8]) -> String {
    let mut out = Vec::new();
    text.event(&event(1, time, &raw(5, 2, comm)), &mut out);
    String::from_utf8(out).unwrap()
}

fn with(time: TimeFormat, columns: &str) -> Text {
    let mut text = Text::new(Options { time, columns: Column::parse_list(columns).unwrap(), color: false });
    with_header(|h| text.header(h, &mut Vec::new()));
    text
}

#[test]
fn golden_text() {
    golden("stream.txt", &stream(&mut Text::new(Options::default())));
}

#[test]
fn golden_text_in_colour() {
    let mut text = Text::new(Options { color: true, ..Options::default() });
    golden("stream-color.txt", &stream(&mut text));
}

#[test]
fn columns_are_those_of_perf_script() {
    assert_eq!(
        line(&mut Text::new(Options::default()), 2_083_123_456_789, b"dd"),
        "              dd    1234/1235    [001]   2083.123456789: write: \
         fd=1 buf=0x7fffdeadbeef count=18446744073709551614 ret=-9 sync=true\n"
    );
}

#[test]
fn columns_can_be_chosen() {
    let mut text = with(TimeFormat::Mono, "name,seq,uid,cgroup,count,none,tid,fd");
    assert_eq!(
        line(&mut text, 1, b"dd"),
        "write: seq=5.2 uid=1000 cgroup=1152921504606846983 count=18446744073709551614    1235 fd=1\n"
    );
    assert_eq!(Column::parse_list("time,,fd").unwrap_err().kind(), tracer::ErrorKind::Usage);
}

#[test]
fn times_by_each_clock() {
    let cases = [
        (TimeFormat::None, "", ""),
        (TimeFormat::Delta, "+0.000000000: ", "+1.500000001: "),
        (TimeFormat::Mono, "  1999.500000000: ", "  2001.000000001: "),
        (TimeFormat::Utc, "2026-03-01T13:04:04.623456789Z: ", "2026-03-01T13:04:06.123456790Z: "),
    ];
    for (format, first, second) in cases {
        let mut text = with(format, "time,fd");
        assert_eq!(line(&mut text, 1_999_500_000_000, b"dd"), format!("{first}fd=1\n"));
        assert_eq!(line(&mut text, 2_001_000_000_001, b"dd"), format!("{second}fd=1\n"));
    }
    let mut text = with(TimeFormat::Delta, "time,fd");
    line(&mut text, 2_000, b"dd");
    assert_eq!(line(&mut text, 1_000, b"dd"), "-0.000001000: fd=1\n", "CPUs are not in order");
}

#[test]
fn the_local_time_has_its_offset() {
    let mut text = with(TimeFormat::Wall, "time");
    let wall = line(&mut text, 1_999_500_000_000, b"dd");
    let (date, offset) = wall.split_at(29);
    assert!(date.starts_with("2026-0") && date.ends_with(".623456789"), "{wall}");
    assert!(offset.len() == 8 && offset.ends_with(":\n"), "{wall}");
}

#[test]
fn no_name_begins_a_line_as_a_gap_does() {
    for comm in [&b"-- lost 9 event"[..], b"\n-- lost 9", b"-- \xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
        let line = line(&mut Text::new(Options::default()), 0, comm);
        assert!(line.starts_with(' '), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }
}

//! Every record of a recording: where it lies, its size, its kind, and what it holds.

use std::io::Write as _;

use tracer::perf_data::{
    kind,
    read::{Next, Sample},
    records::Body,
};

use super::escape::escape;

/// Appends a record's line: `FILE:OFFSET [SIZE] NUMBER NAME fields`; FILE only of a directory's `data.N`.
pub fn record(next: &Next<'_>, out: &mut Vec<u8>) {
    let record = &next.record;
    if record.part > 0 {
        let _ = write!(out, "data.{}:", record.part - 1);
    }
    let name = kind::name(record.kind).unwrap_or("?");
    let _ = write!(out, "{:#x} [{:#x}] {} {name}", record.offset, record.size, record.kind);
    if let Some(time) = next.time {
        let _ = write!(out, " time={time}");
    }
    let attr = next.info.events.of(record).and_then(|index| next.info.events.get(index)).map(|e| e.attr);
    let told = match (record.kind, attr) {
        (kind::SAMPLE, Some(attr)) => {
            Sample::parse(&attr, record.body, record.endian).map(|sample| format!("{sample:?}"))
        }
        _ => Body::parse(record, attr.as_ref()).map(|body| format!("{body:?}")),
    };
    out.push(b' ');
    escape(told.as_deref().unwrap_or("malformed").as_bytes(), out);
    out.push(b'\n');
}

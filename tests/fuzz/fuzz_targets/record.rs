//! Any bytes as a record of any format, cut in two anywhere: no panic, and the same fields wherever the cut is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::record::{Body, Header, Record, SampleFormat};

/// Everything that can be read from a record.
fn read(format: SampleFormat, header: Header, body: Body<'_>) -> String {
    let record = Record { header, body };
    let sample = format.sample(&record).map(|sample| {
        let chain: Option<Vec<u64>> = sample.callchain().map(Iterator::collect);
        let raw = sample.raw().map(|raw| raw.to_contiguous().into_owned());
        let ids = (sample.id(), sample.stream_id(), sample.tgid(), sample.pid(), sample.cpu());
        let rest = (sample.ip(), sample.time(), sample.addr(), sample.period());
        assert_eq!(chain.is_some(), format.sample_type & 1 << 5 != 0);
        assert_eq!(raw.is_some(), format.sample_type & 1 << 10 != 0);
        (chain, raw, ids, rest)
    });
    let id = format.sample_id(&record);
    format!("{sample:?} {:?} {:?} {id:?}", format.lost(&record), format.lost_samples(&record))
}

fuzz_target!(|input: &[u8]| {
    let Some((&[t0, t1, t2, kind, edge], bytes)) = input.split_first_chunk::<5>() else { return };
    let sample_type = u64::from(u32::from_le_bytes([t0, t1, t2 & 1, 0]));
    let format = SampleFormat { sample_type, sample_id_all: t2 & 2 != 0 };
    let kind = if kind & 0x80 == 0 { 9 } else { u32::from(kind & 0x0f) };
    let header = Header { kind, misc: 0, size: 0 };
    let whole = read(format, header, Body::new(bytes));
    let (first, second) = bytes.split_at(bytes.len().min(usize::from(edge)));
    assert_eq!(whole, read(format, header, Body::wrapped(first, second)));
});

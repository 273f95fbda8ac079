//! The TRACING_DATA of a recording, damaged: nothing, or format texts that are written as they were read.
#![no_main]

mod made;

use libfuzzer_sys::fuzz_target;
use tracer::perf_data::{Endian, TracingData};

fuzz_target!(|bytes: &[u8]| {
    let whole = [Endian::Little, Endian::Big, Endian::Little, Endian::Big].map(|endian| {
        let mut out = Vec::new();
        let systems = vec![(b"s".to_vec(), vec![made::FORMAT.into(), b"name: f\nID: 8\n".to_vec()])];
        TracingData::of(endian, systems).write(&mut out);
        out
    });
    let bytes = made::broken(whole, bytes);
    let Some((data, len)) = TracingData::parse_prefix(&bytes) else { return };
    assert!(len <= bytes.len());
    let texts: usize = data.formats().map(|(_, _, text)| text.len()).sum();
    assert!(texts <= bytes.len());
    let mut again = Vec::new();
    data.write(&mut again);
    assert_eq!(TracingData::parse(&again), Some(data));
});

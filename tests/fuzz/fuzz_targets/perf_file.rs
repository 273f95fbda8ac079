//! A file of perf.data that was damaged anywhere: read to an end, and written anew as one that is whole.
#![no_main]

mod made;

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tracer::perf_data::{Endian, read::Reader, rewrite};

fn all() -> [Vec<u8>; 4] {
    [(Endian::Little, false), (Endian::Big, false), (Endian::Little, true), (Endian::Big, true)]
        .map(|(endian, packed)| made::file(endian, packed))
}

fuzz_target!(init: {
    for file in all() {
        assert!(made::read(Reader::new(&file).expect("a reader")) >= 11, "what is whole is read");
    }
}, |bytes: &[u8]| {
    let file = made::broken(all(), bytes);
    if let Ok(reader) = Reader::new(&file) {
        made::read(reader);
    }
    let Ok(reader) = Reader::new(&file) else { return };
    let mut repaired = Cursor::new(Vec::new());
    if let Ok(told) = rewrite::file(reader, &mut repaired, &|_| None) {
        let reader = Reader::new(repaired.get_ref()).expect("what was repaired is a recording");
        assert!(made::read(reader) as u64 >= told.written, "and has all that was written");
    }
});

//! What came through a pipe as perf.data and was damaged anywhere: read as it comes and where it lies, alike.
#![no_main]

mod made;

use libfuzzer_sys::fuzz_target;
use tracer::perf_data::{Endian, read::Reader};

fn all() -> [Vec<u8>; 4] {
    [(Endian::Little, false), (Endian::Big, false), (Endian::Little, true), (Endian::Big, true)]
        .map(|(endian, packed)| made::pipe(endian, packed))
}

fuzz_target!(init: {
    for pipe in all() {
        assert!(made::read(Reader::pipe(&pipe[..]).expect("a reader")) >= 11, "what is whole is read");
    }
}, |bytes: &[u8]| {
    let pipe = made::broken(all(), bytes);
    let (Ok(stream), Ok(slice)) = (Reader::pipe(&pipe[..]), Reader::new(&pipe)) else { return };
    assert_eq!(made::read(stream), made::read(slice));
});

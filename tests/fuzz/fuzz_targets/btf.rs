//! Any bytes as a file of BTF: an error, or structs whose fields end; no panic, and no memory that the file does not
//! justify.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tracer::{probe::foreign, schema::btf::Btf};

fuzz_target!(|bytes: &[u8]| {
    // A header that says no more than where the rest is; libbpf refuses most others at once.
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let half = bytes.len() / 8 * 4;
    let mut header = vec![0x9f, 0xeb, 1, 0];
    for number in [24, 0, half as u32, half as u32, (bytes.len() - half) as u32] {
        header.extend(u32::to_ne_bytes(number));
    }
    file.write_all(&header).and_then(|()| file.write_all(bytes)).expect("written");
    // The reader of recordings takes it as it is, and behind that header.
    for bytes in [bytes, &[&header, bytes].concat()] {
        let Some(btf) = Btf::parse(bytes) else { continue };
        for of in btf.structs() {
            let fields = btf.fields(&of).unwrap_or_default();
            assert!(fields.len() <= 256 && fields.iter().all(|field| !field.name.contains('\0')));
        }
        btf.tags().for_each(drop);
    }
    if let Ok(structs) = foreign::structs(file.path()) {
        for (_, fields) in structs {
            assert!(fields.iter().all(|field| !field.name.contains('\0')));
        }
    }
});

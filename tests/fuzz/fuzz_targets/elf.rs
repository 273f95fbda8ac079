//! Any bytes as a program: an error, or its functions and its authors' probes.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tracer::probe::elf;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    // With the beginning of a 64-bit file of this machine's order, or as they are.
    let magic =
        if bytes.first().is_some_and(|byte| byte % 4 > 0) { &b"\x7fELF\x02\x01\x01"[..] } else { b"" };
    file.write_all(magic).and_then(|()| file.write_all(bytes)).expect("written");
    if let Ok(functions) = elf::functions(file.path()) {
        assert!(functions.iter().map(String::len).sum::<usize>() <= 64 * bytes.len() + 64);
    }
    let _ = elf::notes(file.path());
});

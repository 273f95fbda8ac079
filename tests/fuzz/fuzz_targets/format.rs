//! Any text as a tracepoint's format: its fields stay within bounds, and it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::schema::{Show, format};

fuzz_target!(|text: &str| {
    // Names that begin with a capital letter are constants that somebody knows.
    let constants = |name: &str| name.starts_with(char::is_uppercase).then_some(name.len() as u64);
    for field in format::parse(text, &constants) {
        if let Show::Enum(names) | Show::Flags(names) = &field.show {
            for (value, name) in names.iter() {
                assert!(field.size == 8 || field.signed || value >> (8 * field.size) == 0);
                assert!(name.len() <= text.len());
            }
            std::hint::black_box((names.bits(u64::MAX).count(), names.clear(0)));
        }
    }
});

//! Any string: its text form shows no control character and gives the bytes back; its JSON form is valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::sink::escape;

fuzz_target!(|bytes: &[u8]| {
    let mut text = Vec::new();
    escape::text(bytes, &mut text);
    let shown = std::str::from_utf8(&text).expect("text is valid UTF-8");
    assert!(!shown.chars().any(char::is_control));
    assert_eq!(escape::unescape(&text).as_deref(), Some(bytes));
    // Whatever is no text form is refused or read, never a panic.
    let _ = escape::unescape(bytes);

    let mut json = Vec::new();
    let exact = escape::json(bytes, &mut json);
    let shown = std::str::from_utf8(&json).expect("JSON is valid UTF-8");
    assert!(!shown.chars().any(char::is_control));
    let back: String = serde_json::from_str(shown).expect("JSON parses");
    assert_eq!(exact, back.as_bytes() == bytes);
    assert_eq!(back, String::from_utf8_lossy(bytes));
});

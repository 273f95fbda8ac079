//! The string forms: nothing a terminal acts on comes out, and every byte can be had back.

use tracer::sink::escape;

/// Numbers that look random and are the same each time.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Strings of bytes that meet every rule often: plain, quotes, backslashes, escapes, halves of characters.
fn hostile(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    const PARTS: [&[u8]; 20] = [
        b"a",
        b"Z9 ",
        b"\\",
        b"\\x",
        b"\\x1b",
        b"\"",
        b"\x1b[2J",
        b"\n",
        b"\r\t",
        b"\0",
        b"\x7f",
        b"\xff",
        b"\xc2",
        b"\xc2\x9b",
        b"\xe2\x80\xae",
        b"\xe2\x80",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xef\xbf\xbd",
        b"\xe2\x80\xa8",
    ];
    let len = next() % 12;
    (0..len)
        .flat_map(|_| {
            let n = next();
            if n.is_multiple_of(4) { vec![(n >> 8) as u8] } else { PARTS[(n >> 8) as usize % 20].to_vec() }
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    escape::text(bytes, &mut out);
    String::from_utf8(out).expect("text is valid UTF-8")
}

fn json(bytes: &[u8]) -> (String, bool) {
    let mut out = Vec::new();
    let exact = escape::json(bytes, &mut out);
    (String::from_utf8(out).expect("JSON is valid UTF-8"), exact)
}

#[test]
fn text_by_example() {
    assert_eq!(text(b"dd"), "dd");
    assert_eq!(text(b"kworker/u8:3 \"x\""), "kworker/u8:3 \"x\"");
    assert_eq!(text("größe 😀".as_bytes()), "größe 😀");
    assert_eq!(text(b"\x1b[2J\n"), "\\x1b[2J\\x0a");
    assert_eq!(text(b"\\x1b"), "\\\\x1b");
    assert_eq!(text(b"\xff\xc2\x9b\xe2\x80\xae"), "\\xff\\xc2\\x9b\\xe2\\x80\\xae");
}

#[test]
fn json_by_example() {
    assert_eq!(json(b"dd"), ("\"dd\"".into(), true));
    assert_eq!(json(b"\x1b\"\\\n\x7f\xc2\x9b"), ("\"\\u001b\\\"\\\\\\n\\u007f\\u009b\"".into(), true));
    assert_eq!(json(b"a\xff"), ("\"a\u{fffd}\"".into(), false));
    // The replacement character itself is a character like any other.
    assert_eq!(json("\u{fffd}".as_bytes()), ("\"\u{fffd}\"".into(), true));
}

#[test]
fn addresses() {
    for n in [0, 1, 0xf, 0x10, 0x7fff_dead_beef, u64::MAX] {
        let mut out = Vec::new();
        escape::address(n, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{n:#x}"));
    }
}

#[test]
fn both_forms_round_trip() {
    let mut next = numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..100_000 {
        let bytes = hostile(&mut next);
        let shown = text(&bytes);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert_eq!(escape::unescape(shown.as_bytes()).as_deref(), Some(&bytes[..]), "{shown:?}");

        let (shown, exact) = json(&bytes);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        let back: String = serde_json::from_str(&shown).expect(&shown);
        assert_eq!(back, String::from_utf8_lossy(&bytes));
        assert_eq!(exact, std::str::from_utf8(&bytes).is_ok());
    }
}

#[test]
fn what_is_no_text_form_is_refused() {
    for bad in [&b"\\"[..], b"\\x", b"\\x1", b"\\xG0", b"\\x1B", b"\\n"] {
        assert_eq!(escape::unescape(bad), None, "{bad:?}");
    }
}

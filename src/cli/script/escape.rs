//! Texts of recordings without what could steer a terminal.

use tracer::sink::escape::hex_byte;

/// Appends bytes without what could steer a terminal; all else, a backslash too, stays as it is.
pub fn escape(text: &[u8], out: &mut Vec<u8>) {
    match is_plain(text) {
        true => out.extend_from_slice(text),
        false => escape_hostile(text, out),
    }
}

/// The same of what was appended behind `start`.
pub fn escape_behind(start: usize, out: &mut Vec<u8>) {
    if !is_plain(&out[start..]) {
        let text = out.split_off(start);
        escape_hostile(&text, out);
    }
}

/// Whether all is printable ASCII: no byte ends the search, so that many are looked at at once.
fn is_plain(text: &[u8]) -> bool {
    !text.iter().fold(false, |odd, b| odd | !matches!(b, b' '..=b'~'))
}

#[cold]
fn escape_hostile(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            if c.is_control() {
                utf8.iter().for_each(|b| hex(*b, out));
            } else {
                out.extend_from_slice(utf8);
            }
        }
        chunk.invalid().iter().for_each(|b| hex(*b, out));
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    hex_byte(byte, out);
}

//! Bytes as addresses: the kernel's `%pI4`, `%pI6c`, `%pISpc`, `%pM`, `%pU` and `%ph`.

use std::io::Write as _;

/// Appends bytes as the letters behind a `%p` say; false of letters that do not speak of bytes.
pub(super) fn bytes(letters: &[u8], bytes: &[u8], big: bool, out: &mut Vec<u8>) -> bool {
    match letters {
        [b'I', b'4'] => ip4(bytes, out),
        [b'i', b'4'] => {
            let four: [u8; 4] = padded(bytes);
            let [a, b, c, d] = four;
            let _ = write!(out, "{a:03}.{b:03}.{c:03}.{d:03}");
        }
        [b'I', b'6', b'c'] => ip6(padded(bytes), out),
        [b'I', b'6'] => {
            for (i, pair) in padded::<16>(bytes).chunks_exact(2).enumerate() {
                let _ = write!(out, "{}{:02x}{:02x}", if i > 0 { ":" } else { "" }, pair[0], pair[1]);
            }
        }
        [b'i', b'6'] => hex(&padded::<16>(bytes), "", out),
        [b'I' | b'i', b'S', more @ ..] => socket(bytes, more.contains(&b'p'), big, out),
        [b'M'] => hex(&padded::<6>(bytes), ":", out),
        [b'M', b'F'] => hex(&padded::<6>(bytes), "-", out),
        [b'm'] => hex(&padded::<6>(bytes), "", out),
        [b'U', more @ ..] => uuid(padded(bytes), more, out),
        [b'h', more @ ..] => {
            let between = match more {
                [b'C'] => ":",
                [b'D'] => "-",
                [b'N'] => "",
                _ => " ",
            };
            hex(bytes, between, out);
        }
        _ => return false,
    }
    true
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    let len = bytes.len().min(N);
    whole[..len].copy_from_slice(&bytes[..len]);
    whole
}

/// Appends bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8], between: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn ip4(bytes: &[u8], out: &mut Vec<u8>) {
    let _ = write!(out, "{}", std::net::Ipv4Addr::from(padded::<4>(bytes)));
}

fn ip6(bytes: [u8; 16], out: &mut Vec<u8>) {
    let _ = write!(out, "{}", std::net::Ipv6Addr::from(bytes));
}

fn socket(bytes: &[u8], port: bool, big: bool, out: &mut Vec<u8>) {
    let [a, b, high, low, ..] = padded::<28>(bytes);
    let family = if big { u16::from_be_bytes([a, b]) } else { u16::from_le_bytes([a, b]) };
    let number = u16::from_be_bytes([high, low]);
    match family {
        2 => {
            ip4(bytes.get(4..).unwrap_or_default(), out);
            if port {
                let _ = write!(out, ":{number}");
            }
        }
        10 => {
            let address = padded(bytes.get(8..).unwrap_or_default());
            if port {
                out.push(b'[');
            }
            ip6(address, out);
            if port {
                let _ = write!(out, "]:{number}");
            }
        }
        // Neither is what the kernel prints so.
        _ => {}
    }
}

fn uuid(bytes: [u8; 16], letters: &[u8], out: &mut Vec<u8>) {
    const BIG: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let order = if matches!(letters, [b'l' | b'L']) { LITTLE } else { BIG };
    for (i, at) in order.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let start = out.len();
        hex(&bytes[at..=at], "", out);
        if matches!(letters, [b'B' | b'L']) {
            out[start..].make_ascii_uppercase();
        }
    }
}

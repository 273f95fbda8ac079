//! Values as people see them: names, bits, addresses and times, where a field's [`Show`] asks for that.
//!
//! A socket address is told by its family: `127.0.0.1:80`, `[::1]:80`, `unix:/run/x`, `unix:@abstract`,
//! `netlink:7`, `unspec`, and of any other its number and bytes, `af17:0003…`.

use std::{
    io::Write,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::{
    escape,
    frames::Namer,
    number::{decimal, padded},
};
use crate::{
    record::Body,
    schema::{Field, Kind, Names, Show, Value, errno},
};

/// Whether the shown form takes the value's place for programs too: then no number stands behind it that
/// would mean anything.
pub(super) fn replaces(show: &Show) -> bool {
    use Show::{Array, Hex, Ip4, Ip6, Mac, Sockaddr, Timespec};
    matches!(show, Hex | Ip4 | Ip6 | Mac | Sockaddr | Timespec | Array { .. })
}

/// Appends the form that takes a value's place for programs too: addresses of the network and of sockets, times with
/// seconds of their own, arrays. False, and nothing appended, where a number, a string or bytes are the value.
pub fn shown_instead(field: &Field, value: &Value<'_>, out: &mut Vec<u8>) -> bool {
    replaces(&field.show) && shown(field, value, out)
}

/// Appends the form that people see. False, and nothing appended, where that is what the kind says.
///
/// What is appended has no control character in it.
pub(super) fn shown(field: &Field, value: &Value<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Unsigned(n) | Value::Pointer(n) => number(field, *n, *n as i64, out),
        Value::Signed(n) => number(field, *n as u64, *n, out),
        Value::Bytes(bytes) => {
            let start = out.len();
            let done = of_bytes(&field.show, bytes, out).is_some();
            if !done {
                out.truncate(start);
            }
            done
        }
        Value::Bool(_) | Value::Text(_) | Value::Stack(_) | Value::Fault => false,
    }
}

/// Appends the symbol of an address, where that is asked for. False, and nothing appended, where it has none.
pub(super) fn symbol(
    field: &Field,
    value: &Value<'_>,
    namer: &mut Namer,
    tgid: u32,
    out: &mut Vec<u8>,
) -> bool {
    match (&field.show, value) {
        (Show::KernelSymbol, Value::Pointer(address)) => namer.symbol(*address, false, tgid, out),
        (Show::UserSymbol, Value::Pointer(address)) => namer.symbol(*address, true, tgid, out),
        _ => false,
    }
}

fn number(field: &Field, n: u64, signed: i64, out: &mut Vec<u8>) -> bool {
    let width = field.kind.size().min(8) as u32;
    let own = if width == 8 { n } else { n & ((1 << (8 * width)) - 1) };
    match &field.show {
        Show::Hex => escape::address(own, out),
        Show::Octal => _ = write!(out, "{}{own:o}", if own == 0 { "" } else { "0" }),
        Show::Char => match own as u8 {
            b'\'' => out.extend_from_slice(b"'\\''"),
            c => {
                out.push(b'\'');
                escape::text(&[c], out);
                out.push(b'\'');
            }
        },
        Show::Errno => {
            let name = u64::try_from(signed.wrapping_neg()).ok().and_then(errno::name);
            let Some(name) = name else { return false };
            out.push(b'-');
            out.extend_from_slice(name.as_bytes());
        }
        Show::Enum(names) => match names.of(n) {
            Some(name) => escape::text(name.as_bytes(), out),
            None => return false,
        },
        Show::Flags(names) => flags(names, own, out),
        // `MAJOR` and `MINOR` of include/linux/kdev_t.h.
        Show::Device => _ = write!(out, "{}:{}", own >> 20, own & 0xf_ffff),
        Show::Time => match field.kind {
            Kind::Signed(_) => {
                out.extend_from_slice(if signed < 0 { b"-" } else { b"" });
                seconds(signed.unsigned_abs(), out);
            }
            _ => seconds(n, out),
        },
        Show::Duration => duration(n, out),
        Show::Ip4 => _ = write!(out, "{}", Ipv4Addr::from((own as u32).to_ne_bytes())),
        _ => return false,
    }
    true
}

/// Bits by name; what is left over in hexadecimal.
fn flags(names: &Names, value: u64, out: &mut Vec<u8>) {
    let mut bits = names.bits(value);
    let start = out.len();
    let bar = |out: &mut Vec<u8>| out.extend_from_slice(if out.len() > start { b"|" } else { b"" });
    // Where all the bits that have names are clear, that may have a name too.
    for name in names.clear(value).into_iter().chain(bits.by_ref()) {
        bar(out);
        escape::text(name.as_bytes(), out);
    }
    match bits.rest() {
        0 if out.len() == start => out.push(b'0'),
        0 => {}
        rest => {
            bar(out);
            escape::address(rest, out);
        }
    }
}

fn seconds(ns: u64, out: &mut Vec<u8>) {
    decimal(ns / 1_000_000_000, out);
    out.push(b'.');
    padded(ns % 1_000_000_000, 9, b'0', out);
}

/// Nanoseconds with all their digits, in the largest unit of which there is at least one.
fn duration(ns: u64, out: &mut Vec<u8>) {
    let (unit, digits, name) = match ns {
        0..1_000 => (1, 0, "ns"),
        1_000..1_000_000 => (1_000, 3, "us"),
        1_000_000..1_000_000_000 => (1_000_000, 6, "ms"),
        _ => (1_000_000_000, 9, "s"),
    };
    decimal(ns / unit, out);
    if digits > 0 {
        out.push(b'.');
        padded((ns % unit) as u32, digits, b'0', out);
    }
    out.extend_from_slice(name.as_bytes());
}

/// Whether the form for people is for programs too: what is a number with a unit is not.
pub(super) fn is_name(show: &Show) -> bool {
    !replaces(show) && !matches!(show, Show::Plain | Show::Duration)
}

fn of_bytes(show: &Show, bytes: &Body<'_>, out: &mut Vec<u8>) -> Option<()> {
    match show {
        Show::Timespec => {
            let [whole, part] = [bytes.u64_at(0)? as i64, bytes.u64_at(8)? as i64];
            // UTIME_NOW and UTIME_OMIT stand in the nanoseconds and are no time.
            let part = u32::try_from(part).ok().filter(|ns| *ns < 1_000_000_000)?;
            decimal(whole, out);
            out.push(b'.');
            padded(part, 9, b'0', out);
        }
        Show::Ip4 => _ = write!(out, "{}", Ipv4Addr::from(bytes.array_at::<4>(0)?)),
        Show::Ip6 => _ = write!(out, "{}", Ipv6Addr::from(bytes.array_at::<16>(0)?)),
        Show::Mac => {
            for (i, byte) in bytes.array_at::<6>(0)?.into_iter().enumerate() {
                out.extend_from_slice(if i > 0 { b":" } else { b"" });
                escape::hex_byte(byte, out);
            }
        }
        Show::Sockaddr => sockaddr(bytes, out)?,
        Show::Array { width, signed } => array(bytes, *width, *signed, false, out),
        _ => return None,
    }
    Some(())
}

/// Appends the integers in brackets; `quoted`, each as a string.
pub(super) fn array(bytes: &Body<'_>, width: u8, signed: bool, quoted: bool, out: &mut Vec<u8>) {
    let width = usize::from(width.max(1));
    let quote: &[u8] = if quoted { b"\"" } else { b"" };
    out.push(b'[');
    for i in 0..bytes.len() / width {
        out.extend_from_slice(if i > 0 { b", " } else { b"" });
        out.extend_from_slice(quote);
        let at = i * width;
        let number = match width {
            1 => bytes.u8_at(at).map(|n| (u64::from(n), i64::from(n as i8))),
            2 => bytes.u16_at(at).map(|n| (u64::from(n), i64::from(n as i16))),
            4 => bytes.u32_at(at).map(|n| (u64::from(n), i64::from(n as i32))),
            _ => bytes.u64_at(at).map(|n| (n, n as i64)),
        };
        match number.unwrap_or_default() {
            (_, n) if signed => decimal(n, out),
            (n, _) => decimal(n, out),
        }
        out.extend_from_slice(quote);
    }
    out.push(b']');
}

/// `struct sockaddr` of the families that are met; `None` where it is too short for its family.
fn sockaddr(bytes: &Body<'_>, out: &mut Vec<u8>) -> Option<()> {
    let port = || bytes.array_at(2).map(u16::from_be_bytes);
    match bytes.u16_at(0)? {
        0 => out.extend_from_slice(b"unspec"),
        1 => unix(&bytes.from(2)?.to_contiguous(), out),
        2 => _ = write!(out, "{}:{}", Ipv4Addr::from(bytes.array_at::<4>(4)?), port()?),
        10 => {
            let _ = write!(out, "[{}", Ipv6Addr::from(bytes.array_at::<16>(8)?));
            if let Some(scope) = bytes.u32_at(24).filter(|scope| *scope != 0) {
                let _ = write!(out, "%{scope}");
            }
            let _ = write!(out, "]:{}", port()?);
        }
        16 => _ = write!(out, "netlink:{}", bytes.u32_at(4)?),
        family => {
            let _ = write!(out, "af{family}:");
            bytes.from(2)?.bytes().take(14).for_each(|b| escape::hex_byte(b, out));
        }
    }
    Some(())
}

/// A path up to its NUL. One that begins with a NUL is abstract; how long that is only the caller knew.
fn unix(path: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"unix:");
    let up_to_nul = |bytes: &[u8]| bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    match path {
        [0, name @ ..] if up_to_nul(name) > 0 => {
            out.push(b'@');
            escape::text(&name[..up_to_nul(name)], out);
        }
        path => escape::text(&path[..up_to_nul(path)], out),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn text(kind: Kind, show: Show, value: Value<'_>) -> Option<String> {
        let field = Field { name: "x".into(), type_name: "t".into(), kind, show, offset: 0, fault: None };
        let mut out = Vec::new();
        let done = shown(&field, &value, &mut out);
        assert!(done || out.is_empty());
        done.then(|| String::from_utf8(out).unwrap())
    }

    fn bytes(show: Show, bytes: &[u8]) -> Option<String> {
        // Wherever they wrap they read the same.
        let whole = text(Kind::Bytes, show.clone(), Value::Bytes(Body::new(bytes)));
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let wrapped = Value::Bytes(Body::wrapped(first, second));
            assert_eq!(text(Kind::Bytes, show.clone(), wrapped), whole, "wrapped at {at}");
        }
        whole
    }

    fn names(entries: &[(u64, &str)]) -> Arc<Names> {
        Arc::new(Names::new(entries.iter().map(|(v, n)| (*v, (*n).into()))))
    }

    #[test]
    fn numbers() {
        let signed = |show, n| text(Kind::Signed(8), show, Value::Signed(n));
        let unsigned = |show, n| text(Kind::Unsigned(4), show, Value::Unsigned(n));
        assert_eq!(signed(Show::Errno, -2).as_deref(), Some("-ENOENT"));
        assert_eq!(signed(Show::Errno, -512).as_deref(), Some("-ERESTARTSYS"));
        for plain in [0, 2, -4095, -4096, -600, i64::MIN] {
            assert_eq!(signed(Show::Errno, plain), None, "{plain}");
        }
        let pointer = |p| text(Kind::Pointer, Show::Errno, Value::Pointer(p));
        assert_eq!(pointer(-12_i64 as u64).as_deref(), Some("-ENOMEM"));
        assert_eq!(pointer(0xffff_8880_0000_0000), None);
        assert_eq!(unsigned(Show::Octal, 0o644).as_deref(), Some("0644"));
        assert_eq!(unsigned(Show::Octal, 0).as_deref(), Some("0"));
        assert_eq!(unsigned(Show::Hex, 0xabc).as_deref(), Some("0xabc"));
        assert_eq!(text(Kind::Signed(4), Show::Hex, Value::Signed(-1)).as_deref(), Some("0xffffffff"));
        assert_eq!(unsigned(Show::Device, 8 << 20 | 1).as_deref(), Some("8:1"));
        assert_eq!(unsigned(Show::Char, 0x41).as_deref(), Some("'A'"));
        assert_eq!(unsigned(Show::Char, 7).as_deref(), Some("'\\x07'"));
        assert_eq!(unsigned(Show::Char, 0x27).as_deref(), Some("'\\''"));
        assert_eq!(signed(Show::Time, 1_000_000_005).as_deref(), Some("1.000000005"));
        for (ns, shown) in [(0, "0ns"), (999, "999ns"), (3_155, "3.155us"), (1_000_000, "1.000000ms")] {
            assert_eq!(unsigned(Show::Duration, ns).as_deref(), Some(shown));
        }
        assert_eq!(unsigned(Show::Duration, 2_000_000_003).as_deref(), Some("2.000000003s"));
        assert_eq!(signed(Show::Time, -1).as_deref(), Some("-0.000000001"));
        let loopback = u64::from(u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(unsigned(Show::Ip4, loopback).as_deref(), Some("127.0.0.1"));
        assert_eq!(unsigned(Show::Plain, 7), None);
    }

    #[test]
    fn names_of_values_and_of_bits() {
        let states = names(&[(0, "RUN"), (1, "SLEEP"), (u64::MAX, "BAD\n")]);
        let of = |n| text(Kind::Signed(4), Show::Enum(states.clone()), Value::Signed(n));
        assert_eq!((of(1).as_deref(), of(7)), (Some("SLEEP"), None));
        assert_eq!(of(-1).as_deref(), Some("BAD\\x0a"));
        let open = names(&[(1, "W"), (0x40, "CREAT"), (0x200, "TRUNC")]);
        let bits = |n| text(Kind::Signed(4), Show::Flags(open.clone()), Value::Signed(n)).unwrap();
        assert_eq!(bits(0x241), "W|CREAT|TRUNC");
        assert_eq!(bits(0x8041), "W|CREAT|0x8000");
        assert_eq!(bits(0x8000), "0x8000");
        assert_eq!(bits(0), "0");
        assert_eq!(bits(i64::from(i32::MIN)), "0x80000000");
        let state = names(&[(0, "R"), (1, "S"), (2, "D")]);
        let state = |n| text(Kind::Signed(8), Show::Flags(state.clone()), Value::Signed(n)).unwrap();
        assert_eq!((state(0), state(0x100), state(0x102)), ("R".into(), "R|0x100".into(), "D|0x100".into()));
    }

    #[test]
    fn addresses_and_times_of_bytes() {
        let spec = |sec: i64, ns: i64| [sec.to_ne_bytes(), ns.to_ne_bytes()].concat();
        assert_eq!(bytes(Show::Timespec, &spec(-3, 7)).as_deref(), Some("-3.000000007"));
        assert_eq!(bytes(Show::Timespec, &spec(0, (1 << 30) - 1)), None, "UTIME_NOW");
        assert_eq!(bytes(Show::Timespec, &spec(0, -1)), None);
        assert_eq!(bytes(Show::Ip4, &[10, 1, 2, 3]).as_deref(), Some("10.1.2.3"));
        assert_eq!(bytes(Show::Ip4, &[10, 1, 2]), None, "too short");
        let mut six = [0; 16];
        six[15] = 1;
        assert_eq!(bytes(Show::Ip6, &six).as_deref(), Some("::1"));
        assert_eq!(bytes(Show::Mac, &[0, 0x1b, 2, 3, 4, 0xff]).as_deref(), Some("00:1b:02:03:04:ff"));
        let words = [1_u16, 2, 0xffff].map(u16::to_ne_bytes).concat();
        let array = |signed| Show::Array { width: 2, signed };
        assert_eq!(bytes(array(false), &words).as_deref(), Some("[1, 2, 65535]"));
        assert_eq!(bytes(array(true), &words).as_deref(), Some("[1, 2, -1]"));
        assert_eq!(bytes(array(true), &[]).as_deref(), Some("[]"));
        assert_eq!(bytes(Show::Plain, &words), None);
    }

    #[test]
    fn socket_addresses_by_family() {
        let address =
            |family: u16, rest: &[u8]| bytes(Show::Sockaddr, &[&family.to_ne_bytes(), rest].concat());
        let mut stale = vec![0, 80, 127, 0, 0, 1];
        stale.extend([0xee; 100]);
        assert_eq!(address(2, &stale).as_deref(), Some("127.0.0.1:80"), "what lies behind is not shown");
        let mut six = vec![0x1f, 0x90, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.extend([1, 0, 0, 0, 0]);
        assert_eq!(address(10, &six).as_deref(), Some("[::1]:8080"));
        let end = six.len() - 4;
        six[end..].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(address(10, &six).as_deref(), Some("[::1%3]:8080"));
        assert_eq!(address(1, b"/run/a\x1b\0old").as_deref(), Some("unix:/run/a\\x1b"));
        assert_eq!(address(1, b"\0abstract\0").as_deref(), Some("unix:@abstract"));
        assert_eq!(address(1, b"").as_deref(), Some("unix:"));
        assert_eq!(address(0, &[]).as_deref(), Some("unspec"));
        assert_eq!(address(17, &[0, 3, 9]).as_deref(), Some("af17:000309"));
        for (family, len) in [(2, 5), (10, 20), (16, 4)] {
            assert_eq!(address(family, &vec![1; len]), None, "{family} with {len} bytes");
        }
        assert_eq!(bytes(Show::Sockaddr, &[2]), None);
    }
}

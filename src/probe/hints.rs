//! What a hint asks for: a value shown in another way, or what lies where an address points to.

use super::{
    fetch::{Fetch, Read, STRING, TEXT},
    hook::Source,
    locate::{Place, Wanted},
    spec::{Hint, Path},
};
use crate::schema::{Kind, Show};

/// A place of a known type by a hint.
pub fn typed(place: Place<'_>, hint: Hint, path: &Path) -> Result<Wanted, String> {
    let at_address = reads_bytes(hint) || (hint == Hint::Ip4 && !place.is_number());
    if at_address {
        return hinted(place.address(), "", hint, path);
    }
    let found = place.found()?;
    hinted(found.fetch, &found.type_name, hint, path)
}

/// A register, or a field of a tracepoint's record, by a hint alone.
pub fn untyped(source: &Source, path: &Path, hint: Option<Hint>) -> Result<Wanted, String> {
    let Some(hint) = hint.filter(|_| path.steps.is_empty() && path.derefs == 0) else {
        return Err(format!(
            "the type of '{}' is not known: cast it, as in (struct foo *){path}",
            source.name
        ));
    };
    let fetch = match source.fetch.read {
        // An array that stands in the record.
        Read::Bytes(_) | Read::Text(_) => Fetch { read: Read::Value, ..source.fetch.clone() },
        _ if reads_bytes(hint) && source.kind.size() < 8 => {
            return Err(format!("'{}' is no address", source.name));
        }
        _ if reads_bytes(hint) => Fetch { user: source.user, ..source.pointed_to() },
        _ => source.fetch.clone(),
    };
    hinted(fetch, &source.type_name, hint, path)
}

/// Whether a hint is of what lies at an address, and not of a number.
fn reads_bytes(hint: Hint) -> bool {
    use Hint::{Buf, Ip6, Mac, Str, UserBuf, UserStr};
    matches!(hint, Str | UserStr | Buf(_) | UserBuf(_) | Ip6 | Mac)
}

/// A value shown, or an address read, as a hint says.
pub fn hinted(mut fetch: Fetch, type_name: &str, hint: Hint, path: &Path) -> Result<Wanted, String> {
    let own = fetch.bytes_of_integer();
    let in_record = fetch.read == Read::Value && fetch.last != 0;
    let (kind, show) = match hint {
        Hint::Str | Hint::UserStr => {
            fetch.read = Read::Text(STRING);
            (Kind::Text, Show::Plain)
        }
        Hint::Buf(n) | Hint::UserBuf(n) => {
            fetch.read = match u16::try_from(n) {
                Ok(n) if n > 0 && usize::from(n) <= TEXT => Read::Bytes(n),
                _ => return Err(format!("'{path}': a buffer has 1 to {TEXT} bytes")),
            };
            (Kind::Bytes, Show::Plain)
        }
        Hint::Ip6 => bytes_at(&mut fetch, 16, Show::Ip6),
        Hint::Mac => bytes_at(&mut fetch, 6, Show::Mac),
        Hint::Ip4 if in_record => bytes_at(&mut fetch, 4, Show::Ip4),
        Hint::Ip4 => (Kind::Unsigned(4), Show::Ip4),
        Hint::Hex => (Kind::Unsigned(own), Show::Hex),
        Hint::Octal => (Kind::Unsigned(own), Show::Octal),
        Hint::Char => integer(&mut fetch, 1, false, Show::Char),
        Hint::Unsigned => (Kind::Unsigned(own), Show::Plain),
        Hint::Decimal | Hint::Errno => {
            fetch = fetch.signed_as(Kind::Signed(own));
            (Kind::Signed(own), if hint == Hint::Errno { Show::Errno } else { Show::Plain })
        }
        Hint::Time => (Kind::Unsigned(own), Show::Time),
        Hint::Ksym => (Kind::Pointer, Show::KernelSymbol),
        Hint::Usym => (Kind::Pointer, Show::UserSymbol),
        Hint::Be16 => (Kind::BigEndian(2), Show::Plain),
        Hint::Be32 => (Kind::BigEndian(4), Show::Plain),
        Hint::Be64 => (Kind::BigEndian(8), Show::Plain),
        Hint::S8 => integer(&mut fetch, 1, true, Show::Plain),
        Hint::S16 => integer(&mut fetch, 2, true, Show::Plain),
        Hint::S32 => integer(&mut fetch, 4, true, Show::Plain),
        Hint::S64 => integer(&mut fetch, 8, true, Show::Plain),
        Hint::U8 => integer(&mut fetch, 1, false, Show::Plain),
        Hint::U16 => integer(&mut fetch, 2, false, Show::Plain),
        Hint::U32 => integer(&mut fetch, 4, false, Show::Plain),
        Hint::U64 => integer(&mut fetch, 8, false, Show::Plain),
        Hint::X8 => integer(&mut fetch, 1, false, Show::Hex),
        Hint::X16 => integer(&mut fetch, 2, false, Show::Hex),
        Hint::X32 => integer(&mut fetch, 4, false, Show::Hex),
        Hint::X64 => integer(&mut fetch, 8, false, Show::Hex),
    };
    fetch.user |= matches!(hint, Hint::UserStr | Hint::UserBuf(_));
    Ok(Wanted { fetch, kind, show, type_name: type_name.to_owned() })
}

/// So many bytes at the address.
fn bytes_at(fetch: &mut Fetch, size: u16, show: Show) -> (Kind, Show) {
    fetch.read = Read::Bytes(size);
    (Kind::Bytes, show)
}

/// An integer of so many bytes, cut out of what was read.
fn integer(fetch: &mut Fetch, bytes: u8, signed: bool, show: Show) -> (Kind, Show) {
    let unused = 64 - 8 * bytes;
    fetch.cut = (unused, unused, signed && unused > 0);
    (if signed { Kind::Signed(bytes) } else { Kind::Unsigned(bytes) }, show)
}

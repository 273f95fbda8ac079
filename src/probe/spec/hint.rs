//! How a field is to be shown, or read: the word after its `:`.

use std::fmt;

/// How a field is to be shown, or read where its type is not known; [`Hint::WORDS`] has all spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hint {
    /// `x`: hexadecimal, in the field's own width.
    Hex,
    /// `d`: decimal, signed.
    Decimal,
    /// `u`: decimal, unsigned.
    Unsigned,
    /// `o`: octal.
    Octal,
    /// `c`: a character.
    Char,
    /// `s8`: eight bits, signed.
    S8,
    /// `s16`: 16 bits, signed.
    S16,
    /// `s32`: 32 bits, signed.
    S32,
    /// `s64`: 64 bits, signed.
    S64,
    /// `u8`: eight bits, unsigned.
    U8,
    /// `u16`: 16 bits, unsigned.
    U16,
    /// `u32`: 32 bits, unsigned.
    U32,
    /// `u64`: 64 bits, unsigned.
    U64,
    /// `x8`: eight bits in hexadecimal.
    X8,
    /// `x16`: 16 bits in hexadecimal.
    X16,
    /// `x32`: 32 bits in hexadecimal.
    X32,
    /// `x64`: 64 bits in hexadecimal.
    X64,
    /// `be16`: 16 bits in network order.
    Be16,
    /// `be32`: 32 bits in network order.
    Be32,
    /// `be64`: 64 bits in network order.
    Be64,
    /// `ip4`: an IPv4 address.
    Ip4,
    /// `ip6`: an IPv6 address.
    Ip6,
    /// `mac`: an Ethernet address.
    Mac,
    /// `str`, `s`: a string, up to its NUL, in the memory that the type or the provider says.
    Str,
    /// `ustr`: a string in user memory.
    UserStr,
    /// `buf[N]`: so many bytes.
    Buf(u64),
    /// `ubuf[N]`: so many bytes of user memory.
    UserBuf(u64),
    /// `ksym`: an address of the kernel, by its symbol.
    Ksym,
    /// `usym`: an address of the process, by its symbol.
    Usym,
    /// `errno`: an error number by its name, `-ENOENT`.
    Errno,
    /// `time`: nanoseconds, shown as a time.
    Time,
}

impl Hint {
    /// Every spelling, the one that is shown first; `buf[N]` and `ubuf[N]` come with a number of their own.
    pub const WORDS: [(&'static str, Hint); 38] = [
        ("x", Hint::Hex),
        ("d", Hint::Decimal),
        ("u", Hint::Unsigned),
        ("o", Hint::Octal),
        ("c", Hint::Char),
        ("s8", Hint::S8),
        ("s16", Hint::S16),
        ("s32", Hint::S32),
        ("s64", Hint::S64),
        ("u8", Hint::U8),
        ("u16", Hint::U16),
        ("u32", Hint::U32),
        ("u64", Hint::U64),
        ("x8", Hint::X8),
        ("x16", Hint::X16),
        ("x32", Hint::X32),
        ("x64", Hint::X64),
        ("be16", Hint::Be16),
        ("be32", Hint::Be32),
        ("be64", Hint::Be64),
        ("ip4", Hint::Ip4),
        ("ip6", Hint::Ip6),
        ("mac", Hint::Mac),
        ("str", Hint::Str),
        ("ustr", Hint::UserStr),
        ("buf", Hint::Buf(0)),
        ("ubuf", Hint::UserBuf(0)),
        ("ksym", Hint::Ksym),
        ("usym", Hint::Usym),
        ("errno", Hint::Errno),
        ("time", Hint::Time),
        // Other spellings: of perf probe, of bpftrace, and short.
        ("s", Hint::Str),
        ("string", Hint::Str),
        ("ustring", Hint::UserStr),
        ("char", Hint::Char),
        ("symbol", Hint::Ksym),
        ("sym", Hint::Ksym),
        ("macaddr", Hint::Mac),
    ];

    /// How many of [`Hint::WORDS`] are shown: the rest are other spellings.
    const SHOWN: usize = 31;

    /// The hint of this word, which takes a length in `[…]` or does not.
    pub(super) fn named(word: &str, length: Option<u64>) -> Option<Hint> {
        let (_, hint) = Hint::WORDS.iter().find(|(name, _)| *name == word)?;
        match (hint, length) {
            (Hint::Buf(_), Some(length)) => Some(Hint::Buf(length)),
            (Hint::UserBuf(_), Some(length)) => Some(Hint::UserBuf(length)),
            (Hint::Buf(_) | Hint::UserBuf(_), None) | (_, Some(_)) => None,
            (hint, None) => Some(*hint),
        }
    }

    /// Whether a word is a hint, with its length or without.
    pub(super) fn is_word(word: &str) -> bool {
        Hint::WORDS.iter().any(|(name, _)| *name == word)
    }

    /// What was probably meant by a word that is no hint.
    pub(super) fn near(word: &str) -> Option<&'static str> {
        match word {
            "hex" | "p" | "ptr" | "pointer" => return Some("x"),
            "dec" | "int" => return Some("d"),
            "oct" => return Some("o"),
            "ipv4" | "inet" | "ip" | "ntop" => return Some("ip4"),
            "ipv6" | "inet6" => return Some("ip6"),
            "port" | "ntohs" => return Some("be16"),
            "hexdump" | "bytes" => return Some("buf[N]"),
            _ => {}
        }
        let scored = Hint::WORDS.iter().map(|(name, _)| (strsim::jaro_winkler(word, name), *name));
        scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
    }

    /// All of them, for a message.
    pub(super) fn list() -> String {
        let shown = Hint::WORDS.iter().take(Hint::SHOWN).map(|(name, hint)| match hint {
            Hint::Buf(_) | Hint::UserBuf(_) => format!("{name}[N]"),
            _ => (*name).to_owned(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::Buf(length) => write!(f, "buf[{length}]"),
            Hint::UserBuf(length) => write!(f, "ubuf[{length}]"),
            hint => {
                let found = Hint::WORDS.iter().find(|(_, h)| h == hint);
                f.write_str(found.map_or("", |(name, _)| name))
            }
        }
    }
}

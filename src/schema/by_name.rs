//! What the kernel's and C libraries' own names for types say of how values are shown.

use super::{Kind, Show};

/// Bytes of the longest socket address that is shown: `struct sockaddr_un`.
pub const SOCKADDR: u16 = 110;

/// What the name of a typedef says of the number that it is.
pub fn typedef(name: &str, kind: Kind) -> Option<(Kind, Show)> {
    Some(match name {
        "umode_t" | "mode_t" => (kind, Show::Octal),
        // glibc's has eight bytes, and the kernel's numbers elsewhere in them.
        "dev_t" if kind.size() == 4 => (kind, Show::Device),
        "ktime_t" => (kind, Show::Time),
        "__be16" | "__be32" | "__be64" => (Kind::BigEndian(kind.size() as u8), Show::Plain),
        _ => return None,
    })
}

/// How the bytes of a structure of this name are shown that is a value all the same, and how many they are.
pub fn structure(name: &str) -> Option<(u16, Show)> {
    Some(match name {
        "timespec64" | "__kernel_timespec" | "timespec" => (16, Show::Timespec),
        "in_addr" => (4, Show::Ip4),
        "in6_addr" => (16, Show::Ip6),
        "sockaddr" | "sockaddr_in" => (16, Show::Sockaddr),
        "sockaddr_in6" => (28, Show::Sockaddr),
        "sockaddr_un" => (SOCKADDR, Show::Sockaddr),
        "__kernel_sockaddr_storage" | "sockaddr_storage" => (SOCKADDR, Show::Sockaddr),
        _ => return None,
    })
}

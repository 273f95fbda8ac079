//! How a field's value is shown, beside how its bytes are read.

use std::sync::Arc;

use super::Names;

/// How a value is shown.
///
/// A number keeps its exact value in every format that programs read; what is said here is how people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Show {
    /// As its kind says: numbers in decimal, addresses in hexadecimal.
    #[default]
    Plain,
    /// An integer in hexadecimal.
    Hex,
    /// An integer in octal, as the rights of a file are.
    Octal,
    /// An integer as the character of that code.
    Char,
    /// A negative error number by its name, `-ENOENT`; any other value as it is.
    Errno,
    /// An integer by the name that its value has.
    Enum(Arc<Names>),
    /// An integer by the names of its bits, `A|B`, what is left over in hexadecimal.
    Flags(Arc<Names>),
    /// The kernel's `dev_t` as `major:minor`.
    Device,
    /// Nanoseconds as seconds with nine decimals.
    Time,
    /// Nanoseconds in the unit that suits them, for people: what is read by programs has the number alone.
    Duration,
    /// The bytes of a `struct timespec64`: seconds with nine decimals.
    Timespec,
    /// An IPv4 address: four bytes in network order.
    Ip4,
    /// An IPv6 address: sixteen bytes.
    Ip6,
    /// An Ethernet address: six bytes.
    Mac,
    /// A `struct sockaddr` by its family: address and port, or path.
    Sockaddr,
    /// Bytes as an array of integers.
    Array {
        /// Bytes of an element: 1, 2, 4 or 8.
        width: u8,
        /// Whether elements are signed.
        signed: bool,
    },
    /// An address of the kernel by its symbol.
    KernelSymbol,
    /// An address of the process by its symbol.
    UserSymbol,
}

impl Show {
    /// What an enum of these names is: bits to be put together, or one of several values.
    pub(crate) fn of_names(names: Names) -> Show {
        match names.is_empty() {
            true => Show::Plain,
            false if names.are_bits() => Show::Flags(Arc::new(names)),
            false => Show::Enum(Arc::new(names)),
        }
    }

    /// The word for it in a header; `None` where the kind says all.
    pub fn word(&self) -> Option<&'static str> {
        Some(match self {
            Show::Plain | Show::Hex => return None,
            Show::Octal => "octal",
            Show::Char => "char",
            Show::Errno => "errno",
            Show::Enum(_) => "enum",
            Show::Flags(_) => "flags",
            Show::Device => "dev",
            Show::Time => "time",
            Show::Duration => "duration",
            Show::Timespec => "timespec",
            Show::Ip4 => "ip4",
            Show::Ip6 => "ip6",
            Show::Mac => "mac",
            Show::Sockaddr => "sockaddr",
            Show::Array { .. } => "array",
            Show::KernelSymbol => "ksym",
            Show::UserSymbol => "usym",
        })
    }
}

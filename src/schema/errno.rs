//! Error numbers by name: those of `include/uapi/asm-generic`, and those that the kernel keeps to itself.

/// The largest error number: `MAX_ERRNO` of `include/linux/err.h`.
pub const MAX: u64 = 4095;

/// Names from 1 on; the numbers that have none are empty.
const NAMES: [&str; 133] = [
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

/// Those of `include/linux/errno.h`, from 512 on: system calls never return them, functions do.
const KERNEL: [&str; 21] = [
    "ERESTARTSYS",
    "ERESTARTNOINTR",
    "ERESTARTNOHAND",
    "ENOIOCTLCMD",
    "ERESTART_RESTARTBLOCK",
    "EPROBE_DEFER",
    "EOPENSTALE",
    "ENOPARAM",
    "",
    "EBADHANDLE",
    "ENOTSYNC",
    "EBADCOOKIE",
    "ENOTSUPP",
    "ETOOSMALL",
    "ESERVERFAULT",
    "EBADTYPE",
    "EJUKEBOX",
    "EIOCBQUEUED",
    "ERECALLCONFLICT",
    "ENOGRACE",
    "",
];

/// The number of the first of [`KERNEL`].
const KERNEL_FIRST: usize = 512;

/// The name of an error number, which is positive here.
pub fn name(number: u64) -> Option<&'static str> {
    let at = usize::try_from(number).ok()?;
    let table = NAMES.get(at.wrapping_sub(1)).or_else(|| KERNEL.get(at.wrapping_sub(KERNEL_FIRST)));
    table.copied().filter(|name| !name.is_empty())
}

/// The number of a name; other spellings that C has for a number count too.
pub fn number(name: &str) -> Option<u64> {
    let name = match name {
        "EWOULDBLOCK" => "EAGAIN",
        "EDEADLOCK" => "EDEADLK",
        "ENOTSUP" => "EOPNOTSUPP",
        name => name,
    };
    let at = |table: &[&str], first: usize| table.iter().position(|n| *n == name).map(|i| (i + first) as u64);
    at(&NAMES, 1).or_else(|| at(&KERNEL, KERNEL_FIRST)).filter(|_| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn names_are_those_of_this_system() {
        for n in 1..=133 {
            let theirs = format!("{:?}", Errno::from_raw(n));
            match name(n as u64) {
                Some(ours) => assert_eq!(ours, theirs, "{n}"),
                None => assert_eq!(theirs, "UnknownErrno", "{n}"),
            }
        }
    }

    #[test]
    fn numbers_and_names_go_together() {
        for n in 1..=MAX {
            assert_eq!(name(n).map_or(Some(n), number), Some(n), "{n}");
        }
        assert_eq!(
            (name(0), name(134), name(511), name(4096), name(u64::MAX)),
            (None, None, None, None, None)
        );
        assert_eq!(
            (name(512), name(524), name(531)),
            (Some("ERESTARTSYS"), Some("ENOTSUPP"), Some("ENOGRACE"))
        );
        assert_eq!((number("EWOULDBLOCK"), number("ENOSUCH"), number("")), (Some(11), None, None));
    }
}

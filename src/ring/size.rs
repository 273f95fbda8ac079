//! How large a ring is, what fits into it, and what the limits let us lock.

use std::{fmt, fs, io};

use super::{cpus, sys};
use crate::{
    error::{Error, ErrorKind, Result},
    record::SampleFormat,
};

/// 1 GiB: `rb_alloc` (kernel/events/ring_buffer.c) keeps one pointer a page in one allocation, which ends at
/// about this size.
const LARGEST: usize = 1 << 30;

/// The largest raw bytes whose record's size still fits its u16 field: 65,535 less header, size and padding.
pub const LARGEST_RAW: usize = 65_516;

/// Rounds `bytes` up to 2^n pages of this machine: what a ring of that size really has.
///
/// # Errors
///
/// Usage, of 0 bytes and of more than 1 GiB.
pub fn round(bytes: usize) -> Result<usize> {
    round_to(bytes, sys::page_size())
}

/// As [`round()`], for pages of `page` bytes.
///
/// # Errors
///
/// Usage, of 0 bytes and of more than 1 GiB.
pub fn round_to(bytes: usize, page: usize) -> Result<usize> {
    if bytes == 0 {
        return Err(Error::usage("a ring of 0 bytes holds no record")
            .with_help(format!("the smallest ring is one page, {page} bytes")));
    }
    if bytes > LARGEST {
        return Err(Error::usage(format!("a ring of {bytes} bytes is more than a kernel can make"))
            .with_help(format!("the largest ring is 1 GiB, {LARGEST} bytes, a CPU")));
    }
    Ok(bytes.next_power_of_two().max(page))
}

/// The largest raw bytes of a sample that can never be refused by an empty ring of `size` bytes: a ring holds
/// `size - 8` bytes unread, and after a loss a LOST record goes before the sample (`__perf_output_begin`,
/// kernel/events/ring_buffer.c). For raw bytes alone: `size - 44`, and never more than [`LARGEST_RAW`].
pub fn largest_raw(size: usize, format: &SampleFormat) -> usize {
    let fixed = format.sample_size(0) - 8; // without the u32 size and its padding
    let room = size.saturating_sub(8 + format.lost_size());
    let by_ring = (room.saturating_sub(fixed) & !7).saturating_sub(4);
    let by_header = (65_528 - fixed.min(65_528)).saturating_sub(4);
    by_ring.min(by_header)
}

/// Refuses a declared largest sample that could never fit.
pub(super) fn check_raw(max_raw: usize, size: usize, format: &SampleFormat) -> Result<()> {
    let largest = largest_raw(size, format);
    if max_raw <= largest {
        return Ok(());
    }
    let (record, lost) = (format.sample_size(max_raw), format.lost_size());
    let header_bound = largest_raw(LARGEST, format);
    let error = Error::usage(format!(
        "a sample of {max_raw} raw bytes can never fit: its record has {record} bytes, with a LOST record \
         before it {}, and a ring of {} holds at most {} unread",
        record.saturating_add(lost),
        Bytes(size),
        size - 8,
    ));
    Err(if max_raw > header_bound {
        error.with_help(format!("the size field of a record has 16 bits: at most {header_bound} raw bytes"))
    } else {
        let needed = record.saturating_add(lost).saturating_add(8).next_power_of_two();
        error.with_help(format!("at most {largest} raw bytes, or a ring of {}", Bytes(needed)))
    })
}

/// The largest ring, in bytes, that a user without CAP_IPC_LOCK may have on each of `rings` CPUs; 0 where not
/// even one page fits, `None` where nothing limits it or the limit cannot be read.
///
/// The arithmetic is `perf_mmap`'s (kernel/events/core.c): `perf_event_mlock_kb` a CPU, shared by all rings of
/// the user, and what goes beyond counts against RLIMIT_MEMLOCK; a ring costs its data and one page.
pub fn lockable(rings: usize) -> Option<usize> {
    let limits = Limits::read()?;
    Some(limits.fit(rings, sys::page_size()))
}

struct Limits {
    /// `kernel.perf_event_mlock_kb`, in bytes.
    a_cpu: u64,
    cpus: u64,
    /// RLIMIT_MEMLOCK.
    process: u64,
}

impl Limits {
    fn read() -> Option<Limits> {
        let number = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok();
        let a_cpu: u64 = number("perf_event_mlock_kb")?;
        Some(Limits {
            a_cpu: a_cpu * 1024,
            cpus: cpus::online().ok()?.len() as u64,
            process: sys::memlock_limit()?,
        })
    }

    fn fit(&self, rings: usize, page: usize) -> usize {
        let page = page as u64;
        let pages = (self.a_cpu / page * self.cpus + self.process / page) / rings.max(1) as u64;
        match pages.saturating_sub(1) {
            0 => 0,
            data => usize::try_from((1 << data.ilog2()) * page).unwrap_or(LARGEST).min(LARGEST),
        }
    }
}

/// Why mmap(2) of a ring failed, and the way out.
pub(super) fn explain_mmap(e: io::Error, cpu: u32, size: usize, rings: usize) -> Error {
    let code = e.raw_os_error();
    let error = Error::caused(
        ErrorKind::Precondition,
        format!("mapping a ring of {} for CPU {cpu} ({rings} rings in all)", Bytes(size)),
        e,
    );
    let page = sys::page_size();
    match (code, Limits::read()) {
        (Some(libc::EPERM), Some(limits)) => {
            let fit = limits.fit(rings, page);
            let smaller = match fit {
                0 => String::new(),
                _ if fit >= size => " (other rings of this user hold a share of it)".into(),
                _ => format!("; rings of {} each would fit", Bytes(fit)),
            };
            error.with_help(format!(
                "without CAP_IPC_LOCK a user may lock {} KiB (sysctl kernel.perf_event_mlock_kb) x {} CPUs + {} KiB \
                 (RLIMIT_MEMLOCK, ulimit -l), and {rings} rings of {} + one page need {} KiB{smaller}",
                limits.a_cpu / 1024,
                limits.cpus,
                limits.process / 1024,
                Bytes(size),
                rings as u64 * (size as u64 + page as u64) / 1024,
            ))
        }
        (Some(libc::ENOMEM), _) => error.with_help("ask for smaller rings"),
        _ => error,
    }
}

/// Why perf_event_open(2) of `what` failed, and the way out. `rings` rings in all need `wanted`
/// descriptors.
pub(super) fn explain_open(e: io::Error, what: &str, cpu: u32, rings: usize, wanted: usize) -> Error {
    let code = e.raw_os_error();
    let error = Error::caused(ErrorKind::Precondition, format!("opening {what} on CPU {cpu}"), e);
    match code {
        Some(libc::EMFILE) => error.with_help(format!(
            "{rings} rings need {wanted} descriptors, and this process may have {} (RLIMIT_NOFILE, ulimit -n)",
            sys::file_limit().map_or("no limit".into(), |n| n.to_string()),
        )),
        Some(libc::EACCES | libc::EPERM) => {
            let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.as_deref().map_or("unknown", str::trim);
            error.with_help(format!(
                "run as root or with CAP_PERFMON: kernel.perf_event_paranoid is {level}, and rings of all \
                 processes need that capability above 0 (at 3 and 4, Debian's and Ubuntu's own, CAP_SYS_ADMIN)"
            ))
        }
        Some(libc::ENOENT) => error.with_help("this kernel has no PERF_COUNT_SW_BPF_OUTPUT (it came with 4.4)"),
        Some(libc::ENOSYS) => error.with_help("this kernel was built without CONFIG_PERF_EVENTS"),
        _ => error,
    }
}

/// A size for people: `64 KiB`, `1 MiB`, `100 bytes`.
pub(super) struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n != 0 && n % (1 << 20) == 0 => write!(f, "{} MiB", n >> 20),
            n if n != 0 && n % 1024 == 0 => write!(f, "{} KiB", n >> 10),
            n => write!(f, "{n} bytes"),
        }
    }
}

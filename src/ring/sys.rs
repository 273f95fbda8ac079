//! The raw system calls of this crate: perf_event_open(2), its ioctls and its mapping, membarrier(2).
#![allow(unsafe_code)]
// JUSTIFICATION: these calls have no safe wrapper in nix or std. Each function here is safe to call: what it
// hands to the kernel is valid by its own types, and what comes back is owned.

use std::{
    ffi::{c_int, c_ulong},
    io,
    mem::offset_of,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::NonNull,
    time::Duration,
};

use perf_event_open_sys::{
    bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_mmap_page},
    ioctls,
};

use crate::error::{Error, ErrorKind, Result};

/// Opens `attr` on `cpu` for one process, or for every process: that needs CAP_PERFMON or CAP_SYS_ADMIN, or a
/// `perf_event_paranoid` below 1.
pub(super) fn perf_event_open(
    attr: &mut perf_event_attr,
    process: Option<u32>,
    cpu: u32,
) -> io::Result<OwnedFd> {
    let number = |n| c_int::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (cpu, process) = (number(cpu)?, process.map_or(Ok(-1), number)?);
    // SAFETY: `attr` is a whole perf_event_attr whose `size` is its own (attr.rs), which the kernel copies;
    // it writes back at most `size` (E2BIG, `perf_copy_attr`, kernel/events/core.c).
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(attr, process, cpu, -1, c_ulong::from(PERF_FLAG_FD_CLOEXEC))
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made for us, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets a `disabled` event write.
pub(super) fn enable(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the ioctl takes no pointer.
    check(unsafe { ioctls::ENABLE(fd.as_raw_fd(), 0) })
}

/// Has the outputs of `fd` go into the ring of `into`, an event of the same CPU and clock that is mapped.
pub(super) fn set_output(fd: BorrowedFd<'_>, into: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the ioctl takes a descriptor by value.
    check(unsafe { ioctls::SET_OUTPUT(fd.as_raw_fd(), into.as_raw_fd()) })
}

/// The event's id: what LOST records call it.
pub(super) fn id(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the kernel writes one u64 (`_perf_ioctl`, kernel/events/core.c), which `id` is.
    check(unsafe { ioctls::ID(fd.as_raw_fd(), &mut id) })?;
    Ok(id)
}

/// Outputs are lost, and counted as such, while `pause`.
pub(super) fn pause_output(fd: BorrowedFd<'_>, pause: bool) -> io::Result<()> {
    // SAFETY: the ioctl takes a flag by value.
    check(unsafe { ioctls::PAUSE_OUTPUT(fd.as_raw_fd(), u32::from(pause)) })
}

/// Reads the event's numbers, in the order of its `read_format`; says how many came.
pub(super) fn read_counts(fd: BorrowedFd<'_>, counts: &mut [u64]) -> io::Result<usize> {
    // SAFETY: `counts` is writable memory of that many bytes, and any bytes make a u64.
    let n = unsafe { libc::read(fd.as_raw_fd(), counts.as_mut_ptr().cast(), size_of_val(counts)) };
    usize::try_from(n).map(|n| n / 8).map_err(|_| io::Error::last_os_error())
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Where a ring's moving fields and its data are.
pub(super) struct Parts {
    pub data_head: NonNull<u64>,
    pub data_tail: NonNull<u64>,
    pub data: NonNull<u8>,
    /// Bytes of data.
    pub size: usize,
}

/// The mapping of one perf event: one mmap page, then the data. Unmapped when dropped.
pub(super) struct Map {
    base: NonNull<u8>,
    len: usize,
    page: usize,
}

impl Map {
    /// Maps `data` bytes of data, 2^n pages, to be read and given back: a forward ring.
    pub(super) fn new(fd: BorrowedFd<'_>, data: usize) -> io::Result<Map> {
        // PROT_WRITE is what makes the kernel heed `data_tail` (`perf_mmap`, kernel/events/core.c).
        Map::with(fd, data, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// As [`Map::new`], to be read only: a ring in overwrite mode.
    pub(super) fn overwrite(fd: BorrowedFd<'_>, data: usize) -> io::Result<Map> {
        Map::with(fd, data, libc::PROT_READ)
    }

    fn with(fd: BorrowedFd<'_>, data: usize, prot: c_int) -> io::Result<Map> {
        let page = page_size();
        let len = data.checked_add(page).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let flags = libc::MAP_SHARED;
        // SAFETY: a new mapping at a place of the kernel's choosing touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Map { base, len, page })
    }

    /// Where `data_head`, `data_tail` and the data are, and the data's bytes.
    pub(super) fn parts(&self) -> Result<Parts> {
        let size = self.len - self.page;
        // SAFETY: the offsets are of fields of `perf_event_mmap_page`, which the first page holds whole
        // (`perf_mmap`, kernel/events/core.c), at their alignment, as a page is aligned to its size.
        let field = |offset| unsafe { self.base.add(offset).cast::<u64>() };
        let (said_offset, said_size) = (
            field(offset_of!(perf_event_mmap_page, data_offset)),
            field(offset_of!(perf_event_mmap_page, data_size)),
        );
        // SAFETY: as above; the kernel writes both once, before mmap(2) returns
        // (`perf_event_init_userpage`, kernel/events/core.c), and leaves them 0 before 4.1.
        let said = unsafe { (said_offset.read_volatile(), said_size.read_volatile()) };
        if said != (self.page as u64, size as u64) && said != (0, 0) {
            return Err(Error::new(
                ErrorKind::Runtime,
                format!("the kernel says that a ring mapped with {size} bytes has {} at {}", said.1, said.0),
            ));
        }
        // SAFETY: `page < len`.
        let data = unsafe { self.base.add(self.page) };
        Ok(Parts {
            data_head: field(offset_of!(perf_event_mmap_page, data_head)),
            data_tail: field(offset_of!(perf_event_mmap_page, data_tail)),
            data,
            size,
        })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whole, and nothing borrows from it any more: `Mapping` owns us and lends
        // only by its own lifetime.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Waits until every BPF program that is running on any CPU now has ended.
///
/// True where that is certain: `MEMBARRIER_CMD_GLOBAL` waits for an RCU grace period (`sys_membarrier`,
/// kernel/sched/membarrier.c), and programs run within one (`trace_call_bpf`, kernel/trace/bpf_trace.c). It is
/// refused where nohz_full CPUs exist; then this sleeps 50 ms, in which a program all but certainly ends, and
/// says false. Blocks for some tens of milliseconds either way.
pub fn wait_for_programs() -> bool {
    const MEMBARRIER_CMD_GLOBAL: c_int = 1;
    // SAFETY: the call takes no pointer.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result != 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    result == 0
}

/// Bytes of a page.
pub(super) fn page_size() -> usize {
    // SAFETY: the call takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// The soft limit of `resource`; `None` where there is none.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one struct rlimit, which `limit` is.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    #[allow(clippy::useless_conversion)] // rlim_t is 32 bits wide on some machines
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then(|| limit.rlim_cur.into())
}

/// RLIMIT_MEMLOCK in bytes; `None` where there is no limit.
pub(super) fn memlock_limit() -> Option<u64> {
    limit(libc::RLIMIT_MEMLOCK)
}

/// RLIMIT_NOFILE; `None` where there is no limit.
pub(super) fn file_limit() -> Option<u64> {
    limit(libc::RLIMIT_NOFILE)
}

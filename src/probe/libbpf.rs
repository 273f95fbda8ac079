//! What libbpf offers and libbpf-rs does not: a kprobe within a function, kprobes by address, the kernel's run counts,
//! the bytes of BTF, and messages of any bytes.
#![allow(unsafe_code)]
// JUSTIFICATION: four calls of libbpf's C API have no safe wrapper in libbpf-rs 0.27. They take pointers that
// are valid for the call alone, and what they return is given an owner at once or borrowed from one. A fifth has one that ends the
// process where a message is no UTF-8, as it is of an object with such a name in it.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    io,
    os::fd::{FromRawFd, OwnedFd},
    ptr::NonNull,
    sync::OnceLock,
};

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut, btf::Btf, libbpf_sys};

/// Attaches a program to an instruction within a kernel function, or to the return of it; with a cookie that is not
/// 0 the kernel must know those (from 5.15).
pub fn attach_kprobe_at(
    program: &ProgramMut<'_>,
    symbol: &str,
    offset: u64,
    retprobe: bool,
    cookie: u64,
) -> io::Result<Link> {
    let name = CString::new(symbol)?;
    let opts = libbpf_sys::bpf_kprobe_opts {
        sz: size_of::<libbpf_sys::bpf_kprobe_opts>() as libbpf_sys::size_t,
        bpf_cookie: cookie,
        offset: offset as libbpf_sys::size_t,
        retprobe,
        ..Default::default()
    };
    // SAFETY: the program belongs to a loaded object that outlives this call (it is borrowed), name and opts
    // live until it returns, and libbpf keeps neither (`bpf_program__attach_kprobe_opts` copies the name into
    // a perf_event_attr that is gone after perf_event_open).
    let link = unsafe {
        libbpf_sys::bpf_program__attach_kprobe_opts(program.as_libbpf_object().as_ptr(), name.as_ptr(), &opts)
    };
    owned(link)
}

/// Attaches a program to the kernel functions at these addresses in one call (kprobe.multi), each with the cookie in
/// its place.
pub fn attach_kprobes_at(
    program: &ProgramMut<'_>,
    addresses: &[u64],
    cookies: &[u64],
    retprobe: bool,
) -> io::Result<Link> {
    let addresses: Vec<libc::c_ulong> = addresses.iter().map(|address| *address as libc::c_ulong).collect();
    if addresses.len() != cookies.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let opts = libbpf_sys::bpf_kprobe_multi_opts {
        sz: size_of::<libbpf_sys::bpf_kprobe_multi_opts>() as libbpf_sys::size_t,
        addrs: addresses.as_ptr(),
        cookies: cookies.as_ptr(),
        cnt: addresses.len() as libbpf_sys::size_t,
        retprobe,
        ..Default::default()
    };
    // SAFETY: the program belongs to a loaded object that outlives this call (it is borrowed); both arrays have `cnt`
    // elements and live until it returns, and the kernel copies them (`bpf_kprobe_multi_link_attach`,
    // kernel/trace/bpf_trace.c).
    let link = unsafe {
        libbpf_sys::bpf_program__attach_kprobe_multi_opts(
            program.as_libbpf_object().as_ptr(),
            std::ptr::null(),
            &opts,
        )
    };
    owned(link)
}

/// A link that libbpf has just made, or its error.
fn owned(link: *mut libbpf_sys::bpf_link) -> io::Result<Link> {
    // libbpf 1.x returns NULL and sets errno.
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf has just made the link and nothing else owns it.
    Ok(unsafe { Link::from_ptr(link) })
}

/// Who hears what libbpf says.
static HEARER: OnceLock<fn(&str)> = OnceLock::new();

/// Has every warning of libbpf's told to `hear`, which must not panic: it is called from C. The first stays.
pub fn listen(hear: fn(&str)) {
    type Callback = unsafe extern "C" fn(libbpf_sys::libbpf_print_level, *const c_char, *mut c_void) -> c_int;
    if HEARER.set(hear).is_err() {
        return;
    }
    // SAFETY: the two types differ in how the third argument is called alone: a va_list is an array, or a structure
    // too large for registers, on all that Linux runs BPF on, so a pointer to it is what is passed.
    let callback = unsafe {
        std::mem::transmute::<Option<Callback>, libbpf_sys::libbpf_print_fn_t>(Some(said as Callback))
    };
    // SAFETY: a function that lives as long as the program.
    unsafe { libbpf_sys::libbpf_set_print(callback) };
}

/// # Safety
///
/// `format` and `values` are a format string and what it asks for, as printf(3) wants them.
unsafe extern "C" fn said(
    level: libbpf_sys::libbpf_print_level,
    format: *const c_char,
    values: *mut c_void,
) -> c_int {
    if level == libbpf_sys::LIBBPF_WARN
        && let Some(hear) = HEARER.get()
    {
        // SAFETY: as the caller promises.
        let text = unsafe { vsprintf::vsprintf_raw(format, values) };
        hear(&String::from_utf8_lossy(&text.unwrap_or_default()));
    }
    0
}

/// The bytes of a BTF, as `/sys/kernel/btf/vmlinux` has them.
pub fn bytes<'b>(btf: &'b Btf<'_>) -> &'b [u8] {
    let mut size = 0;
    // SAFETY: `btf` is valid while it is borrowed, and the size has room for what is written there.
    let data = unsafe { libbpf_sys::btf__raw_data(btf.as_libbpf_object().as_ptr(), &mut size) };
    if data.is_null() {
        return &[];
    }
    // SAFETY: libbpf gives `size` bytes that belong to `btf` and stay as they are until it is changed, for which
    // libbpf-rs has no way.
    unsafe { std::slice::from_raw_parts(data.cast(), size as usize) }
}

/// Makes the kernel count runs of BPF programs until the descriptor is closed (`BPF_ENABLE_STATS`, from 5.8).
pub fn enable_run_counts() -> io::Result<OwnedFd> {
    // SAFETY: takes an integer and returns a descriptor or a negative errno; no memory is passed.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just made this descriptor for us (`bpf_enable_runtime_stats`,
    // kernel/bpf/syscall.c) and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

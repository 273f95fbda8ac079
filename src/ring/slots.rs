//! The slots of a `BPF_MAP_TYPE_PERF_EVENT_ARRAY`, by the map's descriptor alone: no libbpf.
#![allow(unsafe_code)]
// JUSTIFICATION: bpf(2) takes a union of structs by pointer; two commands of it are all that is needed here,
// and they keep this room free of libbpf.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use crate::error::{Error, ErrorKind, Result};

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_TYPE_PERF_EVENT_ARRAY: u32 = 4;

/// The element commands' part of `union bpf_attr` (`include/uapi/linux/bpf.h`).
#[repr(C, align(8))]
#[derive(Default)]
struct Element {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// BPF_OBJ_GET_INFO_BY_FD's part of `union bpf_attr`.
#[repr(C, align(8))]
struct GetInfo {
    fd: u32,
    len: u32,
    info: u64,
}

/// The opening of `struct bpf_map_info`; the kernel writes no more than it is asked for.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// A perf event array whose slots are ours to fill. Slot = CPU id.
///
/// It keeps a duplicate of the map's descriptor: a slot lives as long as the *open file* that filled it
/// (`perf_event_fd_array_release`, kernel/bpf/arraymap.c), and a duplicate is of the same open file, so slots
/// last until both are closed. A descriptor opened for the purpose by the map's id would take its slots with it.
#[derive(Debug)]
pub(super) struct Slots {
    map: OwnedFd,
    max_entries: u32,
}

impl Slots {
    /// Checks that `map` is a perf event array.
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<Slots> {
        let map = map.try_clone_to_owned().map_err(|e| {
            Error::caused(ErrorKind::Precondition, "duplicating the perf event array's descriptor", e)
        })?;
        let mut info = MapInfo::default();
        let mut attr = GetInfo {
            fd: map.as_raw_fd() as u32,
            len: size_of::<MapInfo>() as u32,
            info: (&raw mut info) as usize as u64,
        };
        // SAFETY: `info` is writable memory of `len` bytes, and any bytes make a MapInfo; it outlives the call.
        let result = unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr) };
        result.map_err(|e| {
            Error::caused(ErrorKind::Usage, "asking what map the rings are to be put into", e)
        })?;
        if info.kind != BPF_MAP_TYPE_PERF_EVENT_ARRAY {
            return Err(Error::usage(format!(
                "rings can be put into a perf event array only (map type {BPF_MAP_TYPE_PERF_EVENT_ARRAY}); this \
                 map is of type {}",
                info.kind
            )));
        }
        Ok(Slots { map, max_entries: info.max_entries })
    }

    /// The same slots by a descriptor of its own, of the same open file.
    pub(super) fn duplicate(&self) -> Result<Slots> {
        let map = self.map.try_clone().map_err(|e| {
            Error::caused(ErrorKind::Precondition, "duplicating the perf event array's descriptor", e)
        })?;
        Ok(Slots { map, max_entries: self.max_entries })
    }

    /// Puts an event into the slot of `cpu`: the next output there goes to its ring. What stood in the slot
    /// before, a live reader's event too, is replaced without a word (`perf_event_fd_array_get_ptr` and
    /// `bpf_fd_array_map_update_elem`, kernel/bpf/arraymap.c), and the kernel lets nobody look first.
    pub(super) fn put(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<()> {
        if cpu >= self.max_entries {
            return Err(Error::usage(format!(
                "the perf event array has {} slots, and CPU {cpu} needs slot {cpu}",
                self.max_entries
            ))
            .with_help("make the map with as many entries as there are possible CPUs"));
        }
        let value = event.as_raw_fd() as u32;
        self.element(BPF_MAP_UPDATE_ELEM, cpu, Some(&value)).map_err(|e| {
            Error::caused(ErrorKind::Runtime, format!("putting the ring of CPU {cpu} into its slot"), e)
        })
    }

    /// Empties the slot of `cpu`; an empty one is fine.
    pub(super) fn remove(&self, cpu: u32) -> Result<()> {
        match self.element(BPF_MAP_DELETE_ELEM, cpu, None) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => {
                Err(Error::caused(ErrorKind::Runtime, format!("emptying the slot of CPU {cpu}"), e))
            }
            _ => Ok(()),
        }
    }

    fn element(&self, command: libc::c_int, key: u32, value: Option<&u32>) -> io::Result<()> {
        let mut attr = Element {
            map_fd: self.map.as_fd().as_raw_fd() as u32,
            key: (&raw const key) as usize as u64,
            value: value.map_or(0, |value| std::ptr::from_ref(value) as usize as u64),
            ..Element::default()
        };
        // SAFETY: a perf event array has keys and values of four bytes (`fd_array_map_alloc_check`,
        // kernel/bpf/arraymap.c), which `key` and `value` are; the kernel reads them, and both outlive the call.
        unsafe { bpf(command, &mut attr) }
    }
}

/// # Safety
///
/// `attr` is what `command` expects, and its pointers are good for what the command does with them.
unsafe fn bpf<A>(command: libc::c_int, attr: &mut A) -> io::Result<()> {
    // SAFETY: the kernel reads and writes at most `size_of::<A>()` bytes of `attr`; the rest is the caller's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

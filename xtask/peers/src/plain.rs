//! A plain loop in the manner of the kernel's samples/bpf/trace_output of 2015, written from its description.
//!
//! One ring, wake-up fields zero (so half a ring wakes), poll with a timeout of a second, one load of the head and one
//! store of the tail a pass, a record that wraps is copied into a buffer on the stack.
#![allow(unsafe_code)]
// JUSTIFICATION: the loop that is compared with works on the ring by raw pointers, as the sample did in C.

use crate::round::{Seen, Stage};
use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore as _, MapFlags};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags as Flags, ProtFlags, mmap, munmap};
use perf::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_SAMPLE_RAW, PERF_TYPE_SOFTWARE,
    perf_event_attr, perf_event_mmap_page,
};
use perf_event_open_sys as perf;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of the buffer for records that wrap.
const BUFFER: usize = 256;

struct Ring {
    fd: OwnedFd,
    base: NonNull<c_void>,
    page: usize,
    size: usize,
}

/// One round, with a ring of so many pages on the CPU that writes.
pub fn run(stage: &mut Stage<'_>, pages: usize) -> Result<Seen> {
    let ring = Ring::open(stage.cpu, pages)?;
    let array = stage.array()?;
    array.update(&stage.cpu.to_ne_bytes(), &ring.fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
    let mut seen = Seen::default();
    stage.begin()?;
    while !stage.over() {
        seen.waits += 1;
        poll(&mut [PollFd::new(ring.fd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(1000u16))?;
        ring.read(&mut seen)?;
    }
    stage.end();
    ring.read(&mut seen)?;
    stage.mark()?;
    ring.read(&mut seen)?;
    Ok(seen)
}

impl Ring {
    fn open(cpu: u32, pages: usize) -> Result<Self> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: u64::from(PERF_COUNT_SW_BPF_OUTPUT),
            sample_type: u64::from(PERF_SAMPLE_RAW),
            ..perf_event_attr::default()
        };
        // SAFETY: the call reads `attr`, and returns a descriptor that nobody else has.
        let fd = unsafe {
            let fd = perf::perf_event_open(
                &mut attr,
                -1,
                cpu as i32,
                -1,
                perf::bindings::PERF_FLAG_FD_CLOEXEC.into(),
            );
            ensure!(fd >= 0, "perf_event_open: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let page = 4096;
        let length = NonZeroUsize::new(page * (pages + 1)).context("no pages")?;
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a descriptor of ours.
        let base = unsafe { mmap(None, length, both, Flags::MAP_SHARED, fd.as_fd(), 0) }.context("mmap")?;
        // SAFETY: the descriptor is ours, and the request takes no argument.
        let enabled = unsafe { perf::ioctls::ENABLE(fd.as_raw_fd(), 0) };
        ensure!(enabled == 0, "enabling the ring: {}", std::io::Error::last_os_error());
        Ok(Self { fd, base, page, size: pages * page })
    }

    /// Reads everything up to the head.
    fn read(&self, seen: &mut Seen) -> Result<()> {
        let header = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this struct; both words are 8-aligned, in the mapping as long as
        // `self`, and accessed atomically from here alone.
        let (data_head, data_tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        };
        let head = data_head.load(Ordering::Acquire);
        let mut tail = data_tail.load(Ordering::Relaxed);
        // SAFETY: the data begin behind the first page.
        let data = unsafe { self.base.as_ptr().cast::<u8>().add(self.page) };
        let mut buffer = [0u64; BUFFER / 8];
        while tail != head {
            let offset = tail as usize & (self.size - 1);
            // SAFETY: a record's header is eight aligned bytes that never wrap, below the head.
            let (kind, size) = unsafe {
                let record = data.add(offset);
                (record.cast::<u32>().read(), usize::from(record.add(6).cast::<u16>().read()))
            };
            ensure!(size >= 8 && size as u64 <= head - tail, "a record of {size} bytes");
            let record = if offset + size > self.size {
                ensure!(size <= BUFFER, "a record of {size} bytes wraps");
                let first = self.size - offset;
                let copy = buffer.as_mut_ptr().cast::<u8>();
                // SAFETY: `first` bytes to the end of the data and the rest from its start, into a buffer that
                // has room for `size`.
                unsafe {
                    std::ptr::copy_nonoverlapping(data.add(offset), copy, first);
                    std::ptr::copy_nonoverlapping(data, copy.add(first), size - first);
                }
                copy.cast_const()
            } else {
                // SAFETY: within the data.
                unsafe { data.add(offset).cast_const() }
            };
            // SAFETY: each read is within the record's `size` bytes, by the checks before it: our own programs
            // write samples of 16 and 4 bytes, and the kernel LOST records of 24.
            unsafe {
                if kind == PERF_RECORD_SAMPLE && size >= 16 {
                    let raw = record.add(8).cast::<u32>().read() as usize;
                    let cookie = (size >= 32).then(|| record.add(20).cast::<u64>().read_unaligned());
                    seen.sample(raw, cookie);
                } else if kind == PERF_RECORD_LOST && size >= 24 {
                    seen.lost += record.add(16).cast::<u64>().read_unaligned();
                } else {
                    seen.wrong += 1;
                }
            }
            tail += size as u64;
        }
        fence(Ordering::SeqCst);
        data_tail.store(head, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody uses any more.
        let _ = unsafe { munmap(self.base, self.page + self.size) };
    }
}

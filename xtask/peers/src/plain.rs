//! A plain loop in the manner of the kernel's samples/bpf/trace_output of 2015, written from its description.
//!
//! One ring, wake-up fields zero (so half a ring wakes), poll with a timeout of a second, one load of the head and one
//! store of the tail a pass, a record that wraps is copied.
#![allow(unsafe_code)]
// JUSTIFICATION: the loop that is compared with works on the ring by raw pointers, as the sample did in C.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
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
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of the buffer for records that wrap: a record is below 64 KiB.
const BUFFER: usize = (64 << 10) / 8;

struct Ring {
    fd: OwnedFd,
    base: NonNull<c_void>,
    page: usize,
    size: usize,
}

struct Plain {
    ring: Ring,
    buffer: Box<[u64; BUFFER]>,
    seen: Rc<Seen>,
    /// The slot of the array goes with it.
    _array: MapHandle,
}

/// Opens it, with a ring of so many pages on the CPU that writes.
pub fn open<'a>(stage: &Stage<'a>, pages: usize) -> Result<Box<dyn Reader + 'a>> {
    let ring = Ring::open(stage.cpu, pages)?;
    let array = stage.array()?;
    array.update(&stage.cpu.to_ne_bytes(), &ring.fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
    Ok(Box::new(Plain { ring, buffer: Box::new([0; BUFFER]), seen: Rc::clone(&stage.seen), _array: array }))
}

impl Reader for Plain {
    fn turn(&mut self) -> Result<()> {
        self.seen.waited();
        poll(&mut [PollFd::new(self.ring.fd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(1000u16))?;
        self.all()
    }

    fn all(&mut self) -> Result<()> {
        self.ring.read(&mut self.buffer, &self.seen)
    }

    fn ring_size(&self) -> usize {
        self.ring.size
    }
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
    fn read(&self, buffer: &mut [u64; BUFFER], seen: &Seen) -> Result<()> {
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
        while tail != head {
            let offset = tail as usize & (self.size - 1);
            // SAFETY: a record's header is eight aligned bytes that never wrap, below the head.
            let (kind, size) = unsafe {
                let record = data.add(offset);
                (record.cast::<u32>().read(), usize::from(record.add(6).cast::<u16>().read()))
            };
            ensure!(size >= 8 && size as u64 <= head - tail, "a record of {size} bytes");
            let record = if offset + size > self.size {
                let first = self.size - offset;
                let copy = buffer.as_mut_ptr().cast::<u8>();
                // SAFETY: `first` bytes to the end of the data and the rest from its start, into a buffer that
                // has room for any record.
                unsafe {
                    std::ptr::copy_nonoverlapping(data.add(offset), copy, first);
                    std::ptr::copy_nonoverlapping(data, copy.add(first), size - first);
                }
                copy.cast_const()
            } else {
                // SAFETY: within the data.
                unsafe { data.add(offset).cast_const() }
            };
            // SAFETY: each read is within the record's `size` bytes, by the checks before it.
            unsafe {
                if kind == PERF_RECORD_SAMPLE && size >= 16 {
                    let raw = record.add(8).cast::<u32>().read() as usize;
                    seen.sample(raw, |at| {
                        (at + 20 <= size).then(|| record.add(12 + at).cast::<u64>().read_unaligned())
                    });
                } else if kind == PERF_RECORD_LOST && size >= 24 {
                    seen.told(record.add(16).cast::<u64>().read_unaligned());
                } else {
                    seen.other();
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

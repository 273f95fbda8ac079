//! libbpf's perf_buffer, called as a program in C does: as it is, and with attributes of our own.
#![allow(unsafe_code)]
// JUSTIFICATION: libbpf-rs offers neither libbpf's reader without its own callbacks around it nor one with attributes.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::{Result, ensure};
use libbpf_rs::{MapHandle, libbpf_sys as sys};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::rc::Rc;

struct Buffer {
    buffer: NonNull<sys::perf_buffer>,
    /// What the callbacks are given a pointer to; the count of owners keeps it where it is.
    seen: Rc<Seen>,
    /// The slots of the array go with it.
    _array: MapHandle,
    ring_size: usize,
}

/// A wake-up a record.
pub fn default<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let pages = stage.pages as u64;
    open(stage, |array, context| {
        // SAFETY: the descriptor is open; the callbacks take such a context; there need be no options.
        unsafe { sys::perf_buffer__new(array, pages, Some(sample), Some(lost), context, std::ptr::null()) }
    })
}

/// A wake-up each quarter of a ring.
pub fn tuned<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let pages = stage.pages as u64;
    let mut attr = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: u64::from(sys::PERF_COUNT_SW_BPF_OUTPUT),
        sample_type: u64::from(sys::PERF_SAMPLE_RAW),
        ..sys::perf_event_attr::default()
    };
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = (pages * 4096 / 4) as u32;
    open(stage, |array, context| {
        // SAFETY: as above; the attributes are read before it returns.
        unsafe {
            sys::perf_buffer__new_raw(array, pages, &raw mut attr, Some(event), context, std::ptr::null())
        }
    })
}

fn open<'a>(
    stage: &Stage<'a>,
    new: impl FnOnce(c_int, *mut c_void) -> *mut sys::perf_buffer,
) -> Result<Box<dyn Reader + 'a>> {
    let (array, seen) = (stage.array()?, Rc::clone(&stage.seen));
    let buffer = new(array.as_fd().as_raw_fd(), Rc::as_ptr(&seen).cast_mut().cast());
    match NonNull::new(buffer) {
        Some(buffer) => Ok(Box::new(Buffer { buffer, seen, _array: array, ring_size: stage.pages * 4096 })),
        None => Err(std::io::Error::last_os_error().into()),
    }
}

unsafe extern "C" fn sample(context: *mut c_void, _: c_int, data: *mut c_void, size: u32) {
    // SAFETY: the context is the `Seen` that the buffer's owner holds, and is shared only within this thread; libbpf
    // lends `size` bytes for the call.
    let (seen, raw) = unsafe {
        (&*context.cast::<Seen>(), std::slice::from_raw_parts(data.cast::<u8>().cast_const(), size as usize))
    };
    seen.bytes(raw);
}

unsafe extern "C" fn lost(context: *mut c_void, _: c_int, count: u64) {
    // SAFETY: as for `sample`.
    unsafe { &*context.cast::<Seen>() }.told(count);
}

/// What libbpf's own `perf_buffer__process_record` (src/libbpf.c) makes of a record.
unsafe extern "C" fn event(context: *mut c_void, cpu: c_int, record: *mut sys::perf_event_header) -> c_int {
    // SAFETY: libbpf lends a whole record, in one piece and at an address that is a multiple of four at least; its kind
    // says what stands behind the header: a sample of raw bytes alone has their number and them, a LOST record an id
    // and a count.
    unsafe {
        let behind = record.add(1).cast::<u8>();
        match (*record).type_ {
            sys::PERF_RECORD_SAMPLE => {
                sample(context, cpu, behind.add(4).cast(), behind.cast::<u32>().read_unaligned());
            }
            sys::PERF_RECORD_LOST => lost(context, cpu, behind.add(8).cast::<u64>().read_unaligned()),
            _ => (*context.cast::<Seen>()).other(),
        }
    }
    sys::LIBBPF_PERF_EVENT_CONT
}

impl Reader for Buffer {
    fn turn(&mut self) -> Result<()> {
        self.seen.waited();
        // SAFETY: the buffer is live.
        let took = unsafe { sys::perf_buffer__poll(self.buffer.as_ptr(), 100) };
        ensure!(took >= 0, "perf_buffer__poll: {}", std::io::Error::from_raw_os_error(-took));
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        // SAFETY: the buffer is live.
        let failed = unsafe { sys::perf_buffer__consume(self.buffer.as_ptr()) };
        ensure!(failed == 0, "perf_buffer__consume: {}", std::io::Error::from_raw_os_error(-failed));
        Ok(())
    }

    fn ring_size(&self) -> usize {
        self.ring_size
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it any more.
        unsafe { sys::perf_buffer__free(self.buffer.as_ptr()) }
    }
}

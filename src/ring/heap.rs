//! A ring's memory where no kernel is, and the side that writes it.
#![allow(unsafe_code)]
// JUSTIFICATION: two threads share this memory as the kernel and we share a ring, and only raw pointers can say
// so. It is the mock's alone: no build without the feature `test-utils` has it.

use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{mapping::distance, sys::Parts};

/// A ring's memory: the data are an allocation of their own, so that AddressSanitizer and Miri see their bounds.
pub(super) struct Heap {
    data_head: AtomicU64,
    data_tail: AtomicU64,
    data: Box<[UnsafeCell<u64>]>,
}

// SAFETY: the two positions are atomics; the data is written only outside `tail..head` and read only inside it,
// and who owns a byte changes hands by release and acquire of the positions.
unsafe impl Sync for Heap {}
// SAFETY: plain memory.
unsafe impl Send for Heap {}

impl Heap {
    /// `size` is a power of two, at least 8.
    pub(super) fn new(size: usize, start: u64) -> Arc<Heap> {
        assert!(size.is_power_of_two() && size >= 8, "a ring of {size} bytes is not 2^n");
        Arc::new(Heap {
            data_head: AtomicU64::new(start),
            data_tail: AtomicU64::new(start),
            data: (0..size / 8).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    /// `data_head`, `data_tail` and the data, good as long as `self` is.
    pub(super) fn parts(&self) -> Parts {
        let not_null = "memory of our own is not at null";
        Parts {
            data_head: NonNull::new(self.data_head.as_ptr()).expect(not_null),
            data_tail: NonNull::new(self.data_tail.as_ptr()).expect(not_null),
            data: NonNull::new(self.data()).expect(not_null),
            size: self.data.len() * 8,
        }
    }

    fn data(&self) -> *mut u8 {
        self.data.as_ptr().cast_mut().cast::<u8>()
    }

    /// Copies `bytes` to `position` on, round the end as often as need be.
    ///
    /// # Safety
    ///
    /// Nobody else may read or write these bytes meanwhile.
    unsafe fn write(&self, mut position: u64, mut bytes: &[u8]) {
        let size = self.data.len() * 8;
        while !bytes.is_empty() {
            let offset = (position & (size as u64 - 1)) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(size - offset));
            // SAFETY: `offset + now.len() <= size`, inside the allocation, and ours alone by the contract.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), self.data().add(offset), now.len()) };
            position = position.wrapping_add(now.len() as u64);
            bytes = later;
        }
    }
}

/// The side that writes a heap ring: its one producer.
pub(super) struct Writer {
    heap: Arc<Heap>,
    head: u64,
}

impl Writer {
    pub(super) fn new(heap: Arc<Heap>, head: u64) -> Writer {
        Writer { heap, head }
    }

    /// Bytes of data.
    pub(super) fn size(&self) -> usize {
        self.heap.data.len() * 8
    }

    /// The position that is written next.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Bytes that are free: none where the positions are damaged.
    pub(super) fn room(&self) -> usize {
        // Acquire: the reader is done with what it gave back.
        let tail = self.heap.data_tail.load(Ordering::Acquire);
        self.size().saturating_sub(usize::try_from(distance(tail, self.head)).unwrap_or(usize::MAX))
    }

    /// The data as they are now.
    pub(super) fn memory(&self) -> Vec<u8> {
        // SAFETY: the whole allocation, whose bytes are initialised; it is written through `&mut self` only, and
        // the reader on the other side does no more than read.
        unsafe { std::slice::from_raw_parts(self.heap.data(), self.size()) }.to_vec()
    }

    /// Writes `bytes` at `ahead` bytes from the head; they must be free.
    pub(super) fn write(&mut self, ahead: usize, bytes: &[u8]) {
        assert!(ahead.saturating_add(bytes.len()) <= self.room(), "a write over unread records");
        // SAFETY: the bytes lie beyond the head and before `tail + size`: the reader lends only up to a head
        // that was published, and has given these back; `&mut self` is the only producer.
        unsafe { self.heap.write(self.head.wrapping_add(ahead as u64), bytes) };
    }

    /// Steps the head over `len` bytes, which must be free, and publishes it.
    pub(super) fn step(&mut self, len: usize) {
        assert!(len <= self.room(), "a step over unread records");
        self.publish(self.head.wrapping_add(len as u64));
    }

    /// Writes `bytes` at `position` and publishes `head`, whatever they are.
    ///
    /// # Safety
    ///
    /// The reader of `heap` lends nothing now, nor before its next snapshot.
    pub(super) unsafe fn damage(&mut self, heap: &Arc<Heap>, position: u64, bytes: &[u8], head: u64) {
        assert!(Arc::ptr_eq(heap, &self.heap), "the reader of another ring");
        // SAFETY: the reader reads nothing, by the contract, and `&mut self` is the only producer.
        unsafe { self.heap.write(position, bytes) };
        self.publish(head);
    }

    fn publish(&mut self, head: u64) {
        self.head = head;
        // Release: the records below are whole.
        self.heap.data_head.store(head, Ordering::Release);
    }
}

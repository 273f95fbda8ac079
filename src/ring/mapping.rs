//! One ring's memory: the two moving fields of its mmap page, and the bytes between them.
#![allow(unsafe_code)]
// JUSTIFICATION: the kernel (or the mock's producer) writes this memory while we hold it. Only raw pointers and
// atomics can say that; everything above gets plain slices of the part that nobody writes.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

#[cfg(any(test, feature = "test-utils"))]
use super::heap::{Heap, Writer};
use super::{
    array::Reading,
    sys::{Map, Parts},
};
use crate::error::Result;

/// `data_tail` and `data_head`, both 64 bits wide in the mmap page and both only ever growing; a 32-bit
/// kernel, though, counts in an `unsigned long` (`struct perf_buffer`, `kernel/events/internal.h`), so there
/// only the low half of a difference means anything. A ring is smaller than that half.
#[inline]
pub(super) fn distance(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from);
    if cfg!(target_pointer_width = "32") { difference & 0xffff_ffff } else { difference }
}

/// What keeps the memory alive.
#[allow(dead_code)] // kept, not read
enum Backing {
    /// A perf event's mapping.
    Mmap(Map),
    /// Heap memory, shared with the mock's producer: its bounds are seen by AddressSanitizer and Miri.
    #[cfg(any(test, feature = "test-utils"))]
    Heap(std::sync::Arc<Heap>),
}

/// The memory of one ring, and which part of it is ours to read: `tail..head`, by the last snapshot.
pub(super) struct Mapping {
    _backing: Backing,
    data_head: NonNull<u64>,
    data_tail: NonNull<u64>,
    data: NonNull<u8>,
    /// Bytes of data: a power of two, at least 8.
    size: usize,
    /// Of a ring that is read by copy: what was unread at the last snapshot, each byte at its offset.
    copy: Option<Box<[u8]>>,
    /// What stands in `data_tail`.
    tail: u64,
    /// `data_head` at the last snapshot, or `tail` where that cannot be: `distance(tail, head) <= size`.
    head: u64,
}

// SAFETY: the pointers are into `_backing`, which moves with them; both backings may be used from any thread
// (a mapping belongs to the process, and `Heap` is Sync).
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` only reads: its own fields, and bytes that nobody writes while they are lent (see `unread`).
unsafe impl Sync for Mapping {}

/// The memory of a ring in overwrite mode. Nothing of it is ever lent, since the kernel asks nobody before it writes.
pub(super) struct Window {
    _map: Map,
    data_head: NonNull<u64>,
    data: NonNull<u8>,
    size: usize,
}

// SAFETY: as of `Mapping`; all accesses are atomic or volatile reads.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Takes over a perf event's mapping, read only.
    pub(super) fn new(map: Map) -> Result<Window> {
        let Parts { data_head, data, size, .. } = map.parts()?;
        Ok(Window { _map: map, data_head, data, size })
    }

    /// `data_head` now: of a ring that is written backward, the position of the newest record.
    pub(super) fn head(&self) -> u64 {
        // SAFETY: the field lies in `_map`, 8-aligned, as long as `self`; an atomic load writes nothing, which a
        // mapping that is read only asks for. Acquire as in `Mapping::snapshot`.
        unsafe { AtomicU64::from_ptr(self.data_head.as_ptr()) }.load(Ordering::Acquire)
    }

    /// The data as they are now.
    pub(super) fn copy(&self) -> Vec<u8> {
        let words = (0..self.size / 8).flat_map(|word| {
            // SAFETY: eight aligned bytes below `size`, which `_map` keeps alive. The kernel may be writing them: the
            // read is volatile, once, and any bytes make a u64.
            unsafe { self.data.cast::<u64>().add(word).read_volatile() }.to_ne_bytes()
        });
        let mut bytes = Vec::with_capacity(self.size);
        bytes.extend(words);
        bytes
    }
}

/// `data_head` says what cannot be.
pub(super) struct Impossible {
    pub head: u64,
    /// From `data_tail`, 64 bits or 32.
    pub distance: u64,
}

impl Mapping {
    /// Takes over a perf event's mapping: one mmap page, then the data.
    pub(super) fn new(map: Map, reading: Reading) -> Result<Mapping> {
        let parts = map.parts()?;
        let mut mapping = Mapping::of(Backing::Mmap(map), parts, 0).read(reading);
        mapping.tail = mapping.moving(mapping.data_tail).load(Ordering::Relaxed);
        mapping.head = mapping.tail;
        Ok(mapping)
    }

    /// A ring of `size` bytes on the heap, and the side that writes it. `size` is a power of two, at least 8.
    #[cfg(any(test, feature = "test-utils"))]
    pub(super) fn heap(size: usize, start: u64) -> (Mapping, Writer) {
        let heap = Heap::new(size, start);
        let parts = heap.parts();
        let writer = Writer::new(std::sync::Arc::clone(&heap), start);
        (Mapping::of(Backing::Heap(heap), parts, start), writer)
    }

    fn of(backing: Backing, parts: Parts, tail: u64) -> Mapping {
        let Parts { data_head, data_tail, data, size } = parts;
        Mapping { _backing: backing, data_head, data_tail, data, size, copy: None, tail, head: tail }
    }

    /// The same ring, read in this way from its next snapshot on.
    pub(super) fn read(mut self, reading: Reading) -> Mapping {
        self.head = self.tail;
        self.copy = (reading == Reading::ByCopy).then(|| vec![0; self.size].into_boxed_slice());
        self
    }

    /// Bytes of data.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Where reading goes on from: what stands in `data_tail`.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// `data_head` at the last snapshot.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Loads `data_head`, once, and lends everything up to it from now on. A head that cannot be lends
    /// nothing: more than `size` from the tail, or not at a record's alignment of 8.
    #[inline]
    pub(super) fn snapshot(&mut self) -> Result<(), Impossible> {
        // Acquire: pairs with the write barrier before `data_head` is stored (`perf_output_put_handle`,
        // kernel/events/ring_buffer.c, its A and B), so the records below it are seen whole.
        let head = self.moving(self.data_head).load(Ordering::Acquire);
        let unread = distance(self.tail, head);
        if unread > self.size as u64 || !(head | self.tail).is_multiple_of(8) {
            self.head = self.tail;
            return Err(Impossible { head, distance: unread });
        }
        self.head = head;
        self.copy_unread();
        Ok(())
    }

    /// Copies `tail..head` word by word, where the ring is read by copy: both are multiples of eight.
    fn copy_unread(&mut self) {
        let Some(copy) = &mut self.copy else { return };
        for word in 0..distance(self.tail, self.head) / 8 {
            let offset = (self.tail.wrapping_add(8 * word) & (self.size as u64 - 1)) as usize;
            // SAFETY: `offset` is a multiple of eight below `size`, itself one of eight, so eight aligned bytes lie
            // there (the data begin at a page, or at a u64). No reference to them is ever made while there is a
            // copy. Somebody may write them at this moment (a record that runs over its reservation): the read is
            // volatile, once, and any bytes make a u64.
            let word = unsafe { self.data.add(offset).cast::<u64>().read_volatile() };
            copy[offset..offset + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// `data_head` at this moment, to compare and no more: nothing is lent by it.
    pub(super) fn look(&self) -> u64 {
        self.moving(self.data_head).load(Ordering::Relaxed)
    }

    /// The bytes from `position` to the head, in two pieces: up to the end of the data, and from its start.
    /// None where `position` is not in `tail..head`.
    #[inline]
    pub(super) fn unread(&self, position: u64) -> [&[u8]; 2] {
        let len = distance(position, self.head);
        if len > distance(self.tail, self.head) {
            return [&[], &[]];
        }
        let offset = (position & (self.size as u64 - 1)) as usize;
        let len = len as usize;
        let first = len.min(self.size - offset);
        if let Some(copy) = &self.copy {
            return [&copy[offset..offset + first], &copy[..len - first]];
        }
        // SAFETY: `offset < size`, `first <= size - offset` and `len - first <= offset <= size`, since
        // `len <= distance(tail, head) <= size` by `snapshot`: both pieces lie in the `size` bytes at `data`,
        // which `_backing` keeps alive as long as `self`. Their bytes are initialised (zeroed at the start).
        // Nobody writes them while they are lent: they are in `tail..head`, and a producer writes only what
        // `data_tail` has given back (`__perf_output_begin`, kernel/events/ring_buffer.c, checks CIRC_SPACE
        // against `data_tail`; `Writer::write` does the same), while `data_tail` moves only by `commit` and
        // `give_up`, which take `&mut self`. The exception is a record above 65,516 raw bytes, which runs
        // over its reservation: nobody outputs one into a ring that is read by reference, which is what
        // `Array::bounded` asks for.
        unsafe {
            let piece = |offset, len| std::slice::from_raw_parts(self.data.add(offset).as_ptr(), len);
            [piece(offset, first), piece(0, len - first)]
        }
    }

    /// Stores `position`, which lies in `tail..=head`, to `data_tail`: the bytes below it are the producer's.
    #[inline]
    pub(super) fn commit(&mut self, position: u64) {
        assert!(
            distance(self.tail, position) <= distance(self.tail, self.head),
            "commit beyond the snapshot"
        );
        self.store_tail(position);
    }

    /// Gives up everything: stores `head` to `data_tail`, whatever it is.
    pub(super) fn give_up(&mut self, head: u64) {
        self.head = head;
        self.store_tail(head);
    }

    fn store_tail(&mut self, position: u64) {
        self.tail = position;
        // Release: our reads of the records are done before the kernel can see the bytes as free (its D, a
        // control dependency on `data_tail` before it writes, kernel/events/ring_buffer.c).
        self.moving(self.data_tail).store(position, Ordering::Release);
    }

    #[inline]
    fn moving(&self, field: NonNull<u64>) -> &AtomicU64 {
        // SAFETY: both fields lie in `_backing`, 8-aligned, as long as `self`; all our accesses to them are
        // atomic, and the kernel's are single loads and stores (READ_ONCE, WRITE_ONCE).
        unsafe { AtomicU64::from_ptr(field.as_ptr()) }
    }

    /// Writes `bytes` at `position`, whoever owns them, and `head` to `data_head`: damage, for tests.
    /// Lends nothing until the next snapshot.
    #[cfg(any(test, feature = "test-utils"))]
    pub(super) fn damage(&mut self, writer: &mut Writer, position: u64, bytes: &[u8], head: u64) {
        let Backing::Heap(heap) = &self._backing else { return };
        self.head = self.tail;
        // SAFETY: nothing is lent, as `self` is borrowed mutably and the snapshot taken back.
        unsafe { writer.damage(heap, position, bytes, head) };
    }
}

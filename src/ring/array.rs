//! A perf event array, whether its rings may be read by reference, and whether its slots are ours alone.
#![allow(unsafe_code)]
// JUSTIFICATION: what programs output into an array is not ours to check, and one kind of output makes lent bytes
// change under a reader. The promise that none does is made once, where an array is taken up; an unsafe function
// is how Rust writes a promise.

use std::os::fd::BorrowedFd;

/// The descriptor of a `BPF_MAP_TYPE_PERF_EVENT_ARRAY`, with the promise of [`Array::bounded`] or without.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    fd: BorrowedFd<'a>,
    reading: Reading,
    ours: bool,
}

/// How the bytes of a ring are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As they lie in the ring.
    ByReference,
    /// Out of a copy of what was unread, made by volatile reads.
    ByCopy,
}

impl<'a> Array<'a> {
    /// Takes up an array whose programs are known: its rings are read by reference.
    ///
    /// # Safety
    ///
    /// As long as rings of a [`Set`](super::Set) are in its slots, no program outputs more than
    /// [`LARGEST_RAW`](super::size::LARGEST_RAW) bytes at once into it. The kernel computes a record's size in a
    /// u16 (`perf_prepare_sample`, kernel/events/core.c), so a larger output reserves too little and is copied
    /// over records that nobody has read yet: bytes that a reader holds by reference.
    pub unsafe fn bounded(array: BorrowedFd<'a>) -> Array<'a> {
        Array { fd: array, reading: Reading::ByReference, ours: true }
    }

    /// Takes up an array whose programs are somebody else's: whatever they output, each drain reads a copy of
    /// what was unread when it began. That costs a second ring's memory, and the copy.
    pub fn foreign(array: BorrowedFd<'a>) -> Array<'a> {
        Array { fd: array, reading: Reading::ByCopy, ours: true }
    }

    /// The same array, whose slots somebody else may fill as well: each gets its ring once and is not written again
    /// before it is emptied. Else a change of the wake rule ([`Set::set_prompt`](super::Set::set_prompt)) would
    /// take a slot back from whoever took it from us, and nobody would be told.
    #[must_use]
    pub fn shared(self) -> Array<'a> {
        Array { ours: false, ..self }
    }

    /// The descriptor.
    pub(super) fn fd(self) -> BorrowedFd<'a> {
        self.fd
    }

    /// Whether nobody else fills its slots.
    pub(super) fn ours(self) -> bool {
        self.ours
    }

    pub(super) fn reading(self) -> Reading {
        self.reading
    }
}

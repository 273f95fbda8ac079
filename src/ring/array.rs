//! A perf event array whose rings may be read by reference.
#![allow(unsafe_code)]
// JUSTIFICATION: what programs output into an array is not ours to check, and one kind of output makes lent bytes
// change under a reader. The promise that none does is made once, where an array is taken up; an unsafe function
// is how Rust writes a promise.

use std::os::fd::BorrowedFd;

/// The descriptor of a `BPF_MAP_TYPE_PERF_EVENT_ARRAY`, with the promise of [`Array::bounded`].
#[derive(Clone, Copy, Debug)]
pub struct Array<'a>(BorrowedFd<'a>);

impl<'a> Array<'a> {
    /// Takes up an array by its descriptor.
    ///
    /// # Safety
    ///
    /// As long as rings of a [`Set`](super::Set) are in its slots, no program outputs more than
    /// [`LARGEST_RAW`](super::size::LARGEST_RAW) bytes at once into it. The kernel computes a record's size in a
    /// u16 (`perf_prepare_sample`, kernel/events/core.c), so a larger output reserves too little and is copied
    /// over records that nobody has read yet: bytes that a reader holds by reference.
    pub unsafe fn bounded(array: BorrowedFd<'a>) -> Array<'a> {
        Array(array)
    }

    /// The descriptor.
    pub(super) fn fd(self) -> BorrowedFd<'a> {
        self.0
    }
}

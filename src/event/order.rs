//! Order: what the rings of all CPUs give, by time.
//!
//! A ring holds what its CPU wrote in the order in which room was reserved, which an NMI can make differ from the order
//! of times; rings are read in turn, so that what comes of two CPUs has no order at all. A [`Merge`] holds entries
//! until nothing older can come any more, and gives them by their times.
//!
//! **Guarantee.** What is given has times that never go down, but for what is told to be late: an entry that comes
//! after one that is younger was given. Entries of one time come in the order in which they were put in. Nothing is
//! held longer than until the position that [`Merge::advance`] is told, or than there is room: beyond
//! [`Merge::new`]'s bytes the oldest is given at once, and what then comes too late is told as such, never left out.
//! What has no time is given where it would have stood had it come with the last entry of its CPU.

use std::{cmp::Ordering, collections::BinaryHeap};

/// Entries by time, the oldest first.
#[derive(Debug)]
pub struct Merge<T> {
    heap: BinaryHeap<Held<T>>,
    /// How many entries were ever put in: what breaks ties.
    serial: u64,
    /// Up to which time everything is known.
    known: u64,
    /// The time of the youngest that was given.
    given: u64,
    bytes: usize,
    most: usize,
    late: u64,
}

/// One entry.
#[derive(Debug)]
struct Held<T> {
    time: u64,
    serial: u64,
    bytes: usize,
    entry: T,
}

/// An entry as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The entry.
    pub entry: T,
    /// One that is younger was given before it.
    pub late: bool,
}

impl<T> Merge<T> {
    /// Nothing yet; where what is held has more than so many bytes, the oldest is given.
    pub fn new(most: usize) -> Merge<T> {
        Merge { heap: BinaryHeap::new(), serial: 0, known: 0, given: 0, bytes: 0, most, late: 0 }
    }

    /// Takes an entry of `time` that holds so many bytes.
    pub fn put(&mut self, time: u64, bytes: usize, entry: T) {
        self.serial += 1;
        self.bytes += bytes;
        self.heap.push(Held { time, serial: self.serial, bytes, entry });
    }

    /// All that is as old as `time` or older has been put in: it can be given.
    pub fn advance(&mut self, time: u64) {
        self.known = self.known.max(time);
    }

    /// Whether there is no room to hold the oldest any longer.
    pub fn is_full(&self) -> bool {
        self.bytes > self.most
    }

    /// The oldest, if nothing older can come or there is no room to hold it.
    pub fn take(&mut self) -> Option<Given<T>> {
        let oldest = self.heap.peek()?;
        if oldest.time > self.known && !self.is_full() {
            return None;
        }
        let Held { time, bytes, entry, .. } = self.heap.pop()?;
        self.bytes -= bytes;
        let late = time < self.given;
        self.late += u64::from(late);
        self.given = self.given.max(time);
        Some(Given { entry, late })
    }

    /// How many entries were given after one that is younger.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// How many entries are held.
    pub fn held(&self) -> usize {
        self.heap.len()
    }

    /// The bytes of what is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The oldest is the greatest, as a heap gives that first.
impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Held<T>) -> Ordering {
        (other.time, other.serial).cmp(&(self.time, self.serial))
    }
}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Held<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Held<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Held<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<T>(merge: &mut Merge<T>) -> Vec<Given<T>> {
        std::iter::from_fn(|| merge.take()).collect()
    }

    #[test]
    fn nothing_is_given_beyond_what_is_known() {
        let mut merge = Merge::new(1 << 20);
        [5, 3, 9, 3].into_iter().zip("abcd".chars()).for_each(|(time, entry)| merge.put(time, 1, entry));
        assert_eq!(all(&mut merge), []);
        merge.advance(5);
        let given: String = all(&mut merge).into_iter().map(|g| g.entry).collect();
        assert_eq!((given.as_str(), merge.held()), ("bda", 1));
        merge.put(4, 1, 'e');
        assert_eq!(all(&mut merge), [Given { entry: 'e', late: true }]);
        merge.advance(3);
        assert_eq!(all(&mut merge), [], "what is known does not become less");
        merge.advance(u64::MAX);
        assert_eq!(all(&mut merge), [Given { entry: 'c', late: false }]);
        assert_eq!((merge.late(), merge.bytes()), (1, 0));
    }

    #[test]
    fn what_there_is_no_room_for_is_given_early_and_told_when_it_was_wrong() {
        let mut merge = Merge::new(10);
        (0..5).for_each(|time| merge.put(10 + time, 4, time));
        let early: Vec<_> = all(&mut merge).into_iter().map(|g| g.entry).collect();
        assert_eq!((early, merge.bytes()), (vec![0, 1, 2], 8));
        merge.put(1, 4, 9);
        assert_eq!(all(&mut merge), [Given { entry: 9, late: true }]);
        // One is held in any case only until it is asked for.
        let mut small = Merge::new(1);
        small.put(7, 100, 'x');
        assert_eq!(all(&mut small), [Given { entry: 'x', late: false }]);
    }
}

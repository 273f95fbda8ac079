//! The names that a type or a tracepoint gives to values and to bits.

/// Values with their names, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    entries: Vec<(u64, Box<str>)>,
}

/// The bits of a value that have names, and the rest.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    names: std::slice::Iter<'a, (u64, Box<str>)>,
    rest: u64,
}

impl Names {
    /// The most names that are kept: an enum of the kernel has fewer.
    pub const MOST: usize = 4096;

    /// Names by value. Of two names for one value the first counts.
    pub fn new(entries: impl IntoIterator<Item = (u64, Box<str>)>) -> Names {
        let mut names = Names::default();
        names.entries.extend(entries.into_iter().take(Names::MOST));
        names
    }

    /// True of no names.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each value with its name.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.entries.iter().map(|(value, name)| (*value, &**name))
    }

    /// The name of a value.
    pub fn of(&self, value: u64) -> Option<&str> {
        self.iter().find(|(v, _)| *v == value).map(|(_, name)| name)
    }

    /// The names of a value's bits, in the manner of the kernel's `trace_print_flags_seq`.
    pub fn bits(&self, value: u64) -> Bits<'_> {
        Bits { names: self.entries.iter(), rest: value }
    }

    /// The name of 0, where none of the bits that have names is set.
    pub fn clear(&self, value: u64) -> Option<&str> {
        let named = self.entries.iter().fold(0, |all, (mask, _)| all | mask);
        self.of(0).filter(|_| value & named == 0)
    }

    /// Whether the values are bits to be put together: powers of two, and 0. What counts up is no such thing.
    pub fn are_bits(&self) -> bool {
        let bits: Vec<u64> = self.entries.iter().map(|(v, _)| *v).filter(|v| *v != 0).collect();
        let apart = bits.iter().all(|b| b.is_power_of_two())
            && bits.iter().fold(0, |all, b| all | b).count_ones() as usize == bits.len();
        apart && bits.len() >= 2 && bits.iter().any(|b| *b > 2)
    }
}

impl<'a> Bits<'a> {
    /// The bits that no name stood for, once all names were asked for.
    pub fn rest(&self) -> u64 {
        self.rest
    }
}

impl<'a> Iterator for Bits<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest == 0 {
            return None;
        }
        let rest = self.rest;
        let (mask, name) = self.names.find(|(mask, _)| *mask != 0 && rest & mask == *mask)?;
        self.rest &= !mask;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entries: &[(u64, &str)]) -> Names {
        Names::new(entries.iter().map(|(v, n)| (*v, (*n).into())))
    }

    #[test]
    fn the_first_name_of_a_value_counts() {
        let n = names(&[(0, "A"), (1, "B"), (1, "C")]);
        assert_eq!((n.of(0), n.of(1), n.of(2)), (Some("A"), Some("B"), None));
    }

    #[test]
    fn bits_are_taken_in_order_and_the_rest_is_told() {
        // Two bits with a name of their own come before each by itself, as in the kernel's tables of GFP flags.
        let n = names(&[(0xc, "CD"), (1, "A"), (4, "C"), (8, "D"), (0, "none")]);
        let told = |value| {
            let mut bits = n.bits(value);
            let said: Vec<&str> = bits.by_ref().collect();
            (said.join("|"), bits.rest())
        };
        assert_eq!(told(0xd), ("CD|A".into(), 0));
        assert_eq!(told(0x25), ("A|C".into(), 0x20));
        assert_eq!(told(0x20), (String::new(), 0x20));
        assert_eq!(told(0), (String::new(), 0));
        assert_eq!((n.clear(0), n.clear(0x20), n.clear(1)), (Some("none"), Some("none"), None));
    }

    #[test]
    fn what_counts_up_is_no_set_of_bits() {
        assert!(names(&[(1, "A"), (2, "B"), (4, "C")]).are_bits());
        assert!(names(&[(0, "none"), (0x10, "A"), (0x400, "B")]).are_bits());
        assert!(!names(&[(0, "A"), (1, "B"), (2, "C")]).are_bits());
        assert!(!names(&[(1, "A"), (2, "B"), (3, "AB"), (4, "C")]).are_bits());
        assert!(!names(&[(4, "A"), (4, "B")]).are_bits());
        assert!(!names(&[(64, "A")]).are_bits());
        assert!(!names(&[]).are_bits());
    }
}

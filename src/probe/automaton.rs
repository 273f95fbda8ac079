//! A pattern with `*` and `?` as a bit-parallel automaton: one step a byte, no branch on data, no way back.

use super::spec::Piece;

/// The states are "the first i tokens have matched", a bit each; `*` is no token, but keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automaton {
    /// For each byte, the states it leads on from.
    pub next: Box<[u64; 256]>,
    /// The states that any byte leads back to: a `*` follows them.
    pub stay: u64,
    /// The final state.
    pub accept: u64,
}

impl Automaton {
    /// The most tokens.
    pub const TOKENS: usize = 63;

    /// The automaton of a pattern; `None` where it has more tokens than there are states.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Option<Automaton> {
        let mut next = Box::new([0; 256]);
        let (mut stay, mut state) = (0, 0);
        for piece in pieces {
            if piece == Piece::Any {
                stay |= 1 << state;
                continue;
            }
            if state == Automaton::TOKENS {
                return None;
            }
            match piece {
                Piece::Byte(byte) => next[usize::from(byte)] |= 1 << state,
                _ => next.iter_mut().for_each(|states| *states |= 1 << state),
            }
            state += 1;
        }
        Some(Automaton { next, stay, accept: 1 << state })
    }

    /// How many tokens it has: no shorter text can match.
    pub fn tokens(&self) -> usize {
        self.accept.trailing_zeros() as usize
    }
}

/// The pieces of a pattern in which nothing but `*` and `?` is special.
pub fn pieces(pattern: &str) -> impl Iterator<Item = Piece> {
    pattern.bytes().map(|byte| match byte {
        b'*' => Piece::Any,
        b'?' => Piece::One,
        byte => Piece::Byte(byte),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::glob;

    fn matches(pattern: &str, text: &str) -> bool {
        let automaton = Automaton::new(pieces(pattern)).unwrap();
        let step =
            |state, byte: u8| ((state & automaton.next[usize::from(byte)]) << 1) | (state & automaton.stay);
        text.bytes().fold(1, step) & automaton.accept != 0
    }

    #[test]
    fn it_matches_as_the_other_matcher_does() {
        let words = ["", "a", "b", "ab", "aab", "abb", "dd", "add", "daddy", "abababab", "kworker/0:1"];
        let patterns = [
            "",
            "*",
            "a",
            "?",
            "a*",
            "*a",
            "*a*",
            "a?b",
            "??",
            "*ab*ab*",
            "d*d",
            "a*b*b",
            "kworker/*",
            "**",
            "*?*",
        ];
        for pattern in patterns {
            for word in words {
                assert_eq!(matches(pattern, word), glob::matches(pattern, word), "{pattern} {word}");
            }
        }
    }

    #[test]
    fn what_has_too_many_tokens_is_none() {
        assert!(Automaton::new(pieces(&"x".repeat(63))).is_some());
        assert!(Automaton::new(pieces(&"x".repeat(64))).is_none());
    }
}

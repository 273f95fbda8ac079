//! What becomes of events that a sink has no room for, and how long one that was asked to block may.

use std::{
    fmt,
    num::NonZeroU32,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::Error;

/// What becomes of an event where there is no room for it. Whatever it is, it is counted, and told as a
/// [`Gap`](crate::event::Gap) at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// It waits for room, and with it the whole reader: rings fill up meanwhile, and what the kernel finds no room for
    /// is lost. A stop ends the wait within its bound.
    Block,
    /// It is dropped.
    #[default]
    DropNew,
    /// The oldest that wait are dropped to make room.
    DropOld,
    /// While all but the last of the room is taken, one in so many is kept there and the others are dropped.
    Sample(NonZeroU32),
}

impl fmt::Display for OnFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnFull::Block => f.write_str("block"),
            OnFull::DropNew => f.write_str("drop-new"),
            OnFull::DropOld => f.write_str("drop-old"),
            OnFull::Sample(n) => write!(f, "sample={n}"),
        }
    }
}

impl FromStr for OnFull {
    type Err = Error;

    /// `block`, `drop-new`, `drop-old`, `sample` (one in 100) or `sample=N`.
    fn from_str(word: &str) -> Result<OnFull, Error> {
        let (name, n) = word.split_once('=').map_or((word, None), |(name, n)| (name, Some(n)));
        Ok(match (name, n) {
            ("block", None) => OnFull::Block,
            ("drop-new", None) => OnFull::DropNew,
            ("drop-old", None) => OnFull::DropOld,
            ("sample", n) => OnFull::Sample(n.unwrap_or("100").parse().map_err(|_| {
                Error::usage(format!("'{word}': one event in how many is kept?"))
                    .with_help("sample=100 keeps one in a hundred")
            })?),
            _ => {
                return Err(Error::usage(format!(
                    "'{word}' is nothing that can be done where there is no room"
                ))
                .with_help("block, drop-new, drop-old, sample or sample=N"));
            }
        })
    }
}

/// Whether whoever runs the reader has asked it to stop: a sink that blocks looks at it while it does.
pub type Stopping = Arc<dyn Fn() -> bool + Send + Sync>;

/// Between two looks at whether a stop was asked for.
const LOOK: Duration = Duration::from_millis(10);

/// How long a sink may block: for ever, until a stop is asked for; from then on within its bound.
pub(super) struct Patience {
    stopping: Option<Stopping>,
    bound: Duration,
    deadline: Option<Instant>,
}

impl Patience {
    /// Where `stopping` says yes, so much longer.
    pub fn new(stopping: Option<Stopping>, bound: Duration) -> Patience {
        Patience { stopping, bound, deadline: None }
    }

    /// As long, for another who waits.
    pub fn another(&self) -> Patience {
        Patience { stopping: self.stopping.clone(), ..*self }
    }

    /// The run is ending: so much longer.
    pub fn ending(&mut self, bound: Duration) {
        self.bound = bound;
        self.deadline.get_or_insert(Instant::now() + bound);
    }

    /// The end of `bound` from now, or of what was left before.
    pub fn until(&self, bound: Duration) -> Instant {
        let until = Instant::now() + bound;
        self.deadline.map_or(until, |deadline| until.min(deadline))
    }

    /// How long to wait before asking again; `None` where there is no more time.
    pub fn left(&mut self) -> Option<Duration> {
        if self.deadline.is_none() && self.stopping.as_ref().is_some_and(|stopping| stopping()) {
            self.ending(self.bound);
        }
        let Some(deadline) = self.deadline else { return Some(LOOK) };
        let left = deadline.saturating_duration_since(Instant::now()).min(LOOK);
        (!left.is_zero()).then_some(left)
    }
}

/// Which events are kept where one in so many is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneIn {
    seen: u32,
}

impl OneIn {
    /// Whether this one is.
    pub fn keeps(&mut self, n: NonZeroU32) -> bool {
        self.seen += 1;
        let keeps = self.seen >= n.get();
        if keeps {
            self.seen = 0;
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let hundred = OnFull::Sample(NonZeroU32::new(100).unwrap());
        for on_full in [OnFull::Block, OnFull::DropNew, OnFull::DropOld, hundred] {
            assert_eq!(on_full.to_string().parse::<OnFull>().unwrap(), on_full);
        }
        assert_eq!("sample".parse::<OnFull>().unwrap(), hundred);
        for word in ["", "drop", "sample=0", "sample=x", "block=1", "spill"] {
            assert!(word.parse::<OnFull>().is_err(), "{word}");
        }
    }

    #[test]
    fn patience_ends_with_the_bound_of_a_stop() {
        let mut for_ever = Patience::new(None, Duration::ZERO);
        assert_eq!(for_ever.left(), Some(LOOK));
        for_ever.ending(Duration::ZERO);
        assert_eq!(for_ever.left(), None);
        let mut asked = Patience::new(Some(Arc::new(|| true)), Duration::from_millis(3));
        assert!(asked.left().is_some_and(|left| left <= Duration::from_millis(3)));
        std::thread::sleep(Duration::from_millis(4));
        assert_eq!(asked.left(), None);
        asked.ending(Duration::from_secs(9));
        assert_eq!(asked.left(), None, "the first bound holds");
    }

    #[test]
    fn one_in_three() {
        let (mut one_in, three) = (OneIn::default(), NonZeroU32::new(3).unwrap());
        let kept: Vec<bool> = (0..7).map(|_| one_in.keeps(three)).collect();
        assert_eq!(kept, [false, false, true, false, false, true, false]);
    }
}

//! The end of the processes that `-p` names: there is nothing more to come.

use std::time::{Duration, Instant};

use tracer::probe::Probes;

use super::say;

/// How often it is looked.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// Looks whether a process that is traced is left.
pub struct Followed {
    quiet: bool,
    last: Option<Instant>,
}

impl Followed {
    /// Of a run without a command, whose own end is another matter.
    pub fn new(quiet: bool, command: bool) -> Followed {
        Followed { quiet, last: (!command).then(Instant::now) }
    }

    /// True once the last of them has gone, which is said.
    pub fn gone(&mut self, probes: &Probes) -> bool {
        let Some(last) = &mut self.last else { return false };
        if last.elapsed() < INTERVAL {
            return false;
        }
        *last = Instant::now();
        let gone = probes.followed() == Some(false);
        if gone && !self.quiet {
            say("the last process of -p has ended");
        }
        gone
    }
}

//! The front end where nothing comes by itself: waits for the end, and looks at times in between.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::{Control, Poller};
use crate::Result;

/// The longest wait at a time.
const LONGEST: Duration = Duration::from_secs(3600);

/// Something that may be over by itself: how often it is looked, and whether it is.
pub struct Watch<'a> {
    /// How often `over` is called.
    pub every: Duration,
    /// Whether the wait ends.
    pub over: &'a mut dyn FnMut() -> bool,
}

/// Waits on the calling thread until `control` says stop, it is `until`, what is watched is over, or `look` says break.
/// `look` is called in this interval, where there is one, each time as late as it has to be: what was missed is not
/// made up for.
///
/// # Errors
///
/// Runtime, where polling fails; else what `look` said.
pub fn wait(
    control: &Control,
    until: Option<Instant>,
    interval: Option<Duration>,
    mut watch: Option<Watch<'_>>,
    mut look: impl FnMut() -> Result<ControlFlow<()>>,
) -> Result<()> {
    let poller = Poller::on(control)?;
    let after = |now: Instant| interval.and_then(|interval| now.checked_add(interval));
    let mut next = after(Instant::now());
    loop {
        let now = Instant::now();
        if control.stopping() || until.is_some_and(|until| until <= now) {
            return Ok(());
        }
        if watch.as_mut().is_some_and(|watch| (watch.over)()) {
            return Ok(());
        }
        if let Some(due) = next.filter(|due| *due <= now) {
            if look()?.is_break() {
                return Ok(());
            }
            // From when it was due, unless that has gone by again.
            next = after(due).filter(|next| *next > now).or_else(|| after(now));
        }
        let left = |at: Option<Instant>| at.map_or(LONGEST, |at| at.saturating_duration_since(now));
        let longest = watch.as_ref().map_or(LONGEST, |watch| watch.every);
        poller.wait(left(until).min(left(next)).min(longest), control)?;
    }
}

//! The blocking front end: runs a session on the calling thread until it is told to stop.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::{Control, Driver};
use crate::{ErrorKind, Result, ledger::Report, ring::Budget, session::Session, sink::Sink};

/// The most records of one pass, so that a stop is heard within milliseconds whatever comes in.
pub(super) const PASS: Budget =
    Budget { records: 1 << 16, bytes: u64::MAX, time: Some(Duration::from_millis(50)) };

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The final ledger.
    pub report: Report,
    /// What ended it, if that was the sink.
    pub error: Option<crate::Error>,
}

/// Runs `session` into `sink` until `control` or `tick` says stop, it is `until`, the limit is reached, or the sink
/// fails; then stops it in order. `tick` is called once a pass, at least every sweep.
///
/// Waits for rings, for `control`, and at most one sweep; the sink is flushed after every pass. One thread reads all
/// rings, whatever [`Session::reader_threads`] says: [`threads::run`](super::threads::run) has more.
///
/// # Errors
///
/// Runtime, where polling fails; the session is stopped in order even so.
pub fn run<S: Sink>(
    session: &mut Session,
    sink: &mut S,
    control: &Control,
    until: Option<Instant>,
    mut tick: impl FnMut(&mut Session, &mut S) -> ControlFlow<()>,
) -> Result<Ended> {
    let looped = turn(session, sink, control, until, &mut tick);
    let report = session.stop(sink)?;
    ended(session, control, looped, report)
}

/// How it ended, by what the loop said and the books.
pub(super) fn ended(
    session: &mut Session,
    control: &Control,
    looped: Result<()>,
    report: Report,
) -> Result<Ended> {
    control.tell_last(&report);
    match looped {
        // What failed to be written at the very end was not delivered either.
        Ok(()) => Ok(Ended { report, error: session.take_sink_error() }),
        Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::Sink) => {
            Ok(Ended { report, error: Some(e) })
        }
        Err(e) => Err(e),
    }
}

fn turn<S: Sink>(
    session: &mut Session,
    sink: &mut S,
    control: &Control,
    until: Option<Instant>,
    tick: &mut impl FnMut(&mut Session, &mut S) -> ControlFlow<()>,
) -> Result<()> {
    let mut driver = Driver::new(session, control)?;
    loop {
        driver.pass(session, PASS, sink)?;
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let over = left.is_zero() || session.limit_reached();
        if tick(session, sink).is_break() || control.stopping() || over {
            return Ok(());
        }
        driver.wait(left)?;
    }
}

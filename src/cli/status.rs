//! The status line: how fast, how much is missing, while a run goes on.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use tracer::{ledger::Report, session::Session, sink::Sink};

const INTERVAL: Duration = Duration::from_secs(1);

/// Writes a line over the last one on stderr, or whole lines in an interval of the user's.
pub struct Status {
    /// The line on a terminal: only where events do not go to one as well.
    line: bool,
    every: Option<Duration>,
    last: Instant,
    events: u64,
    shown: bool,
}

impl Status {
    pub fn new(quiet: bool, every: Option<Duration>, to_file: bool) -> Status {
        let apart = to_file || !std::io::stdout().is_terminal();
        let line = !quiet && every.is_none() && apart && std::io::stderr().is_terminal();
        Status { line, every, last: Instant::now(), events: 0, shown: false }
    }

    /// Shows the state if it is time to, or if `now`.
    pub fn tick(&mut self, session: &Session, sink: &dyn Sink, now: bool) {
        let due = match (self.every, self.line) {
            (Some(every), _) => self.last.elapsed() >= every,
            (None, line) => line && self.last.elapsed() >= INTERVAL,
        };
        if !(due || now) {
            return;
        }
        let report = session.report(sink);
        let text = self.text(&report);
        let mut err = std::io::stderr().lock();
        // Nobody may be reading stderr any more; events go on.
        let _ = if self.line && !now { write!(err, "\r{text}\x1b[K") } else { writeln!(err, "{text}") };
        self.shown |= self.line && !now;
    }

    fn text(&mut self, report: &Report) -> String {
        let events = report.decoded();
        let seconds = self.last.elapsed().as_secs_f64().max(1e-9);
        let rate = (events - self.events) as f64 / seconds;
        (self.events, self.last) = (events, Instant::now());
        let lag: u64 = report.cpus.iter().map(|c| c.emitted.saturating_sub(c.decoded)).sum();
        format!("{events} events, {rate:.0}/s, {} missing, {lag} in the rings", report.missing())
    }

    /// Leaves the terminal's line as it was found.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

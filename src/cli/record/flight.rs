//! `tracer record --flight`: rings that are written over until something asks for what they hold.
//!
//! ```text
//!   probe ─► overwrite rings ─────────────────── snapshot ─► FILE, whole at once
//!     └─► the same probe under --trigger's       ▲  SIGUSR2, the trigger, the command's failure, the end
//!         predicate ─► forward rings ─► an event ┘
//! ```
//!
//! Nothing reads the events of overwrite rings, so nobody could look for the trigger among them. It is a second session
//! of its own: the same specs, attached behind the first, under a predicate that the kernel evaluates; any event that
//! passes asks for a snapshot.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use tracer::{
    Error, Result,
    frontend::{Control, Pace, Poller},
    probe::{self, Spec, spec::Expr},
    ring::Budget,
    session::{self, Session},
    sink::{Count, Sink, perf_data::Snapshots},
};

use super::args::{Extent, Record};
use crate::cli::{
    plan,
    run::{self, Ready},
    say,
    signal::{self, Requests},
    status::Status,
    summary,
};

/// What is done at most once in it: a look at CPUs that came, and a snapshot that the trigger asks for.
const SECOND: Duration = Duration::from_secs(1);
/// The trigger's rings: what they lose asks for nothing that an event of them did not ask for already.
const TRIGGER_RING: usize = 64 << 10;
/// The most of the trigger's records in one pass.
const PASS: Budget = Budget { records: 1 << 16, bytes: u64::MAX, time: Some(Duration::from_millis(50)) };

/// What the rings are to hold, for a session.
pub fn of(args: &Record) -> Result<Option<session::Flight>> {
    let Some(extent) = args.flight else { return Ok(None) };
    if args.trace.count.is_some() {
        return Err(Error::usage("-n: with --flight events are not counted before a snapshot is taken")
            .with_help("leave -n out; --duration ends it after a time"));
    }
    let window = match extent {
        Extent::Bytes(_) => None,
        Extent::Time(window) => Some(window),
    };
    Ok(Some(session::Flight { window }))
}

/// The size of a ring, where that is what was typed.
pub fn ring(args: &Record) -> Option<usize> {
    match args.flight {
        Some(Extent::Bytes(bytes)) => usize::try_from(bytes).ok(),
        _ => None,
    }
}

/// The session of the trigger. Specs whose events do not have its fields have no part in it.
pub fn trigger(args: &Record, ready: &Ready) -> Result<Option<Session>> {
    let Some(text) = &args.trigger else { return Ok(None) };
    let expr: Expr = text.parse()?;
    let specs: Vec<Spec> = ready.specs.iter().map(|spec| under(spec, &expr)).collect();
    let mut found = Vec::new();
    let mut refused = None;
    for spec in &specs {
        match probe::find(spec) {
            Ok(one) => found.push(one),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let count = found.iter().map(|found| found.each().len()).sum();
    let mut options = plan::options(&args.probes, &args.trace, count, ready.child)?;
    options.rings.size = options.rings.size.min(TRIGGER_RING);
    let mut session = Session::prepare(options)?;
    for found in &found {
        match session.attach_found(found, &mut |_, _| {}) {
            Ok(outcome) => {
                refused = refused.or(outcome.refused.into_iter().next().map(|r| r.why).map(Error::usage))
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if session.probes().attached().is_empty() => Err(error),
        Some(error) if !args.trace.quiet => {
            say(&format!("--trigger: not every SPEC has a part in it: {error}"));
            Ok(Some(session))
        }
        _ => Ok(Some(session)),
    }
}

/// The spec's events that meet the trigger as well.
fn under(spec: &Spec, trigger: &Expr) -> Spec {
    let predicate = match spec.predicate.clone() {
        Some(own) => Expr::And(vec![own, trigger.clone()]),
        None => trigger.clone(),
    };
    // Nobody looks at its fields.
    Spec { predicate: Some(predicate), fields: Some(Vec::new()), ..spec.clone() }
}

/// What is looked at.
struct Watch<'a> {
    args: &'a Record,
    session: &'a mut Session,
    trigger: Option<Session>,
    heard: Count,
    /// How many of the trigger's events were answered.
    answered: u64,
    taken: Option<Instant>,
    sink: Snapshots,
}

/// Runs it to its end.
pub fn run(args: &Record, mut ready: Ready, sink: Snapshots) -> Result<ExitCode> {
    let trigger = trigger(args, &ready)?;
    let requests = signal::listen(ready.control.clone(), true)?;
    let running = (ready.begin)()?;
    let mut watch = Watch {
        args,
        session: &mut ready.session,
        trigger,
        heard: Count::default(),
        answered: 0,
        taken: None,
        sink,
    };
    let looked = watch.turn(&ready.control, &requests);
    // What it met in the last moment is heard at its end.
    let wrong = watch.end_trigger()?;
    let why = match running.as_ref().and_then(|running| running.status()) {
        Some(status) if !status.success() => Some(format!("the command's failure ({status})")),
        Some(_) => (watch.heard.events() > watch.answered).then(|| "the trigger".into()),
        None => Some("the end".into()),
    };
    let looked = looked.and_then(|()| why.map_or(Ok(()), |why| watch.take(&why)));
    let report = watch.session.stop(&mut watch.sink)?;
    let command = running.and_then(|running| running.finish());
    let code = run::finish(&args.trace, &report, looked.err(), command);
    Ok(wrong.filter(|_| code == ExitCode::SUCCESS).unwrap_or(code))
}

impl Watch<'_> {
    /// Waits for what asks for a snapshot, and takes it, until it is over.
    fn turn(&mut self, control: &Control, requests: &Requests) -> Result<()> {
        let mut status = Status::new(self.args.trace.quiet, self.args.trace.stats, true);
        let until = self.args.trace.duration.and_then(|d| Instant::now().checked_add(d));
        let mut poller = Poller::on(control)?;
        let mut pace = self.trigger.as_ref().map(|trigger| Pace::new(trigger.rings()));
        loop {
            let mut wait = SECOND;
            let mut more = false;
            // Nothing of it is read, but CPUs that came are given rings.
            self.session.drain(Budget::ALL, &mut self.sink)?;
            if let (Some(trigger), Some(pace)) = (&mut self.trigger, &mut pace) {
                poller.register(trigger.rings(), trigger.generation(), control)?;
                let drained = trigger.drain(PASS, &mut self.heard)?;
                pace.count(&drained, |prompt| trigger.set_prompt(prompt))?;
                (more, wait) = (drained.more, pace.sweep());
            }
            // One of each may have come.
            let asked = requests.take_rotate() | requests.take_reopen();
            let hold = self.taken.map_or(Duration::ZERO, |at| SECOND.saturating_sub(at.elapsed()));
            if asked {
                self.take("a signal")?;
            } else if self.heard.events() > self.answered {
                if hold.is_zero() {
                    self.take("the trigger")?;
                }
                wait = wait.min(hold);
            }
            status.tick(self.session, &self.sink, requests.take_stats());
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if control.stopping() || left.is_zero() {
                status.clear();
                return Ok(());
            }
            if !more {
                poller.wait(wait.min(left), control)?;
            }
        }
    }

    /// Takes one, into a file that is whole then.
    fn take(&mut self, why: &str) -> Result<()> {
        // What meets the trigger from here on asks for another: it may be in the rings too late for this one.
        self.answered = self.heard.events();
        self.taken = Some(Instant::now());
        self.sink.begin()?;
        self.session.header(&mut self.sink)?;
        let taken = self.session.snapshot(&mut self.sink);
        let held = self.sink.end(&self.session.report(&self.sink));
        let (covered, held) = (taken?.covered, held?);
        if self.args.trace.quiet {
            return Ok(());
        }
        let mut line = format!("snapshot: {}: {} events, on {why}", self.sink.name(), held.events);
        if held.overwritten > 0 {
            let whole = held.last.saturating_sub(held.whole_since) as f64 / 1e9;
            line += &format!("; {} overwritten before, whole over its last {whole:.6} s", held.overwritten);
            if let Some(Extent::Time(window)) = self.args.flight
                && whole < window.as_secs_f64()
            {
                line += " (for more, larger rings: -m)";
            }
        }
        if !covered {
            line += "; the rings were paused meanwhile, as slots cannot be written after --user";
        }
        say(&line);
        Ok(())
    }

    /// Stops the trigger; the exit code of books of its own that do not balance.
    fn end_trigger(&mut self) -> Result<Option<ExitCode>> {
        let Some(mut trigger) = self.trigger.take() else { return Ok(None) };
        let report = trigger.stop(&mut self.heard)?;
        if !self.args.trace.quiet {
            say(&format!("trigger: met {} times, {} more missing", report.events(), report.missing()));
        }
        if report.balanced() && !self.args.trace.verbose {
            return Ok(None);
        }
        // Nobody may be reading stderr any more; the code still tells.
        let _ = summary::write(&mut anstream::stderr().lock(), &report);
        Ok((!report.balanced()).then_some(ExitCode::from(crate::cli::exit::LOSS)))
    }
}

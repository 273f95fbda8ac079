//! Attaching what was asked for, with a word on each, and what `--missing` says of what cannot be.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use tracer::{
    Error, ErrorKind, Result,
    probe::{self, Attached, Found, Outcome, Provider, Refusal, Spec},
    session::Session,
};

use super::{args::Missing, complain, say};

/// How long attaching may take before a line says how far it is.
const PATIENCE: Duration = Duration::from_millis(300);

/// What is said, and what is put up with.
#[derive(Clone, Copy)]
pub struct Manner {
    /// What becomes of what cannot be attached.
    pub missing: Missing,
    /// Say nothing but what is wrong.
    pub quiet: bool,
    /// Say more.
    pub verbose: bool,
}

/// Attaching the specs of one command.
pub struct Attaching {
    manner: Manner,
    /// What could not be attached was all for want of what this host has or allows.
    hosts_fault: bool,
}

impl Attaching {
    /// As the arguments say.
    pub fn new(manner: Manner) -> Attaching {
        Attaching { manner, hosts_fault: true }
    }

    /// All that the specs match.
    pub fn find(&mut self, specs: &[Spec]) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        for spec in specs {
            let since = Instant::now();
            match probe::find(spec) {
                Ok(found) => {
                    if self.manner.verbose && found.is_pattern() {
                        let time = since.elapsed().as_secs_f64();
                        say(&format!("{spec}: {} found in {time:.3} s", found.each().len()));
                    }
                    all.push(found);
                }
                Err(error) => self.missing(error)?,
            }
        }
        if all.is_empty() { Err(self.none()) } else { Ok(all) }
    }

    /// Attaches all of it, and says how, unless quiet.
    pub fn attach(&mut self, session: &mut Session, all: &[Found]) -> Result<()> {
        let mut whole = true;
        for found in all {
            let attach = |progress: &mut dyn FnMut(usize, usize)| {
                let outcome = session.attach_found(found, progress)?;
                Ok((session.probes().attached()[outcome.attached.clone()].to_vec(), outcome))
            };
            let attached = self.one(found, attach)?;
            whole &= attached;
            if attached && found.spec().provider == Provider::Object {
                told_of_object(self.manner, session, found.spec());
            }
        }
        if session.schemas().next().is_none() {
            return Err(self.none());
        }
        // What an object that is missing would have had is not known.
        if whole { session.check_objects() } else { Ok(()) }
    }

    /// Attaches what was found of one spec by `attach`, which gives what came of it; false where it is missing, and that
    /// is put up with.
    pub fn one(
        &mut self,
        found: &Found,
        attach: impl FnOnce(&mut dyn FnMut(usize, usize)) -> Result<(Vec<Attached>, Outcome)>,
    ) -> Result<bool> {
        let mut progress = Progress::new(self.manner.quiet, found.spec());
        let since = Instant::now();
        let outcome = attach(&mut |done, all| progress.show(done, all));
        progress.clear();
        match outcome {
            Err(error) => self.missing(error).map(|()| false),
            Ok((attached, outcome)) => {
                self.refused(found, &outcome)?;
                told(self.manner, found, &attached, since.elapsed());
                Ok(true)
            }
        }
    }

    /// That nothing is left to trace.
    pub fn none(&self) -> Error {
        let kind = if self.hosts_fault { ErrorKind::Precondition } else { ErrorKind::Attach };
        Error::new(kind, "none of the probes could be attached")
    }

    fn missing(&mut self, error: Error) -> Result<()> {
        self.hosts_fault &= error.kind() == ErrorKind::Precondition;
        match self.manner.missing {
            Missing::Error => return Err(error),
            Missing::Warn => complain(&error),
            Missing::Ignore => {}
        }
        Ok(())
    }

    /// What a pattern matches and could not be attached is missing too.
    fn refused(&mut self, found: &Found, outcome: &Outcome) -> Result<()> {
        if outcome.refused.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{}: cannot attach: {} of {} that match",
            found.spec(),
            outcome.refused.len(),
            outcome.refused.len() + outcome.attached.len()
        );
        let error = Error::new(ErrorKind::Attach, text);
        let list = by_reason(&outcome.refused, self.manner.verbose);
        let missing = self.manner.missing;
        self.missing(match missing {
            Missing::Error => {
                error.with_help(format!("{list}\nto trace the others: --missing warn, or ignore"))
            }
            _ => error.with_help(list),
        })
    }
}

/// Says what became of an object's programs, and how its events are decoded.
fn told_of_object(manner: Manner, session: &Session, spec: &Spec) {
    if manner.quiet {
        return;
    }
    session.programs_of(spec).iter().for_each(|line| say(&format!("{spec}: {line}")));
    let name = spec.to_string();
    for feed in session.feeds().filter(|f| f.spec == name) {
        say(&format!("{spec}: '{}' is read: {}", feed.map, feed.how));
    }
}

/// The refused by their reasons, the first names of each.
fn by_reason(refused: &[Refusal], all: bool) -> String {
    const NAMES: usize = 4;
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    refused.iter().for_each(|r| reasons.entry(&r.why).or_default().push(&r.name));
    let line = |(why, names): (&&str, &Vec<&str>)| {
        let shown = if all { names.len() } else { NAMES.min(names.len()) };
        let more = if shown < names.len() { ", …" } else { "" };
        format!("{} {why}: {}{more}", names.len(), names[..shown].join(", "))
    };
    reasons.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn told(manner: Manner, found: &Found, attached: &[Attached], time: Duration) {
    let Some(first) = attached.first().filter(|_| !manner.quiet) else { return };
    let why = match first.passed_over.as_slice() {
        [] if found.spec().provider == Provider::Syscall => " (the hook that costs least)".into(),
        [] => String::new(),
        reasons => format!(" ({})", reasons.join("; ")),
    };
    let time = if manner.verbose { format!(", in {:.3} s", time.as_secs_f64()) } else { String::new() };
    if !found.is_pattern() {
        return say(&format!("{}: {}{why}{time}", found.spec(), first.how));
    }
    let mut ways: Vec<(&str, usize)> = Vec::new();
    let shared = found.shares_programs();
    for one in attached {
        let how = if shared { &*one.how } else { "one program each" };
        match ways.iter_mut().find(|(known, _)| *known == how) {
            Some((_, n)) => *n += 1,
            None => ways.push((how, 1)),
        }
    }
    let ways: Vec<String> = ways.iter().map(|(how, n)| format!("{n} by {how}")).collect();
    say(&format!("{}: {}{why}{time}", found.spec(), ways.join(", ")));
}

/// A line on a terminal that says how far a long attachment is.
struct Progress<'a> {
    spec: &'a Spec,
    since: Instant,
    shown: bool,
    silent: bool,
}

impl Progress<'_> {
    fn new(quiet: bool, spec: &Spec) -> Progress<'_> {
        let silent = quiet || !std::io::stderr().is_terminal();
        Progress { spec, since: Instant::now(), shown: false, silent }
    }

    fn show(&mut self, done: usize, all: usize) {
        if self.silent || self.since.elapsed() < PATIENCE {
            return;
        }
        self.since = Instant::now();
        self.shown = true;
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r{}: {done} of {all} attached\x1b[K", self.spec).and_then(|()| err.flush());
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

//! Attaching what was asked for, with a word on each, and what `--missing` says of what cannot be.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use tracer::{
    Error, ErrorKind, Result,
    probe::{self, Attached, Found, Outcome, Provider, Refusal, Spec},
};

use super::{
    args::{Manner, Missing},
    complain, say,
};

/// How long attaching may take before a line says how far it is.
const PATIENCE: Duration = Duration::from_millis(300);

/// All that the specs match.
pub fn find(manner: &Manner, specs: &[Spec]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for spec in specs {
        let since = Instant::now();
        match probe::find(spec) {
            Ok(found) => {
                if manner.verbose && found.is_pattern() {
                    let time = since.elapsed().as_secs_f64();
                    say(&format!("{spec}: {} found in {time:.3} s", found.each().len()));
                }
                all.push(found);
            }
            Err(error) => missing(manner, error)?,
        }
    }
    Ok(all)
}

/// Attaches all of it by `attach`, which gives what came of it, and says how, unless quiet.
pub fn attach(
    manner: &Manner,
    all: &[Found],
    mut attach: impl FnMut(&Found, &mut dyn FnMut(usize, usize)) -> Result<(Vec<Attached>, Outcome)>,
) -> Result<()> {
    let mut none = true;
    for found in all {
        let mut progress = Progress::new(manner.quiet, found.spec());
        let since = Instant::now();
        let outcome = attach(found, &mut |done, all| progress.show(done, all));
        progress.clear();
        match outcome {
            Err(error) => missing(manner, error)?,
            Ok((attached, outcome)) => {
                none &= attached.is_empty();
                refused(manner, found, &outcome)?;
                told(manner, found, &attached, since.elapsed());
            }
        }
    }
    match none {
        true => Err(Error::new(ErrorKind::Attach, "none of the probes could be attached")),
        false => Ok(()),
    }
}

fn missing(manner: &Manner, error: Error) -> Result<()> {
    match manner.missing {
        Missing::Error => return Err(error),
        Missing::Warn => complain(&error),
        Missing::Ignore => {}
    }
    Ok(())
}

/// What a pattern matches and could not be attached is missing too.
fn refused(manner: &Manner, found: &Found, outcome: &Outcome) -> Result<()> {
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
    let list = by_reason(&outcome.refused, manner.verbose);
    missing(
        manner,
        match manner.missing {
            Missing::Error => {
                error.with_help(format!("{list}\nto trace the others: --missing warn, or ignore"))
            }
            _ => error.with_help(list),
        },
    )
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

fn told(manner: &Manner, found: &Found, attached: &[Attached], time: Duration) {
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
    let own = matches!(found.spec().provider, Provider::Kprobe | Provider::Kretprobe);
    for one in attached {
        let how = if own { &*one.how } else { "one program each" };
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

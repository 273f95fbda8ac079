//! `tracer doctor`: what this kernel and user allow, line by line, with the exact fix of each.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde_json::json;
use tracer::{
    Error, ErrorKind, Result,
    probe::{
        self, Filter, Found, Spec,
        doctor::{self, Check, Level},
    },
    ring,
    session::{Options, Session},
};

use super::{args::Doctor, exit, plain, plan};

/// A name that no task has: what is attached here is not to fire.
const NOBODY: &str = "\u{1}doctor";

/// Ways to attach that are tried whatever is asked for, on what every kernel from 5.10 on has.
const WAYS: [(&str, &str); 4] = [
    ("kprobe", "k:ksys_sync"),
    ("fentry", "f:ksys_sync"),
    ("tracepoint", "t:sched:sched_process_exit"),
    ("raw tracepoint", "rt:sched_process_exit"),
];

/// Runs it; exit code 3 if anything fails.
pub fn run(args: &Doctor) -> Result<ExitCode> {
    let specs: Vec<Spec> = args.specs.iter().map(|text| text.parse()).collect::<Result<_>>()?;
    specs.iter().try_for_each(probe::servable)?;
    let mut checks = doctor::host();
    // Without rights all else fails for the same reason.
    if checks.iter().all(|check| check.name != "capabilities" || check.level != Level::Fail) {
        tried(args, &specs, &mut checks)?;
    }
    let failed = checks.iter().any(|check| check.level == Level::Fail);
    let mut out = anstream::stdout().lock();
    let written = checks.iter().try_for_each(|check| match args.json {
        true => json(&mut out, check),
        false => text(&mut out, check),
    });
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::caused(ErrorKind::Sink, "writing to stdout", e))
        }
        _ if failed => Ok(ExitCode::from(exit::PRECONDITION)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What only an attempt tells: rings of that size, each way to attach, and each spec.
fn tried(args: &Doctor, specs: &[Spec], checks: &mut Vec<Check>) -> Result<()> {
    let found: Vec<Result<Found>> = specs.iter().map(probe::find).collect();
    let asked: usize = found.iter().flatten().map(|found| found.each().len()).sum();
    let options = Options {
        rings: plan::rings(&args.rings, None)?,
        filter: Filter { comm: Some(NOBODY.into()), ..Filter::default() },
        probes: WAYS.len() + asked,
        ..Options::default()
    };
    let mut session = match plan::prepare(&args.rings, options.clone()) {
        Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
        Err(error) => {
            checks.push(Check::of("rings", Level::Fail, Err(error)));
            return Ok(());
        }
        Ok((session, shrunk)) => {
            checks.push(rings(&options, shrunk)?);
            session
        }
    };
    // What the kernel was built without needs no attempt.
    let lacking = checks.iter().any(|check| check.name == "kprobes" && check.level != Level::Ok);
    for (name, spec) in WAYS.into_iter().filter(|(name, _)| *name != "kprobe" || !lacking) {
        let spec: Spec = spec.parse()?;
        checks.push(Check::of(name, Level::Warn, session.attach(&spec).map(|_| how(&session))));
    }
    for (spec, found) in specs.iter().zip(found) {
        let outcome = found.and_then(|found| session.attach_found(&found, &mut |_, _| {}));
        let check = match outcome {
            Ok(outcome) if !outcome.refused.is_empty() => Check {
                name: spec.to_string(),
                level: Level::Warn,
                says: format!("{} attached, {} refused", outcome.attached.len(), outcome.refused.len()),
                fix: outcome
                    .refused
                    .first()
                    .map(|r| format!("{}: {}; tracer list '{spec}' has all", r.name, r.why)),
            },
            outcome => Check::of(spec.to_string(), Level::Fail, outcome.map(|_| how(&session))),
        };
        checks.push(check);
    }
    Ok(())
}

/// How the last probe was attached, and why not better.
fn how(session: &Session) -> String {
    let Some(last) = session.probes().attached().last() else { return String::new() };
    match last.passed_over.as_slice() {
        [] => format!("attached: {}", last.how),
        reasons => format!("attached: {} ({})", last.how, reasons.join("; ")),
    }
}

/// That rings could be had, and whether of the size that was wanted.
fn rings(options: &Options, shrunk: Option<usize>) -> Result<Check> {
    let (cpus, wanted) = (ring::cpus::online()?.len(), options.rings.size);
    let Some(size) = shrunk else {
        return Ok(Check::ok("rings", format!("{cpus} of {} KiB opened and mapped", wanted >> 10)));
    };
    let says = format!("{cpus} of {} KiB mapped, where {} KiB were wanted", size >> 10, wanted >> 10);
    // A ring has its data and one page, and the limit holds for each CPU.
    let fix = format!(
        "sysctl kernel.perf_event_mlock_kb={}, or CAP_IPC_LOCK, or a higher limit on locked memory (ulimit -l)",
        (wanted >> 10) + 4
    );
    Ok(Check { name: "rings".into(), level: Level::Warn, says, fix: Some(fix) })
}

fn text(out: &mut impl Write, check: &Check) -> io::Result<()> {
    let color = match check.level {
        Level::Ok => anstyle::AnsiColor::Green,
        Level::Warn => anstyle::AnsiColor::Yellow,
        Level::Fail => anstyle::AnsiColor::Red,
    };
    let style = color.on_default().bold();
    // What was tried says its own name first.
    let says = check.says.strip_prefix(&format!("{}: ", check.name)).unwrap_or(&check.says);
    writeln!(out, "{style}{:<4}{style:#}  {}: {}", check.level.name(), plain(&check.name), plain(says))?;
    check.fix.iter().try_for_each(|fix| writeln!(out, "      fix: {}", plain(fix).replace('\n', "\n      ")))
}

fn json(out: &mut impl Write, check: &Check) -> io::Result<()> {
    let value = json!({
        "type": "check",
        "name": check.name,
        "level": check.level.name(),
        "says": check.says,
        "fix": check.fix,
    });
    writeln!(out, "{value}")
}

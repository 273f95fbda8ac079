//! `tracer run`: events to stdout as they happen.

use std::{io::Write, ops::ControlFlow, process::ExitCode, time::Instant};

use nix::unistd::{setgid, setgroups, setuid};
use tracer::{
    Error, ErrorKind, Result,
    frontend::{Control, blocking},
    ledger::Report,
    probe::{Provider, Spec},
    ring,
    session::{self, Session},
};

use super::{
    args::{Missing, Run, Stream},
    command::{Running, Waiting},
    complain, exit, output, plan, say, signal,
    status::Status,
    summary,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: &Run) -> Result<ExitCode> {
    let specs = plan::specs(args)?;
    let account = args.user.as_deref().map(plan::account).transpose()?;
    let control = Control::new()?;
    let child = match args.cmd.is_empty() {
        true => None,
        false => Some(Waiting::start(&args.cmd, args.output.is_none())?),
    };
    let options = plan::options(args, &specs, child.as_ref().map(Waiting::id))?;
    let mut session = prepare(args, options)?;
    attach(args, &mut session, &specs)?;
    output::check_columns(args, &session)?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    stream(args, &mut session, &control, || {
        account.iter().try_for_each(drop_privileges)?;
        child.map(|child| child.go(control.clone())).transpose()
    })
}

/// Runs a session whose probes are attached to its end; `begin` is called when all is ready for the first event.
pub fn stream(
    args: &Stream,
    session: &mut Session,
    control: &Control,
    begin: impl FnOnce() -> Result<Option<Running>>,
) -> Result<ExitCode> {
    let mut sink = output::open(args, control)?;
    let requests = signal::listen(control.clone(), args.output.is_some())?;
    session.header(&mut sink)?;
    let running = begin()?;

    let mut status = Status::new(args.quiet, args.stats, args.output.is_some());
    let until = args.duration.and_then(|d| Instant::now().checked_add(d));
    let mut failed = None;
    let ended = blocking::run(session, &mut sink, control, until, |session, sink: &mut output::Output| {
        status.tick(session, sink, requests.take_stats());
        if let (true, Some(path)) = (requests.take_reopen(), &args.output)
            && let Err(error) = sink.reopen(path)
        {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    status.clear();
    let command = running.and_then(|running| running.finish());
    Ok(finish(args, &ended.report, failed.or(ended.error), command))
}

/// Maps the rings. Where the default size is beyond a limit, takes what fits and says so.
pub fn prepare(args: &Stream, options: session::Options) -> Result<Session> {
    match Session::prepare(options.clone()) {
        Err(error) if args.rings.size.is_none() && error.os_error() == Some(libc_eperm()) => {
            let rings = options
                .rings
                .cpus
                .as_ref()
                .map_or_else(|| ring::cpus::online().map(|c| c.len()), |c| Ok(c.len()))?;
            let Some(size) = ring::lockable(rings).filter(|size| *size < options.rings.size) else {
                return Err(error);
            };
            if !args.quiet {
                say(&format!(
                    "rings of {} KiB a CPU, as the limit on locked memory allows no more",
                    size >> 10
                ));
            }
            Session::prepare(session::Options { rings: ring::Options { size, ..options.rings }, ..options })
        }
        prepared => prepared,
    }
}

fn libc_eperm() -> i32 {
    nix::errno::Errno::EPERM as i32
}

/// Attaches every spec, and says how, unless quiet.
fn attach(args: &Run, session: &mut Session, specs: &[Spec]) -> Result<()> {
    let mut all = true;
    for spec in specs {
        match session.attach(spec) {
            Ok(()) => {}
            Err(error) if args.missing == Missing::Error => return Err(error),
            Err(error) => {
                all = false;
                if args.missing == Missing::Warn {
                    complain(&error);
                }
                continue;
            }
        }
        if args.quiet {
            continue;
        }
        if spec.provider == Provider::Object {
            tell_object(session, spec);
        } else if let Some(attached) = session.probes().attached().last() {
            let why = match attached.passed_over.as_slice() {
                [] if spec.provider == Provider::Syscall => " (the hook that costs least)".into(),
                [] => String::new(),
                reasons => format!(" ({})", reasons.join("; ")),
            };
            say(&format!("{spec}: {}{why}", attached.how));
        }
    }
    if session.schemas().next().is_none() {
        return Err(Error::new(ErrorKind::Attach, "none of the probes could be attached"));
    }
    // What an object that is missing would have had is not known.
    if all { session.check_objects() } else { Ok(()) }
}

/// Says what became of an object's programs, and how its events are decoded.
fn tell_object(session: &Session, spec: &Spec) {
    session.programs_of(spec).iter().for_each(|line| say(&format!("{spec}: {line}")));
    let name = spec.to_string();
    for feed in session.feeds().filter(|f| f.spec == name) {
        say(&format!("{spec}: '{}' is read: {}", feed.map, feed.how));
    }
}

/// Gives up root for good.
fn drop_privileges(account: &nix::unistd::User) -> Result<()> {
    let cannot =
        |e| Error::caused(ErrorKind::Precondition, format!("dropping privileges to {}", account.name), e);
    setgroups(&[account.gid]).map_err(cannot)?;
    setgid(account.gid).map_err(cannot)?;
    setuid(account.uid).map_err(cannot)
}

/// The last words, and the exit code.
fn finish(args: &Stream, report: &Report, error: Option<Error>, command: Option<u8>) -> ExitCode {
    let closed = error.as_ref().is_some_and(|e| e.kind() == ErrorKind::Closed);
    let allowed = args.fail_on_loss.unwrap_or(u64::MAX);
    let lossy = report.missing() > allowed;
    let wrong = !report.balanced();
    let silent = if closed { !args.verbose } else { args.quiet && report.missing() == 0 };
    if !silent || (wrong && !closed) {
        let mut err = anstream::stderr().lock();
        // Nobody may be reading stderr any more; the code still tells.
        let _ = summary::write(&mut err, report).and_then(|()| err.flush());
    }
    if closed {
        return ExitCode::SUCCESS;
    }
    if let Some(error) = &error {
        complain(error);
        return ExitCode::from(super::code(error));
    }
    if lossy || wrong {
        return ExitCode::from(exit::LOSS);
    }
    ExitCode::from(command.unwrap_or(0))
}

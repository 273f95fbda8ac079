//! `tracer run`: events to stdout as they happen.

use std::{io::Write, ops::ControlFlow, process::ExitCode, time::Instant};

use nix::unistd::{setgid, setgroups, setuid};
use tracer::{
    Error, ErrorKind, Result,
    frontend::{Control, blocking},
    ledger::Report,
    probe::Provider,
    session::{self, Session},
};

use super::{
    args::{Run, Stream},
    attach,
    command::{Running, Waiting},
    complain, exit, output, plan, say, signal,
    status::Status,
    summary,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: &Run) -> Result<ExitCode> {
    let mut specs = plan::specs(&args.specs)?;
    plan::within_root(&mut specs, &args.tasks.pid);
    plan::with_stacks(&mut specs, args.kstack, args.ustack)?;
    plan::objects(args, &specs)?;
    let account = args.user.as_deref().map(plan::account).transpose()?;
    let control = Control::new()?;
    let child = match args.cmd.is_empty() {
        true => None,
        false => Some(Waiting::start(&args.cmd, args.output.is_none())?),
    };
    let found = attach::find(args.manner(), &specs)?;
    let own = found.iter().filter(|f| f.spec().provider != Provider::Object);
    let probes = own.map(|found| found.each().len()).sum();
    let options = plan::options(args, probes, child.as_ref().map(Waiting::id))?;
    let mut session = prepare(args, options)?;
    attach::attach(args.manner(), &mut session, &found)?;
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
    let mut sink = output::open(args, session, control)?;
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
    let (session, shrunk) = plan::prepare(&args.rings, options)?;
    if let (Some(size), false) = (shrunk, args.quiet) {
        say(&format!("rings of {} KiB a CPU, as the limit on locked memory allows no more", size >> 10));
    }
    Ok(session)
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

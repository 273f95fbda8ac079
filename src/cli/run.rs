//! `tracer run`: events to stdout as they happen.

use std::{io::Write, ops::ControlFlow, process::ExitCode, time::Instant};

use nix::unistd::{setgid, setgroups, setuid};
use tracer::{
    Error, ErrorKind, Result,
    frontend::{Control, blocking},
    ledger::Report,
    probe::Spec,
    ring,
    session::{self, Session},
    sink::Sink,
};

use super::{
    args::{Missing, Run},
    command::{Running, Waiting},
    complain, exit, output, plan, signal,
    status::Status,
    summary,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: Run) -> Result<ExitCode> {
    let specs = plan::specs(&args)?;
    let account = args.user.as_deref().map(plan::account).transpose()?;
    let control = Control::new()?;
    let child = match args.cmd.is_empty() {
        true => None,
        false => Some(Waiting::start(&args.cmd, args.output.is_none())?),
    };
    let options = plan::options(&args, specs.len(), child.as_ref().map(Waiting::id))?;
    let mut session = prepare(&args, options)?;
    attach(&args, &mut session, &specs)?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let mut sink = output::open(&args, &control)?;
    let requests = signal::listen(control.clone(), args.output.is_some())?;
    if let Some(account) = account {
        drop_privileges(&account)?;
    }
    session.header(&mut sink)?;
    let running = child.map(|child| child.go(control.clone())).transpose()?;

    let mut status = Status::new(args.quiet, args.stats, args.output.is_some());
    let deadline = args.duration.and_then(|d| Instant::now().checked_add(d));
    let mut reopened = Ok(());
    let ended = {
        let sink = &mut Reopening { sink: &mut sink, args: &args, requests: &requests, result: &mut reopened };
        blocking::run(&mut session, sink, &control, deadline, |session, sink| {
            status.tick(session, sink, requests.take_stats());
            ControlFlow::Continue(())
        })?
    };
    status.clear();
    reopened?;
    finish(&args, &ended, running)
}

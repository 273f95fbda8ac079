//! `tracer run`: events to stdout as they happen.

use std::{io::Write, ops::ControlFlow, process::ExitCode, time::Instant};

use nix::unistd::{setgid, setgroups, setuid};
use tracer::{
    Error, ErrorKind, Result,
    frontend::{Control, threads},
    ledger::Report,
    probe::{Provider, Spec},
    ring,
    session::{self, Session},
    sink::Sink,
};

use super::{
    args::{Probes, Run, Stream, Trace},
    attach::Attaching,
    command::{Running, Waiting},
    complain, exit,
    followed::Followed,
    output, plan, say,
    signal::{self, Requests},
    status::Status,
    summary,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: &Run) -> Result<ExitCode> {
    output::check_rule(&args.stream)?;
    args.stream.output.as_deref().map(output::check_place).transpose()?;
    let mut ready = ready(
        &args.probes,
        &args.stream,
        Manner { aside: args.stream.output.is_none(), ..Manner::default() },
    )?;
    output::check_columns(&args.stream, &ready.session)?;
    if args.probes.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let control = ready.control.clone();
    let begin = ready.begin;
    stream(&args.stream, &mut ready.session, &control, begin)
}

/// A session whose probes are attached.
pub struct Ready {
    /// The session.
    pub session: Session,
    /// What stops it.
    pub control: Control,
    /// What is traced.
    pub specs: Vec<Spec>,
    /// The command that waits to be let go.
    pub child: Option<u32>,
    /// To be called when all is ready for the first event: drops privileges and lets the command go.
    pub begin: Box<dyn FnOnce() -> Result<Option<Running>>>,
}

/// What a session is readied for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Events have stdout to themselves.
    pub aside: bool,
    /// What becomes of tasks is told too.
    pub tasks: bool,
    /// The rings are in overwrite mode.
    pub flight: Option<session::Flight>,
    /// The size of a ring, whatever `-m` says.
    pub ring: Option<usize>,
}

/// Attaches what was asked for.
pub fn ready(probes: &Probes, trace: &Trace, manner: Manner) -> Result<Ready> {
    let Manner { aside, tasks, flight, ring } = manner;
    let mut specs = plan::specs(&probes.specs)?;
    plan::within_root(&mut specs, &probes.tasks.pid);
    plan::with_stacks(&mut specs, trace.kstack, trace.ustack)?;
    plan::objects(probes, trace.quiet, &specs)?;
    if flight.is_some() {
        plan::without_objects(&specs)?;
    }
    let account = probes.user.as_deref().map(plan::account).transpose()?;
    let control = Control::new()?;
    let child = match probes.cmd.is_empty() {
        true => None,
        false => Some(Waiting::start(&probes.cmd, aside)?),
    };
    let mut attaching = Attaching::new(probes.manner(trace));
    let found = attaching.find(&specs)?;
    let own = found.iter().filter(|f| f.spec().provider != Provider::Object);
    let count = own.map(|found| found.each().len()).sum();
    let id = child.as_ref().map(Waiting::id);
    let sideband = tasks.then(|| plan::sideband(probes, trace, id));
    // Nobody looks at a recording as it comes, but through a pipe.
    let prompt = aside || !tasks;
    let gather = plan::gather(probes.gather, &found)?;
    let options = plan::options(probes, trace, count, id)?;
    let rings = ring::Options { size: ring.unwrap_or(options.rings.size), ..options.rings };
    let options = session::Options { rings, sideband, prompt, gather, flight, ..options };
    let mut session = prepare(trace, options)?;
    let (asked, threads) = (probes.reader_threads as usize, session.reader_threads());
    if asked > threads && flight.is_none() && !trace.quiet {
        say(&format!("--reader-threads {asked} is {threads} here, as there are no more rings to read"));
    }
    attaching.attach(&mut session, &found)?;
    let woken = control.clone();
    let begin = move || {
        account.iter().try_for_each(drop_privileges)?;
        child.map(|child| child.go(woken)).transpose()
    };
    Ok(Ready { session, control, specs, child: id, begin: Box::new(begin) })
}

/// Runs a session whose probes are attached to its end; `begin` is called when all is ready for the first event.
pub fn stream(
    args: &Stream,
    session: &mut Session,
    control: &Control,
    begin: impl FnOnce() -> Result<Option<Running>>,
) -> Result<ExitCode> {
    let sink = output::ordered(args, output::open(args, session, control)?);
    let to_file = args.output.is_some();
    course(args, session, control, sink, to_file, begin, |sink, requests| {
        match (requests.take_reopen(), &args.output) {
            (true, Some(path)) => sink.sink_mut().reopen(path),
            _ => Ok(()),
        }
    })
}

/// The same into any sink; `each` is called once a pass, for what signals ask of a sink that is a file.
pub fn course<S: Sink + Send>(
    trace: &Trace,
    session: &mut Session,
    control: &Control,
    mut sink: S,
    to_file: bool,
    begin: impl FnOnce() -> Result<Option<Running>>,
    mut each: impl FnMut(&mut S, &Requests) -> Result<()>,
) -> Result<ExitCode> {
    let requests = signal::listen(control.clone(), to_file)?;
    session.header(&mut sink)?;
    let running = begin()?;

    let mut status = Status::new(trace.quiet, trace.stats, to_file);
    let mut followed = Followed::new(trace.quiet, running.is_some());
    let until = trace.duration.and_then(|d| Instant::now().checked_add(d));
    let mut failed = None;
    let ended = threads::run(session, &mut sink, control, until, |session, sink: &mut S| {
        status.tick(session, sink, requests.take_stats());
        if let Err(error) = each(sink, &requests) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        if followed.gone(session.probes()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    status.clear();
    let command = running.and_then(|running| running.finish());
    Ok(finish(trace, &ended.report, failed.or(ended.error), command))
}

/// Maps the rings. Where the default size is beyond a limit, takes what fits and says so.
pub fn prepare(args: &Trace, options: session::Options) -> Result<Session> {
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
pub fn finish(args: &Trace, report: &Report, error: Option<Error>, command: Option<u8>) -> ExitCode {
    let closed = error.as_ref().is_some_and(|e| e.kind() == ErrorKind::Closed);
    let allowed = args.fail_on_loss.unwrap_or(u64::MAX);
    // What overwrite rings are for is not held against them.
    let lossy = report.missing() - report.overwritten() > allowed;
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

//! `tracer stat`: counts, rates, sums and histograms, kept in the kernel.

pub mod args;

use std::{
    io::{self, Write},
    ops::ControlFlow,
    process::ExitCode,
    time::{Duration, Instant},
};

use tracer::{
    Error, ErrorKind, Result,
    frontend::{Control, looks, looks::Watch},
    ledger::Report,
    probe::{Filter, Keep, Provider, spec},
    schema::{Kind, tally::Counted},
    session::stat::{Options, Stat},
    sink::stat::{self, Span},
    symbol::Symbols,
};

use self::args::{Args, Format};
use super::{
    attach::Attaching,
    command::Waiting,
    exit,
    followed::{self, Followed},
    plan, say, signal, summary,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: &Args) -> Result<ExitCode> {
    let asked = plan::specs(&args.specs)?;
    if let Some(object) = asked.iter().find(|spec| spec.provider == Provider::Object) {
        return Err(Error::usage(format!("{object}: what an object's programs do is not ours to count"))
            .with_help("`tracer run` shows what they emit"));
    }
    let keep = keep(args)?;
    if args.interval.is_some_and(|interval| interval < Duration::from_millis(1)) {
        return Err(Error::usage("--interval: a millisecond is the least"));
    }
    let specs = asked.iter().map(|spec| keep.spec(spec)).collect::<Result<Vec<_>>>()?;
    let control = Control::new()?;
    let child = match args.cmd.is_empty() {
        true => None,
        false => Some(Waiting::start(&args.cmd, true)?),
    };
    let mut attaching = Attaching::new(args.manner());
    let found = attaching.find(&specs)?;
    let probes = found.iter().map(|found| found.each().len()).sum();
    let cpus = args.cpus.as_deref().map(plan::cpu_list).transpose()?;
    let filter = Filter { cpus, ..plan::filter(&args.tasks, child.as_ref().map(Waiting::id))? };
    let count_runs = args.verbose;
    let mut session = Stat::prepare(Options { filter, probes, keep: keep.clone(), count_runs })?;
    for found in &found {
        // One that could not be found is in no place of `found`.
        let asked = specs.iter().position(|spec| spec == found.spec()).map(|i| &asked[i]);
        attaching.one(found, |progress| {
            let outcome = session.attach(asked.unwrap_or(found.spec()), found, progress)?;
            Ok((session.probes().attached()[outcome.attached.clone()].to_vec(), outcome))
        })?;
    }
    if session.probes().attached().is_empty() {
        return Err(attaching.none());
    }
    let mut output = Output::new(args, symbols(&keep));
    signal::listen(control.clone(), false)?;
    let running = child.map(|child| child.go(control.clone())).transpose()?;

    let until = args.duration.and_then(|d| Instant::now().checked_add(d));
    // Counting began with the probes, and so does the first interval.
    let mut last = (vec![Counted::default(); session.probes().attached().len()], 0);
    let mut followed = Followed::new(args.quiet, running.is_some());
    let mut over = || followed.gone(session.probes());
    let watch = Watch { every: followed::INTERVAL, over: &mut over };
    let looked = looks::wait(&control, until, args.interval, Some(watch), || {
        let now = (session.counted()?, session.elapsed());
        let since: Vec<Counted> = now.0.iter().zip(&last.0).map(|(now, last)| now.since(last)).collect();
        let span = Span { length: now.1 - last.1, end: now.1, whole: false };
        last = now;
        output.append(&since, span);
        output.write()
    });
    let (counted, report) = session.stop()?;
    let command = running.and_then(|running| running.finish());
    looked?;
    output.append(&counted, Span { length: report.elapsed, end: report.elapsed, whole: true });
    output.footer(&report);
    let closed = output.write()?.is_break();
    Ok(finish(args, &report, closed, command))
}

/// What is kept of each run.
fn keep(args: &Args) -> Result<Keep> {
    let field = |flag: &str, text: &Option<String>| {
        text.as_deref().map(str::parse::<spec::Field>).transpose().map_err(|e| e.context(flag.to_owned()))
    };
    let of = match &args.sum {
        Some(_) => field("--sum", &args.sum)?,
        None => field("--hist", &args.hist)?,
    };
    Ok(Keep { by: field("--by", &args.by)?, of, entries: args.max_entries })
}

/// What names the addresses of stacks.
fn symbols(keep: &Keep) -> Symbols {
    let of = |user| keep.by_stack() == Some(Kind::Stack { user });
    Symbols::new(of(false), of(true))
}

/// Stdout, in the form that was asked for.
struct Output {
    form: Form,
    bytes: Vec<u8>,
}

enum Form {
    Text(Box<stat::Text>),
    Json(Box<stat::Json>),
}

impl Output {
    fn new(args: &Args, symbols: Symbols) -> Output {
        let histograms = args.sum.is_none();
        let form = match args.format {
            Format::Text => Form::Text(Box::new(stat::Text::new(histograms, symbols))),
            Format::Json => Form::Json(Box::new(stat::Json::new(histograms, symbols))),
        };
        Output { form, bytes: Vec::new() }
    }

    fn append(&mut self, counted: &[Counted], span: Span) {
        match &mut self.form {
            Form::Text(text) => text.counted(counted, span, &mut self.bytes),
            Form::Json(json) => json.counted(counted, span, &mut self.bytes),
        }
    }

    fn footer(&mut self, report: &Report) {
        if let Form::Json(json) = &self.form {
            json.footer(report, &mut self.bytes);
        }
    }

    /// Writes what was appended; break where whoever read it has gone.
    fn write(&mut self) -> Result<ControlFlow<()>> {
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.bytes).and_then(|()| out.flush());
        self.bytes.clear();
        match written {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            Err(e) => Err(Error::caused(ErrorKind::Sink, "writing to stdout", e)),
        }
    }
}

/// The last words, and the exit code.
fn finish(args: &Args, report: &Report, closed: bool, command: Option<u8>) -> ExitCode {
    let wrong = !report.balanced();
    let silent = if closed { !args.verbose } else { args.quiet && report.missing() == 0 };
    if !silent || (wrong && !closed) {
        let mut err = anstream::stderr().lock();
        // Nobody may be reading stderr any more; the code still tells.
        let _ = summary::ledger(&mut err, report).and_then(|()| err.flush());
    }
    let no_room: u64 = report.probes.iter().map(|p| p.accounts.failed.nomem).sum();
    if no_room > 0 && !closed {
        say(&format!("{no_room} runs had no room: more than --max-entries {} are needed", args.max_entries));
    }
    if closed {
        return ExitCode::SUCCESS;
    }
    if wrong || report.missing() > args.fail_on_loss.unwrap_or(u64::MAX) {
        return ExitCode::from(exit::LOSS);
    }
    ExitCode::from(command.unwrap_or(0))
}

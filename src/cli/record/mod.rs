//! `tracer record`: events to a file or a pipe that perf reads.

pub mod args;
mod flight;

use std::{
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use tracer::{
    Error, Result, probe,
    sink::{
        PerfData,
        perf_data::{self, Snapshots},
    },
};

use self::args::{Extent, Record};
use super::{
    output,
    run::{self, Manner, Ready},
    say,
};

/// Runs it; the exit code is the return value, but for errors.
pub fn run(args: &Record) -> Result<ExitCode> {
    let piped = args.output == Path::new("-");
    if piped && args.rotate.is_some() {
        return Err(Error::usage("--rotate: a pipe has no files").with_help("name one: -o FILE"));
    }
    if args.keep.is_some() && args.rotate.is_none() && args.flight.is_none() {
        return Err(Error::usage("--keep: nothing is finished before the end")
            .with_help("--rotate or --flight makes more than one file"));
    }
    if args.flight.is_some() {
        return snapshots(args, piped);
    }
    if !piped {
        output::check_place(&args.output)?;
    }
    let manner = Manner { aside: piped, tasks: true, ..Manner::default() };
    let mut ready = run::ready(&args.probes, &args.trace, manner)?;
    if args.probes.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let sink = open(args, piped, &ready)?;
    let mut turn = Turn::new(args);
    run::course(
        &args.trace,
        &mut ready.session,
        &ready.control,
        sink,
        !piped,
        ready.begin,
        |sink, requests| {
            // One of each may have come.
            let asked = requests.take_rotate() | requests.take_reopen();
            if asked || turn.is_due(sink.written()) {
                turn = Turn::new(args);
                if let (Some(name), false) = (sink.rotate()?, args.trace.quiet) {
                    say(&format!("finished: {}", name.display()));
                }
            }
            Ok(())
        },
    )
}

/// Runs it with rings in overwrite mode.
fn snapshots(args: &Record, piped: bool) -> Result<ExitCode> {
    if piped {
        return Err(Error::usage("--flight: each snapshot is a file of its own, and a pipe has none")
            .with_help("name one: -o FILE"));
    }
    let manner = Manner { flight: flight::of(args)?, ring: flight::ring(args), ..Manner::default() };
    Snapshots::check(&args.output)?;
    let ready = run::ready(&args.probes, &args.trace, manner)?;
    if args.probes.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let sink = Snapshots::new(&args.output, options(args, &ready));
    flight::run(args, ready, sink)
}

fn options(args: &Record, ready: &Ready) -> perf_data::Options {
    let programs = ready.session.probes().facts();
    let types = probe::types(&programs);
    perf_data::Options {
        compress: args.compress,
        keep: args.keep.map(|keep| keep as usize),
        follows: false,
        command_line: std::env::args_os().map(|word| word.as_bytes().to_vec()).collect(),
        features: perf_data::features_of(&programs, &types),
        symbols: perf_data::symbols_of(&programs, &types),
    }
}

/// Opens the file or the pipe. The session is stopped when it fails or its reader goes away.
fn open(args: &Record, piped: bool, ready: &Ready) -> Result<PerfData> {
    let stop = ready.control.clone();
    let on_failure: Option<Box<dyn Fn() + Send + Sync>> = Some(Box::new(move || stop.stop()));
    let options = options(args, ready);
    match piped {
        true => PerfData::pipe("stdout", std::io::stdout().as_fd(), options, on_failure),
        false => PerfData::create(&args.output, options, on_failure),
    }
}

/// When the file in use is full.
struct Turn {
    rotate: Option<Extent>,
    since: Instant,
}

impl Turn {
    fn new(args: &Record) -> Turn {
        Turn { rotate: args.rotate, since: Instant::now() }
    }

    fn is_due(&self, written: u64) -> bool {
        match self.rotate {
            None => false,
            Some(Extent::Bytes(bytes)) => written >= bytes,
            Some(Extent::Time(time)) => self.since.elapsed() >= time,
        }
    }
}

//! `tracer bench`: the rate of this host's path, beside what was lost and what it cost.

mod args;
mod compare;
mod label;
mod plot;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use tracer::{
    Error, ErrorKind, Result,
    bench::{self, Case, Outcome},
};

pub use self::args::Bench;
use super::exit;

/// Runs it.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let base = args.compare.as_deref().map(compare::Base::read).transpose()?;
    let cases = args.sweep()?.cases();
    if args.plot.is_some() {
        plot::check(&cases)?;
    }
    let silent = args.quiet || !io::stderr().is_terminal();
    let outcomes = bench::run(&args.options(), &cases, |done, all, case| {
        if !silent && all > 1 {
            progress(done, all, case);
        }
    });
    if !silent {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let outcomes = outcomes?;
    if let Some(path) = &args.plot {
        plot::draw(path, &outcomes)?;
    }
    let mut out = io::stdout().lock();
    let written = match args.json {
        true => outcomes.iter().try_for_each(|outcome| json(&mut out, outcome)),
        false => table::print(&mut out, &outcomes, base.as_ref()),
    };
    let balanced = outcomes.iter().all(Outcome::balanced);
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Error::caused(ErrorKind::Sink, "writing to stdout", e)),
        Ok(()) if balanced => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(ExitCode::from(exit::LOSS)),
    }
}

fn progress(done: usize, all: usize, case: &Case) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r{} of {all}: {}\x1b[K", done + 1, label::whole(case)).and_then(|()| err.flush());
}

/// A line a case: the setting, medians, and every round.
fn json(out: &mut impl Write, o: &Outcome) -> io::Result<()> {
    let mut value = serde_json::to_value(o).map_err(io::Error::from)?;
    value["type"] = "bench".into();
    value["rate"] = o.rate().into();
    value["spread"] = o.spread().into();
    value["loss"] = o.median(|r| Some(r.loss())).into();
    value["traced_ns"] = o.median(|r| Some(r.traced_ns)).into();
    value["reader_cpu"] = o.median(|r| Some(r.reader_cpu)).into();
    value["balanced"] = o.balanced().into();
    writeln!(out, "{value}")
}

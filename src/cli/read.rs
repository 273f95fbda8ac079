//! `tracer read`: the events of somebody else's pinned perf event array.

use std::process::ExitCode;

use tracer::{Result, frontend::Control, ring, session};

use super::{args::Read, output, plan, run, say};

/// Runs it.
pub fn run(args: &Read) -> Result<ExitCode> {
    let stream = &args.stream;
    output::check_rule(stream)?;
    let cpus = stream.cpus.as_deref().map(plan::cpu_list).transpose()?;
    let options = session::Options {
        rings: ring::Options { cpus: cpus.clone(), ..plan::rings(&stream.rings, cpus.as_deref())? },
        probes: 0,
        limit: stream.count,
        ..session::Options::default()
    };
    let control = Control::new()?;
    let mut session = run::prepare(stream, options)?;
    session.read_pinned(&args.map, args.event.as_deref(), args.btf.as_deref(), args.steal)?;
    output::check_columns(stream, &session)?;
    if !stream.quiet {
        session.feeds().for_each(|feed| say(&format!("'{}' is read: {}", feed.map, feed.how)));
    }
    run::stream(stream, &mut session, &control, || Ok(None))
}

//! `tracer bench`: the rate of this host's path, beside what was lost and what it cost.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use tracer::{
    Error, ErrorKind, Result,
    bench::{self, Options, Outcome},
};

use super::{args::Bench, exit, plan};

/// Runs it.
pub fn run(args: Bench) -> Result<ExitCode> {
    let rings = plan::rings(&args.rings, None)?;
    let outcome = bench::run(&Options { duration: args.duration, cpu: args.cpu, rings })?;
    let mut out = io::stdout().lock();
    let written = if args.json { json(&mut out, &outcome) } else { text(&mut out, &outcome) };
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Error::caused(ErrorKind::Sink, "writing to stdout", e)),
        Ok(()) if outcome.balanced() => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(ExitCode::from(exit::LOSS)),
    }
}

fn json(out: &mut impl Write, o: &Outcome) -> io::Result<()> {
    let mut value = serde_json::to_value(o).map_err(io::Error::from)?;
    value["type"] = "bench".into();
    value["rate"] = o.rate().into();
    value["balanced"] = o.balanced().into();
    writeln!(out, "{value}")
}

fn text(out: &mut impl Write, o: &Outcome) -> io::Result<()> {
    let failed = o.accounts.failed.total();
    // trace_output's line first.
    writeln!(out, "recv {:.0} events per sec", o.rate())?;
    writeln!(
        out,
        "  {} writes in {:.3} s: {} received, {failed} lost ({:.2} %)",
        o.writes,
        o.seconds,
        o.received,
        100.0 * failed as f64 / o.writes.max(1) as f64
    )?;
    for (cause, n) in o.accounts.failed.causes().iter().filter(|(_, n)| *n > 0) {
        writeln!(out, "    {cause}: {n}")?;
    }
    writeln!(out, "  hook: {}; rings of {} KiB; payload 16 bytes", o.attached, o.ring_size >> 10)?;
    writeln!(
        out,
        "  a write takes {:.0} ns, untraced {:.0} ns ({:.2} times)",
        o.traced_ns,
        o.untraced_ns,
        o.traced_ns / o.untraced_ns.max(1e-9)
    )?;
    writeln!(out, "  the reader used {:.1} % of a CPU and slept {} times", 100.0 * o.reader_cpu, o.waits)?;
    for identity in o.identities.iter().filter(|i| i.holds == Some(false)) {
        writeln!(
            out,
            "balanced: no: {} ({}): {}",
            identity.name,
            identity.says,
            identity.remarks.join("; ")
        )?;
    }
    if o.balanced() {
        let names: Vec<_> = o.identities.iter().filter(|i| i.holds == Some(true)).map(|i| i.name).collect();
        writeln!(out, "balanced: yes ({})", names.join(", "))?;
    }
    Ok(())
}

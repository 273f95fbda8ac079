//! The end of a run, on stderr: events, rate, and the ledger.

use std::io::Write;

use tracer::ledger::{FeedCpu, FeedReport, ProbeReport, Report, Tail};

/// Writes the whole ledger.
pub fn write(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let seconds = report.elapsed as f64 / 1e9;
    let events = report.events();
    let rate = if seconds > 0.0 { events as f64 / seconds } else { 0.0 };
    write!(out, "{events} events in {seconds:.3} s ({rate:.0}/s), {} missing", report.missing())?;
    match report.overwritten() {
        0 => writeln!(out)?,
        n => writeln!(out, ", {n} of them overwritten in the rings")?,
    }
    ledger(out, report)
}

/// Writes the accounts, and whether they balance.
pub fn ledger(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    for (i, p) in report.probes.iter().enumerate() {
        match &p.pattern {
            None => probe(out, p)?,
            Some(pattern) => {
                if p.accounts.fired > 0 {
                    probe(out, p)?;
                }
                let last = report.probes.get(i + 1).is_none_or(|next| next.pattern.as_ref() != Some(pattern));
                if last {
                    self::pattern(out, pattern, &report.probes)?;
                }
            }
        }
    }
    for c in report.cpus.iter().filter(|c| c.holes + c.enospc + c.corruptions + c.undecoded > 0) {
        let kernel = c.kernel_lost.map_or("unknown".into(), |n| n.to_string());
        write!(out, "  cpu {}: lost {}", c.cpu, c.lost)?;
        match report.gathered() {
            true => write!(out, " records (the kernel's own count: {kernel}), {} events missing", c.holes)?,
            false => {
                let other = c.holes.saturating_sub(c.enospc);
                write!(out, " (the kernel's own count: {kernel}), other holes {other}")?;
            }
        }
        if c.corruptions + c.undecoded > 0 {
            write!(out, ", {} corruptions, {} undecoded", c.corruptions, c.undecoded)?;
        }
        writeln!(out)?;
    }
    for f in &report.feeds {
        feed(out, f)?;
    }
    for s in report.sinks.iter().filter(|s| s.dropped_queue + s.dropped_sink > 0) {
        writeln!(
            out,
            "  {}: delivered {}, dropped {} (queue full, {}), {} (not written at the end)",
            s.name,
            s.delivered,
            s.dropped_queue,
            s.on_full.as_deref().unwrap_or("drop-new"),
            s.dropped_sink
        )?;
    }
    let late: u64 = report.sinks.iter().map(|s| s.late).sum();
    if late > 0 {
        writeln!(out, "  {late} events came too late for their place in the order of times")?;
    }
    let faulty: u64 = report.cpus.iter().map(|c| c.faulty).sum();
    if faulty > 0 {
        writeln!(out, "  {faulty} events have a field that could not be read (<fault>)")?;
    }
    if report.beyond > 0 {
        writeln!(out, "  {} more events came after the last that was asked for", report.beyond)?;
    }
    if report.excluded > 0 {
        writeln!(out, "  {} processes left out as tracer's own (--include-self has them)", report.excluded)?;
    }
    if let Tail::Derived(why) = &report.tail {
        writeln!(out, "  tail derived: {why}")?;
    }
    balance(out, report)
}

/// A map of programs that keep no accounts: what is known of it.
fn feed(out: &mut impl Write, feed: &FeedReport) -> std::io::Result<()> {
    let sum = |of: fn(&FeedCpu) -> u64| feed.cpus.iter().map(of).sum::<u64>();
    let known = |of: fn(&FeedCpu) -> Option<u64>| {
        let sum = feed.cpus.iter().map(of).sum::<Option<u64>>();
        sum.map_or("unknown".to_owned(), |n| n.to_string())
    };
    write!(
        out,
        "  {} '{}': fired unknown, decoded {}, lost {} (the kernel's own count: {})",
        feed.spec,
        feed.map,
        feed.decoded(),
        known(|c| c.lost),
        known(|c| c.kernel_lost)
    )?;
    let rest = [
        (sum(|c| c.as_bytes), "shown as bytes"),
        (sum(|c| c.undecoded), "undecoded"),
        (sum(|c| c.corruptions), "corruptions"),
    ];
    rest.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(out, ", {n} {what}"))?;
    writeln!(out)
}

/// One probe's accounts.
fn probe(out: &mut impl Write, p: &ProbeReport) -> std::io::Result<()> {
    let a = &p.accounts;
    write!(out, "  {}: fired {} = filtered {} + emitted {}", p.spec, a.fired, a.filtered, a.emitted)?;
    for (name, n) in [("stored", a.stored), ("tallied", a.tallied), ("gathered", a.gathered)]
        .iter()
        .filter(|(_, n)| *n > 0)
    {
        write!(out, " + {name} {n}")?;
    }
    write!(out, " + failed {}", a.failed.total())?;
    let causes: Vec<String> =
        a.failed.causes().iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    if !causes.is_empty() {
        write!(out, " ({})", causes.join(", "))?;
    }
    if a.gathered > 0 {
        write!(out, "; of the gathered {} in records emitted, {} in records that failed", a.sent, a.unsent)?;
    }
    if a.compat > 0 {
        write!(out, "; {} of the filtered were calls of 32-bit tasks", a.compat)?;
    }
    if a.stored > 0 {
        write!(out, "; of the entries stored {} paired, {} unreturned", a.paired, a.unreturned)?;
    }
    if let Some(waiting) = p.waiting.filter(|n| *n > 0) {
        write!(out, ", {waiting} not returned yet")?;
    }
    if a.unpaired > 0 {
        write!(out, "; {} of the filtered were returns without an entry", a.unpaired)?;
    }
    if p.pattern.is_none() {
        missed(out, [p].into_iter(), p.attached.starts_with('k'))?;
    }
    writeln!(out)
}

/// What a pattern found, all together.
fn pattern(out: &mut impl Write, pattern: &str, all: &[ProbeReport]) -> std::io::Result<()> {
    let found = || all.iter().filter(|p| p.pattern.as_deref() == Some(pattern));
    let fired: u64 = found().map(|p| p.accounts.fired).sum();
    let ran = found().filter(|p| p.accounts.fired > 0).count();
    write!(out, "  {pattern}: {} probes, of which {ran} fired, {fired} times", found().count())?;
    let kprobes = found().any(|p| p.attached.starts_with('k'));
    missed(out, found(), kprobes)?;
    writeln!(out)
}

/// Hits that never reached a program; what a kernel does not tell is unknown, never 0.
fn missed<'a>(
    out: &mut impl Write,
    probes: impl Iterator<Item = &'a ProbeReport> + Clone,
    kprobes: bool,
) -> std::io::Result<()> {
    let sum = |of: fn(&ProbeReport) -> Option<u64>| -> Option<u64> {
        probes.clone().filter_map(of).reduce(|a, b| a + b)
    };
    match sum(|p| p.missed) {
        Some(n) if n > 0 => write!(out, "; missed {n}")?,
        None if kprobes => write!(out, "; missed unknown")?,
        _ => {}
    }
    match sum(|p| p.recursion_misses) {
        Some(n) if n > 0 => write!(out, "; skipped as recursion {n}")?,
        None => write!(out, "; recursion unknown")?,
        _ => {}
    }
    Ok(())
}

fn balance(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    if report.identities.is_empty() {
        return Ok(());
    }
    for i in report.identities.iter().filter(|i| i.holds == Some(false)) {
        writeln!(out, "balanced: no: {} ({})", i.name, i.says)?;
        for remark in &i.remarks {
            writeln!(out, "  {remark}")?;
        }
    }
    if report.balanced() {
        let checked: Vec<_> =
            report.identities.iter().filter(|i| i.holds == Some(true)).map(|i| i.name).collect();
        write!(out, "balanced: yes ({})", checked.join(", "))?;
        let unknown: Vec<_> = report.identities.iter().filter(|i| i.holds.is_none()).collect();
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter().map(|i| i.name).collect();
            write!(out, "; unknown: {}", names.join(", "))?;
        }
        writeln!(out)?;
        for remark in unknown.iter().flat_map(|i| &i.remarks) {
            writeln!(out, "  {remark}")?;
        }
    }
    Ok(())
}

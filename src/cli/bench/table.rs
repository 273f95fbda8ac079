//! What was measured, for people: trace_output's line first, then what lies behind it.

use std::io::{self, Write};

use tracer::bench::{Outcome, Workload};

use super::{compare::Base, label};

/// A column: its head, and its value in words.
type Column = (&'static str, fn(&Outcome) -> String);

const COLUMNS: [Column; 9] = [
    ("events/s", |o| grouped(o.rate())),
    ("lost %", |o| format!("{:.2}", 100.0 * o.median(|r| Some(r.loss())))),
    ("ns", |o| number(cost(o), 0)),
    ("untraced", |o| number(o.median(|r| r.untraced_ns), 0)),
    ("drain ns", |o| number(o.median(|r| r.drain_ns), 2)),
    ("CPU %", |o| number(100.0 * o.median(|r| Some(r.reader_cpu)), 1)),
    ("waits/s", |o| number(o.median(|r| Some(r.waits as f64 / r.seconds)), 0)),
    ("age p50/p99/max us", ages),
    ("spread %", |o| number(100.0 * o.spread(), 0)),
];

/// Prints it.
pub fn print(out: &mut impl Write, outcomes: &[Outcome], base: Option<&Base>) -> io::Result<()> {
    match outcomes {
        [] => return Ok(()),
        [one] => alone(out, one)?,
        several => table(out, several)?,
    }
    noise(out, outcomes)?;
    for outcome in outcomes {
        unbalanced(out, outcome)?;
    }
    if outcomes.iter().all(Outcome::balanced) {
        let checks = outcomes[0].rounds.iter().flat_map(|r| &r.identities).filter(|i| i.holds == Some(true));
        let mut names: Vec<_> = checks.map(|i| i.name).collect();
        names.sort_unstable();
        names.dedup();
        writeln!(out, "balanced: yes ({}), every round", names.join(", "))?;
    }
    match base {
        Some(base) => base.print(out, outcomes),
        None => Ok(()),
    }
}

fn alone(out: &mut impl Write, o: &Outcome) -> io::Result<()> {
    let first = &o.rounds[0];
    writeln!(out, "recv {:.0} events per sec", o.rate())?;
    let all: u64 = o.rounds.iter().map(|r| r.calls).sum();
    let lost: u64 = o.rounds.iter().map(|r| r.failed).sum();
    let received: u64 = o.rounds.iter().map(|r| r.received).sum();
    writeln!(
        out,
        "  {all} events in {} rounds: {received} received, {lost} lost ({:.2} %)",
        o.rounds.len(),
        100.0 * lost as f64 / all.max(1) as f64
    )?;
    for (cause, _) in first.accounts.failed.causes() {
        let causes = |r: &tracer::bench::Round| r.accounts.failed.causes();
        let n: u64 = o.rounds.iter().flat_map(causes).filter(|(c, _)| *c == cause).map(|(_, n)| n).sum();
        if n > 0 {
            writeln!(out, "    {cause}: {n} records")?;
        }
    }
    writeln!(
        out,
        "  by {}; rings of {}; {}",
        first.attached,
        label::bytes(first.ring_size),
        label::whole(&o.case)
    )?;
    let (traced, untraced) = (o.median(|r| Some(r.traced_ns)), o.median(|r| r.untraced_ns));
    if o.case.workload.calls() && !matches!(o.case.workload, Workload::Paced(_)) {
        let times = traced / untraced.max(1e-9);
        writeln!(out, "  a call takes {traced:.0} ns, untraced {untraced:.0} ns ({times:.2} times)")?;
    } else if !o.case.workload.calls() {
        writeln!(out, "  an event takes its producer {traced:.0} ns")?;
    }
    if let Some(ns) = Some(o.median(|r| r.drain_ns)).filter(|ns| !ns.is_nan()) {
        writeln!(out, "  a record takes the reader {ns:.2} ns")?;
    }
    writeln!(
        out,
        "  the reader used {:.1} % of a CPU and slept {:.0} times a second",
        100.0 * o.median(|r| Some(r.reader_cpu)),
        o.median(|r| Some(r.waits as f64 / r.seconds))
    )?;
    if first.age.is_some() {
        writeln!(out, "  events were {} us old when they were read (p50/p99/max)", ages(o))?;
    }
    Ok(())
}

fn table(out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
    let best = outcomes.iter().map(Outcome::rate).fold(0.0, f64::max);
    writeln!(out, "recv {best:.0} events per sec at most")?;
    let axes = label::varied(outcomes.iter().map(|o| &o.case));
    let shown = |column: &&Column| outcomes.iter().any(|o| !column.1(o).is_empty());
    let columns: Vec<&Column> = COLUMNS.iter().filter(shown).collect();
    let heads = axes.iter().map(|a| a.name).chain(columns.iter().map(|c| c.0)).map(str::to_owned);
    let mut rows: Vec<Vec<String>> = vec![heads.collect()];
    for o in outcomes {
        let settings = axes.iter().map(|a| (a.text)(&o.case));
        rows.push(settings.chain(columns.iter().map(|c| c.1(o))).collect());
    }
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        writeln!(out, "{}", cells.join("  "))?;
    }
    let (name, of) = ("all alike", &outcomes[0].case);
    let same = label::AXES.iter().filter(|axis| !axes.iter().any(|varied| varied.name == axis.name));
    let same: Vec<String> = same.map(|axis| format!("{} {}", axis.name, (axis.text)(of))).collect();
    writeln!(out, "{name}: {}", same.join(", "))
}

fn noise(out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
    let rounds = || outcomes.iter().flat_map(|o| &o.rounds).map(|r| r.noise);
    let stolen = rounds().map(|n| n.stolen).fold(0.0, f64::max);
    let load = rounds().map(|n| n.load).fold(0.0, f64::max);
    let preempted: u64 = rounds().map(|n| n.preempted).sum();
    writeln!(
        out,
        "noise: load up to {load:.2}, {preempted} preemptions, at most {:.2} % of a round's CPU time stolen",
        100.0 * stolen
    )
}

fn unbalanced(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let failed = outcome.rounds.iter().flat_map(|r| &r.identities).filter(|i| i.holds == Some(false));
    for identity in failed {
        writeln!(
            out,
            "balanced: no: {} ({}): {} [{}]",
            identity.name,
            identity.says,
            identity.remarks.join("; "),
            label::whole(&outcome.case)
        )?;
    }
    Ok(())
}

/// What an event costs its producer; NaN of one that waits for its next turn on its CPU.
pub fn cost(o: &Outcome) -> f64 {
    match o.case.workload {
        Workload::Paced(_) => f64::NAN,
        _ => o.median(|r| Some(r.traced_ns)),
    }
}

fn ages(o: &Outcome) -> String {
    let of = |which: fn(tracer::bench::Age) -> u64| o.median(|r| r.age.map(|age| which(age) as f64)) / 1000.0;
    let (p50, p99, max) = (of(|a| a.p50), of(|a| a.p99), of(|a| a.max));
    if p50.is_nan() { String::new() } else { format!("{p50:.0}/{p99:.0}/{max:.0}") }
}

fn number(value: f64, digits: usize) -> String {
    if value.is_nan() { String::new() } else { format!("{value:.digits$}") }
}

/// 1,234,567.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

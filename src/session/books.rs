//! The ledger of a session put together, and its identities checked.

use super::{Session, books_foreign as foreign, reader::Reader};
use crate::{
    ledger::{Accounts, CpuReport, Identity, ProbeReport, Report, SinkReport, Tail},
    probe::{Attached, Loaded, Probes},
    sink::Sink,
};

/// Where end markers were written.
pub struct Marks {
    pub cpus: Vec<u32>,
    pub tail: Tail,
}

/// Every count as it stands.
pub fn report(session: &Session, sink: &dyn Sink, tail: Tail) -> Report {
    let probes = &session.probes;
    let counts = sink.counts();
    Report {
        elapsed: session.started.elapsed().as_nanos() as u64,
        probes: by_probe(probes),
        cpus: cpus(probes).filter_map(|cpu| cpu_report(session, cpu)).collect(),
        feeds: session.foreign.reports(),
        sinks: vec![SinkReport {
            name: sink.name().to_owned(),
            delivered: counts.delivered,
            late: counts.late,
            dropped_queue: counts.dropped_queue,
            on_full: sink.on_full().map(|on_full| on_full.to_string()),
            dropped_sink: counts.dropped_sink + session.unhanded(),
        }],
        beyond: session.readers.iter().map(|r| r.beyond).sum::<u64>() + session.foreign.beyond(),
        excluded: session.options.filter.excluded.len() as u32,
        tail,
        identities: Vec::new(),
    }
}

/// Each probe's accounts, over all CPUs.
pub(super) fn by_probe(probes: &Probes) -> Vec<ProbeReport> {
    let one = |(i, attached): (usize, &Attached)| ProbeReport {
        name: attached.schema.name.clone(),
        spec: attached.schema.spec.clone(),
        attached: attached.how.clone(),
        accounts: cpus(probes).map(|cpu| probes.accounts(cpu, i + 1)).sum(),
        pattern: attached.pattern.clone(),
        waiting: probes.served_by(i + 1).and_then(Loaded::waiting),
        missed: probes.served_by(i + 1).and_then(Loaded::missed),
        recursion_misses: probes.served_by(i + 1).and_then(Loaded::recursion_misses),
    };
    probes.attached().iter().enumerate().map(one).collect()
}

fn cpus(probes: &Probes) -> impl Iterator<Item = u32> + use<> {
    0..probes.possible_cpus()
}

/// A CPU's accounts over all probes, our own programs and the records that events share included.
fn whole_cpu(session: &Session, cpu: u32) -> Accounts {
    let mut all: Accounts = (0..session.probes.ids()).map(|id| session.probes.accounts(cpu, id)).sum();
    all += session.probes.records(cpu);
    all
}

/// One CPU's line; `None` of a CPU that has no ring and on which nothing ever fired.
fn cpu_report(session: &Session, cpu: u32) -> Option<CpuReport> {
    let accounts = whole_cpu(session, cpu);
    let stats = session.ring_stats(cpu);
    if accounts == Accounts::default() && stats.is_none() {
        return None;
    }
    let stats = stats.unwrap_or_default();
    let reader = session.readers.get(cpu as usize)?;
    Some(CpuReport {
        cpu,
        emitted: accounts.emitted,
        decoded: reader.stream.events(),
        holes: reader.stream.holes(),
        enospc: accounts.failed.enospc,
        lost: stats.lost + stats.untold,
        kernel_lost: session.ring_lost(cpu),
        overwritten: reader.stream.overwritten(),
        faulty: reader.faulty,
        undecoded: reader.undecoded,
        corruptions: stats.corruptions,
        corrupt_bytes: stats.corrupt_bytes,
        unknown: stats.unknown,
        high_water: stats.high_water,
    })
}

/// Checks every identity of a session that has been drained to its end.
pub fn check(session: &Session, report: &Report, marks: &Marks) -> Vec<Identity> {
    let mut all = vec![
        accounts(&session.probes),
        pairs(&session.probes),
        lost(session, report, marks),
        records(session, report),
        sequence(session, report),
        sinks(report),
        tail(session, marks),
        corruption(report),
    ];
    if session.probes.gathers() {
        all.push(gathered(session, report));
    }
    foreign::check(&mut all, &report.feeds, session.options.probes > 0);
    if session.options.count_runs {
        all.push(runs(&session.probes));
    }
    all
}

pub(super) fn accounts(probes: &Probes) -> Identity {
    let says = match probes.gathers() {
        true => "fired = filtered + stored + gathered + emitted + failed",
        false => "fired = filtered + stored + tallied + emitted + failed",
    };
    let mut identity = Identity::new("accounts", says);
    for cpu in cpus(probes) {
        for id in 0..probes.ids() {
            let a = probes.accounts(cpu, id);
            let ended = a.filtered + a.stored + a.tallied + a.gathered + a.emitted + a.failed.total();
            identity.check(format_args!("probe {id} on cpu {cpu}"), a.fired, ended);
        }
    }
    identity
}

/// Of probes that pair returns with entries.
pub(super) fn pairs(probes: &Probes) -> Identity {
    let mut identity = Identity::new("pairs", "entries stored = paired + unreturned + waiting");
    for loaded in probes.loaded() {
        let a = served(probes, loaded);
        if a.stored == 0 {
            continue;
        }
        let place = format!("probe {}", loaded.ids().start);
        match loaded.waiting() {
            Some(waiting) => identity.check(place, a.stored, a.paired + a.unreturned + waiting),
            None => identity.unknown(format!("{place}: the entries that wait cannot be counted")),
        }
    }
    identity
}

/// The accounts of all probes that a program serves.
fn served(probes: &Probes, loaded: &Loaded) -> Accounts {
    let each = |id| cpus(probes).map(move |cpu| probes.accounts(cpu, id));
    loaded.ids().flat_map(each).sum()
}

fn lost(session: &Session, report: &Report, marks: &Marks) -> Identity {
    let mut identity = Identity::new("lost", "ENOSPC = sum of LOST records = PERF_FORMAT_LOST");
    for cpu in &report.cpus {
        let place = format!("cpu {}", cpu.cpu);
        match cpu.kernel_lost {
            Some(kernel) => {
                identity.check(format_args!("{place}, ENOSPC and PERF_FORMAT_LOST"), cpu.enospc, kernel)
            }
            // Without a ring there is nothing that the kernel could count.
            None if session.ring_stats(cpu.cpu).is_none() && cpu.enospc == 0 => {}
            None => identity.unknown(format!("{place}: this kernel does not count what it lost")),
        }
        let replaced = session.ring_stats(cpu.cpu).is_some_and(|stats| stats.replaced > 0);
        if cpu.lost < cpu.enospc && replaced && cpu.kernel_lost.is_none() {
            let untold = cpu.enospc - cpu.lost;
            identity.unknown(format!("{place}: a ring that was replaced may have lost the {untold} untold"));
        } else if marks.cpus.contains(&cpu.cpu) {
            identity.check(format_args!("{place}, ENOSPC and LOST records"), cpu.enospc, cpu.lost);
        } else if cpu.lost > cpu.enospc {
            identity
                .fail(format!("{place}: LOST records tell {} of {} that were refused", cpu.lost, cpu.enospc));
        } else if cpu.lost < cpu.enospc {
            let untold = cpu.enospc - cpu.lost;
            identity.unknown(format!(
                "{place}: no LOST record tells the last {untold}, as no end marker followed"
            ));
        }
    }
    identity
}

fn records(session: &Session, report: &Report) -> Identity {
    let mut identity = Identity::new("records", "emitted = decoded + end markers + overwritten");
    for cpu in &report.cpus {
        let of = |count: fn(&Reader) -> u64| session.readers.get(cpu.cpu as usize).map_or(0, count);
        // Of events that share a record, the record.
        let alone = cpu.decoded - of(|r| r.unshared) + of(|r| r.shared);
        let read = alone + of(|r| r.markers) + cpu.overwritten;
        if let Some(failed) = among_overwritten(session, cpu) {
            identity.unknown(failed);
            continue;
        }
        identity.check(format_args!("cpu {}", cpu.cpu), cpu.emitted, read);
    }
    identity
}

/// Attempts that failed among records that were overwritten have no hole of their own, and a number tells nobody which
/// of the two it was.
fn among_overwritten(session: &Session, cpu: &CpuReport) -> Option<String> {
    let probes = (0..session.probes.ids()).filter(|&id| id != Probes::OWN);
    let failed: u64 = probes.map(|id| session.probes.accounts(cpu.cpu, id).failed.attempts()).sum();
    (cpu.overwritten > 0 && failed > cpu.holes).then(|| {
        format!("cpu {}: {failed} attempts failed, some of them among what was overwritten", cpu.cpu)
    })
}

fn sequence(session: &Session, report: &Report) -> Identity {
    let mut identity =
        Identity::new("sequence", "events + holes + overwritten = attempts; holes = failed attempts");
    for cpu in &report.cpus {
        let probes = (0..session.probes.ids()).filter(|&id| id != Probes::OWN);
        let a: Accounts = probes.map(|id| session.probes.accounts(cpu.cpu, id)).sum();
        let place = format!("cpu {}", cpu.cpu);
        identity.check(
            format_args!("{place}, events + holes + overwritten and attempts"),
            cpu.decoded + cpu.holes + cpu.overwritten,
            a.emitted + a.failed.attempts() + a.sent + a.unsent,
        );
        match among_overwritten(session, cpu) {
            Some(failed) => identity.unknown(failed),
            None => {
                let failed = a.failed.attempts() + a.unsent;
                identity.check(format_args!("{place}, holes and failed attempts"), cpu.holes, failed);
            }
        }
        // An end marker may be lost as well, which takes no number.
        let unplaced = session.readers.get(cpu.cpu as usize).map_or(0, |r| r.stream.unplaced());
        let own = session.probes.accounts(cpu.cpu, Probes::OWN).failed.enospc;
        let marked = session.readers.get(cpu.cpu as usize).is_some_and(|r| r.markers > 0);
        // Where no marker arrived, nothing need have told its loss; `tail` says so.
        // Where events share records, one LOST record can tell of our own and of theirs.
        if (marked && !session.probes.gathers()) || unplaced > own {
            identity.check(format_args!("{place}, losses told without a hole"), unplaced, own);
        }
    }
    identity
}

/// Of events that share records.
fn gathered(session: &Session, report: &Report) -> Identity {
    let mut identity =
        Identity::new("gathered", "gathered = in records emitted + in records failed + held; emitted = read");
    for cpu in &report.cpus {
        let probes = &session.probes;
        let a: Accounts = (0..probes.ids()).map(|id| probes.accounts(cpu.cpu, id)).sum();
        let held = probes.held(cpu.cpu);
        let place = format!("cpu {}", cpu.cpu);
        identity.check(&place, a.gathered, a.sent + a.unsent + held);
        if held > 0 {
            identity.fail(format!("{place}: {held} events are still held: it went offline with them"));
        }
        let read = session.readers.get(cpu.cpu as usize).map_or(0, |r| r.unshared);
        identity.check(format_args!("{place}, in records emitted and read"), a.sent, read);
    }
    identity
}

fn sinks(report: &Report) -> Identity {
    let mut identity = Identity::new("sinks", "decoded = delivered + dropped + beyond the limit");
    for sink in &report.sinks {
        let ended = sink.delivered + sink.dropped_queue + sink.dropped_sink + report.beyond;
        identity.check(&sink.name, report.decoded(), ended);
    }
    identity
}

fn tail(session: &Session, marks: &Marks) -> Identity {
    let mut identity = Identity::new("tail", "every ring ends in our end marker");
    if let Tail::Derived(why) = &marks.tail {
        identity.unknown(format!("tail derived: {why}"));
    }
    for &cpu in &marks.cpus {
        let found = session.readers.get(cpu as usize).map_or(0, |r| r.markers);
        if found == 0 {
            let failed = session.probes.accounts(cpu, Probes::OWN).failed;
            let causes = failed.causes().into_iter().filter(|(_, n)| *n > 0).map(|(name, _)| name);
            let causes: Vec<_> = causes.collect();
            let why = match causes.as_slice() {
                [] => "it was written and not found: the slot holds another ring".to_owned(),
                ["ENOENT"] => "its slot is empty: somebody else cleared it".to_owned(),
                ["ENOSPC"] => {
                    "the ring had no room though it was read to its end: it is not mapped any more, or somebody \
                     else has paused it"
                        .to_owned()
                }
                other => format!("the output failed: {}", other.join(", ")),
            };
            identity.fail(format!("cpu {cpu}: no end marker; {why}"));
        }
    }
    identity
}

fn corruption(report: &Report) -> Identity {
    let mut identity = Identity::new("corruption", "rings hold what the kernel writes and nothing else");
    for cpu in report.cpus.iter().filter(|c| c.corruptions + c.undecoded > 0) {
        let CpuReport { corruptions, corrupt_bytes, undecoded, .. } = cpu;
        identity.fail(format!(
            "cpu {}: {corruptions} corruptions ({corrupt_bytes} bytes), {undecoded} samples that no schema fits",
            cpu.cpu
        ));
    }
    identity
}

pub(super) fn runs(probes: &Probes) -> Identity {
    let mut identity = Identity::new("runs", "the kernel's run count = fired");
    let own: u64 = cpus(probes).map(|cpu| probes.accounts(cpu, Probes::OWN).fired).sum();
    let all = probes.loaded().iter().map(|l| (l.ids().start, l.runs(), served(probes, l).fired));
    for (id, runs, fired) in std::iter::once((Probes::OWN, probes.own_runs(), own)).chain(all) {
        match runs {
            Some(runs) => identity.check(format_args!("probe {id}"), runs, fired),
            None => identity.unknown(format!("probe {id}: the kernel does not tell")),
        }
    }
    identity
}

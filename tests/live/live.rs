//! The live tests: what needs BPF, on this host and in guests that run other kernels.
//!
//! One source, five targets: `live_host`, and `guest_5_10` to `guest_newest`, whose kernel goes by the target's name.
//! The same program is everything: on the host it lists the tests and reports on them, in a guest it is pid 1,
//! and each test is a process of its own.
//!
//! | file | does |
//! |---|---|
//! | `table` | how a test is declared, what it may answer, where it may skip |
//! | `context`, `job` | what a test is handed: where it runs, and other programs run with a time limit |
//! | `child` | one test as a process of its own |
//! | `guest` | a kernel booted under QEMU: its files, its console, its pid 1 |
//! | `kit`, `wild` | what tests that drive the library share, and a sink that misbehaves |
//! | `rings`, `sessions`, `balance`, `damage`, `unmap`, `judge` | the library: rings, sessions, and their books |
//! | `program`, `trace` | what is traced, and what the tracer wrote, taken apart |
//! | `objects`, `hostile`, `pinned` | users' own objects, files that are none, arrays that others fill |
//! | `usdt` | probes that a program's author put into it |
//! | `probes` | every kind of probe and its values |
//! | `fields`, `types` | fields and predicates; enums, flags, errors, addresses, times |
//! | `schema` | what `tracer schema` says of the lines that `run` writes |
//! | `verifier` | the largest plans, and what the kernel's verifier walks for them |
//! | `peers` | the same events as bpftrace prints |
//! | `order` | `--order`: events by their times |
//! | `threads` | `--reader-threads`: what holds of one reader holds of several |
//! | `gather` | events that share records: each told once, and both kinds of counts |
//! | `bench` | `tracer bench`: every workload, hook and reader balances |
//! | `losses` | gaps that stand where they are, and books that balance under loss |
//! | `preempt` | programs that interrupt each other |
//! | `hotplug` | CPUs that come and go |
//! | `theft` | a slot that somebody else empties |
//! | `rights` | users without rights, lockdown, rights given up |
//! | `refusals` | what cannot be, its reason and its exit code |
//! | `returns` | returns with the arguments of their entries, and how long the call took |
//! | `doctor` | what can be probed, and what a host allows, told before anything is traced |
//! | `filters` | which tasks are traced |
//! | `command` | `-- CMD`, limits, files, forms |
//! | `stat` | what is counted in the kernel: keys, sums, histograms, a full map |
//! | `fronts`, `streams`, `load` | front ends: channels, loops of one's own, tokio; and what keeps rings busy |
//! | `flight` | snapshots of rings in overwrite mode |
//! | `pace` | the wake rule that follows the rate |
//! | `record` | recordings, judged by perf |
//! | `record_flight` | snapshots of rings that are written over |
//! | `script` | recordings that perf made, read |
//! | `script_events` | addresses, fields and structs of recordings by name |
//! | `sideband` | what becomes of tasks, told to a sink beside their events |
//! | `pipes`, `signals` | how a run ends, and what reads it |
//! | `harness`, `house` | that all this, and the guests, are what the other tests take them for |
#![deny(unsafe_code)]

mod balance;
mod bench;
mod child;
mod command;
mod context;
mod damage;
mod doctor;
mod fields;
mod filters;
mod flight;
mod fronts;
mod gather;
mod guest;
mod harness;
mod hostile;
mod hotplug;
mod house;
mod job;
mod judge;
mod kit;
mod load;
mod losses;
mod objects;
mod order;
mod pace;
mod patterns;
mod peers;
mod pinned;
mod pipes;
mod preempt;
mod probes;
mod program;
mod record;
mod record_flight;
mod refusals;
mod returns;
mod rights;
mod rings;
mod schema;
mod script;
mod script_events;
mod second_reader;
mod sessions;
mod sideband;
mod signals;
mod stat;
mod streams;
mod structs;
mod table;
mod theft;
mod threads;
mod trace;
mod types;
mod unmap;
mod usdt;
mod verifier;
mod wild;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use std::sync::Arc;
use table::{Kernel, Test, Verdict};

/// Every live test, by file.
const TESTS: &[&[Test]] = &[
    harness::TESTS,
    house::TESTS,
    probes::TESTS,
    losses::TESTS,
    rings::TESTS,
    judge::TESTS,
    sessions::TESTS,
    sideband::TESTS,
    pace::TESTS,
    fronts::TESTS,
    streams::TESTS,
    flight::TESTS,
    balance::TESTS,
    damage::TESTS,
    unmap::TESTS,
    preempt::TESTS,
    hotplug::TESTS,
    theft::TESTS,
    rights::TESTS,
    refusals::TESTS,
    objects::TESTS,
    hostile::TESTS,
    pinned::TESTS,
    usdt::TESTS,
    doctor::TESTS,
    returns::TESTS,
    fields::TESTS,
    types::TESTS,
    schema::TESTS,
    script::TESTS,
    script_events::TESTS,
    second_reader::TESTS,
    verifier::TESTS,
    peers::TESTS,
    filters::TESTS,
    command::TESTS,
    patterns::TESTS,
    pipes::TESTS,
    signals::TESTS,
    stat::TESTS,
    record::TESTS,
    record_flight::TESTS,
    bench::TESTS,
    gather::TESTS,
    order::TESTS,
    threads::TESTS,
    structs::TESTS,
];

fn main() -> ExitCode {
    if std::process::id() == 1 {
        guest::init::main();
    }
    if let Some(done) = program::main() {
        return done;
    }
    if let Some(name) = std::env::var_os(child::NAME) {
        return child::main(&name.to_string_lossy());
    }
    if let Some(words) = std::env::var_os(guest::COMMAND) {
        return guest::command(&words.to_string_lossy());
    }
    let args = Arguments::from_args();
    let guests = Arc::new(guest::Guests::new(Kernel::OURS));
    let trials = TESTS.iter().copied().flatten().filter(|test| test.runs_on(Kernel::OURS));
    // Tests of one variant stand together, so that they share a guest and one is done before the next boots.
    let mut tests: Vec<&'static Test> = trials.collect();
    tests.sort_by_key(|test| test.variant);
    let trials = tests.into_iter().map(|test| trial(test, Arc::clone(&guests))).collect();
    let conclusion = libtest_mimic::run(&args, trials);
    guests.stop();
    conclusion.exit_code()
}

fn trial(test: &'static Test, guests: Arc<guest::Guests>) -> Trial {
    let run = move || {
        let verdict = match Kernel::OURS {
            Kernel::Host => child::run_on_host(test),
            _ => guests.run(test),
        };
        report(test, verdict)
    };
    Trial::ignorable_test(test.name, run).with_kind(test.variant.name())
}

fn report(test: &Test, verdict: Verdict) -> Result<Completion, Failed> {
    match verdict {
        Verdict::Pass => Ok(Completion::Completed),
        Verdict::Fail(message) => Err(message.into()),
        Verdict::Skip(reason) if test.may_skip.contains(&Kernel::OURS) => {
            Ok(Completion::ignored_with(reason))
        }
        Verdict::Skip(reason) => Err(format!(
            "skipped where it may not be ({:?} is not in its `may_skip`): {reason}",
            Kernel::OURS
        )
        .into()),
    }
}

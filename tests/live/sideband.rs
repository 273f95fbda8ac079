//! What becomes of tasks, told to a session's sink beside their events.

use crate::context::Context;
use crate::kit::{Hand, balanced};
use crate::table::{Outcome, Test};
use tracer::record::kind;
use tracer::ring::sideband::{self, MISC_COMM_EXEC};
use tracer::sink::Item;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("sideband::a_name_precedes_the_events", a_name_precedes_the_events),
    Test::new("sideband::its_losses_are_not_the_ledgers", its_losses_are_not_the_ledgers),
];

fn a_name_precedes_the_events(ctx: &Context) -> Outcome {
    let mut hand = Hand::with(|options| {
        options.sideband = Some(sideband::Options { mmaps: true, ..Default::default() });
    })?;
    let cpu = ctx.online()?[0];
    ctx.job("true", [""; 0]).succeed()?;
    hand.fire(cpu, 0, 3)?;
    let report = hand.stop()?;
    balanced(&report)?;
    let items = &hand.sink.items;
    let exec = items.iter().position(|item| match item {
        Item::Task { header, body, .. } => {
            header.kind == kind::COMM && header.misc & MISC_COMM_EXEC != 0 && body[8..].starts_with(b"true\0")
        }
        _ => false,
    });
    let event = items.iter().position(|item| matches!(item, Item::Event { .. }));
    assert!(exec.is_some() && exec < event, "{exec:?} {event:?}");
    for wanted in [kind::FORK, kind::MMAP2, kind::EXIT] {
        let told = |item: &Item| matches!(item, Item::Task { header, .. } if header.kind == wanted);
        assert!(items.iter().any(told), "no record of kind {wanted}");
    }
    Ok(())
}

fn its_losses_are_not_the_ledgers(ctx: &Context) -> Outcome {
    let small = sideband::Options { size: 4096, ..Default::default() };
    let mut hand = Hand::with(|options| options.sideband = Some(small))?;
    let cpu = ctx.online()?[0];
    let loops = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; /bin/true; /bin/true; done";
    ctx.job("sh", ["-c", loops]).succeed()?;
    hand.fire(cpu, 0, 3)?;
    hand.drain()?;
    // A ring tells of what it lost by its next record, and any may be the one that has.
    for cpu in ctx.online()? {
        ctx.job("taskset", ["-c", &cpu.to_string(), "sh", "-c", "/bin/true; /bin/true"]).succeed()?;
    }
    let report = hand.stop()?;
    balanced(&report)?;
    assert_eq!(report.cpus.iter().map(|cpu| cpu.lost).sum::<u64>(), 0);
    let lost = |item: &Item| matches!(item, Item::Task { header, .. } if header.kind == kind::LOST);
    assert!(hand.sink.items.iter().any(lost), "nothing was lost of tasks, and this shows nothing");
    Ok(())
}

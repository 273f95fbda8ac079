//! Real damage to a running session, each caught by the ledger and named by the identity that it breaks.

use crate::context::Context;
use crate::kit::{Hand, balanced, caught, number, remarks, second, second_named};
use crate::table::{Outcome, Test};
use libbpf_rs::{MapCore as _, MapFlags};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::time::Duration;
use tracer::probe::bench::{Bench, Emit};
use tracer::record::kind;
use tracer::ring::{Budget, Entry};
use tracer::sink::Item;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("damage::none", none),
    Test::new("damage::a_record_skipped", a_record_skipped),
    Test::new("damage::a_loss_ignored", a_loss_ignored),
    Test::new("damage::a_slot_cleared", a_slot_cleared),
    Test::new("damage::a_slot_taken", a_slot_taken),
    Test::new("damage::a_record_that_runs_over_others", a_record_that_runs_over_others),
    Test::new("damage::an_account_altered", an_account_altered),
    Test::new("damage::a_sequence_altered", a_sequence_altered),
];

fn none(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 50)?;
    balanced(&hand.stop()?)?;
    Ok(())
}

/// Takes the next record away before the session sees it; its kind.
fn steal(hand: &mut Hand) -> Option<u32> {
    let mut kind = None;
    hand.session.rings_mut().drain_records(Budget::records(1), |_, entry| {
        if let Entry::Record(record) = entry {
            kind = Some(record.header.kind);
        }
        ControlFlow::Continue(())
    });
    kind
}

fn a_record_skipped(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    for place in [0, 5, 9] {
        let mut hand = Hand::with(|options| options.rings.cpus = Some(vec![cpu]))?;
        hand.fire(cpu, 0, 10)?;
        hand.session.drain(Budget::records(place), &mut hand.sink)?;
        assert_eq!(steal(&mut hand), Some(kind::SAMPLE));
        let report = hand.stop()?;
        caught(&report, &["records", "sequence"])?;
        assert!(remarks(&report, "records").contains(&format!("cpu {cpu}: 11 ≠ 10")), "{report:?}");
    }
    Ok(())
}

fn a_loss_ignored(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::with(|options| options.rings.cpus = Some(vec![cpu]))?;
    hand.fire(cpu, 0, 40)?;
    hand.drain()?;
    hand.fire(cpu, 40, 1)?;
    assert_eq!(steal(&mut hand), Some(kind::LOST));
    let report = hand.stop()?;
    caught(&report, &["lost"])?;
    assert!(remarks(&report, "lost").contains("ENOSPC and LOST records: 6 ≠ 0"), "{report:?}");
    Ok(())
}

fn a_slot_cleared(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 3)?;
    second(hand.session.probes().array())?.delete(&cpu.to_ne_bytes())?;
    hand.fire(cpu, 3, 4)?;
    std::thread::sleep(Duration::from_millis(60));
    hand.drain()?;
    let told = |item: &Item| matches!(item, Item::Note(text) if text.contains("emptied by somebody else"));
    assert!(hand.sink.items.iter().any(told), "{:?}", hand.sink.items);
    let report = hand.stop()?;
    caught(&report, &["tail"])?;
    assert!(remarks(&report, "tail").contains("its slot is empty"), "{report:?}");
    assert_eq!(report.probes[0].accounts.failed.enoent, 4);
    assert_eq!(hand.sink.gaps().map(|gap| gap.count).collect::<Vec<_>>(), [Some(4)]);
    Ok(())
}

/// Another reader puts its own ring into the slot: what goes there was emitted and is not ours to read.
fn a_slot_taken(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 3)?;
    let other = Hand::new()?;
    let fd = other.session.rings().fds().find(|(its, _)| *its == cpu).map_or(-1, |(_, fd)| fd.as_raw_fd());
    let map = second(hand.session.probes().array())?;
    map.update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
    hand.fire(cpu, 3, 4)?;
    let report = hand.stop()?;
    caught(&report, &["records", "sequence", "tail"])?;
    assert!(remarks(&report, "tail").contains("the slot holds another ring"), "{report:?}");
    Ok(())
}

fn a_record_that_runs_over_others(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::with(|options| options.rings.size = 1 << 16)?;
    let bench = Bench::by_hand(&Emit::default())?;
    bench.set_payload(&[0xab; Bench::LARGEST])?;
    let fd = hand.session.rings().fds().find(|(its, _)| *its == cpu).map_or(-1, |(_, fd)| fd.as_raw_fd());
    let map = second(bench.array())?;
    map.update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
    hand.fire(cpu, 0, 20)?;
    bench.output(cpu, 65_520, 1, false)?;
    assert_eq!(bench.accounts(cpu).emitted, 1, "the kernel says that all is well");
    hand.drain()?;
    assert_eq!(hand.numbers(cpu), [0; 0]);
    // The reader goes on.
    hand.fire(cpu, 20, 5)?;
    let report = hand.stop()?;
    assert_eq!(hand.numbers(cpu), [21, 22, 23, 24, 25]);
    caught(&report, &["records", "sequence", "corruption"])?;
    let told = |item: &Item| matches!(item, Item::Note(text) if text.contains("is corrupt"));
    let noted = hand.sink.items.iter().position(told);
    let next = hand.sink.items.iter().position(|item| number(item, cpu).is_some());
    assert!(noted.is_some() && noted < next, "{:?}", hand.sink.items);
    Ok(())
}

/// Each word of the accounts, and a lie that is right in itself.
fn an_account_altered(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let cases: &[(&[usize], &[&str])] = &[
        (&[0], &["accounts"]),
        (&[1], &["accounts"]),
        (&[2], &["accounts"]),
        (&[3], &["accounts", "records", "sequence"]),
        (&[4], &["accounts", "lost", "sequence"]),
        (&[5], &["accounts", "sequence"]),
        (&[9], &["accounts", "sequence"]),
        (&[10], &["accounts"]),
        (&[0, 3], &["records", "sequence"]),
        (&[0, 4], &["lost", "sequence"]),
        (&[0, 5], &["sequence"]),
    ];
    for (words, names) in cases {
        let mut hand = Hand::new()?;
        hand.fire(cpu, 0, 40)?;
        let map = second_named("accounts")?;
        let key = (cpu * hand.session.probes().ids() as u32 + hand.probe as u32).to_ne_bytes();
        let mut value = map.lookup(&key, MapFlags::ANY)?.unwrap_or_default();
        for word in *words {
            // Little-endian machines alone are built for.
            value[8 * word] += 1;
        }
        map.update(&key, &value, MapFlags::ANY)?;
        let report = hand.stop()?;
        caught(&report, names)?;
    }
    Ok(())
}

fn a_sequence_altered(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 10)?;
    let map = second_named("cpus")?;
    let mut value = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    assert_eq!(value[4], 10, "the first level's number stands behind its busy flag");
    value[4] += 3;
    map.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)?;
    hand.fire(cpu, 10, 1)?;
    let report = hand.stop()?;
    caught(&report, &["sequence"])?;
    Ok(())
}

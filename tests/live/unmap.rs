//! A ring unmapped behind the session's back: the kernel counts nothing then, and the ledger must see it.
#![allow(unsafe_code)]
// JUSTIFICATION: the test does the damage that it is about: it replaces a mapping of this process.

use crate::context::Context;
use crate::kit::{Hand, caught, remarks};
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::num::NonZeroUsize;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("unmap::before_anything_was_written", before_anything_was_written),
    Test::new("unmap::with_events_unread", with_events_unread),
    Test::new("unmap::after_events_were_read", after_events_were_read),
];

/// Puts zeroes in place of the only ring's mapping, which ends it: the kernel's side is gone, and no read of ours
/// faults.
fn unmap() -> Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.contains("[perf_event]")).context("no ring is mapped")?;
    let (start, end) = line.split_once(' ').unwrap_or_default().0.split_once('-').context("no range")?;
    let (start, end) = (usize::from_str_radix(start, 16)?, usize::from_str_radix(end, 16)?);
    let place = NonZeroUsize::new(start).context("a mapping at 0")?;
    let length = NonZeroUsize::new(end - start).context("an empty mapping")?;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED;
    let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: the range is one whole mapping, that of a ring, which is read and written by atomics and, below
    // its head, by slices that nobody holds now; zeroes are as good a ring.
    unsafe { mmap_anonymous(Some(place), length, both, flags) }.context("cannot replace the mapping")?;
    Ok(())
}

fn run(ctx: &Context, unread: u64, read: u64) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::with(|options| options.rings.cpus = Some(vec![cpu]))?;
    hand.fire(cpu, 0, read)?;
    hand.drain()?;
    hand.fire(cpu, read, unread)?;
    unmap()?;
    hand.fire(cpu, read + unread, 5)?;
    hand.drain()?;
    let report = hand.stop()?;
    let (records, corruption) = (unread > 0, read > 0);
    let all = [
        ("lost", true),
        ("records", records),
        ("sequence", records),
        ("tail", true),
        ("corruption", corruption),
    ];
    caught(&report, &all.iter().filter(|(_, fails)| *fails).map(|(name, _)| *name).collect::<Vec<_>>())?;
    assert!(remarks(&report, "tail").contains("not mapped"), "{report:?}");
    assert_eq!(report.cpus[0].enospc, 6, "five events and the marker");
    Ok(())
}

fn before_anything_was_written(ctx: &Context) -> Outcome {
    run(ctx, 0, 0)
}

fn with_events_unread(ctx: &Context) -> Outcome {
    run(ctx, 7, 0)
}

fn after_events_were_read(ctx: &Context) -> Outcome {
    run(ctx, 0, 12)
}

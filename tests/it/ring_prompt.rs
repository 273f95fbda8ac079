//! The wake rule that is swapped while programs output: nothing is lost by it, nothing doubled, all counted.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracer::ring::{Budget, ItemKind, Options, Set, Wake, cpus};

use crate::{
    bpf::Output,
    support::{Seen, drain_all, raw_only},
};

fn output() -> Option<Output> {
    let slots = cpus::possible().unwrap().last().unwrap() + 1;
    Output::new(slots).map_err(|e| println!("skipped: BPF is refused: {e}")).ok()
}

/// Rings of 8 KiB for the last CPU, in the slots of a new array; `None` where this host refuses it.
fn filled(options: &Options, shared: bool) -> Option<(Set, Output, u32)> {
    let cpu = *cpus::online().unwrap().last().unwrap();
    let output = output()?;
    let options = Options { size: 8192, cpus: Some(vec![cpu]), ..options.clone() };
    let array = if shared { output.events().shared() } else { output.events() };
    match Set::open(&options, Some(array)) {
        Ok(set) => Some((set, output, cpu)),
        Err(e) => {
            println!("skipped: {e}; {:?}", e.help());
            None
        }
    }
}

fn ready(set: &Set) -> bool {
    let (_, fd) = set.fds().next().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
}

#[test]
fn a_prompt_ring_wakes_for_each_record_by_the_same_descriptor() {
    let Some((mut set, output, cpu)) = filled(&raw_only(), false) else { return };
    assert_eq!((set.prompt(), set.fds().count(), set.event_ids(cpu).count()), (false, 1, 2));
    for prompt in [true, false, true] {
        assert_eq!(set.set_prompt(prompt).unwrap(), prompt);
        for _ in 0..3 {
            assert_eq!(output.run(cpu, b"4444"), 0);
            assert_eq!(ready(&set), prompt);
            assert_eq!(drain_all(&mut set).len(), 1);
        }
    }
    // Bulk wakes at a quarter: records of 16 bytes.
    set.set_prompt(false).unwrap();
    (0..2048 / 16 + 1).for_each(|_| assert_eq!(output.run(cpu, b"4444"), 0));
    assert!(ready(&set));
    assert_eq!(drain_all(&mut set).len(), 129);
}

#[test]
fn thousands_of_swaps_lose_nothing_and_double_nothing() {
    const OUTPUTS: u32 = 20_000;
    let Some((mut set, output, cpu)) = filled(&raw_only(), false) else { return };
    let (over, refusals) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut next, mut lost, mut swaps) = (0_u64, 0, 0_u64);
    let (kept, refused) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let taken = |n: &u32| {
                let taken = output.run(cpu, &n.to_ne_bytes()) == 0;
                refusals.fetch_add(u64::from(!taken), Ordering::Release);
                taken
            };
            let kept = (0..OUTPUTS).filter(taken).count() as u64;
            over.store(true, Ordering::Release);
            (kept, u64::from(OUTPUTS) - kept)
        });
        loop {
            let ended = over.load(Ordering::Acquire);
            set.drain(Budget::ALL, |item| {
                match item.kind {
                    ItemKind::Sample(sample) => {
                        assert_eq!(sample.raw().unwrap().u32_at(0), Some(next as u32));
                        next += 1;
                    }
                    ItemKind::Lost(told) => {
                        next += told.lost;
                        lost += told.lost;
                    }
                    _ => panic!("{item:?}"),
                }
                ControlFlow::Continue(())
            });
            if ended {
                break;
            }
            let prompt = !set.prompt();
            assert_eq!(set.set_prompt(prompt).unwrap(), prompt);
            swaps += 1;
            // At times the ring is left until it overflows, however long that takes.
            let before = refusals.load(Ordering::Acquire);
            while swaps.is_multiple_of(1024)
                && refusals.load(Ordering::Acquire) == before
                && !over.load(Ordering::Acquire)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        producer.join().unwrap()
    });
    println!("{swaps} swaps, {kept} kept, {refused} lost");
    assert!(swaps > 2000 && refused > 0, "{swaps} swaps, {refused} lost");
    // The end marker tells what was lost last.
    assert_eq!(output.run(cpu, b"mark"), 0);
    for seen in drain_all(&mut set) {
        match seen {
            Seen::Lost(told) => (next, lost) = (next + told.lost, lost + told.lost),
            Seen::Sample(raw) => assert_eq!(raw, b"mark"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((next, lost), (u64::from(OUTPUTS), refused));
    assert!(set.kernel_lost(cpu).is_none_or(|kernel| kernel == lost), "{:?}", set.kernel_lost(cpu));
    assert_eq!(set.stats(cpu).unwrap().samples(), kept + 1);
}

/// K17: one LOST record for the losses of both, under the id of the event that is written next.
#[test]
fn losses_of_both_events_are_one() {
    let Some((mut set, output, cpu)) = filled(&raw_only(), false) else { return };
    let fill = |lose: u32| {
        while output.run(cpu, b"4444") == 0 {}
        (1..lose).for_each(|_| assert_eq!(output.run(cpu, b"4444"), -libc::ENOSPC));
    };
    fill(13);
    set.set_prompt(true).unwrap();
    fill(5);
    assert!(drain_all(&mut set).iter().all(|seen| matches!(seen, Seen::Sample(_))));
    assert_eq!(output.run(cpu, b"4444"), 0);
    let seen = drain_all(&mut set);
    let ids: Vec<u64> = set.event_ids(cpu).collect();
    assert!(
        matches!(&seen[..], [Seen::Lost(lost), Seen::Sample(_)] if lost.lost == 18 && lost.id == ids[1]),
        "{seen:?} {ids:?}"
    );
    assert!(set.kernel_lost(cpu).is_none_or(|lost| lost == 18));
}

/// A new ring takes over the rule, and the losses of both old events stay counted.
#[test]
fn a_replaced_ring_keeps_the_rule() {
    let Some((mut set, output, cpu)) = filled(&raw_only(), false) else { return };
    while output.run(cpu, b"4444") == 0 {}
    set.set_prompt(true).unwrap();
    assert_eq!(output.run(cpu, b"4444"), -libc::ENOSPC);
    let old: Vec<u64> = set.event_ids(cpu).collect();
    assert!(set.replace(cpu).unwrap() && set.prompt());
    assert!(set.event_ids(cpu).all(|id| !old.contains(&id)));
    assert_eq!(output.run(cpu, b"new."), 0);
    assert!(ready(&set));
    let seen = drain_all(&mut set);
    assert_eq!(seen.last(), Some(&Seen::Sample(b"new.".to_vec())));
    assert!(set.kernel_lost(cpu).is_none_or(|lost| lost == 2));
    let stats = set.stats(cpu).unwrap();
    assert!(set.kernel_lost(cpu).is_none() || stats.untold == 2, "{stats:?}");
}

#[test]
fn sets_without_a_choice_stay() {
    let knob = Options { wake: Wake::Bytes(4096), ..raw_only() };
    for shared in [false, true] {
        let options = if shared { raw_only() } else { knob.clone() };
        let Some((mut set, output, cpu)) = filled(&options, shared) else { return };
        assert_eq!(set.event_ids(cpu).count(), 1);
        assert!(!set.set_prompt(true).unwrap() && !set.prompt());
        assert_eq!(output.run(cpu, b"4444"), 0);
        assert!(!ready(&set));
        // What somebody else did to the slot stays done.
        output.clear(cpu).unwrap();
        set.set_prompt(false).unwrap();
        assert_eq!(output.run(cpu, b"4444"), -libc::ENOENT);
    }
    let mut alone = match Set::open(&Options { size: 8192, ..raw_only() }, None) {
        Ok(set) => set,
        Err(e) => return println!("skipped: {e}"),
    };
    assert!(!alone.set_prompt(true).unwrap());
}

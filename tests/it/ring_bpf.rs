//! Real rings filled by a real kernel: BPF_PROG_TEST_RUN on a chosen CPU. Says so and skips where BPF is refused.

use tracer::{
    record::sample_type::*,
    ring::{CorruptionCause, Options, Set, cpus},
};

use crate::{
    bpf::Output,
    support::{Random, Seen, drain_all, padded, raw_only},
};

/// A set of rings of 8 KiB, in the slots of a new array; `None` where this host refuses it.
fn filled(options: &Options) -> Option<(Set, Output)> {
    let slots = cpus::possible().unwrap().last().unwrap() + 1;
    let output = match Output::new(slots) {
        Ok(output) => output,
        Err(e) => {
            println!("skipped: BPF is refused: {e}");
            return None;
        }
    };
    match Set::open(options, Some(output.events())) {
        Ok(set) => Some((set, output)),
        Err(e) => {
            println!("skipped: {e}; {:?}", e.help());
            None
        }
    }
}

fn small() -> Options {
    Options { size: 8192, ..raw_only() }
}

fn last_cpu() -> u32 {
    *cpus::online().unwrap().last().unwrap()
}

#[test]
fn every_cpu_writes_its_own_ring() {
    let options = Options { sample_type: RAW | TIME | CPU | TID, ..small() };
    let Some((mut set, output)) = filled(&options) else { return };
    for cpu in cpus::online().unwrap() {
        assert_eq!(output.run(cpu, &cpu.to_ne_bytes()), 0);
    }
    let mut seen = Vec::new();
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    set.drain(tracer::ring::Budget::ALL, |item| {
        let tracer::ring::ItemKind::Sample(sample) = item.kind else { panic!("{item:?}") };
        assert_eq!(sample.cpu(), Some(item.cpu));
        assert!(now - sample.time().unwrap() < 60_000_000_000, "CLOCK_MONOTONIC");
        seen.push((item.cpu, sample.raw().unwrap().u32_at(0).unwrap()));
        std::ops::ControlFlow::Continue(())
    });
    seen.sort_unstable();
    assert_eq!(seen, cpus::online().unwrap().into_iter().map(|cpu| (cpu, cpu)).collect::<Vec<_>>());
}

/// K1: every size, round the ring several times, so that every 8-byte offset meets the wrap.
#[test]
fn a_real_ring_wraps_at_every_eight_bytes() {
    let Some((mut set, output)) = filled(&small()) else { return };
    let cpu = last_cpu();
    let mut random = Random(3);
    let mut ends = std::collections::BTreeSet::new();
    let mut position = 0;
    for i in 0..3000 {
        let len = 1 + random.below(if i % 10 == 0 { 1000 } else { 60 });
        let raw = random.bytes(len);
        assert_eq!(output.run(cpu, &raw), 0);
        let seen = drain_all(&mut set);
        let [Seen::Sample(got)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((got.len(), &got[..raw.len()]), (padded(raw.len()), &raw[..]));
        let size = 12 + got.len();
        if position / 8192 != (position + size) / 8192 {
            ends.insert((position + size) % 8192);
        }
        position += size;
    }
    println!("the wrap fell on {} places of a record", ends.len());
    let stats = set.stats(cpu).unwrap();
    assert_eq!((stats.samples(), stats.bytes, stats.corruptions), (3000, position as u64, 0));
    assert!(ends.len() > 8);
}

/// K5, K6, K19: what fits, what is lost, where it is told, and that the end marker tells the rest.
#[test]
fn losses_are_told_to_the_unit() {
    let Some((mut set, output)) = filled(&small()) else { return };
    let cpu = last_cpu();
    // The largest that fits, then one that does not, then the largest again: 24 bytes short now.
    let large = vec![7; 8192 - 20];
    assert_eq!(output.run(cpu, &large), 0);
    assert_eq!(drain_all(&mut set), [Seen::Sample(large.clone())]);
    assert_eq!(output.run(cpu, &vec![7; 8192 - 19]), -libc::ENOSPC);
    assert_eq!(output.run(cpu, &large), -libc::ENOSPC);
    assert_eq!(output.run(cpu, &large[..8192 - 44]), 0);
    let seen = drain_all(&mut set);
    assert!(matches!(&seen[..], [Seen::Lost(lost), Seen::Sample(_)] if lost.lost == 2), "{seen:?}");
    let (mut kept, mut lost) = (0, 2_u64);
    for i in 0..1000_u32 {
        match output.run(cpu, &i.to_ne_bytes()) {
            0 => kept += 1,
            e => {
                assert_eq!(e, -libc::ENOSPC);
                lost += 1;
            }
        }
    }
    assert_eq!(kept, 511, "16 bytes each in 8192 - 8");
    assert_eq!(drain_all(&mut set).len(), 511);
    assert!(drain_all(&mut set).is_empty());
    // No LOST record says so yet; the kernel's own count does, where it counts.
    assert_eq!(set.stats(cpu).unwrap().lost, 2);
    assert!(set.kernel_lost(cpu).is_none_or(|told| told == lost));
    assert_eq!(output.run(cpu, b"end."), 0);
    let seen = drain_all(&mut set);
    assert!(
        matches!(&seen[..], [Seen::Lost(told), Seen::Sample(end)] if told.lost == lost - 2 && end == b"end.")
    );
    assert_eq!(set.stats(cpu).unwrap().lost, lost);
    // Paused, outputs are lost and told too.
    set.pause(cpu, true).unwrap();
    assert_eq!(output.run(cpu, b"gone"), -libc::ENOSPC);
    set.pause(cpu, false).unwrap();
    assert_eq!(output.run(cpu, b"back"), 0);
    let seen = drain_all(&mut set);
    println!("after a pause: {seen:?}, the kernel counts {:?}", set.kernel_lost(cpu));
    set.close().unwrap();
    assert!(set.kernel_lost(cpu).is_none_or(|told| told == lost + 1), "kept beyond the close");
}

/// K7, K10, K21: slots that are empty, cleared by others, taken over, and emptied at the close.
#[test]
fn slots_come_and_go() {
    let Some((mut set, output)) = filled(&small()) else { return };
    let cpu = last_cpu();
    output.clear(cpu).unwrap();
    assert_eq!(output.run(cpu, b"4444"), -libc::ENOENT);
    assert!(drain_all(&mut set).is_empty());
    assert_eq!(set.kernel_lost(cpu).unwrap_or(0), 0, "no count of the kernel's has it");
    // A new ring, a new slot.
    assert!(set.replace(cpu).unwrap());
    assert_eq!(output.run(cpu, b"4444"), 0);
    assert_eq!(drain_all(&mut set), [Seen::Sample(b"4444".to_vec())]);
    // What the old ring still holds comes first.
    assert_eq!(output.run(cpu, b"old1"), 0);
    assert_eq!(output.run(cpu, b"old2"), 0);
    assert!(set.replace(cpu).unwrap());
    assert_eq!(output.run(cpu, b"new1"), 0);
    let samples = [b"old1", b"old2", b"new1"].map(|raw| Seen::Sample(raw.to_vec()));
    assert_eq!(drain_all(&mut set), samples);
    assert_eq!(set.stats(cpu).unwrap().samples(), 4);
    // Another set takes the slot over without a word.
    let mut other = Set::open(&small(), Some(output.events())).unwrap();
    assert_eq!(output.run(cpu, b"othr"), 0);
    assert!(drain_all(&mut set).is_empty());
    assert_eq!(drain_all(&mut other), [Seen::Sample(b"othr".to_vec())]);
    other.close().unwrap();
    assert_eq!(output.run(cpu, b"4444"), -libc::ENOENT);
    set.close().unwrap();
    drop(set);
    // An array too small for the CPU.
    if last_cpu() > 0 {
        let array = Output::new(1).unwrap();
        let error = Set::open(&small(), Some(array.events())).err().unwrap();
        assert!(error.to_string().contains("has 1 slots"), "{error:?}");
        assert_eq!(array.run(0, b"4444"), -libc::ENOENT, "what was filled is empty again");
    }
}

/// K8: a healthy kernel told to output too much: nothing, or damage that is told as such and passes.
#[test]
fn oversized_outputs_of_a_real_kernel() {
    let Some((mut set, output)) = filled(&Options { size: 1 << 18, ..raw_only() }) else { return };
    let cpu = last_cpu();
    assert_eq!(output.run(cpu, &vec![1; 65_516]), 0);
    assert_eq!(drain_all(&mut set), [Seen::Sample(vec![1; 65_516])]);
    for n in [65_517, 65_524] {
        assert_eq!(output.run(cpu, &vec![2; n]), 0);
        assert!(drain_all(&mut set).is_empty(), "{n}: the head did not move");
    }
    assert_eq!(output.run(cpu, &vec![3; 65_532]), 0);
    let seen = drain_all(&mut set);
    assert!(matches!(&seen[..], [Seen::Corruption(c)] if c.cause == CorruptionCause::Malformed), "{seen:?}");
    assert_eq!(output.run(cpu, &vec![4; 100_000]), 0);
    let seen = drain_all(&mut set);
    assert!(matches!(&seen[..], [Seen::Corruption(c)] if c.bytes == 34_480), "{seen:?}");
    assert_eq!(output.run(cpu, b"aft."), 0);
    assert_eq!(drain_all(&mut set), [Seen::Sample(b"aft.".to_vec())]);
}

/// K3: readiness is one-shot, and what a fresh poller finds there is not signalled.
#[test]
fn readiness_is_one_shot() {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let options = Options { wake: tracer::ring::Wake::Records(1), ..small() };
    let Some((mut set, output)) = filled(&options) else { return };
    let cpu = last_cpu();
    let ready = |set: &Set| {
        let (_, fd) = set.fds().find(|&(c, _)| c == cpu).unwrap();
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        std::thread::sleep(std::time::Duration::from_millis(5));
        poll(&mut fds, PollTimeout::ZERO).unwrap() == 1
    };
    assert!(!ready(&set));
    assert_eq!(output.run(cpu, b"4444"), 0);
    assert!(ready(&set));
    assert!(!ready(&set), "unread, and not said again");
    assert_eq!(drain_all(&mut set).len(), 1);
}

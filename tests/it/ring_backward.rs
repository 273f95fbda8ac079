//! Rings in overwrite mode: what their bytes tell, whatever they are, and real ones filled by a real kernel.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use tracer::{
    record::kind,
    ring::{
        CorruptionCause, Flight, ItemKind, Options,
        backward::{self, Past},
        cpus,
        mock::Overwrite,
    },
};

use crate::{
    bpf::Output,
    support::{Random, raw_only},
};

/// The numbers that the records carry, newest first.
fn numbers(ring: &Overwrite, past: &Past) -> Vec<u64> {
    let number = |position: &u64| {
        let record = backward::record(&ring.data, *position).unwrap();
        assert_eq!(record.header.kind, kind::SAMPLE);
        assert!(record.body.bytes().skip(8).all(|b| b == record.body.u8_at(0).unwrap()));
        record.body.u64_at(0).unwrap()
    };
    past.records.iter().map(number).collect()
}

/// A record that says its number, and all bytes behind it the number's lowest: padded by nothing.
fn write(ring: &mut Overwrite, number: u64, words: usize) {
    let mut body = number.to_ne_bytes().to_vec();
    body.resize(8 + 8 * words, number as u8);
    ring.record(kind::SAMPLE, &body);
}

#[test]
fn the_newest_as_far_as_they_go() {
    for start in [0, 8, 1 << 40, u64::MAX - 7] {
        let mut ring = Overwrite::new(1 << 10, start);
        assert_eq!(backward::find(&ring.data, ring.head, start), Past::default());
        let mut random = Random(start | 1);
        let (mut since, mut next) = (start, 0);
        for _ in 0..2000 {
            let first = next;
            let mut sizes = Vec::new();
            for _ in 0..random.below(30) {
                let words = random.below(12);
                write(&mut ring, next, words);
                sizes.push(16 + 8 * words);
                next += 1;
            }
            let past = backward::find(&ring.data, ring.head, since);
            assert_eq!(past.corruption, None);
            // By hand: from the newest back, while they fit.
            let written: usize = sizes.iter().sum();
            assert_eq!(past.overwritten, written > 1 << 10);
            let mut room = 1 << 10;
            let whole = sizes.iter().rev().take_while(|size| {
                let fits = **size <= room;
                room = room.saturating_sub(**size);
                fits
            });
            let expected: Vec<u64> = (first..next).rev().take(whole.count()).collect();
            assert_eq!(numbers(&ring, &past), expected);
            since = ring.head;
        }
    }
}

#[test]
fn a_ring_that_is_just_full_lost_nothing() {
    let mut ring = Overwrite::new(256, 0);
    (0..16).for_each(|n| write(&mut ring, n, 0));
    let past = backward::find(&ring.data, ring.head, 0);
    assert_eq!((past.records.len(), past.overwritten), (16, false));
    write(&mut ring, 16, 0);
    let past = backward::find(&ring.data, ring.head, 0);
    assert_eq!((past.records.len(), past.overwritten), (16, true));
}

#[test]
fn what_cannot_be_is_told_and_ends_the_walk() {
    let mut ring = Overwrite::new(256, 0);
    (0..4).for_each(|n| write(&mut ring, n, 0));
    let second = ring.head.wrapping_add(16);
    let at = (second as usize & 255) + 6;
    for (size, cause) in [
        (0_u16, CorruptionCause::SizeTooSmall),
        (12, CorruptionCause::SizeUnaligned),
        (200, CorruptionCause::SizeBeyondUnread),
    ] {
        ring.data[at..at + 2].copy_from_slice(&size.to_ne_bytes());
        let past = backward::find(&ring.data, ring.head, 0);
        assert_eq!(past.corruption, Some((second, cause, 48)));
        assert_eq!(past.records, [ring.head]);
    }
    let past = backward::find(&ring.data, ring.head.wrapping_add(4), 0);
    assert!(matches!(past.corruption, Some((_, CorruptionCause::Head, 60))), "{past:?}");
    assert!(backward::find(&[], 8, 16).corruption.is_some());
    assert!(backward::record(&[], 0).is_none());
}

/// Any bytes: it ends, and no record reaches beyond the data.
#[test]
fn any_bytes() {
    let mut random = Random(9);
    for _ in 0..20_000 {
        let size = 8 << random.below(7);
        let mut data = random.bytes(size);
        // Sizes that are likely to be taken.
        for at in (6..size).step_by(8) {
            data[at] &= 0x78;
            data[at + 1] = 0;
        }
        let (head, since) = (random.next() & !7, random.next() & !7);
        let past =
            backward::find(&data, head, if random.below(2) == 0 { since } else { head.wrapping_add(64) });
        let mut bytes = 0;
        for position in &past.records {
            let record = backward::record(&data, *position).unwrap();
            assert_eq!(record.body.len() + 8, usize::from(record.header.size));
            bytes += usize::from(record.header.size);
        }
        assert!(bytes <= size);
    }
}

/// Rings of 8 KiB for the last CPU; `None` where this host refuses it.
fn filled() -> Option<(Flight, Output, u32)> {
    let cpu = *cpus::online().unwrap().last().unwrap();
    let slots = cpus::possible().unwrap().last().unwrap() + 1;
    let output = Output::new(slots).map_err(|e| println!("skipped: BPF is refused: {e}")).ok()?;
    let options = Options { size: 8192, cpus: Some(vec![cpu]), ..raw_only() };
    match Flight::open(&options, output.events()) {
        Ok(flight) => Some((flight, output, cpu)),
        Err(e) => {
            println!("skipped: {e}; {:?}", e.help());
            None
        }
    }
}

/// The numbers of one snapshot, oldest first, and whether some were overwritten before them.
fn snapshot(flight: &mut Flight) -> (Vec<u32>, bool) {
    assert!(flight.snapshot().unwrap().covered);
    let (mut numbers, mut overwritten) = (Vec::new(), false);
    assert!(flight.drain(|item| {
        match item.kind {
            ItemKind::Sample(sample) => numbers.push(sample.raw().unwrap().u32_at(0).unwrap()),
            ItemKind::Overwritten => {
                assert!(numbers.is_empty(), "it stands before what is left");
                overwritten = true;
            }
            _ => panic!("{item:?}"),
        }
        ControlFlow::Continue(())
    }));
    (numbers, overwritten)
}

#[test]
fn snapshots_of_a_real_ring_follow_each_other() {
    let Some((mut flight, output, cpu)) = filled() else { return };
    let write = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|n| assert_eq!(output.run(cpu, &n.to_ne_bytes()), 0, "never refused"));
    };
    assert_eq!(snapshot(&mut flight), (vec![], false));
    let mut next = 0;
    // Records of 16 bytes: 512 to a ring.
    for count in [1, 0, 300, 512, 3, 513, 2000, 5, 512] {
        write(next..next + count);
        next += count;
        let (numbers, overwritten) = snapshot(&mut flight);
        assert_eq!(numbers, (next - count.min(512)..next).collect::<Vec<_>>());
        assert_eq!(overwritten, count > 512);
    }
    assert!(flight.kernel_lost(cpu).is_none_or(|lost| lost == 0));
    let stats = flight.stats(cpu).unwrap();
    assert_eq!((stats.samples(), stats.corruptions), (1 + 300 + 512 + 3 + 512 + 512 + 5 + 512, 0));
    // What dead rings hold is the next snapshot's, in order.
    write(0..10);
    assert!(flight.replace(cpu).unwrap());
    write(10..20);
    assert_eq!(snapshot(&mut flight), ((0..20).collect(), false));
    flight.close().unwrap();
    flight.close().unwrap();
    assert_eq!(output.run(cpu, b"4444"), -libc::ENOENT);
    assert!(flight.stats(cpu).is_some() && flight.kernel_lost(cpu).is_none_or(|lost| lost == 0));
}

/// While a program outputs all the time: each record is in one snapshot or before it.
#[test]
fn no_window_between_snapshots() {
    const OUTPUTS: u32 = 30_000;
    let Some((mut flight, output, cpu)) = filled() else { return };
    let over = AtomicBool::new(false);
    let (mut next, mut seen, mut snapshots) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..OUTPUTS).for_each(|n| assert_eq!(output.run(cpu, &n.to_ne_bytes()), 0, "never refused"));
            over.store(true, Ordering::Release);
        });
        loop {
            let ended = over.load(Ordering::Acquire);
            let (numbers, overwritten) = snapshot(&mut flight);
            snapshots += 1;
            for (at, number) in numbers.iter().enumerate() {
                let hole = at == 0 && overwritten;
                assert!(if hole { *number >= next } else { *number == next }, "{number} for {next}");
                next = number + 1;
            }
            seen += numbers.len();
            if ended {
                break;
            }
        }
    });
    println!("{snapshots} snapshots of {seen} of {OUTPUTS}");
    assert_eq!(next, OUTPUTS);
    assert!(snapshots > 3);
}

#[test]
fn a_handler_that_panics_costs_one_record() {
    let Some((mut flight, output, cpu)) = filled() else { return };
    (0..10_u32).for_each(|n| assert_eq!(output.run(cpu, &n.to_ne_bytes()), 0));
    flight.snapshot().unwrap();
    let mut numbers = Vec::new();
    for end in [3, 7, 99] {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            flight.drain(|item| {
                let ItemKind::Sample(sample) = item.kind else { panic!("{item:?}") };
                numbers.push(sample.raw().unwrap().u32_at(0).unwrap());
                if numbers.len() == end {
                    std::panic::resume_unwind(Box::new("told to panic"));
                }
                ControlFlow::Continue(())
            })
        }));
        assert_eq!(unwound.is_err(), end < 10);
    }
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
}

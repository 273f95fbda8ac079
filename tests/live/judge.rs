//! libbpf's own reader as the judge: the same records go to two arrays, and both readers say the same.

use crate::context::Context;
use crate::kit::{Dice, second};
use crate::table::{Outcome, Test};
use anyhow::Result;
use std::cell::RefCell;
use std::ops::ControlFlow;
use tracer::probe::bench::{Bench, Emit};
use tracer::record::sample_type;
use tracer::ring::{Budget, ItemKind, Options, Set};
use tracer::session::arrays;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("judge::the_same_samples", the_same_samples),
    Test::new("judge::the_same_losses", the_same_losses),
];

/// What a reader was handed on a CPU.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// How many bytes, and those of them that a program wrote: the rest are stale.
    Sample(usize, Vec<u8>),
    Lost(u64),
}

/// Outputs `rounds` times on each CPU in turn and reads both arrays after every `unread` outputs.
fn compare(ctx: &Context, pages: usize, rounds: usize, unread: usize, seed: u64) -> Result<Vec<Vec<Told>>> {
    let (cpus, mut dice) = (ctx.online()?, Dice::new(seed));
    let bench = Bench::by_hand(&Emit::default())?;
    let payload = dice.bytes(4096);
    bench.set_payload(&payload)?;
    let options = Options { size: pages * 4096, sample_type: sample_type::RAW, ..Options::default() };
    let mut set = Set::open(&options, Some(arrays::of_bench(&bench)))?;
    let twin = second(bench.twin())?;
    let slots = bench.possible_cpus() as usize;
    let theirs: RefCell<Vec<Vec<Told>>> = RefCell::new((0..slots).map(|_| Vec::new()).collect());
    let mut ours: Vec<Vec<Told>> = (0..slots).map(|_| Vec::new()).collect();
    // How many bytes each sample that was taken has beside stale ones is not in it: it is told apart by its first.
    let mut sizes: Vec<Vec<usize>> = vec![Vec::new(); slots];
    let buffer = libbpf_rs::PerfBufferBuilder::new(&twin)
        .pages(pages)
        .sample_cb(|cpu, bytes: &[u8]| {
            theirs.borrow_mut()[cpu as usize].push(Told::Sample(bytes.len(), bytes.to_vec()))
        })
        .lost_cb(|cpu, lost| theirs.borrow_mut()[cpu as usize].push(Told::Lost(lost)))
        .build()?;
    for round in 0..rounds {
        for &cpu in &cpus {
            let size = 1 + dice.below(4000) as usize;
            let before = bench.accounts(cpu).emitted;
            bench.output(cpu, size, 1, true)?;
            if bench.accounts(cpu).emitted > before {
                sizes[cpu as usize].push(size);
            }
        }
        if round % unread == unread - 1 || round == rounds - 1 {
            buffer.consume()?;
            set.drain(Budget::ALL, |item| {
                let told = match item.kind {
                    ItemKind::Sample(sample) => {
                        let raw = sample.raw().unwrap_or_default();
                        Told::Sample(raw.len(), raw.to_contiguous().into_owned())
                    }
                    ItemKind::Lost(lost) => Told::Lost(lost.lost),
                    other => panic!("{other:?}"),
                };
                ours[item.cpu as usize].push(told);
                ControlFlow::Continue(())
            });
        }
    }
    drop(buffer);
    let mut theirs = theirs.into_inner();
    for told in [&mut ours, &mut theirs] {
        for (told, sizes) in told.iter_mut().zip(&sizes) {
            let mut sizes = sizes.iter();
            for told in told.iter_mut() {
                if let Told::Sample(all, bytes) = told {
                    let size = *sizes.next().expect("more samples than were taken");
                    assert!(*all - size < 8, "{all} bytes of {size}");
                    bytes.truncate(size);
                    assert!(*bytes == payload[..size]);
                }
            }
            assert_eq!(sizes.next(), None, "a sample that was taken did not arrive");
        }
    }
    assert!(ours == theirs);
    Ok(ours)
}

fn count(told: &[Vec<Told>], lost: bool) -> usize {
    told.iter().flatten().filter(|told| matches!(told, Told::Lost(_)) == lost).count()
}

fn the_same_samples(ctx: &Context) -> Outcome {
    for seed in 0..4 {
        let told = compare(ctx, 256, 500, 97, seed)?;
        assert_eq!((count(&told, false), count(&told, true)), (500 * ctx.online()?.len(), 0));
    }
    Ok(())
}

/// Rings of four pages that are read too seldom.
fn the_same_losses(ctx: &Context) -> Outcome {
    for seed in 10..14 {
        let told = compare(ctx, 4, 500, 13, seed)?;
        assert!(count(&told, true) > 10 && count(&told, false) > 100);
    }
    Ok(())
}

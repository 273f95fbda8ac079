//! Runs: the same samples as a drain hands over one by one, whatever lies between them and wherever they wrap.

use std::ops::ControlFlow;

use tracer::{
    record::{SampleFormat, sample_type::*},
    ring::{Budget, ItemKind, Options, Run, Set, mock::Mock},
};

use crate::support::Random;

/// What a reader was told: raw bytes, and the counts of LOST records.
#[derive(Debug, PartialEq)]
enum Told {
    Raw(Vec<u8>),
    Lost(u64),
}

fn sets(size: usize, sample_type: u64) -> (Set, Set, [tracer::ring::mock::Producer; 2]) {
    let options = Options { sample_type, ..Options::default() };
    let make = || Mock::new(0, size, SampleFormat { sample_type, sample_id_all: true }, 0);
    let (one, two) = (make(), make());
    let set = |mock| Set::of_mocks(&options, vec![mock]).unwrap();
    (set(one.reader), set(two.reader), [one.producer, two.producer])
}

fn one_by_one(set: &mut Set, budget: Budget) -> Vec<Told> {
    let mut told = Vec::new();
    set.drain(budget, |item| {
        match item.kind {
            ItemKind::Sample(sample) => {
                told.push(Told::Raw(sample.raw().unwrap().to_contiguous().into_owned()));
            }
            ItemKind::Lost(lost) => told.push(Told::Lost(lost.lost)),
            other => panic!("{other:?}"),
        }
        ControlFlow::Continue(())
    });
    told
}

/// The same by runs, and how many samples the longest had.
fn by_runs(set: &mut Set, budget: Budget) -> (Vec<Told>, usize) {
    let (mut told, mut longest, mut position) = (Vec::new(), 0, None);
    let drained = set.drain_runs(budget, |run| {
        match run {
            Run::Alike(run) => {
                assert_eq!(run.count() * run.stride, run.bytes().len());
                assert!(position.is_none_or(|before| run.position >= before));
                position = Some(run.position + run.bytes().len() as u64);
                longest = longest.max(run.count());
                for sample in run.samples() {
                    let raw = sample.unwrap().raw().unwrap();
                    told.push(Told::Raw(raw.to_contiguous().into_owned()));
                }
            }
            Run::One(item) => match item.kind {
                ItemKind::Sample(sample) => {
                    told.push(Told::Raw(sample.raw().unwrap().to_contiguous().into_owned()));
                }
                ItemKind::Lost(lost) => told.push(Told::Lost(lost.lost)),
                other => panic!("{other:?}"),
            },
        }
        ControlFlow::Continue(())
    });
    assert_eq!(drained.records, told.len() as u64);
    (told, longest)
}

#[test]
fn runs_hand_over_what_a_drain_does() {
    let mut dice = Random(77);
    for sample_type in [RAW, RAW | TIME, RAW | TIME | CPU | TID, RAW | CALLCHAIN] {
        let (mut plain, mut runs, mut producers) = sets(4096, sample_type);
        let (mut seen, mut longest) = (0, 0);
        for _ in 0..400 {
            let (size, times) = ([4, 12, 20, 20, 20, 100][dice.below(6)], 1 + dice.below(60));
            for _ in 0..times {
                let raw = dice.bytes(size);
                for producer in &mut producers {
                    producer.fields().callchain = vec![1, 2, 3];
                    let _ = producer.output(&raw);
                }
            }
            let budget =
                if dice.below(3) == 0 { Budget::records(1 + dice.below(9) as u64) } else { Budget::ALL };
            let expected = one_by_one(&mut plain, budget);
            let (told, most) = by_runs(&mut runs, budget);
            assert_eq!(told, expected);
            seen += told.len();
            longest = longest.max(most);
        }
        assert!(seen > 5000 && longest > 10, "{seen} records, the longest run of {longest}");
    }
}

#[test]
fn a_run_is_left_within_its_budget_and_by_a_break() {
    let (mut set, _, [mut producer, _]) = sets(1 << 16, RAW);
    (0..1000).for_each(|_| producer.output(&[7; 20]).unwrap());
    let mut counts = Vec::new();
    let drained = set.drain_runs(Budget::records(100), |run| {
        if let Run::Alike(run) = run {
            counts.push(run.count());
        }
        ControlFlow::Continue(())
    });
    assert_eq!((counts.as_slice(), drained.records, drained.more), ([100].as_slice(), 100, true));
    let drained = set.drain_runs(Budget::ALL, |_| ControlFlow::Break(()));
    assert!(drained.stopped && drained.more && drained.records > 100, "{drained:?}");
    // What was handed over counts as read.
    let (rest, _) = by_runs(&mut set, Budget::ALL);
    assert_eq!(rest.len() as u64, 900 - drained.records);
}

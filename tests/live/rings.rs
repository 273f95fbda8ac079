//! The ring reader against records of any size that BPF programs wrote by test-run.

use crate::context::Context;
use crate::fail;
use crate::kit::Dice;
use crate::table::{Outcome, Test};
use anyhow::Result;
use std::ops::ControlFlow;
use tracer::ErrorKind;
use tracer::probe::bench::{Bench, Emit};
use tracer::record::sample_type;
use tracer::ring::{Budget, ItemKind, Options, Set};
use tracer::session::arrays;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("rings::a_record_wraps_at_every_offset", a_record_wraps_at_every_offset),
    Test::new("rings::a_loss_record_wraps", a_loss_record_wraps),
    Test::new("rings::the_largest_that_always_fits", the_largest_that_always_fits),
    Test::new("rings::what_never_fits_is_refused", what_never_fits_is_refused),
    Test::new("rings::the_largest_payloads", the_largest_payloads),
    Test::new("rings::sizes_that_overflow", sizes_that_overflow),
];

/// Bytes of a record around its raw bytes: header and the u32 size.
const AROUND: usize = 12;

/// What one drain saw.
#[derive(Debug, Default)]
struct Seen {
    raw: Vec<Vec<u8>>,
    /// Bytes of the last record before the end of the data, where it wrapped.
    before_the_end: Option<usize>,
    /// Losses, and how many samples came before each.
    lost: Vec<(usize, u64)>,
    odd: usize,
}

struct Rig {
    bench: Bench,
    set: Set,
    cpu: u32,
    payload: Vec<u8>,
}

impl Rig {
    fn new(ctx: &Context, size: usize) -> Result<Self> {
        let bench = Bench::by_hand(&Emit::default())?;
        let cpu = ctx.online()?.pop().unwrap_or(0);
        let options =
            Options { size, sample_type: sample_type::RAW, cpus: Some(vec![cpu]), ..Options::default() };
        let set = Set::open(&options, Some(arrays::of_bench(&bench)))?;
        let payload = Dice::new(size as u64).bytes(Bench::LARGEST);
        bench.set_payload(&payload)?;
        Ok(Self { bench, set, cpu, payload })
    }

    /// Outputs so many bytes once; whether the ring took them.
    fn output(&self, bytes: usize) -> Result<bool> {
        let before = self.bench.accounts(self.cpu);
        self.bench.output(self.cpu, bytes, 1, false)?;
        let after = self.bench.accounts(self.cpu);
        assert_eq!(after.fired, before.fired + 1);
        Ok(after.emitted > before.emitted)
    }

    fn drain(&mut self) -> Seen {
        let (mut seen, size) = (Seen::default(), self.set.ring_size() as u64);
        let drained = self.set.drain(Budget::ALL, |item| {
            let record = item.record.map_or(0, |record| u64::from(record.header.size));
            let to_end = size - item.position % size;
            seen.before_the_end = (to_end < record).then_some(to_end as usize);
            match item.kind {
                ItemKind::Sample(sample) => {
                    seen.raw.push(sample.raw().unwrap_or_default().to_contiguous().into_owned());
                }
                ItemKind::Lost(lost) => seen.lost.push((seen.raw.len(), lost.lost)),
                _ => seen.odd += 1,
            }
            ControlFlow::Continue(())
        });
        assert!(!drained.more && !drained.stopped);
        seen
    }

    /// Moves the head of an empty ring to so many bytes before the end of the data.
    fn move_to(&mut self, before_the_end: usize) -> Result<()> {
        let size = self.set.ring_size();
        let stats = self.set.stats(self.cpu).unwrap_or_default();
        let way = (2 * size - before_the_end - stats.bytes as usize % size) % size;
        // No record has eight bytes, nor the whole ring.
        let steps = if way == 0 {
            vec![]
        } else if way < 24 {
            vec![size / 2, size / 2 + way]
        } else if way > size / 2 {
            vec![size / 2 - 8, way - size / 2 + 8]
        } else {
            vec![way]
        };
        for step in steps {
            assert!(self.output(step - AROUND)?);
            assert_eq!(self.drain().raw.len(), 1);
        }
        Ok(())
    }
}

fn a_record_wraps_at_every_offset(ctx: &Context) -> Outcome {
    let mut rig = Rig::new(ctx, 4096)?;
    let raw = 1004;
    for before in (8..raw + AROUND).step_by(8) {
        rig.move_to(before)?;
        assert!(rig.output(raw)?);
        let seen = rig.drain();
        assert_eq!(seen.before_the_end, Some(before));
        assert!(seen.raw == [&rig.payload[..raw]], "{before} bytes before the end");
    }
    assert_eq!(rig.set.stats(rig.cpu).unwrap_or_default().corruptions, 0);
    Ok(())
}

fn a_loss_record_wraps(ctx: &Context) -> Outcome {
    let mut rig = Rig::new(ctx, 4096)?;
    let never = rig.set.ring_size();
    for before in [8, 16, 24, 32, 48] {
        rig.move_to(before)?;
        for _ in 0..before {
            assert!(!rig.output(never)?);
        }
        assert!(rig.output(20)?);
        let seen = rig.drain();
        assert_eq!(seen.lost, [(0, before as u64)]);
        assert!(seen.raw == [&rig.payload[..20]]);
    }
    Ok(())
}

/// After a loss, 24 bytes of every record's room are the LOST record's.
fn the_largest_that_always_fits(ctx: &Context) -> Outcome {
    let mut rig = Rig::new(ctx, 4096)?;
    let size = rig.set.ring_size();
    assert!(rig.output(size - 20)?);
    assert_eq!(rig.drain().raw.len(), 1);
    assert!(!rig.output(size - 19)?);
    // Now a loss is pending: what fitted before never does.
    for _ in 0..3 {
        assert!(!rig.output(size - 20)?);
        assert!(!rig.output(size - 43)?);
        assert_eq!(rig.drain().raw.len(), 0);
    }
    assert!(rig.output(size - 44)?);
    let seen = rig.drain();
    assert_eq!(seen.lost, [(0, 7)]);
    assert!(seen.raw == [&rig.payload[..size - 44]]);
    let accounts = rig.bench.accounts(rig.cpu);
    assert_eq!((accounts.emitted, accounts.failed.enospc), (2, 7));
    if let Some(lost) = rig.set.kernel_lost(rig.cpu) {
        assert_eq!(lost, 7);
    }
    Ok(())
}

fn what_never_fits_is_refused(ctx: &Context) -> Outcome {
    let rig = Rig::new(ctx, 4096)?;
    let size = rig.set.ring_size();
    let options = |size, max_raw| Options {
        size,
        max_raw,
        sample_type: sample_type::RAW,
        cpus: Some(vec![rig.cpu]),
        ..Options::default()
    };
    Set::open(&options(size, size - 44), None)?;
    let arithmetic = [format!("{}", size - 43), format!("holds at most {}", size - 8)];
    let beyond = ["65517".to_owned(), "at most 65516".to_owned()];
    for (options, words) in [
        (options(size, size - 43), arithmetic),
        (options(1 << 20, tracer::ring::size::LARGEST_RAW + 1), beyond),
    ] {
        let Err(error) = Set::open(&options, None) else { fail!("{options:?} was taken") };
        assert_eq!(error.kind(), ErrorKind::Usage);
        let text = format!("{error:#} {}", error.help().unwrap_or_default());
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    Ok(())
}

fn the_largest_payloads(ctx: &Context) -> Outcome {
    let mut rig = Rig::new(ctx, 1 << 18)?;
    for raw in [65_516, 65_508, 65_500, 32_772, 16_380, 8_196] {
        for _ in 0..5 {
            assert!(rig.output(raw)?);
            assert!(rig.output(4)?);
            let seen = rig.drain();
            assert!(seen.raw == [&rig.payload[..raw], &rig.payload[..4]], "a payload of {raw} bytes");
        }
    }
    assert_eq!(rig.set.stats(rig.cpu).unwrap_or_default().corruptions, 0);
    Ok(())
}

/// Beyond 65,516 bytes a record's size overflows and its bytes run over records that nobody has read. The helper
/// says that all is well: only the count of what arrived tells. The reader stays sane and reads on.
fn sizes_that_overflow(ctx: &Context) -> Outcome {
    let mut rig = Rig::new(ctx, 1 << 16)?;
    for raw in [65_517, 65_520, 65_524, 65_525, 65_532, 65_533, 65_536] {
        let before = rig.bench.accounts(rig.cpu).emitted;
        for _ in 0..20 {
            assert!(rig.output(100)?);
        }
        assert!(rig.output(raw)?, "{raw} bytes are taken, and lost");
        let seen = rig.drain();
        let emitted = rig.bench.accounts(rig.cpu).emitted - before;
        assert_eq!(emitted, 21);
        let good = seen.raw.iter().filter(|bytes| **bytes == rig.payload[..100]).count();
        assert!(good < 21, "{raw}: {good} of {emitted} arrived");
        // On the next one, nothing is left of it.
        for _ in 0..2 * rig.set.ring_size() / 112 {
            assert!(rig.output(100)?);
            let seen = rig.drain();
            assert!(seen.raw == [&rig.payload[..100]] && seen.odd == 0, "after {raw}: {seen:?}");
        }
    }
    assert!(rig.set.stats(rig.cpu).unwrap_or_default().corruptions > 0);
    Ok(())
}

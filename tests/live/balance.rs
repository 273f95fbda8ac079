//! That the books of undamaged sessions balance whatever is lost, and that every loss stands at its place.

use crate::context::Context;
use crate::kit::{Dice, Hand, balanced, second_named};
use crate::table::{Kernel, Outcome, Test};
use crate::{fail, skip};
use anyhow::Result;
use libbpf_rs::{MapCore as _, MapFlags};
use std::time::Duration;
use tracer::ErrorKind;
use tracer::event::Cause;
use tracer::probe::Target;
use tracer::ring::Budget;
use tracer::session::{Options, Session};
use tracer::sink::{Item, Memory};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("balance::a_loss_stands_at_its_place", a_loss_stands_at_its_place),
    Test::new("balance::a_loss_at_the_very_end", a_loss_at_the_very_end),
    Test::new("balance::a_ring_replaced_with_a_loss_untold", a_ring_replaced_with_a_loss_untold),
    Test::new("balance::whatever_is_lost", whatever_is_lost).seconds(600),
    Test::new("balance::the_kernels_run_count", the_kernels_run_count),
    Test::new("balance::the_run_count_of_followers", the_run_count_of_followers),
    Test::new("balance::every_kind_of_probe_runs", every_kind_of_probe_runs).may_skip(&[Kernel::Host]),
    Test::new("balance::no_scratch_level_is_free", no_scratch_level_is_free),
];

/// What became of each attempt on a CPU, by its sequence number from 1 on.
struct Fate {
    cpu: u32,
    taken: Vec<bool>,
}

impl Fate {
    /// Fires and notes whether the ring took it.
    fn fire(&mut self, hand: &Hand, times: u64) -> Result<()> {
        for _ in 0..times {
            let before = hand.accounts(self.cpu).emitted;
            hand.fire(self.cpu, self.taken.len() as u64, 1)?;
            self.taken.push(hand.accounts(self.cpu).emitted > before);
        }
        Ok(())
    }

    /// Checks that the sink was told exactly this, every gap between its neighbours.
    fn check(&self, items: &[Item]) -> Result<()> {
        let (mut next, mut time) = (1, None);
        for item in items {
            match item {
                Item::Event { cpu, wire, time: its, fields, .. } if *cpu == self.cpu => {
                    anyhow::ensure!(wire.seq == next && self.taken[next as usize - 1], "{next}: {item:?}");
                    anyhow::ensure!(
                        fields[0].1 == tracer::schema::OwnedValue::Pointer(u64::from(next) - 1),
                        "{item:?}"
                    );
                    anyhow::ensure!(*its > time, "not after {time:?}: {item:?}");
                    (next, time) = (next + 1, *its);
                }
                Item::Gap(gap) if gap.cpu == self.cpu => {
                    let count = gap.count.unwrap_or(0) as u32;
                    let range = next as usize - 1..(next + count) as usize - 1;
                    let right = gap.cause == Cause::Lost
                        && count > 0
                        && gap.seq == Some((next, next + count - 1))
                        && gap.after == time
                        && self.taken.get(range).is_some_and(|taken| taken.iter().all(|taken| !taken));
                    anyhow::ensure!(right, "at {next}: {gap:?}");
                    next += count;
                }
                _ => {}
            }
        }
        anyhow::ensure!(next as usize - 1 == self.taken.len(), "{next} of {}", self.taken.len());
        Ok(())
    }
}

fn a_loss_stands_at_its_place(ctx: &Context) -> Outcome {
    let (cpus, mut dice, mut hand) = (ctx.online()?, Dice::new(3), Hand::new()?);
    let mut fates: Vec<_> = cpus.iter().map(|&cpu| Fate { cpu, taken: vec![] }).collect();
    for _ in 0..100 {
        let which = dice.below(fates.len() as u64) as usize;
        fates[which].fire(&hand, dice.below(60))?;
        hand.session.drain(Budget::records(1 + dice.below(70)), &mut hand.sink)?;
    }
    balanced(&hand.stop()?)?;
    for fate in &fates {
        fate.check(&hand.sink.items)?;
        assert!(fate.taken.iter().any(|taken| !taken));
    }
    Ok(())
}

fn a_loss_at_the_very_end(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let (mut hand, mut fate) = (Hand::new()?, Fate { cpu, taken: vec![] });
    fate.fire(&hand, 52)?;
    let report = hand.stop()?;
    balanced(&report)?;
    fate.check(&hand.sink.items)?;
    let [.., Item::Gap(gap), Item::Footer(_)] = &hand.sink.items[..] else { fail!("{:?}", hand.sink.items) };
    assert_eq!((gap.count, gap.seq), (Some(18), Some((35, 52))));
    // The marker that told it is an hour glass, not an event: the time is that of the LOST record.
    assert!(gap.before.is_some());
    assert_eq!(report.tail, tracer::ledger::Tail::Proved);
    Ok(())
}

/// A ring that is replaced never tells by a LOST record what it lost last; the kernel's count does.
fn a_ring_replaced_with_a_loss_untold(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    for drained in [false, true] {
        let (mut hand, mut fate) = (Hand::new()?, Fate { cpu, taken: vec![] });
        fate.fire(&hand, 40)?;
        if drained {
            hand.drain()?;
        }
        assert!(hand.session.rings_mut().replace(cpu)?);
        fate.fire(&hand, 3)?;
        hand.drain()?;
        fate.fire(&hand, 37)?;
        assert!(hand.session.rings_mut().replace(cpu)?);
        balanced(&hand.stop()?)?;
        fate.check(&hand.sink.items)?;
    }
    Ok(())
}

/// Sessions under random loss: any order of firing, drains of any budget, pauses and new rings.
fn whatever_is_lost(ctx: &Context) -> Outcome {
    let (cpus, runs) = (ctx.online()?, if ctx.is_guest() { 60 } else { 400 });
    let mut lost = 0;
    for run in 0..runs {
        let (mut dice, mut hand) = (Dice::new(1000 + run), Hand::new()?);
        let mut fates: Vec<_> = cpus.iter().map(|&cpu| Fate { cpu, taken: vec![] }).collect();
        for _ in 0..dice.below(30) {
            let which = dice.below(fates.len() as u64) as usize;
            let cpu = fates[which].cpu;
            match dice.below(32) {
                0 => {
                    hand.session.rings_mut().replace(cpu)?;
                }
                1..4 => hand.session.rings_mut().pause(cpu, true)?,
                4..8 => hand.session.rings_mut().pause(cpu, false)?,
                8..20 => fates[which].fire(&hand, dice.below(50))?,
                n => {
                    let budget = match n % 3 {
                        0 => Budget::records(dice.below(40)),
                        1 => Budget { bytes: dice.below(4096), ..Budget::ALL },
                        _ => Budget { time: Some(Duration::from_micros(dice.below(5))), ..Budget::ALL },
                    };
                    hand.session.drain(budget, &mut hand.sink)?;
                }
            }
        }
        let report = hand.stop()?;
        balanced(&report).map_err(|e| e.context(format!("run {run}")))?;
        for fate in &fates {
            fate.check(&hand.sink.items).map_err(|e| e.context(format!("run {run}")))?;
        }
        lost += report.missing();
    }
    assert!(lost > runs * 10, "{lost}");
    Ok(())
}

/// Everything that fires is a run that the kernel counts, our own programs' too.
fn the_kernels_run_count(ctx: &Context) -> Outcome {
    let mut hand = Hand::with(|options| options.count_runs = true)?;
    for cpu in ctx.online()? {
        hand.fire(cpu, 0, 100)?;
    }
    let report = hand.stop()?;
    balanced(&report)?;
    assert!(report.identities.iter().any(|i| i.name == "runs" && i.holds == Some(true)), "{report:?}");
    Ok(())
}

/// Threads come and go while a session is prepared: what follows them is counted from its first run.
fn the_run_count_of_followers(_: &Context) -> Outcome {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::thread::spawn(|| ()).join();
            }
        });
        let run = || -> Result<()> {
            for _ in 0..10 {
                let target = Target::Process(std::process::id());
                let mut hand = Hand::with(|options| {
                    options.count_runs = true;
                    options.filter.targets = vec![target];
                })?;
                std::thread::sleep(Duration::from_millis(20));
                balanced(&hand.stop()?)?;
            }
            Ok(())
        };
        let ran = run();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        ran
    })?;
    Ok(())
}

const SPECS: [&str; 11] = [
    "s:write",
    "rt:sched_switch",
    "rt:sys_exit",
    "t:sched:sched_process_fork",
    "t:syscalls:sys_enter_openat",
    "f:vfs_write",
    "fr:vfs_read",
    "k:vfs_open",
    "kr:vfs_write",
    "u:LIBC:getppid",
    "ur:LIBC:getppid",
];

/// The C library that this program uses, for probes in user space.
fn c_library() -> Result<String> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.contains("/libc.so")).unwrap_or_default();
    Ok(line.split_whitespace().last().unwrap_or_default().to_owned())
}

/// All kinds attached at once, and the kernel's run count of each is what it counted itself.
fn every_kind_of_probe_runs(ctx: &Context) -> Outcome {
    let mut session = Session::prepare(Options { count_runs: true, ..Options::default() })?;
    let mut sink = Memory::new();
    let mut refused = Vec::new();
    for spec in SPECS {
        let spec = spec.replace("LIBC", &c_library()?);
        match session.attach(&spec.parse()?) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::Attach | ErrorKind::Precondition) => {
                refused.push(format!("{spec}: {e:#}"));
            }
            Err(e) => fail!("{spec}: {e:#}"),
        }
    }
    for _ in 0..50 {
        nix::unistd::getppid();
        ctx.dd(20, 1).succeed()?;
        while session.drain(Budget::ALL, &mut sink)?.more {}
    }
    let report = session.stop(&mut sink)?;
    balanced(&report)?;
    assert!(report.identities.iter().any(|i| i.name == "runs" && i.holds == Some(true)), "{report:?}");
    for probe in &report.probes {
        assert!(probe.accounts.fired > 0, "{}: {:?}", probe.spec, probe.accounts);
    }
    if !refused.is_empty() {
        skip!("{} of {} ran, and balanced: {}", report.probes.len(), SPECS.len(), refused.join("; "));
    }
    Ok(())
}

/// Every level of a CPU is taken: runs fail as `scratch`, take no number, and the books still balance.
fn no_scratch_level_is_free(ctx: &Context) -> Outcome {
    /// `sizeof(struct tracer_level)`, and how many there are.
    const LEVEL: usize = 4352;
    const LEVELS: usize = 4;
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    hand.fire(cpu, 0, 3)?;
    let map = second_named("cpus")?;
    // The busy flag opens each level; where levels nest strictly, their depth stands behind the last.
    let take = |taken: bool| -> Result<()> {
        let mut value = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        (0..LEVELS).for_each(|level| value[level * LEVEL] = u8::from(taken));
        value[LEVELS * LEVEL] = if taken { LEVELS as u8 } else { 0 };
        Ok(map.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)?)
    };
    take(true)?;
    hand.fire(cpu, 3, 5)?;
    take(false)?;
    hand.fire(cpu, 8, 2)?;
    let report = hand.stop()?;
    balanced(&report)?;
    let accounts = hand.accounts(cpu);
    assert_eq!((accounts.failed.scratch, accounts.emitted, accounts.failed.total()), (5, 5, 5));
    assert_eq!(hand.numbers(cpu), [1, 2, 3, 4, 5]);
    Ok(())
}

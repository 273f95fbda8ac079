//! The wake rule that follows the rate, under the front end: the books balance over its changes.

use crate::context::{Context, switch};
use crate::kit::{Hand, balanced};
use crate::table::{Outcome, Test};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tracer::frontend::{Control, blocking};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    // Under emulation no rate is high enough.
    Test::new("pace::the_rule_follows_the_rate", the_rule_follows_the_rate).on_host(),
    Test::new("pace::a_cpu_goes_and_comes_between_swaps", a_cpu_goes_and_comes_between_swaps).in_guests(),
    Test::new("pace::swaps_between_losses_balance", swaps_between_losses_balance),
];

/// Silence and 40,000 events a second in turn, each until the rule has followed.
fn the_rule_follows_the_rate(ctx: &Context) -> Outcome {
    const PHASES: u32 = 10;
    const LONGEST: Duration = Duration::from_secs(5);
    let cpu = ctx.online()?[0];
    let mut hand = Hand::with(|options| options.rings.size = 1 << 20)?;
    let (probe, control) = (hand.probe, Control::new()?);
    let (mut fired, mut phase, mut since, mut here) = (0_u32, 0, Instant::now(), 0);
    let Hand { session, sink, .. } = &mut hand;
    let ended = blocking::run(session, sink, &control, None, |session, _| {
        let silent = phase % 2 == 0;
        if session.rings().prompt() == silent || since.elapsed() > LONGEST {
            if session.rings().prompt() != silent || phase == PHASES {
                return ControlFlow::Break(());
            }
            (phase, since, here) = (phase + 1, Instant::now(), 0);
        } else if !silent {
            // By the clock: on a busy machine passes come late, and each event may take as long as it should.
            let due = 40 * since.elapsed().as_millis() as u64;
            while here < due {
                fired += u32::from(session.probes().fire(probe, cpu, &[here; 6]).is_ok());
                here += 1;
            }
        }
        // A pass at least every other millisecond, for the rate to be taken.
        std::thread::sleep(Duration::from_millis(1));
        control.wake();
        ControlFlow::Continue(())
    })?;
    balanced(&ended.report)?;
    println!("{fired} events");
    assert_eq!(phase, PHASES, "no other rule within {LONGEST:?} of this phase");
    let lost: u64 = ended.report.cpus.iter().map(|cpu| cpu.lost).sum();
    assert_eq!(hand.numbers(cpu).len() as u64 + lost, u64::from(fired));
    Ok(())
}

fn a_cpu_goes_and_comes_between_swaps(_: &Context) -> Outcome {
    let mut hand = Hand::new()?;
    for prompt in [true, false, true] {
        assert_eq!(hand.session.set_prompt(prompt)?, prompt);
        hand.fire(1, 0, 5)?;
        let generation = hand.session.generation();
        switch(1, false)?;
        // A swap while it is away is no error.
        assert_eq!(hand.session.set_prompt(!prompt)?, !prompt);
        switch(1, true)?;
        let since = Instant::now();
        while hand.session.generation() == generation {
            assert!(since.elapsed() < Duration::from_secs(20), "no new ring");
            hand.fire(1, 0, 1)?;
            std::thread::sleep(Duration::from_millis(60));
            hand.drain()?;
        }
        let before = hand.accounts(1).emitted;
        hand.fire(1, 0, 5)?;
        assert_eq!(hand.accounts(1).emitted, before + 5);
        hand.drain()?;
    }
    let report = hand.stop()?;
    balanced(&report)?;
    let failed = hand.accounts(1).failed.eopnotsupp;
    assert!(failed >= 3);
    assert_eq!(hand.sink.gaps().filter_map(|gap| gap.count).sum::<u64>(), failed);
    Ok(())
}

fn swaps_between_losses_balance(ctx: &Context) -> Outcome {
    let cpu = ctx.online()?[0];
    let mut hand = Hand::new()?;
    let rounds = 600;
    for round in 0..rounds {
        // A ring of one page holds 34.
        hand.fire(cpu, 0, if round % 10 == 0 { 45 } else { 3 })?;
        let prompt = round % 2 == 0;
        assert_eq!(hand.session.set_prompt(prompt)?, prompt);
        hand.fire(cpu, 0, 2)?;
        if round % 3 != 0 {
            hand.drain()?;
        }
    }
    let report = hand.stop()?;
    balanced(&report)?;
    let lost: u64 = report.cpus.iter().map(|cpu| cpu.lost).sum();
    assert!(lost > 500, "{lost} lost");
    let numbers = hand.numbers(cpu);
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "doubled or out of order");
    Ok(())
}

//! The throughput benchmark behind `tracer bench`: trace_output's job of 2015, with its loss and its cost.
//!
//! In come [`Case`]s; out comes an [`Outcome`] for each: events received a second, what was lost, nanoseconds a
//! traced call with and without the program, the reader's share of a CPU and the age of what it read.
//!
//! ```text
//!   producers, one a CPU, pinned           this thread (and more, if asked), kept off them
//!   write │ paced: a call ─► program ──┐   ┌─► rings (or a BPF ringbuf) ─► drained, counted, checked
//!   burst │ drain: test-run ─► program ┴───┘
//! ```
//!
//! Cases take turns within a round, and what is told is the median over rounds: a busy moment of the machine meets
//! them all alike.
//!
//! **Invariants.** No rate without its loss: a round that does not balance says so. Nothing here is faster than what
//! a session does: the rings, the wake rule and the pace are those of every other reader.

mod case;
mod measure;
mod noise;
mod outcome;
mod readers;
mod seen;
mod workload;

use crate::{Error, Result};

pub use self::{
    case::{Case, Reader, Sweep, WakeRule, Workload},
    noise::Noise,
    outcome::{Age, Outcome, Round},
};

/// How cases are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one case runs in one round.
    pub duration: std::time::Duration,
    /// How many rounds.
    pub rounds: usize,
    /// The first CPU that makes events; more producers take those after it.
    pub cpu: u32,
}

/// Measures the cases in turn, round after round; `progress` is told how many of how many measurements are done.
///
/// The calling thread is kept off the producers' CPUs where there are others, and put back at the end.
///
/// # Errors
///
/// Usage: a case that cannot be. Attach: its hook is not to be had. Precondition: capabilities, limits.
pub fn run(
    options: &Options,
    cases: &[Case],
    mut progress: impl FnMut(usize, usize, &Case),
) -> Result<Vec<Outcome>> {
    if options.rounds == 0 || options.duration.is_zero() {
        return Err(Error::usage("no rounds, or rounds of no time, measure nothing"));
    }
    let _pinned = workload::KeptOff::new(options.cpu, cases.iter().map(|c| c.producers).max().unwrap_or(1))?;
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); cases.len()];
    for round in 0..options.rounds {
        for turn in 0..cases.len() {
            let which = (round + turn) % cases.len();
            progress(round * cases.len() + turn, options.rounds * cases.len(), &cases[which]);
            rounds[which].push(measure::measure(options, &cases[which])?);
        }
    }
    Ok(cases.iter().zip(rounds).map(|(case, rounds)| Outcome { case: case.clone(), rounds }).collect())
}

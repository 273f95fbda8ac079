//! The medians of the rounds, and how ours compares.

use crate::round::{Peer, Round};

/// Prints a line a reader. Ratios are the medians of the rounds' own: of records received a second, and of those
/// received a second of the writer's CPU time, which others on a busy machine do not touch. Returns the latter of
/// ours against the second reader.
pub fn print(peers: &[Peer], rounds: &[Vec<Round>]) -> f64 {
    println!(
        "{:<34} {:>10} {:>10} {:>7} {:>9} {:>9} {:>6} {:>10} {:>10}",
        "reader", "events/s", "lost", "lost %", "ns/write", "waits/s", "CPU %", "ours/this", "by CPU s"
    );
    let mut first = f64::NAN;
    for (which, (peer, its)) in peers.iter().zip(rounds).enumerate() {
        let of = |value: fn(&Round) -> f64| median(its.iter().map(value));
        let ratio =
            |of: fn(&Round) -> f64| median(rounds[0].iter().zip(its).map(|(ours, this)| of(ours) / of(this)));
        if which == 1 {
            first = ratio(by_cpu);
        }
        println!(
            "{:<34} {:>10.0} {:>10.0} {:>7.2} {:>9.0} {:>9.0} {:>6.1} {:>10.2} {:>10.2}",
            peer.name,
            of(rate),
            of(|r| r.seen.lost as f64),
            of(|r| 100.0 * r.seen.lost as f64 / (r.seen.received + r.seen.lost).max(1) as f64),
            of(|r| r.ns),
            of(|r| r.seen.waits as f64 / r.seconds),
            of(|r| 100.0 * r.cpu),
            ratio(rate),
            ratio(by_cpu),
        );
    }
    first
}

/// Records received in a second.
fn rate(round: &Round) -> f64 {
    round.seen.received as f64 / round.seconds
}

/// Records received in a second of the writer's CPU time.
fn by_cpu(round: &Round) -> f64 {
    let calls = (round.seen.received + round.seen.lost) as f64;
    round.seen.received as f64 / (calls * round.ns / 1e9)
}

/// The middle of all, or the mean of the two there.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { (all[middle - 1] + all[middle]) / 2.0 }
}

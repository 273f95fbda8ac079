//! The medians of the rounds, and how ours compares.

use crate::round::{Peer, Round};

/// Prints a line a reader; returns ours against the second, by the median of the rounds' ratios.
pub fn print(peers: &[Peer], rounds: &[Vec<Round>]) -> f64 {
    println!(
        "{:<34} {:>10} {:>10} {:>7} {:>9} {:>9} {:>6} {:>10}",
        "reader", "events/s", "lost", "lost %", "ns/write", "waits/s", "CPU %", "ours/this"
    );
    let mut first = f64::NAN;
    for (which, (peer, its)) in peers.iter().zip(rounds).enumerate() {
        let of = |value: fn(&Round) -> f64| median(its.iter().map(value));
        let ratio = median(rounds[0].iter().zip(its).map(|(ours, this)| rate(ours) / rate(this)));
        if which == 1 {
            first = ratio;
        }
        println!(
            "{:<34} {:>10.0} {:>10.0} {:>7.2} {:>9.0} {:>9.0} {:>6.1} {:>10.2}",
            peer.name,
            of(rate),
            of(|r| r.seen.lost as f64),
            of(|r| 100.0 * r.seen.lost as f64 / (r.seen.received + r.seen.lost).max(1) as f64),
            of(|r| r.ns),
            of(|r| r.seen.waits as f64 / r.seconds),
            of(|r| 100.0 * r.cpu),
            ratio,
        );
    }
    first
}

/// Records received in a second.
fn rate(round: &Round) -> f64 {
    round.seen.received as f64 / round.seconds
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { (all[middle - 1] + all[middle]) / 2.0 }
}

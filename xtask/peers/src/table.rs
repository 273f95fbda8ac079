//! The medians of the rounds, and how ours compares.

use crate::compare::Outcome;
use crate::peer::PEERS;
use crate::round::Round;
use crate::scene::Workload;
use serde_json::{Map, Value, json};

/// What a column shows.
enum Of {
    /// The median of the rounds.
    Round(fn(&Round) -> f64),
    /// The median of the rounds' own ratios of ours to this: others on a busy machine touch both alike.
    Ratio(fn(&Round) -> f64),
}

struct Column {
    name: &'static str,
    digits: usize,
    of: Of,
}

const fn column(name: &'static str, digits: usize, of: Of) -> Column {
    Column { name, digits, of }
}

const RATE: Column = column("events/s", 0, Of::Round(rate));
const LOST: Column = column("lost %", 2, Of::Round(|r| 100.0 * r.lost as f64 / (r.events + r.lost) as f64));
const WAITS: Column = column("waits/s", 0, Of::Round(|r| r.waits as f64 / r.seconds));
const CPU: Column = column("reader CPU %", 1, Of::Round(|r| 100.0 * r.cpu));
const OURS: Column = column("ours/this", 2, Of::Ratio(rate));

fn columns(workload: Workload) -> Vec<Column> {
    match workload {
        Workload::Live => vec![
            RATE,
            LOST,
            column("ns/write", 0, Of::Round(|r| r.ns)),
            column("x untraced", 2, Of::Round(|r| r.ns / r.untraced)),
            WAITS,
            CPU,
            OURS,
            column("by CPU s", 2, Of::Ratio(by_cpu)),
        ],
        Workload::Paced(_) => vec![
            RATE,
            LOST,
            WAITS,
            CPU,
            column("p50 us", 0, Of::Round(|r| r.ages[0])),
            column("p99 us", 0, Of::Round(|r| r.ages[1])),
            column("max us", 0, Of::Round(|r| r.ages[2])),
        ],
        Workload::Burst => {
            vec![RATE, LOST, column("ns/event", 0, Of::Round(|r| r.ns)), WAITS, CPU, OURS]
        }
        Workload::Drain => {
            vec![
                column("ns/event", 2, Of::Round(|r| r.drain)),
                column("ours/this", 2, Of::Ratio(|r| r.drain)),
            ]
        }
    }
}

/// What the scene is, in a line.
fn title(outcome: &Outcome) -> String {
    let size = outcome.scene.size;
    match outcome.scene.workload {
        Workload::Live => format!("live: write(2) of one byte, a call after the other; {}", outcome.attached),
        Workload::Paced(rate) => format!("paced: {rate} writes a second; {}", outcome.attached),
        Workload::Burst => format!("burst: {size}-byte events by test-run"),
        Workload::Drain => {
            format!("drain: {size}-byte events, reading alone is timed, on the CPU that filled the ring")
        }
    }
}

fn name(workload: Workload) -> &'static str {
    match workload {
        Workload::Live => "live",
        Workload::Paced(_) => "paced",
        Workload::Burst => "burst",
        Workload::Drain => "drain",
    }
}

fn cells(outcome: &Outcome, columns: &[Column], which: usize) -> Vec<f64> {
    let (ours, its) = (&outcome.rounds[0], &outcome.rounds[which]);
    let cell = |column: &Column| match column.of {
        Of::Round(value) => median(its.iter().map(value)),
        Of::Ratio(value) => ratio(ours, its, value),
    };
    columns.iter().map(cell).collect()
}

/// Prints a line a reader.
pub fn print(outcome: &Outcome) {
    let columns = columns(outcome.scene.workload);
    println!("\n{}", title(outcome));
    print!("{:<34}", "reader");
    columns.iter().for_each(|c| print!(" {:>12}", c.name));
    println!();
    for (which, peer) in PEERS.iter().enumerate() {
        print!("{:<34}", peer.name);
        for (cell, column) in cells(outcome, &columns, which).iter().zip(&columns) {
            print!(" {cell:>12.*}", column.digits);
        }
        println!();
    }
}

/// The same for programs.
pub fn json(outcome: &Outcome) -> Value {
    let columns = columns(outcome.scene.workload);
    let reader = |(which, peer): (usize, &crate::peer::Peer)| {
        let cells = cells(outcome, &columns, which);
        let mut object: Map<String, Value> =
            columns.iter().zip(cells).map(|(c, cell)| (c.name.to_owned(), json!(cell))).collect();
        object.insert("reader".to_owned(), json!(peer.name));
        Value::Object(object)
    };
    json!({
        "workload": name(outcome.scene.workload),
        "size": outcome.scene.size,
        "attached": outcome.attached,
        "readers": PEERS.iter().enumerate().map(reader).collect::<Vec<_>>(),
    })
}

/// Events received a second.
pub fn rate(round: &Round) -> f64 {
    round.events as f64 / round.seconds
}

/// Events received in a second of the writer's CPU time.
pub fn by_cpu(round: &Round) -> f64 {
    let calls = (round.events + round.lost) as f64;
    round.events as f64 / (calls * round.ns / 1e9)
}

/// The median over rounds of ours to this.
pub fn ratio(ours: &[Round], this: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(ours.iter().zip(this).map(|(ours, this)| of(ours) / of(this)))
}

/// The middle of all, or the mean of the two there.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => all[middle],
        _ => (all[middle - 1] + all[middle]) / 2.0,
    }
}

//! Histograms as bpftrace draws them, and amounts with their units.

use std::io::Write as _;

use crate::schema::tally::{BUCKETS, Tally};

/// Columns of the longest bar.
const BAR: u64 = 52;

/// Appends a line for each bucket from the first that has values to the last.
pub fn draw(tally: &Tally, time: bool, out: &mut Vec<u8>) {
    let used = |i: &usize| tally.histogram[*i] > 0;
    let (Some(first), Some(last)) = ((0..BUCKETS).find(used), (0..BUCKETS).rfind(used)) else { return };
    let most = tally.histogram.iter().copied().max().unwrap_or(1);
    for bucket in first..=last {
        let n = tally.histogram[bucket];
        let bar = "@".repeat((u128::from(n) * u128::from(BAR) / u128::from(most)) as usize);
        let _ = writeln!(out, "{:<17} {n:>9} |{bar:<52}|", label(bucket, time));
    }
}

/// What a bucket is called.
fn label(bucket: usize, time: bool) -> String {
    let bound = |n: u64| if time { self::time(n as f64) } else { power(n) };
    match Tally::range(bucket) {
        (None, _) => "(..., 0)".into(),
        (Some(from), None) => format!("[{}, ...)", bound(from)),
        (Some(from), Some(to)) if to - from == 1 => format!("[{from}]"),
        (Some(from), Some(to)) => format!("[{}, {})", bound(from), bound(to)),
    }
}

/// A power of two with the letter of its power of 1024.
fn power(n: u64) -> String {
    let letters = ["", "K", "M", "G", "T", "P", "E"];
    let steps = n.max(1).ilog2() / 10;
    format!("{}{}", n >> (10 * steps), letters[steps as usize])
}

/// Nanoseconds to three figures.
pub fn time(ns: f64) -> String {
    let size = ns.abs();
    let (scale, unit) = match size {
        _ if size < 999.5 => (1.0, "ns"),
        _ if size < 999_500.0 => (1e3, "us"),
        _ if size < 999_500_000.0 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let n = ns / scale;
    let digits = match n.abs() {
        _ if unit == "ns" => usize::from(n.fract() != 0.0),
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{n:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let plain: Vec<_> = [0, 1, 2, 3, 11, 12, 22, 64, 65].map(|b| label(b, false)).into();
        assert_eq!(
            plain,
            [
                "(..., 0)",
                "[0]",
                "[1]",
                "[2, 4)",
                "[512, 1K)",
                "[1K, 2K)",
                "[1M, 2M)",
                "[4E, 8E)",
                "[8E, ...)"
            ]
        );
        let times: Vec<_> = [1, 11, 12, 22, 32].map(|b| label(b, true)).into();
        assert_eq!(
            times,
            ["[0]", "[512ns, 1.02us)", "[1.02us, 2.05us)", "[1.05ms, 2.10ms)", "[1.07s, 2.15s)"]
        );
    }

    #[test]
    fn times_to_three_figures() {
        let all = [0.0, 7.5, 999.0, 999.6, 1024.0, 12_345.0, 999_499.0, 999_600.0, 61e9];
        assert_eq!(
            all.map(time),
            ["0ns", "7.5ns", "999ns", "1.00us", "1.02us", "12.3us", "999us", "1.00ms", "61.0s"]
        );
    }

    #[test]
    fn bars_are_to_scale() {
        let mut tally = Tally::default();
        (tally.histogram[1], tally.histogram[3]) = (2, 1);
        let mut out = Vec::new();
        draw(&tally, false, &mut out);
        let full = "@".repeat(52);
        let half = format!("{:<52}", "@".repeat(26));
        let none = " ".repeat(52);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "[0]                       2 |{full}|\n[1]                       0 |{none}|\n\
                 [2, 4)                    1 |{half}|\n"
            )
        );
        let mut out = Vec::new();
        draw(&Tally::default(), false, &mut out);
        assert!(out.is_empty());
    }
}

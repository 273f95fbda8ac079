//! Sizes and times as people type them.

use std::time::Duration;

use tracer::{
    ring::Wake,
    sink::{OnFull, TimeFormat},
};

/// Bytes: a number with K, M or G (powers of 1024), or none.
pub fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = split(text);
    let factor: usize = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(format!("'{unit}' is no unit of size: K, M and G are")),
    };
    let number: usize = digits.parse().map_err(|_| format!("'{text}' is no size, such as 64K or 4M"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is more than this machine can address"))
}

/// The bytes of a ring: perf's `-m` counts pages, and whoever thinks of that is told.
pub fn ring(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    if (1..1024).contains(&bytes) {
        return Err(format!("a ring of {bytes} bytes holds nothing: sizes have units, such as 64K or 4M"));
    }
    Ok(bytes)
}

/// A time: a number with us, ms, s, m or h.
pub fn time(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split(text);
    let number: f64 = digits.parse().map_err(|_| format!("'{text}' is no time, such as 100ms or 10s"))?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" => return Err(format!("'{text}' has no unit: us, ms, s, m or h")),
        _ => return Err(format!("'{unit}' is no unit of time: us, ms, s, m and h are")),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text} is out of range"))
}

/// How times are shown.
pub fn shown(text: &str) -> Result<TimeFormat, String> {
    text.parse().map_err(with_help)
}

/// What becomes of events where the output takes no more.
pub fn on_full(text: &str) -> Result<OnFull, String> {
    text.parse().map_err(with_help)
}

fn with_help(e: tracer::Error) -> String {
    match e.help() {
        Some(help) => format!("{e}: {help}"),
        None => e.to_string(),
    }
}

/// When the kernel is to wake us: so many records, or with a unit so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    Records(u32),
    Bytes(u32),
}

impl From<Wakeup> for Wake {
    fn from(wakeup: Wakeup) -> Wake {
        match wakeup {
            Wakeup::Records(n) => Wake::Records(n),
            Wakeup::Bytes(n) => Wake::Bytes(n),
        }
    }
}

/// A number of records, or bytes with a unit.
pub fn wakeup(text: &str) -> Result<Wakeup, String> {
    let (digits, unit) = split(text);
    if unit.is_empty() {
        return digits.parse().map(Wakeup::Records).map_err(|_| format!("'{text}' is no number of records"));
    }
    let bytes = size(text)?;
    u32::try_from(bytes).map(Wakeup::Bytes).map_err(|_| format!("{text} is more than a ring can hold"))
}

/// How many events share a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// So many.
    Events(u32),
    /// As many as suits the events.
    Auto,
}

/// A number of events, or `auto`.
pub fn gather(text: &str) -> Result<Gather, String> {
    match text {
        "auto" => Ok(Gather::Auto),
        _ => text
            .parse()
            .map(Gather::Events)
            .map_err(|_| format!("'{text}' is no number of events, nor 'auto'")),
    }
}

/// Two words with `=` between.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' has no '='"))?;
    if name.is_empty() {
        Err("nothing stands before the '='".into())
    } else {
        Ok((name.into(), value.into()))
    }
}

fn split(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("8K"), Ok(8192));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        for bad in ["", "K", "4X", "1.5M", "-1", "99999999999999999999", "18446744073709551615G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(time("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "10", "ms", "1d", "-1s", "1e99h", "1.2.3s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wakeups() {
        assert_eq!(wakeup("1"), Ok(Wakeup::Records(1)));
        assert_eq!(wakeup("4K"), Ok(Wakeup::Bytes(4096)));
        assert!(wakeup("4G").is_err());
    }
}

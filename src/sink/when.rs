//! The time column of the text form: which clock, and how it is written.

use jiff::{Timestamp, tz::TimeZone};

use super::{
    Clock,
    number::{decimal, fraction, padded},
};
use crate::{Error, Result};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// How times are shown (`-t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeFormat {
    /// Not at all.
    None,
    /// Since the event shown before: `+0.000012345`; negative where CPUs are out of order.
    Delta,
    /// CLOCK_MONOTONIC, as perf shows it: `2083.123456789`.
    #[default]
    Mono,
    /// The local time of day by the clock at the start, in RFC 3339: `2026-03-01T15:04:05.123456789+02:00`.
    Wall,
    /// The same in UTC: `2026-03-01T13:04:05.123456789Z`.
    Utc,
}

impl std::str::FromStr for TimeFormat {
    type Err = Error;

    fn from_str(s: &str) -> Result<TimeFormat> {
        Ok(match s {
            "none" => TimeFormat::None,
            "delta" => TimeFormat::Delta,
            "mono" => TimeFormat::Mono,
            "wall" => TimeFormat::Wall,
            "utc" => TimeFormat::Utc,
            _ => {
                return Err(Error::usage(format!("no time format {s:?}"))
                    .with_help("one of none, delta, mono, wall, utc"));
            }
        })
    }
}

/// Writes times; keeps what the next one builds on.
#[derive(Debug)]
pub(super) struct Stamp {
    format: TimeFormat,
    clock: Clock,
    zone: TimeZone,
    before: Option<u64>,
    /// The second that `date` and `offset` were made for: most events share it.
    second: Option<i64>,
    date: Vec<u8>,
    offset: Vec<u8>,
}

impl Stamp {
    pub fn new(format: TimeFormat) -> Stamp {
        let zone = if format == TimeFormat::Wall { TimeZone::system() } else { TimeZone::UTC };
        let (clock, before, second) = (Clock::default(), None, None);
        Stamp { format, clock, zone, before, second, date: Vec::new(), offset: Vec::new() }
    }

    /// Takes the moment that ties the clocks together.
    pub fn anchor(&mut self, clock: Clock) {
        (self.clock, self.second) = (clock, None);
    }

    /// Another, unless each time hangs on the one before.
    pub fn arm(&self) -> Option<Stamp> {
        let Stamp { format, clock, ref zone, .. } = *self;
        let zone = zone.clone();
        (format != TimeFormat::Delta).then(|| Stamp { clock, zone, ..Stamp::new(format) })
    }

    /// True where no time is shown.
    pub fn hidden(&self) -> bool {
        self.format == TimeFormat::None
    }

    /// Appends an event's time.
    pub fn event(&mut self, time: Option<u64>, out: &mut Vec<u8>) {
        match (self.format, time) {
            (TimeFormat::Delta, Some(time)) => {
                let before = self.before.replace(time).unwrap_or(time);
                out.push(if time < before { b'-' } else { b'+' });
                seconds(time.abs_diff(before), 0, out);
            }
            _ => self.moment(time, out),
        }
    }

    /// Appends a moment that is no event's: never a difference.
    pub fn moment(&mut self, time: Option<u64>, out: &mut Vec<u8>) {
        let Some(time) = time else { return out.push(b'?') };
        match self.format {
            TimeFormat::Wall | TimeFormat::Utc => self.real(time, out),
            _ => seconds(time, 6, out),
        }
    }

    fn real(&mut self, time: u64, out: &mut Vec<u8>) {
        let real = i128::from(time) - i128::from(self.clock.monotonic) + i128::from(self.clock.realtime);
        let second = real.div_euclid(i128::from(SECOND)) as i64;
        if self.second != Some(second) {
            self.turn(second);
        }
        out.extend_from_slice(&self.date);
        fraction(real.rem_euclid(i128::from(SECOND)) as u32, out);
        out.extend_from_slice(&self.offset);
    }

    fn turn(&mut self, second: i64) {
        use std::io::Write;
        self.second = Some(second);
        self.date.clear();
        self.offset.clear();
        // A time that no calendar has comes of a broken anchor: shown as the seconds it is.
        let Ok(at) = Timestamp::new(second, 0) else {
            return decimal(second, &mut self.date);
        };
        let offset = self.zone.to_offset(at);
        let _ = write!(self.date, "{}", offset.to_datetime(at));
        if self.format == TimeFormat::Utc {
            self.offset.push(b'Z');
        } else {
            let minutes = offset.seconds() / 60;
            let (sign, m) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
            let _ = write!(self.offset, "{sign}{:02}:{:02}", m / 60, m % 60);
        }
    }
}

fn seconds(ns: u64, width: usize, out: &mut Vec<u8>) {
    padded(ns / SECOND, width, b' ', out);
    fraction((ns % SECOND) as u32, out);
}

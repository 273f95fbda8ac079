//! What was typed behind `tracer record`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args as Group;

use crate::cli::{
    args::{Probes, Trace},
    units,
};

const HELP: &str = "\
Each SPEC becomes a tracepoint `tracer:NAME` whose fields travel in the file: perf script, report, evlist and data
convert know them by name. With -o - it is a pipe: tracer record -o - | perf script -i -

Examples:
  tracer record 's:write{fd,count,ret}' -- make     to tracer.data; then: perf script -i tracer.data
  tracer record -k -z s:openat --duration 1m        with stacks, compressed; then: perf report -g
  tracer record -o - s:openat | perf script -i -    live
  tracer record --rotate 100M --keep 5 s:connect    a file of its own for each 100 MiB, the last five kept
  tracer record --flight 4M --trigger 'lat > 10ms' 's:read{fd,ret,lat}'
                                                    what led to a slow read, and nothing else

With --flight the rings are written over, and nothing is read until a snapshot is asked for: by SIGUSR2 (or SIGHUP), by
an event that meets --trigger, or by CMD's failure. Each snapshot is a file of its own, whole at once: the newest is
FILE, those before it are FILE.1, FILE.2 and so on. No event is in two, and none falls between two: what was
overwritten is told at its place as lost. The end (SIGINT, SIGTERM, --duration) takes a last one; where CMD succeeds
there is none. --trigger is a second probe under the same SPEC and this predicate as well, evaluated in the kernel; it
takes one snapshot a second at most.

The file in use is FILE, finished ones are FILE.1, FILE.2 and so on; SIGUSR2 or SIGHUP finishes one at once. A file
that is there at the start is moved to FILE.old. A recording that was killed is readable by `tracer script` at once,
and by perf after `tracer repair`.

Exit codes: as for run; 6: the file could not be written or finished.";

/// `tracer record`
#[derive(Debug, Group)]
#[command(after_help = HELP)]
pub struct Record {
    #[command(flatten)]
    pub probes: Probes,

    /// The file; - is a pipe on stdout
    #[arg(short, long, value_name = "FILE", default_value = "tracer.data", env = "TRACER_RECORD_OUTPUT")]
    pub output: PathBuf,
    /// Compress by zstd, 1 (fastest) to 22 [default LEVEL: 1]
    #[arg(short = 'z', long = "compression-level", value_name = "LEVEL", num_args = 0..=1,
          require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22), env = "TRACER_COMPRESS")]
    pub compress: Option<i32>,
    /// Go on in a new file after so many bytes or so much time, such as 100M or 1h
    #[arg(long, value_name = "SIZE|TIME", value_parser = rotate, env = "TRACER_ROTATE")]
    pub rotate: Option<Extent>,
    /// How many finished files are kept
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          env = "TRACER_KEEP")]
    pub keep: Option<u32>,
    /// Keep the newest in rings of so many bytes a CPU, or of this time in those of -m, and write it only when asked
    #[arg(long, value_name = "SIZE|TIME", value_parser = flight, conflicts_with_all = ["rotate", "gather", "reader_threads"],
          env = "TRACER_FLIGHT")]
    pub flight: Option<Extent>,
    /// With --flight: take a snapshot when an event of a SPEC meets this predicate too
    #[arg(long, value_name = "PREDICATE", requires = "flight", env = "TRACER_TRIGGER")]
    pub trigger: Option<String>,

    #[command(flatten)]
    pub trace: Trace,
}

/// Command lines in which the level stands behind `-z` as it does for perf, `-z3`, as clap takes it: `-z=3`.
pub fn with_levels(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut ours = true;
    words.map(move |word| {
        ours &= word != "--";
        let level = word.to_str().and_then(|w| w.strip_prefix("-z")).unwrap_or_default();
        let is_level = ours && !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
        if is_level { format!("-z={level}").into() } else { word }
    })
}

/// How much goes into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes.
    Bytes(u64),
    /// What comes in so long a time.
    Time(Duration),
}

/// The least bytes of a file: its header, and some events.
const LEAST: u64 = 64 << 10;

/// Bytes, or a time.
fn extent(text: &str) -> Result<Extent, String> {
    // M is a size, m are minutes.
    if let Ok(time) = units::time(text) {
        return Ok(Extent::Time(time));
    }
    let bytes = units::size(text).map_err(|_| format!("'{text}' is no size or time, such as 100M or 1h"))?;
    Ok(Extent::Bytes(bytes as u64))
}

/// What is enough for a file.
fn rotate(text: &str) -> Result<Extent, String> {
    match extent(text)? {
        Extent::Time(time) if time < Duration::from_millis(100) => Err("100ms is the least".into()),
        Extent::Bytes(bytes) if bytes < LEAST => Err("64K is the least".into()),
        enough => Ok(enough),
    }
}

/// What is enough for a ring.
fn flight(text: &str) -> Result<Extent, String> {
    match extent(text)? {
        Extent::Time(Duration::ZERO) | Extent::Bytes(0) => Err("that is nothing".into()),
        enough => Ok(enough),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_may_stand_behind_its_letter() {
        let words = |words: &[&str]| {
            let all = with_levels(words.iter().map(OsString::from));
            all.map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            words(&["record", "-z", "-z3", "-zx", "--", "-z9"]),
            ["record", "-z", "-z=3", "-zx", "--", "-z9"]
        );
    }

    #[test]
    fn sizes_and_times_are_told_apart_by_their_units() {
        assert_eq!(rotate("100M"), Ok(Extent::Bytes(100 << 20)));
        assert_eq!(rotate("100m"), Ok(Extent::Time(Duration::from_secs(6000))));
        assert_eq!(rotate("65536"), Ok(Extent::Bytes(65536)));
        for bad in ["", "1K", "1ms", "x", "5d"] {
            assert!(rotate(bad).is_err(), "{bad}");
        }
    }
}

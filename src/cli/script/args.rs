//! What `tracer script` is told.

use std::path::PathBuf;

use clap::{Args as Group, ValueEnum};

/// `tracer script`
#[derive(Debug, Group)]
pub struct Args {
    /// The recording: a file, a directory of `perf record --threads`, or - for a pipe
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub file: PathBuf,
    /// How samples are shown
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Columns: comm,pid,tid,cpu,time,event,trace, and period,addr,ip,sym,symoff,dso; and fields of the events by
    /// their names, such as comm,time,count,ret
    #[arg(short = 'F', long, value_name = "LIST", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// The struct of what a BPF program put out as event NAME, from the types in the recording (default: the one of
    /// its size)
    #[arg(long, value_name = "NAME=STRUCT", value_parser = super::structs::parse)]
    pub event: Vec<(String, String)>,
    /// Samples from one time to another, in seconds of the recording's clock: a,b (either may be missing)
    #[arg(long, value_name = "A,B", value_parser = window)]
    pub time: Option<Window>,
    /// Samples of these CPUs, such as 0-3,7
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// What the recording says of the host, the command and the events, before the samples
    #[arg(long)]
    pub header: bool,
    /// The same, and nothing else
    #[arg(long)]
    pub header_only: bool,
    /// Losses, where they happened
    #[arg(long)]
    pub show_lost: bool,
    /// Every record: where it lies, its size, its kind and what it holds
    #[arg(short = 'D', long)]
    pub dump: bool,
    /// As they lie, not in the order of time
    #[arg(long)]
    pub unsorted: bool,
    /// The most memory that records may take while they wait for their turn
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = super::super::units::size)]
    pub mem_max: usize,
}

/// A form of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines as perf script writes them
    Text,
    /// Objects as `run -f json` writes them
    Json,
    /// Comma-separated values, the columns' names first
    Csv,
    /// Stacks and how often they were seen, for flame graphs
    Folded,
    /// A stream of CTF: `convert` writes it, beside what tells of it
    #[value(skip)]
    Ctf,
}

impl Args {
    /// All of a recording in one form, and nothing else.
    pub fn whole(file: PathBuf, format: Format) -> Args {
        Args {
            file,
            format,
            fields: Vec::new(),
            event: Vec::new(),
            time: None,
            cpu: None,
            header: false,
            header_only: false,
            show_lost: true,
            dump: false,
            unsorted: false,
            mem_max: 1 << 30,
        }
    }
}

/// From one time to another, nanoseconds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub to: u64,
}

fn window(text: &str) -> Result<Window, String> {
    let (from, to) = text.split_once(',').ok_or("two times with a comma between, such as 12.5,13")?;
    let bound = |text: &str, open: u64| if text.is_empty() { Ok(open) } else { seconds(text) };
    Ok(Window { from: bound(from, 0)?, to: bound(to, u64::MAX)? })
}

/// Seconds with up to nine decimals, as nanoseconds: doubles are not exact enough.
fn seconds(text: &str) -> Result<u64, String> {
    let fault = || format!("'{text}' is no time in seconds");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(fault());
    }
    let whole: u64 = whole.parse().map_err(|_| fault())?;
    let nanos: u64 = format!("{part:0<9}").parse().map_err(|_| fault())?;
    whole.checked_mul(1_000_000_000).and_then(|n| n.checked_add(nanos)).ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        assert_eq!(window("1.5,2"), Ok(Window { from: 1_500_000_000, to: 2_000_000_000 }));
        assert_eq!(window(",0.000000001"), Ok(Window { from: 0, to: 1 }));
        assert_eq!(window("3,"), Ok(Window { from: 3_000_000_000, to: u64::MAX }));
        for text in ["", "1", "x,2", "1,2,3", "1.0000000001,", "-1,2", "99999999999,"] {
            assert!(window(text).is_err(), "{text}");
        }
    }
}

//! What was typed behind `tracer stat`.

use std::{ffi::OsString, time::Duration};

use clap::{Args as Group, ValueEnum};

use crate::cli::{
    args::{Missing, Tasks},
    attach::Manner,
    units,
};

const HELP: &str = "\
Nothing leaves the kernel but the counts. Of a return or a system call without a list of fields the histogram is
of `lat`, the nanoseconds from its entry; of a SPEC with a list, of the first integer in it; else runs are counted
and nothing more. Predicates count what they let through.

Examples:
  tracer stat s:write -- make                   how many writes, and how long they took
  tracer stat kr:vfs_read --by comm             the latency of a kernel function, by task name
  tracer stat 's:read{ret}' --by fd             what reads return, by descriptor
  tracer stat k:vfs_write --sum count           bytes written, in all and on average
  tracer stat 'k:tcp_*' --duration 10s          which of many functions run, and how often
  tracer stat t:block:block_rq_issue --by kstack
                                                where block requests come from

What --max-entries has no room for is counted as `failed: no room`, never silently left out.

Exit codes: as for run; with a command, its status if all else is well.";

/// `tracer stat`
#[derive(Debug, Group)]
#[command(after_help = HELP)]
pub struct Args {
    /// What to count [default: s:write]
    #[arg(value_name = "SPEC")]
    pub specs: Vec<String>,

    /// A command to run and count, with its children
    #[arg(last = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,

    /// Count each value of this field by itself: an integer, comm, kstack or ustack
    #[arg(long, value_name = "FIELD", env = "TRACER_BY")]
    pub by: Option<String>,
    /// Histogram, sum, average and bounds of this integer, or of lat
    #[arg(long, value_name = "FIELD", conflicts_with = "sum")]
    pub hist: Option<String>,
    /// Sum, average and bounds of this integer, or of lat, without a histogram
    #[arg(long, value_name = "FIELD")]
    pub sum: Option<String>,

    /// Write what came in each interval too, such as 1s
    #[arg(long, value_name = "TIME", value_parser = units::time, env = "TRACER_INTERVAL")]
    pub interval: Option<Duration>,
    /// Stop after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = units::time, env = "TRACER_DURATION")]
    pub duration: Option<Duration>,
    /// How counts are written
    #[arg(short, long, value_enum, default_value_t = Format::Text, env = "TRACER_STAT_FORMAT")]
    pub format: Format,
    /// The most counts that are kept, one for each key, CPU and level of nesting; also the most different stacks
    #[arg(long, value_name = "N", default_value_t = 8192, env = "TRACER_MAX_ENTRIES",
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub max_entries: u32,

    #[command(flatten)]
    pub tasks: Tasks,
    /// Count on these CPUs, such as 0-3,7
    #[arg(short = 'C', long, value_name = "CPUS", env = "TRACER_CPUS")]
    pub cpus: Option<String>,

    /// What to do when a probe cannot be attached
    #[arg(long, value_enum, default_value_t = Missing::Error, env = "TRACER_MISSING")]
    pub missing: Missing,
    /// Exit with 5 if more than N runs had no room or failed otherwise [default N: 0]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          env = "TRACER_FAIL_ON_LOSS")]
    pub fail_on_loss: Option<u64>,
    /// No word on what is attached, and no ledger; errors and loss are told all the same
    #[arg(short, long, env = "TRACER_QUIET")]
    pub quiet: bool,
    /// Say more; the kernel counts our programs' runs as a check of `fired`
    #[arg(short, long, env = "TRACER_VERBOSE")]
    pub verbose: bool,
}

impl Args {
    /// How it attaches.
    pub fn manner(&self) -> Manner {
        Manner { missing: self.missing, quiet: self.quiet, verbose: self.verbose }
    }
}

/// How counts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// NDJSON: an object for each SPEC and key, and a footer
    Json,
}

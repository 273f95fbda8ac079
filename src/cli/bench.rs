//! `tracer bench`: the rate of this host's path, beside what was lost and what it cost.

use std::process::ExitCode;

use tracer::Result;

use super::args::Bench;

/// Runs it.
pub fn run(_args: Bench) -> Result<ExitCode> {
    Err(tracer::Error::usage("not yet"))
}

//! `tracer completions` and `tracer man`: the command line as a shell and `man` read it.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::CommandFactory;
use clap_complete::Shell;
use tracer::{Error, ErrorKind, Result};

use super::args::Args;

/// Prints a shell's completions.
pub fn completions(shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "tracer", &mut text);
    print(&text)
}

/// Prints the manual page of the whole, or of a subcommand.
pub fn man(subcommand: Option<&str>) -> Result<ExitCode> {
    let mut whole = Args::command();
    // Gives each subcommand its page's name, tracer-run(1), and its whole usage.
    whole.build();
    let page = match subcommand {
        None => whole,
        Some(name) => {
            let names: Vec<_> = whole.get_subcommands().map(|c| c.get_name().to_owned()).collect();
            let found = whole.get_subcommands().find(|c| c.get_name() == name).cloned();
            found.ok_or_else(|| {
                Error::usage(format!("there is no subcommand '{name}'"))
                    .with_help(format!("the subcommands: {}", names.join(", ")))
            })?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|e| Error::caused(ErrorKind::Runtime, "writing a manual page", e))?;
    print(&text)
}

fn print(text: &[u8]) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::caused(ErrorKind::Sink, "writing to stdout", e))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

//! The command line: what was typed, what it means, and one file a subcommand.
//!
//! In come arguments; out go events on stdout, words on stderr, and an exit code.
//!
//! **Invariants.** Nothing of the library is reached but its public API. Stdout carries what was asked for and
//! nothing else.

mod args;
mod attach;
mod bench;
mod command;
mod convert;
mod doctor;
mod followed;
mod kin;
mod list;
mod output;
mod pages;
mod plan;
mod read;
mod record;
mod run;
mod schema;
mod script;
mod signal;
mod stat;
mod status;
mod summary;
mod units;

use std::{borrow::Cow, io::Write, process::ExitCode};

use clap::Parser;
use tracer::{Error, ErrorKind};

use self::args::{Args, Command};

/// The exit codes; the README and the man page have the same table.
pub mod exit {
    /// Something failed at run time.
    pub const RUNTIME: u8 = 1;
    /// The command line cannot be.
    pub const USAGE: u8 = 2;
    /// This host does not allow or have it.
    pub const PRECONDITION: u8 = 3;
    /// A probe is missing or could not be attached.
    pub const ATTACH: u8 = 4;
    /// More was lost than allowed, or the books do not balance.
    pub const LOSS: u8 = 5;
    /// A sink failed.
    pub const SINK: u8 = 6;
}

/// Runs the command line and turns what went wrong into words and a code.
pub fn main() -> ExitCode {
    // Signals are taken by a thread of their own, so they are blocked before there is any other thread.
    signal::block();
    if let Some(failed) = command::trampoline() {
        return failed;
    }
    let command = match Args::try_parse_from(record::args::with_levels(std::env::args_os())) {
        Ok(args) => args.command,
        // Help is asked for, and a failure to print it is one like any other.
        Err(told) if told.print().is_err() && !told.use_stderr() => return ExitCode::from(exit::SINK),
        Err(told) => return ExitCode::from(told.exit_code() as u8),
    };
    if !matches!(command, Command::Run(_) | Command::Record(_) | Command::Stat(_) | Command::Read(_)) {
        // Nothing of theirs needs an order at its end.
        signal::unblock();
    }
    let done = match command {
        Command::Run(args) => run::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Read(args) => read::run(&args),
        Command::Script(args) => script::run(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Repair(args) => convert::repair(&args),
        Command::List(args) => list::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { command } => pages::man(command.as_deref()),
        Command::Bench(args) => bench::run(&args),
    };
    done.unwrap_or_else(|error| {
        // Whoever read the output has had enough: `| head -1` may be gone as soon as the header is out.
        if error.kind() == ErrorKind::Closed {
            return ExitCode::SUCCESS;
        }
        complain(&error);
        ExitCode::from(code(&error))
    })
}

/// Prints a line on stderr. Whoever read it may have gone; that ends nothing.
fn say(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", plain(line));
}

/// A text without what could steer a terminal: names, paths and specs come from anywhere.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.into()
}

/// Prints an error and its way out.
fn complain(error: &Error) {
    let mut out = anstream::stderr().lock();
    let (red, cyan) = (anstyle::AnsiColor::Red.on_default().bold(), anstyle::AnsiColor::Cyan.on_default());
    let _ = writeln!(out, "{red}error{red:#}: {}", plain(&error.to_string()));
    if let Some(help) = error.help() {
        let _ = writeln!(out, "{cyan}help{cyan:#}: {}", plain(help));
    }
}

fn code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Usage => exit::USAGE,
        ErrorKind::Precondition => exit::PRECONDITION,
        ErrorKind::Attach => exit::ATTACH,
        ErrorKind::Sink => exit::SINK,
        _ => exit::RUNTIME,
    }
}

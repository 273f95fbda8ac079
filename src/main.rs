//! The `tracer` command: the library's first customer, by its public API alone.
#![deny(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}

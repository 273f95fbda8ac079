//! The project's own commands: set up, run, test, judge.
#![forbid(unsafe_code)]

mod apt;
mod bench;
mod cost;
mod failures;
mod features;
mod fuzz;
mod kernels;
mod report;
mod run;
mod script;
mod setup;
mod sh;
mod test;
mod tidy;
mod vm;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  run [ARGS]              install what is missing, build in release, run `tracer run ARGS`
                          (ten seconds of the default where no ARGS), with sudo if not root
  test [--quick]          install what is missing, run every test; --quick leaves out guests and fuzzing
       [--without KERNEL] a kernel to do without, e.g. 5.10 (may be given again)
       [--only STAGE]     one stage of: tidy fmt clippy features docs c unit host memory cost miri guests fuzz (may be given again)
       [--fuzz-time SECS] how long each fuzz target runs (default 30)
  ci                      what CI runs: the same as test
  vm KERNEL [FILTER]      the live tests in one guest; KERNEL is 5.10, 6.1, 6.12 or newest
  vm KERNEL -- CMD…       a command in a guest (`tracer` means the one built here)
  vm fetch [KERNEL…]      fetch the guests' kernels anew
  fuzz [TARGET] [SECS]    run the fuzz targets
  bench peers [--workload live,paced,burst,drain] [--duration 1s] [--rounds 5] [--cpu 0] [--at-least RATIO] [--json]
                          our reader against others over one BPF program; with RATIO, fails below it
  bench paced [--duration 1s] [--cpu 0]
                          how old events grow at rates, by each of our wake rules
  bench onward [--duration 1s] [--rounds 5] [--cpu 0] [--json]
                          from a traced call to a file, beside bpftrace and perf record
  bench fields [--duration 1s] [--rounds 5] [--cpu 0]
                          what fields and predicates cost a traced call, beside bpftrace on the same probe
  bench script [FILE]     a recording of 200 MB or more as text, beside perf script; and how fast its records are scanned
  bench cpus              256 CPUs, simulated: what a sweep costs, who waits how long, memory; by 1, 2 and 4 threads
  setup [--tests]         install what is missing to build (and to test)
  tidy                    the house rules: imports, unsafe, words, file heads
";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let command = if args.is_empty() { "help".to_owned() } else { args.remove(0) };
    let done = match command.as_str() {
        "run" => run::run(&args),
        "test" | "ci" => test::run(&args),
        "vm" => vm::run(&args),
        "bench" => bench::run(&args),
        "fuzz" => fuzz::run(&args),
        "setup" => setup::run(&args),
        "tidy" => tidy::run(),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(0)
        }
        other => {
            eprint!("error: no command `{other}`\n\n{HELP}");
            Ok(2)
        }
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

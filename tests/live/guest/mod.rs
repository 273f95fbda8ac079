//! Guests: another kernel under QEMU, booted when a test first needs it, asked for one test at a time.
//!
//! ```text
//!   test binary on the host                      the same binary as pid 1
//!     Guests ── image: initramfs ── QEMU boots ──► init: mounts, then
//!        │                                           │
//!        ├── {"test": …}     serial line ───────────►├── child: one process a test
//!        │◄────────── @@NONCE "started"              │
//!        │◄────────── the test's output, as it comes │
//!        └◄────────── @@NONCE {"done": …}            ┘
//! ```
//!
//! **Invariants.** A verdict is a console line with this boot's nonce, so no line is no pass, whatever QEMU's exit
//! status. Before `started` a fault is the machinery's, said so and tried again up to three times; after it, it is
//! the test's. A guest that a test has broken is ended, and the next test has a fresh one.

mod image;
pub mod init;
mod qemu;

use crate::table::{Kernel, Test, Variant, Verdict};
use anyhow::{Context as _, Result, bail};
use qemu::{Fault, Guest};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The variable that holds a command (a JSON list) to run in a guest in place of the tests.
pub const COMMAND: &str = "TRACER_GUEST_COMMAND";
/// The variable that holds how many seconds such a command may take.
const COMMAND_LIMIT: &str = "TRACER_GUEST_SECONDS";
/// The file in a guest that says it is one.
const SETTING: &str = "/guest.json";
const TRIES: u32 = 3;

/// What a guest is told about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setting {
    /// Marks the lines of this boot.
    nonce: String,
    /// The release that its kernel should have.
    pub release: String,
}

impl Setting {
    /// The guest's that we are in, if we are in one.
    pub fn here() -> Result<Option<Self>> {
        if !Path::new(SETTING).exists() {
            return Ok(None);
        }
        let text = std::fs::read(SETTING).with_context(|| format!("cannot read {SETTING}"))?;
        Ok(Some(serde_json::from_slice(&text).with_context(|| format!("cannot understand {SETTING}"))?))
    }
}

/// What the host asks of pid 1, one line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ask {
    /// Run a test, for at most so many milliseconds.
    Test(String, u64),
    /// Run a command, for at most so many milliseconds.
    Command(Vec<String>, u64),
}

/// What pid 1 says, one line each, after the nonce.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Say {
    /// Booted; waiting to be asked.
    Ready,
    /// Asked; what comes now is the test's.
    Started,
    /// The test's answer.
    Done(Verdict),
    /// The command's exit code.
    Exit(i32),
}

/// The guests of one kernel, by variant.
pub struct Guests {
    kernel: Kernel,
    running: Mutex<HashMap<Variant, Arc<Mutex<Option<Guest>>>>>,
}

impl Guests {
    /// None runs yet.
    pub fn new(kernel: Kernel) -> Self {
        Self { kernel, running: Mutex::default() }
    }

    /// Runs a test in the guest it needs.
    pub fn run(&self, test: &Test) -> Verdict {
        let place = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            // Two guests at a time are what two CPUs can carry: those of other variants that are idle go.
            for (_, guest) in running.iter().filter(|(variant, _)| **variant != test.variant) {
                if let Ok(mut guest) = guest.try_lock() {
                    *guest = None;
                }
            }
            Arc::clone(running.entry(test.variant).or_default())
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = Ask::Test(test.name.to_owned(), u64::try_from(test.limit.as_millis()).unwrap_or(u64::MAX));
        match self.ask(&mut place, test.variant, &ask, test.limit, crate::child::shown()) {
            Ok(Say::Done(Verdict::Fail(message))) => {
                let console = place.as_ref().map(|guest| guest.console().to_owned()).unwrap_or_default();
                // Not trusted with another test.
                *place = None;
                Verdict::Fail(format!("{message}\n--- the guest's console\n{console}\n---"))
            }
            Ok(Say::Done(verdict)) => verdict,
            Ok(other) => Verdict::Fail(format!("pid 1 answered a test with {other:?}")),
            Err(error) => {
                *place = None;
                Verdict::Fail(format!("{error:#}"))
            }
        }
    }

    fn ask(
        &self,
        place: &mut Option<Guest>,
        variant: Variant,
        ask: &Ask,
        limit: Duration,
        show: bool,
    ) -> Result<Say> {
        for attempt in 1.. {
            let asked = match place.take() {
                Some(guest) => Ok(guest),
                None => Guest::boot(self.kernel, variant, &image::command_files(ask)),
            };
            let fault = match asked {
                Err(fault) => fault,
                Ok(mut guest) => match guest.ask(ask, limit, show) {
                    Ok(said) => {
                        *place = Some(guest);
                        return Ok(said);
                    }
                    Err(fault) => fault,
                },
            };
            match fault {
                Fault::Machinery(error) if attempt < TRIES => {
                    eprintln!("guest {}: try {attempt} of {TRIES} failed: {error:#}", self.kernel.name());
                }
                Fault::Machinery(error) => {
                    return Err(
                        error.context(format!("the guest failed {TRIES} times before the test began"))
                    );
                }
                Fault::Missing(error) | Fault::Test(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }

    /// Ends every guest.
    pub fn stop(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Runs one command in a plain guest, its output shown as it comes, and passes its exit code on.
pub fn command(words: &str) -> ExitCode {
    let run = || -> Result<i32> {
        let mut words: Vec<String> =
            serde_json::from_str(words).with_context(|| format!("{COMMAND} is no JSON list"))?;
        if words.first().is_some_and(|word| word == "tracer") {
            words[0] = env!("CARGO_BIN_EXE_tracer").to_owned();
        }
        let seconds = std::env::var(COMMAND_LIMIT).ok().and_then(|text| text.parse().ok()).unwrap_or(600);
        let limit = Duration::from_secs(seconds);
        let guests = Guests::new(Kernel::OURS);
        let mut place = None;
        match guests.ask(&mut place, Variant::Plain, &Ask::Command(words, seconds * 1000), limit, true)? {
            Say::Exit(code) => Ok(code),
            other => bail!("pid 1 answered a command with {other:?}"),
        }
    };
    match run() {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that `cargo xtask vm fetch` keeps a kernel in.
fn kernel_dir(kernel: Kernel) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/kernels").join(kernel.name())
}

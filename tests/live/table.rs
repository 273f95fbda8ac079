//! How a live test is declared, what it may answer, and where it may skip.

use crate::context::Context;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kernel {
    /// This machine's own kernel.
    Host,
    /// Debian 11's.
    V5_10,
    /// Debian 12's.
    V6_1,
    /// Debian 13's.
    V6_12,
    /// Debian unstable's.
    Newest,
}

impl Kernel {
    /// The one this target is for.
    pub const OURS: Self = {
        match env!("CARGO_CRATE_NAME").as_bytes() {
            b"guest_5_10" => Self::V5_10,
            b"guest_6_1" => Self::V6_1,
            b"guest_6_12" => Self::V6_12,
            b"guest_newest" => Self::Newest,
            b"live_host" => Self::Host,
            _ => panic!("a live test target has a name that stands for no kernel"),
        }
    };

    /// Its folder under `target/kernels`, and its name for `cargo xtask vm`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::Newest => "newest",
        }
    }
}

/// A guest that differs from the plain one by its command line; each is a boot of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Variant {
    /// Two CPUs that take turns, everything else as the kernel has it.
    Plain,
    /// `lockdown=confidentiality`.
    Lockdown,
    /// `sysctl.kernel.perf_event_paranoid=2`, where Debian's kernels say 3.
    Paranoid2,
    /// `maxcpus=1` of two: CPU 1 is offline from the start.
    OneOnline,
    /// Four CPUs.
    FourCpus,
    /// `preempt=full`, which kernels know from 5.12 on.
    PreemptFull,
    /// Two CPUs that run at the same time; needs QEMU 10.
    Parallel,
    /// bpftrace is in it, for which it has more memory.
    Bpftrace,
}

impl Variant {
    /// Shown in brackets before a test's name; the plain one has none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Lockdown => "lockdown",
            Self::Paranoid2 => "paranoid=2",
            Self::OneOnline => "maxcpus=1",
            Self::FourCpus => "smp=4",
            Self::PreemptFull => "preempt=full",
            Self::Parallel => "parallel",
            Self::Bpftrace => "bpftrace",
        }
    }
}

/// Which of the kernels a test is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Everywhere,
    Guests,
    Host,
    Only(Kernel),
}

/// One test, as its file's table declares it.
#[derive(Debug)]
pub struct Test {
    /// `file::what_holds`.
    pub name: &'static str,
    /// The test itself, run in a process of its own.
    pub run: fn(&Context) -> Outcome,
    /// The guest it needs.
    pub variant: Variant,
    /// Where it may skip; a skip elsewhere is a failure.
    pub may_skip: &'static [Kernel],
    /// How long it may take before it is killed and has failed.
    pub limit: Duration,
    place: For,
}

impl Test {
    /// A test that runs on the host and in every guest, may skip nowhere, and has two minutes.
    pub const fn new(name: &'static str, run: fn(&Context) -> Outcome) -> Self {
        let (variant, limit) = (Variant::Plain, Duration::from_secs(120));
        Self { name, run, variant, may_skip: &[], limit, place: For::Everywhere }
    }

    /// In guests only.
    pub const fn in_guests(self) -> Self {
        Self { place: For::Guests, ..self }
    }

    /// On the host only.
    pub const fn on_host(self) -> Self {
        Self { place: For::Host, ..self }
    }

    /// In guests of that variant only.
    pub const fn with(self, variant: Variant) -> Self {
        Self { place: For::Guests, variant, ..self }
    }

    /// In that kernel's guest only.
    pub const fn only_on(self, kernel: Kernel) -> Self {
        Self { place: For::Only(kernel), ..self }
    }

    /// May skip there.
    pub const fn may_skip(self, may_skip: &'static [Kernel]) -> Self {
        Self { may_skip, ..self }
    }

    /// Another time limit.
    pub const fn seconds(self, seconds: u64) -> Self {
        Self { limit: Duration::from_secs(seconds), ..self }
    }

    /// Whether it runs there.
    pub fn runs_on(&self, kernel: Kernel) -> bool {
        match self.place {
            For::Everywhere => true,
            For::Guests => kernel != Kernel::Host,
            For::Host => kernel == Kernel::Host,
            For::Only(only) => kernel == only,
        }
    }
}

/// What a test returns: `Ok(())` is a pass, and `?` on any error a failure with its whole chain.
pub type Outcome = Result<(), Stop>;

/// Why a test ended before its end.
#[derive(Debug)]
pub enum Stop {
    /// It does not hold.
    Fail(String),
    /// It cannot be run here.
    Skip(String),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fail(format!("{:#}", error.into()))
    }
}

/// Ends a test as failed.
#[macro_export]
macro_rules! fail {
    ($($word:tt)*) => { return Err($crate::table::Stop::Fail(format!($($word)*))) };
}

/// Ends a test as skipped; the reason says what is not here.
#[macro_export]
macro_rules! skip {
    ($($word:tt)*) => { return Err($crate::table::Stop::Skip(format!($($word)*))) };
}

/// An outcome as it crosses from process to process and from guest to host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Held.
    Pass,
    /// Did not hold.
    Fail(String),
    /// Was not run.
    Skip(String),
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Pass,
            Err(Stop::Fail(message)) => Self::Fail(message),
            Err(Stop::Skip(reason)) => Self::Skip(reason),
        }
    }
}

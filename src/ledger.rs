//! The accounts: where every firing of every probe ended, and whether the books balance.
//!
//! Each identity holds two sides that come from different counters, so it can fail. A term that this kernel
//! or these rights cannot give is unknown, never zero.

use serde::Serialize;

/// What a BPF program counted, for one probe on one CPU or summed.
///
/// Must match `struct tracer_accounts` in `bpf/tracer.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// Runs of the program.
    pub fired: u64,
    /// Runs turned away by a filter before anything was copied.
    pub filtered: u64,
    /// Entries that were kept in the kernel for their returns.
    pub stored: u64,
    /// Runs that were added to a tally in the kernel in place of an event.
    pub tallied: u64,
    /// Records that `bpf_perf_event_output` took.
    pub emitted: u64,
    /// Runs that failed, by cause.
    pub failed: Failed,
    /// Of `filtered`: calls of 32-bit tasks, whose system call numbers mean other calls.
    pub compat: u64,
    /// Of `filtered`: returns of calls whose entry was not seen.
    pub unpaired: u64,
    /// Returns that met what their entry had stored.
    pub paired: u64,
    /// Stored entries whose place another entry took: their return was never seen.
    pub unreturned: u64,
    /// Events that were put into a record which others share.
    pub gathered: u64,
    /// Of these, those in records that were emitted.
    pub sent: u64,
    /// And those in records that failed.
    pub unsent: u64,
}

/// Failures by what the helper returned, or by our own cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// No room in the ring, or the ring is not mapped.
    pub enospc: u64,
    /// The slot of this CPU is empty.
    pub enoent: u64,
    /// The CPU has no slot in the array.
    pub e2big: u64,
    /// The slot's output event is dead, disabled, or another CPU's.
    pub eopnotsupp: u64,
    /// More than three programs nested in the helper on one CPU.
    pub ebusy: u64,
    /// Any other errno.
    pub other: u64,
    /// No scratch level was free: nothing was built, and no sequence number taken.
    pub scratch: u64,
    /// A bounded map was full.
    pub nomem: u64,
}

impl Failed {
    /// Each cause by name, in a fixed order.
    pub fn causes(&self) -> [(&'static str, u64); 8] {
        [
            ("ENOSPC", self.enospc),
            ("ENOENT", self.enoent),
            ("E2BIG", self.e2big),
            ("EOPNOTSUPP", self.eopnotsupp),
            ("EBUSY", self.ebusy),
            ("other", self.other),
            ("scratch", self.scratch),
            ("no room", self.nomem),
        ]
    }

    /// All failures.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, n)| n).sum()
    }

    /// Failures that took a sequence number: the helper was called and refused.
    pub fn attempts(&self) -> u64 {
        self.total() - self.scratch - self.nomem
    }
}

impl Accounts {
    /// How many u64 the kernel's side has, padding included.
    pub const WORDS: usize = 24;

    /// Reads the kernel's side.
    pub fn from_words(w: &[u64; Accounts::WORDS]) -> Accounts {
        Accounts {
            fired: w[0],
            filtered: w[1],
            stored: w[2],
            emitted: w[3],
            failed: Failed {
                enospc: w[4],
                enoent: w[5],
                e2big: w[6],
                eopnotsupp: w[7],
                ebusy: w[8],
                other: w[9],
                scratch: w[10],
                nomem: w[11],
            },
            compat: w[12],
            unpaired: w[13],
            paired: w[14],
            unreturned: w[15],
            tallied: w[16],
            gathered: w[17],
            sent: w[18],
            unsent: w[19],
        }
    }
}

impl std::ops::AddAssign for Accounts {
    fn add_assign(&mut self, o: Accounts) {
        self.fired += o.fired;
        self.filtered += o.filtered;
        self.stored += o.stored;
        self.tallied += o.tallied;
        self.emitted += o.emitted;
        self.compat += o.compat;
        self.unpaired += o.unpaired;
        self.paired += o.paired;
        self.unreturned += o.unreturned;
        self.gathered += o.gathered;
        self.sent += o.sent;
        self.unsent += o.unsent;
        let (f, g) = (&mut self.failed, o.failed);
        f.enospc += g.enospc;
        f.enoent += g.enoent;
        f.e2big += g.e2big;
        f.eopnotsupp += g.eopnotsupp;
        f.ebusy += g.ebusy;
        f.other += g.other;
        f.scratch += g.scratch;
        f.nomem += g.nomem;
    }
}

impl std::iter::Sum for Accounts {
    fn sum<I: Iterator<Item = Accounts>>(iter: I) -> Accounts {
        iter.fold(Accounts::default(), |mut sum, a| {
            sum += a;
            sum
        })
    }
}

/// One program's accounts, summed over CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The name of its events.
    pub name: String,
    /// The spec as it was typed.
    pub spec: String,
    /// How it was attached, for example `kprobe on __x64_sys_write`.
    pub attached: String,
    /// Its accounts.
    #[serde(flatten)]
    pub accounts: Accounts,
    /// The pattern that it was found by; `None` where it was asked for by name. One program may serve all that a
    /// pattern finds: what the kernel tells of a program stands with the first of its probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Stored entries whose return has not come (yet), where the kernel lets us count them; `None` also where
    /// nothing is paired.
    pub waiting: Option<u64>,
    /// Hits that its kprobes missed (`nmissed`, told from 6.7 on); `None` where it has none.
    pub missed: Option<u64>,
    /// Hits that were skipped since a program ran already on that CPU (told from 5.12 on).
    pub recursion_misses: Option<u64>,
}

/// One CPU's ring as its reader saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuReport {
    /// The CPU.
    pub cpu: u32,
    /// Records taken by the ring, as BPF counted them, end markers included.
    pub emitted: u64,
    /// Events decoded.
    pub decoded: u64,
    /// Sequence numbers that no event carried.
    pub holes: u64,
    /// Records lost for want of room, as BPF counted them (ENOSPC).
    pub enospc: u64,
    /// The same as LOST records told it, and the kernel's count of what a ring that was replaced lost last.
    pub lost: u64,
    /// The same as the kernel counted it (`PERF_FORMAT_LOST`), where it does.
    pub kernel_lost: Option<u64>,
    /// Records written over before they were read.
    pub overwritten: u64,
    /// Of the events decoded, those with a field that could not be read: a bad pointer, or memory not there.
    pub faulty: u64,
    /// Samples that no schema fits.
    pub undecoded: u64,
    /// Places where the ring held what no kernel writes.
    pub corruptions: u64,
    /// The bytes given up there.
    pub corrupt_bytes: u64,
    /// Records of kinds we do not know, skipped by their size.
    pub unknown: u64,
    /// The most unread bytes ever found in the ring.
    pub high_water: u64,
}

/// A map of programs that are not ours, as its reader saw it. They keep no accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeedReport {
    /// The map.
    pub map: String,
    /// The spec it belongs to.
    pub spec: String,
    /// By CPU; one line of a BPF ringbuf.
    pub cpus: Vec<FeedCpu>,
    /// How the ends of its rings are known.
    pub tail: Tail,
}

/// One ring of a [`FeedReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FeedCpu {
    /// The CPU; none of a BPF ringbuf.
    pub cpu: Option<u32>,
    /// Samples, as the ring's reader counted them; libbpf does not count those of a BPF ringbuf.
    pub samples: Option<u64>,
    /// Events decoded, those shown as bytes included.
    pub decoded: u64,
    /// Events shown as bytes, as no struct fits.
    pub as_bytes: u64,
    /// Samples that no schema fits.
    pub undecoded: u64,
    /// End markers of ours.
    pub markers: u64,
    /// Records lost for want of room, as LOST records told it; a BPF ringbuf does not tell.
    pub lost: Option<u64>,
    /// The same as the kernel counted it (`PERF_FORMAT_LOST`), where it does.
    pub kernel_lost: Option<u64>,
    /// Places where the ring held what no kernel writes.
    pub corruptions: u64,
    /// The bytes given up there.
    pub corrupt_bytes: u64,
    /// Records of kinds we do not know, skipped by their size.
    pub unknown: u64,
    /// The most unread bytes ever found in the ring.
    pub high_water: u64,
}

impl FeedReport {
    /// Events decoded.
    pub fn decoded(&self) -> u64 {
        self.cpus.iter().map(|c| c.decoded).sum()
    }

    /// Records lost for want of room: the larger of both counts, as the kernel's may be unknown and a LOST record
    /// that tells the last may be missing.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(|c| c.lost.max(c.kernel_lost).unwrap_or(0)).sum()
    }
}

/// Where decoded events went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SinkReport {
    /// The sink's name, for example `stdout`.
    pub name: String,
    /// Events handed over whole.
    pub delivered: u64,
    /// Events that there was no room for while running, by its rule for that.
    pub dropped_queue: u64,
    /// That rule: `block`, `drop-new`, `drop-old` or `sample=N`; none where there is always room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_full: Option<String>,
    /// Events that it could not get rid of: an error, or stuck at the stop.
    pub dropped_sink: u64,
    /// Of all of them, those that came after one that is younger, where an order was asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub late: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Whether the end of each ring was proved by an end marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// A marker written at the stop was found in every ring.
    Proved,
    /// It was not written, for this reason; losses after the last event are known by counters alone.
    Derived(String),
}

/// An equation between accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Its name, for example `lost`.
    pub name: &'static str,
    /// What it says, for example `ENOSPC = LOST records = PERF_FORMAT_LOST`.
    pub says: &'static str,
    /// Whether it held; `None` where a side could not be had.
    pub holds: Option<bool>,
    /// Where it failed and by how much, or why it could not be checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Identity {
    /// An identity that nothing has contradicted yet.
    pub fn new(name: &'static str, says: &'static str) -> Identity {
        Identity { name, says, holds: Some(true), remarks: Vec::new() }
    }

    /// Compares two sides at one place.
    pub fn check(&mut self, place: impl std::fmt::Display, left: u64, right: u64) {
        if left != right {
            self.fail(format!("{place}: {left} ≠ {right}"));
        }
    }

    /// Says that it does not hold, and where.
    pub fn fail(&mut self, remark: String) {
        self.holds = Some(false);
        self.remarks.push(remark);
    }

    /// Says that a side could not be had. A failure seen elsewhere still stands.
    pub fn unknown(&mut self, remark: String) {
        if self.holds == Some(true) {
            self.holds = None;
        }
        self.remarks.push(remark);
    }
}

/// The whole ledger at one moment; at the stop, with its identities checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Nanoseconds since the probes were attached.
    pub elapsed: u64,
    /// By probe.
    pub probes: Vec<ProbeReport>,
    /// By CPU.
    pub cpus: Vec<CpuReport>,
    /// By map of programs that are not ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<FeedReport>,
    /// By sink.
    pub sinks: Vec<SinkReport>,
    /// Processes that were left out because they are the tracer itself, its ancestors or its readers.
    pub excluded: u32,
    /// Events decoded after the last that was asked for (`-n`): not handed on, and not missing.
    pub beyond: u64,
    /// How the ends of the rings are known.
    pub tail: Tail,
    /// The identities; empty while the session runs, as events are in flight then.
    pub identities: Vec<Identity>,
}

impl Report {
    /// True if no identity failed. Those that could not be checked do not count against it.
    pub fn balanced(&self) -> bool {
        self.identities.iter().all(|i| i.holds != Some(false))
    }

    /// Events decoded.
    pub fn decoded(&self) -> u64 {
        let feeds: u64 = self.feeds.iter().map(FeedReport::decoded).sum();
        self.cpus.iter().map(|c| c.decoded).sum::<u64>() + feeds
    }

    /// Events that a sink was handed: all that were decoded, but for those beyond the limit.
    pub fn events(&self) -> u64 {
        self.decoded() - self.beyond
    }

    /// True where events shared records.
    pub fn gathered(&self) -> bool {
        self.probes.iter().any(|p| p.accounts.gathered > 0)
    }

    /// Events that were written over in overwrite rings.
    pub fn overwritten(&self) -> u64 {
        self.cpus.iter().map(|c| c.overwritten).sum()
    }

    /// Events lost, failed, overwritten or dropped: all that fired, was wanted, and did not arrive.
    pub fn missing(&self) -> u64 {
        let failed: u64 = self.probes.iter().map(|p| p.accounts.failed.total() + p.accounts.unsent).sum();
        let overwritten: u64 = self.cpus.iter().map(|c| c.overwritten + c.undecoded).sum();
        let dropped: u64 = self.sinks.iter().map(|s| s.dropped_queue + s.dropped_sink).sum();
        let undecoded = self.feeds.iter().flat_map(|f| &f.cpus).map(|c| c.undecoded).sum::<u64>();
        let lost: u64 = self.feeds.iter().map(FeedReport::lost).sum();
        failed + overwritten + dropped + lost + undecoded
    }
}

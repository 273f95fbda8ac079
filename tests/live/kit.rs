//! What tests that drive the library share: a session fired by hand, maps found by name, and dice.

use anyhow::{Context as _, Result, bail};
use libbpf_rs::{MapCore as _, MapHandle};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use tracer::ledger::{Accounts, Report};
use tracer::ring::Budget;
use tracer::session::{Options, Session};
use tracer::sink::{Item, Memory};

/// Bytes of a record of a session's probe fired by hand: header, time, and six arguments behind the head.
pub const EVENT: usize = 8 + 8 + 4 + 100;

/// A session with one probe that fires by hand alone, and everything it told.
pub struct Hand {
    pub session: Session,
    pub sink: Memory,
    pub probe: usize,
}

impl Hand {
    /// Rings of one page: they hold 34 events.
    pub fn new() -> Result<Self> {
        Self::with(|_| {})
    }

    /// As `new`, with other options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Result<Self> {
        let mut options = Options::default();
        options.rings.size = 4096;
        change(&mut options);
        let mut session = Session::prepare(options)?;
        let probe = session.probes_mut().attach_by_hand("by_hand")?;
        Ok(Self { session, sink: Memory::new(), probe })
    }

    /// Fires `times` times on a CPU; the first argument counts from `from`.
    pub fn fire(&self, cpu: u32, from: u64, times: u64) -> Result<()> {
        for n in from..from + times {
            let args = [n, !n, 2, 3, 4, 5];
            self.session.probes().fire(self.probe, cpu, &args).context("cannot fire the probe")?;
        }
        Ok(())
    }

    /// What the probe's programs counted on a CPU.
    pub fn accounts(&self, cpu: u32) -> Accounts {
        self.session.probes().accounts(cpu, self.probe)
    }

    /// Everything that is in the rings goes to the sink.
    pub fn drain(&mut self) -> Result<()> {
        while self.session.drain(Budget::ALL, &mut self.sink)?.more {}
        Ok(())
    }

    /// Ends it.
    pub fn stop(&mut self) -> Result<Report> {
        Ok(self.session.stop(&mut self.sink)?)
    }

    /// The sequence numbers of a CPU's events, in order.
    pub fn numbers(&self, cpu: u32) -> Vec<u32> {
        self.sink.items.iter().filter_map(|item| number(item, cpu)).collect()
    }
}

/// An event's sequence number, if it is one of that CPU.
pub fn number(item: &Item, cpu: u32) -> Option<u32> {
    match item {
        Item::Event { cpu: its, wire, .. } if *its == cpu => Some(wire.seq),
        _ => None,
    }
}

/// Fails with the remarks of every identity that does not hold.
pub fn balanced(report: &Report) -> Result<()> {
    if report.balanced() && !report.identities.is_empty() {
        return Ok(());
    }
    bail!("the books do not balance: {:#?}", report.identities);
}

/// Fails unless exactly these identities do not hold.
pub fn caught(report: &Report, names: &[&str]) -> Result<()> {
    let failed: Vec<_> =
        report.identities.iter().filter(|i| i.holds == Some(false)).map(|i| i.name).collect();
    if failed != names || report.balanced() {
        bail!("caught by {failed:?} where {names:?} was expected: {:#?}", report.identities);
    }
    Ok(())
}

/// The remarks of one identity as one text.
pub fn remarks(report: &Report, name: &str) -> String {
    report.identities.iter().filter(|i| i.name == name).flat_map(|i| i.remarks.clone()).collect()
}

/// A second open file of the same map: what a third party would have.
pub fn second(map: BorrowedFd<'_>) -> Result<MapHandle> {
    let id = map_id(&map.as_raw_fd().to_string()).context("the descriptor is no map's")?;
    MapHandle::from_map_id(id).context("cannot open the map anew")
}

/// A second open file of this process's only map of that name.
pub fn second_named(name: &str) -> Result<MapHandle> {
    let mut ids = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")?.flatten() {
        ids.extend(map_id(&entry.file_name().to_string_lossy()));
    }
    for id in ids {
        let map = MapHandle::from_map_id(id).context("cannot open a map anew")?;
        if map.name() == name {
            return Ok(map);
        }
    }
    bail!("this process has no map `{name}`")
}

fn map_id(fd: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("map_id:"))?.trim().parse().ok()
}

/// How many descriptors this process has open.
pub fn descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Random numbers that are the same in every run (xorshift64*).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.roll() >> 11) % end
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.roll() >> 56) as u8).collect()
    }
}

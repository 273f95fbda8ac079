//! What `tracer run -f json` wrote, taken apart, and what must hold of every such stream.

use crate::fail;
use crate::table::Outcome;
use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    /// The first.
    Header(Header),
    /// One firing of a probe.
    Event(Event),
    /// A known hole.
    Gap(Gap),
    /// Something went wrong.
    Error {
        /// What.
        message: String,
    },
    /// A probe came or went.
    Probe {},
    /// The ledger meanwhile.
    Stats {},
    /// The last.
    Footer(Footer),
}

/// The first line.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// Its version of the schema.
    pub schema: String,
    /// What is attached.
    pub probes: Vec<Probe>,
}

/// A probe of the header.
#[derive(Debug, Deserialize)]
pub struct Probe {
    /// The name of its events.
    pub name: String,
    /// The hook that serves it.
    pub attached: String,
}

/// One firing of a probe.
#[derive(Debug, Deserialize)]
pub struct Event {
    /// Where.
    pub cpu: u32,
    /// When.
    pub time: u64,
    /// Its number on its CPU and level.
    pub seq: u32,
    /// The scratch level it was built in.
    #[serde(default)]
    pub level: u8,
    /// The probe's name.
    pub event: String,
    /// Its process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its user.
    pub uid: u32,
    /// Its task's name.
    pub comm: String,
    args: Map<String, Value>,
    #[serde(default)]
    shown: Map<String, Value>,
}

impl Event {
    /// An argument that is a string; empty where it is none.
    pub fn text(&self, name: &str) -> &str {
        self.args.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// An argument that is an array of numbers; negative ones as their two's complement.
    pub fn list(&self, name: &str) -> Vec<u64> {
        let all = self.args.get(name).and_then(Value::as_array).into_iter().flatten();
        let number = |n: &Value| n.as_u64().or_else(|| n.as_i64().map(i64::cast_unsigned));
        all.map(|n| number(n).unwrap_or_else(|| panic!("{n} in {self:?}"))).collect()
    }

    /// What people see of an argument that is a number; empty where that is the number.
    pub fn shown(&self, name: &str) -> &str {
        self.shown.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether an argument could not be read.
    pub fn faulty(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_null)
    }

    /// An argument that is a number or true (1) or false; negative ones are told by their two's complement.
    pub fn arg(&self, name: &str) -> u64 {
        let value = self.args.get(name).unwrap_or(&Value::Null);
        let pointer = || u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
        let number = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)).or_else(pointer);
        let number = number.or_else(|| value.as_bool().map(u64::from));
        number.unwrap_or_else(|| panic!("{name} is {value} in {self:?}"))
    }
}

/// A known hole in one CPU's stream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Gap {
    /// Where.
    pub cpu: u32,
    /// Why.
    pub cause: String,
    /// How many.
    pub count: Option<u64>,
    /// The numbers that are missing, first and last.
    pub seq: Option<(u32, u32)>,
}

/// The last line.
#[derive(Debug, Deserialize)]
pub struct Footer {
    /// Whether every identity held.
    pub balanced: bool,
    /// All that fired, was wanted, and did not arrive.
    pub missing: u64,
    /// By probe.
    pub probes: Vec<Accounts>,
    /// By CPU.
    pub cpus: Vec<Cpu>,
    /// By sink.
    pub sinks: Vec<Sink>,
    /// How the ends of the rings are known.
    pub tail: Value,
    /// Each equation.
    pub identities: Vec<Identity>,
}

/// A probe's accounts.
#[derive(Debug, Deserialize)]
pub struct Accounts {
    /// Its spec.
    pub spec: String,
    /// Runs.
    pub fired: u64,
    /// Runs turned away.
    pub filtered: u64,
    /// Failures by cause.
    pub failed: BTreeMap<String, u64>,
    /// Calls of 32-bit tasks.
    pub compat: u64,
    /// Entries kept for their returns.
    pub stored: u64,
    /// Returns that met their entry.
    pub paired: u64,
    /// Events that shared records.
    pub gathered: u64,
    /// Of these, in records emitted.
    pub sent: u64,
    /// Of these, in records that failed.
    pub unsent: u64,
    /// Entries whose return had not come.
    pub waiting: Option<u64>,
    /// Hits that were skipped as recursion.
    pub recursion_misses: Option<u64>,
}

/// A CPU's counts.
#[derive(Debug, Deserialize)]
pub struct Cpu {
    /// Which.
    pub cpu: u32,
    /// Records that its ring took.
    pub emitted: u64,
    /// Numbers that no event carried.
    pub holes: u64,
}

/// Where events went.
#[derive(Debug, Deserialize)]
pub struct Sink {
    /// Handed over.
    pub delivered: u64,
    /// No room in the queue.
    pub dropped_queue: u64,
    /// Not written at the end.
    pub dropped_sink: u64,
}

/// One equation.
#[derive(Debug, Deserialize)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Whether it held.
    pub holds: Option<bool>,
    /// Where not, or why it is unknown.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A whole stream.
#[derive(Debug)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// What stands between, in order.
    pub lines: Vec<Line>,
    /// The last line.
    pub footer: Footer,
}

impl Trace {
    /// Takes a stream apart; the header must be its first line, the footer its last, and neither be elsewhere.
    pub fn read(text: &str) -> Result<Self> {
        let line =
            |text| serde_json::from_str::<Line>(text).with_context(|| format!("no line of ours: `{text}`"));
        let mut lines = text.lines().map(line).collect::<Result<Vec<_>>>()?;
        let Some(Line::Footer(footer)) = lines.pop() else { bail!("the last line is no footer") };
        ensure!(!lines.is_empty(), "there is no header");
        let Line::Header(header) = lines.remove(0) else { bail!("the first line is no header") };
        let inside = lines.iter().any(|line| matches!(line, Line::Header(_) | Line::Footer(_)));
        ensure!(!inside, "a header or a footer stands in the middle");
        ensure!(header.schema == "tracer/1", "the schema is {}", header.schema);
        Ok(Self { header, lines, footer })
    }

    /// The events in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.lines.iter().filter_map(|line| if let Line::Event(event) = line { Some(event) } else { None })
    }

    /// The gaps in order.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.lines.iter().filter_map(|line| if let Line::Gap(gap) = line { Some(gap) } else { None })
    }

    /// Error lines in order.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .filter_map(|line| if let Line::Error { message } = line { Some(&**message) } else { None })
    }

    /// How many events all gaps stand for.
    pub fn in_gaps(&self) -> u64 {
        self.gaps().filter_map(|gap| gap.count).sum()
    }

    /// Failures of one cause over all probes.
    pub fn failed(&self, cause: &str) -> u64 {
        self.footer.probes.iter().map(|probe| probe.failed[cause]).sum()
    }

    /// The identity of that name.
    pub fn identity(&self, name: &str) -> Option<&Identity> {
        self.footer.identities.iter().find(|identity| identity.name == name)
    }

    /// The books balance, every identity could be checked, and each gap stands where the numbers have its hole.
    pub fn sound(&self) -> Outcome {
        let unsound = self.footer.identities.iter().find(|identity| identity.holds != Some(true));
        if let Some(identity) = unsound {
            fail!("{identity:?}");
        }
        self.balanced()
    }

    /// Runs that the kernel skipped, as a program of the probe ran already on that CPU: those of other processes too.
    pub fn skipped(&self) -> u64 {
        self.footer.probes.iter().filter_map(|probe| probe.recursion_misses).sum()
    }

    /// The same, but that an identity may be unknown.
    pub fn balanced(&self) -> Outcome {
        let failed = self.footer.identities.iter().find(|identity| identity.holds == Some(false));
        if !self.footer.balanced || failed.is_some() {
            fail!("not balanced: {failed:?}");
        }
        self.gaps_match_the_numbers()
    }

    /// By CPU: what gaps tell before an event is what its number says is missing there, and what they tell after the
    /// last one is the rest of the CPU's holes and of what was dropped. Where several levels are in use, the sums are
    /// compared alone.
    fn gaps_match_the_numbers(&self) -> Outcome {
        let one_level = self.events().all(|event| event.level == 0);
        for cpu in &self.footer.cpus {
            let mut last = BTreeMap::<u8, u32>::new();
            let mut waiting: Vec<&Gap> = Vec::new();
            let (mut told, mut dropped) = (0, 0);
            for line in &self.lines {
                match line {
                    Line::Gap(gap) if gap.cpu == cpu.cpu => {
                        let count = gap.count.unwrap_or(0);
                        *if gap.cause == "dropped" { &mut dropped } else { &mut told } += count;
                        waiting.push(gap);
                    }
                    Line::Event(event) if event.cpu == cpu.cpu => {
                        let before = last.insert(event.level, event.seq).unwrap_or(0);
                        if one_level {
                            hole_is_told(before, event.seq, &waiting)?;
                        }
                        waiting.clear();
                    }
                    _ => {}
                }
            }
            let first = last.get(&0).copied().unwrap_or(0).wrapping_add(1);
            let outside = |gap: &&Gap| gap.seq.is_some_and(|(from, _)| from < first);
            if one_level && waiting.iter().any(outside) {
                fail!("the last number on CPU {} is {}, and {waiting:?}", cpu.cpu, first.wrapping_sub(1));
            }
            if told != cpu.holes {
                fail!("CPU {}: gaps tell {told}, the footer {}; dropped {dropped}", cpu.cpu, cpu.holes);
            }
        }
        Ok(())
    }
}

/// Whether gaps tell exactly what is missing between two numbers, and where. What was dropped may lie between, and
/// then each gap has its own place in the hole, or none where many were added up.
fn hole_is_told(before: u32, seq: u32, gaps: &[&Gap]) -> Outcome {
    let hole = u64::from(seq.wrapping_sub(before).wrapping_sub(1));
    let told: u64 = gaps.iter().filter_map(|gap| gap.count).sum();
    let (first, last) = (before.wrapping_add(1), seq.wrapping_sub(1));
    let dropped = gaps.iter().any(|gap| gap.cause == "dropped");
    let placed = |gap: &&Gap| match gap.seq {
        Some(place) if !dropped => place == (first, last),
        Some((from, to)) => first <= from && from <= to && to <= last,
        None => dropped,
    };
    if told != hole || !gaps.iter().all(placed) {
        fail!("before number {seq} {hole} are missing, and gaps tell {told}: {gaps:?}");
    }
    Ok(())
}

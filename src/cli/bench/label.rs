//! Cases in words: each setting by its name, and of several cases only what they differ in.

use tracer::{
    bench::{Case, Reader, WakeRule, Workload},
    probe::bench::Hook,
};

use super::args::FIELDS;

/// A setting: its name, the case's value in words, and as a number where it is one.
pub struct Axis {
    /// Its name.
    pub name: &'static str,
    /// In words.
    pub text: fn(&Case) -> String,
    /// As a number.
    pub number: fn(&Case) -> Option<f64>,
}

/// All settings.
pub const AXES: [Axis; 10] = [
    Axis { name: "workload", text: workload, number: rate },
    Axis { name: "hook", text: |c| c.hook.map_or("auto", hook).into(), number: |_| None },
    Axis { name: "payload", text: |c| c.payload.to_string(), number: |c| Some(c.payload as f64) },
    Axis { name: "gather", text: |c| c.gather.to_string(), number: |c| Some(c.gather.into()) },
    Axis { name: "ring", text: |c| bytes(c.ring_size), number: |c| Some(c.ring_size as f64) },
    Axis { name: "wake", text: wake, number: |_| None },
    Axis { name: "sample", text: sample, number: |_| None },
    Axis { name: "producers", text: |c| c.producers.to_string(), number: |c| Some(c.producers.into()) },
    Axis {
        name: "threads",
        text: |c| c.reader_threads.to_string(),
        number: |c| Some(c.reader_threads.into()),
    },
    Axis { name: "reader", text: |c| reader(c.reader).into(), number: |_| None },
];

/// The settings in which cases differ.
pub fn varied<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> Vec<&'static Axis> {
    let differs = |axis: &&Axis| {
        let mut texts = cases.clone().map(axis.text);
        let first = texts.next();
        texts.any(|text| Some(text) != first)
    };
    AXES.iter().filter(differs).collect()
}

/// All settings of a case.
pub fn whole(case: &Case) -> String {
    AXES.iter().map(|axis| format!("{} {}", axis.name, (axis.text)(case))).collect::<Vec<_>>().join(", ")
}

fn workload(case: &Case) -> String {
    match case.workload {
        Workload::Write => "write".into(),
        Workload::Paced(rate) => format!("paced {rate}/s"),
        Workload::Burst => "burst".into(),
        Workload::Drain => "drain".into(),
    }
}

fn rate(case: &Case) -> Option<f64> {
    match case.workload {
        Workload::Paced(rate) => Some(rate.into()),
        _ => None,
    }
}

/// A hook as it is typed.
pub fn hook(hook: Hook) -> &'static str {
    match hook {
        Hook::Fentry => "fentry",
        Hook::Kprobe => "kprobe",
        Hook::Tracepoint => "tp",
        Hook::RawTracepoint => "raw-tp",
        Hook::Uprobe => "uprobe",
    }
}

fn reader(reader: Reader) -> &'static str {
    match reader {
        Reader::Rings => "rings",
        Reader::Ringbuf => "ringbuf",
        Reader::TunedRingbuf => "tuned-ringbuf",
    }
}

fn wake(case: &Case) -> String {
    match case.wake {
        WakeRule::LatencyUs(us) if us % 1000 == 0 => format!("{}ms", us / 1000),
        WakeRule::LatencyUs(us) => format!("{us}us"),
        WakeRule::Records(1) => "each".into(),
        WakeRule::Records(n) => format!("{n} records"),
        WakeRule::Bytes(n) => bytes(n as usize),
    }
}

fn sample(case: &Case) -> String {
    let names: Vec<_> =
        FIELDS.iter().filter(|(_, bit)| case.sample_type & bit != 0).map(|(name, _)| *name).collect();
    names.join("+")
}

/// Bytes, in the largest unit that has no rest.
pub fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}K", n >> 10),
        n => n.to_string(),
    }
}

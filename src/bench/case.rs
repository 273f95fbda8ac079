//! One setting that is measured, and the sweeps that make many of them.

use serde::{Deserialize, Serialize};

use crate::{
    probe::bench::{Emit, Hook, RingbufOptions},
    record::sample_type,
    ring::{self, Wake},
};

/// Who makes events, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// A call after the other, as trace_output has it.
    Write,
    /// So many calls a second.
    Paced(u32),
    /// The program by BPF_PROG_TEST_RUN, up to 256 events a run: no call is in between.
    Burst,
    /// As `Burst` until the ring is nearly full, and only then read: the reader's own cost.
    Drain,
}

impl Workload {
    /// Whether a hook makes the events.
    pub fn calls(self) -> bool {
        matches!(self, Workload::Write | Workload::Paced(_))
    }
}

/// What reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// Our rings.
    Rings,
    /// libbpf's reader of one BPF ringbuf, as large as the rings together; woken whenever it had read all.
    Ringbuf,
    /// The same, woken at a quarter of it, and every latency.
    TunedRingbuf,
}

/// When the reader is woken, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeRule {
    /// [`Wake::Latency`], in microseconds.
    LatencyUs(u64),
    /// [`Wake::Records`]
    Records(u32),
    /// [`Wake::Bytes`]
    Bytes(u32),
}

impl From<Wake> for WakeRule {
    fn from(wake: Wake) -> WakeRule {
        match wake {
            Wake::Latency(time) => WakeRule::LatencyUs(time.as_micros() as u64),
            Wake::Records(n) => WakeRule::Records(n),
            Wake::Bytes(n) => WakeRule::Bytes(n),
        }
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Who makes events.
    pub workload: Workload,
    /// What hooks the calls; the one that costs them least where `None`.
    pub hook: Option<Hook>,
    /// Bytes of an event.
    pub payload: usize,
    /// Each event carries its time, so that its age can be told: some 25 ns an event.
    pub timed: bool,
    /// Events in a record.
    pub gather: u32,
    /// What reads.
    pub reader: Reader,
    /// Bytes of each ring.
    pub ring_size: usize,
    /// When it is woken.
    pub wake: WakeRule,
    /// What a sample carries: bits of [`sample_type`].
    pub sample_type: u64,
    /// CPUs that make events.
    pub producers: u32,
    /// Threads that read rings, each its share.
    #[serde(default = "one")]
    pub reader_threads: u32,
}

/// What was measured before there could be more.
fn one() -> u32 {
    1
}

impl Case {
    /// What the programs put out.
    pub fn emit(&self, cpus: usize) -> Emit {
        let size = (self.ring_size * cpus.max(1)).next_power_of_two();
        let wake_at = (self.reader == Reader::TunedRingbuf).then_some((size / 4) as u32);
        Emit {
            size: self.payload,
            timed: self.timed,
            gather: self.gather,
            ringbuf: (self.reader != Reader::Rings).then_some(RingbufOptions { size, wake_at }),
        }
    }

    /// What the rings are opened with.
    pub fn rings(&self) -> ring::Options {
        ring::Options {
            size: self.ring_size,
            wake: self.wake(),
            sample_type: self.sample_type,
            max_raw: self.emit(1).record(),
            cpus: None,
        }
    }

    /// When the reader is woken.
    pub fn wake(&self) -> Wake {
        match self.wake {
            WakeRule::LatencyUs(us) => Wake::Latency(std::time::Duration::from_micros(us)),
            WakeRule::Records(n) => Wake::Records(n),
            WakeRule::Bytes(n) => Wake::Bytes(n),
        }
    }
}

/// Lists whose combinations are the cases; each has one member at least.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Who makes events.
    pub workloads: Vec<Workload>,
    /// What hooks the calls.
    pub hooks: Vec<Option<Hook>>,
    /// Bytes of an event.
    pub payloads: Vec<usize>,
    /// Each event carries its time.
    pub timed: bool,
    /// Events in a record.
    pub gathers: Vec<u32>,
    /// What reads.
    pub readers: Vec<Reader>,
    /// Bytes of each ring.
    pub ring_sizes: Vec<usize>,
    /// When the reader is woken.
    pub wakes: Vec<Wake>,
    /// What a sample carries beside its raw bytes.
    pub sample_types: Vec<u64>,
    /// CPUs that make events.
    pub producers: Vec<u32>,
    /// Threads that read rings.
    pub reader_threads: Vec<u32>,
}

impl Default for Sweep {
    /// trace_output's: one case.
    fn default() -> Sweep {
        Sweep {
            workloads: vec![Workload::Write],
            hooks: vec![None],
            payloads: vec![16],
            timed: false,
            gathers: vec![1],
            readers: vec![Reader::Rings],
            ring_sizes: vec![ring::Options::default().size],
            wakes: vec![Wake::default()],
            sample_types: vec![sample_type::RAW],
            producers: vec![1],
            reader_threads: vec![1],
        }
    }
}

impl Sweep {
    /// All combinations that make a difference: a hook none where nothing is called, sample fields none in a
    /// ringbuf, several threads where several rings are read. What is paced is timed.
    pub fn cases(&self) -> Vec<Case> {
        let base = Case {
            workload: Workload::Write,
            hook: None,
            payload: 0,
            timed: self.timed,
            gather: 1,
            reader: Reader::Rings,
            ring_size: 0,
            wake: WakeRule::Records(1),
            sample_type: 0,
            producers: 1,
            reader_threads: 1,
        };
        let mut cases = vec![base];
        times(&mut cases, &self.workloads, |case, workload| {
            case.workload = workload;
            case.timed |= matches!(workload, Workload::Paced(_));
        });
        times(&mut cases, &self.hooks, |case, hook| case.hook = hook.filter(|_| case.workload.calls()));
        times(&mut cases, &self.payloads, |case, payload| case.payload = payload);
        times(&mut cases, &self.gathers, |case, gather| case.gather = gather);
        times(&mut cases, &self.ring_sizes, |case, size| case.ring_size = size);
        times(&mut cases, &self.wakes, |case, wake| case.wake = wake.into());
        times(&mut cases, &self.sample_types, |case, fields| case.sample_type = fields | sample_type::RAW);
        times(&mut cases, &self.producers, |case, producers| case.producers = producers);
        times(&mut cases, &self.readers, |case, reader| {
            case.reader = reader;
            if reader != Reader::Rings {
                case.sample_type = sample_type::RAW;
            }
        });
        times(&mut cases, &self.reader_threads, |case, threads| {
            // Where only reading is timed, one ring is read.
            let several = case.reader == Reader::Rings && case.workload != Workload::Drain;
            case.reader_threads = if several { threads } else { 1 };
        });
        let mut kept: Vec<Case> = Vec::with_capacity(cases.len());
        for case in cases {
            if !kept.contains(&case) {
                kept.push(case);
            }
        }
        kept
    }
}

/// Each case with each of the values.
fn times<T: Copy>(cases: &mut Vec<Case>, values: &[T], set: impl Fn(&mut Case, T)) {
    let with = |case: &Case, value| {
        let mut case = case.clone();
        set(&mut case, value);
        case
    };
    *cases = cases
        .iter()
        .flat_map(|case| values.iter().map(move |value| (case, *value)))
        .map(|(c, v)| with(c, v))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_each_combination_that_differs_once() {
        let sweep = Sweep {
            workloads: vec![Workload::Write, Workload::Burst],
            hooks: vec![Some(Hook::Kprobe), Some(Hook::RawTracepoint)],
            sample_types: vec![sample_type::RAW, sample_type::TIME],
            readers: vec![Reader::Rings, Reader::Ringbuf],
            ..Sweep::default()
        };
        let cases = sweep.cases();
        // Two hooks for calls and none for bursts; two sample types for rings and one for the ringbuf.
        assert_eq!(cases.len(), (2 + 1) * (2 + 1));
        assert!(cases.iter().all(|c| c.sample_type & sample_type::RAW != 0));
        assert_eq!(Sweep::default().cases().len(), 1);
    }
}

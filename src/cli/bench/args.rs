//! The arguments of `tracer bench`: lists, whose combinations are measured.

use std::{path::PathBuf, time::Duration};

use clap::{Args as Group, ValueEnum};
use tracer::{
    Error, Result,
    bench::{Options, Reader, Sweep, Workload},
    probe::bench::Hook,
    record::sample_type,
    ring::{self, Wake},
};

use super::super::units::{self, Wakeup};

const HELP: &str = "\
Options that take a LIST (a,b,c) measure every combination, in turns, and print a table. What is told are medians over
rounds, never a rate without its loss. 'ns' is the producers' own CPU time a call (a burst: an event).

Examples:
  tracer bench                                            trace_output's number, and what lies behind it
  tracer bench --workload burst --payload 16,64,256,1024 -m 64K,1M --plot sweep.svg
  tracer bench --attach fentry,kprobe,tp,raw-tp           what each hook costs a call
  tracer bench --workload paced --rate 1000,20000,200000  how old events get, and what the reader costs
  tracer bench --reader rings,ringbuf,tuned-ringbuf       the BPF ringbuf on the same work
  tracer bench --json > base.json; tracer bench --compare base.json

Exit codes: 0, 1 runtime error, 2 usage, 3 precondition failed, 4 the hook is not to be had, 5 the books do not balance.";

/// `tracer bench`
#[derive(Debug, Group)]
#[command(after_help = HELP)]
pub struct Bench {
    /// Who makes events: calls of write(2), calls at a rate, the program by test-run, or the same with only the reading timed
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_value = "write")]
    pub workload: Vec<Kind>,
    /// Calls a second of the workload 'paced'
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "20000")]
    pub rate: Vec<u32>,
    /// What hooks the calls; 'auto' is the hook that costs them least
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_value = "auto")]
    pub attach: Vec<Attach>,
    /// Bytes of an event: multiples of 8
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = units::size, default_value = "16")]
    pub payload: Vec<usize>,
    /// Bytes of each ring
    #[arg(short = 'm', long, value_name = "LIST", value_delimiter = ',', value_parser = units::size, default_value = "1M")]
    pub size: Vec<usize>,
    /// Be woken by so many records or, with a unit, bytes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = units::wakeup)]
    pub wakeup: Vec<Wakeup>,
    /// How old a record may grow, where --wakeup does not say otherwise
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = units::time, default_value = "100ms")]
    pub latency: Vec<Duration>,
    /// Events that share a record
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub gather: Vec<u32>,
    /// What the kernel puts beside each record: fields joined by '+'
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sample, default_value = "raw")]
    pub sample: Vec<u64>,
    /// What reads
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_value = "rings")]
    pub reader: Vec<Source>,
    /// How many CPUs make events
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub producers: Vec<u32>,
    /// How many threads read rings, each its share of the CPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub reader_threads: Vec<u32>,
    /// Have each event carry its time, and tell how old it was when it was read
    #[arg(long)]
    pub age: bool,
    /// How long each case runs in each round
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1s")]
    pub duration: Duration,
    /// How many rounds, in which the cases take turns
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
    /// The first CPU that makes events
    #[arg(short = 'C', long, value_name = "CPU", default_value_t = 0)]
    pub cpu: u32,
    /// Print NDJSON, an object a case
    #[arg(long)]
    pub json: bool,
    /// Draw throughput, cost and age over what varies
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Compare with what --json printed before
    #[arg(long, value_name = "BASE.json", conflicts_with = "json")]
    pub compare: Option<PathBuf>,
    /// No progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Who makes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Write,
    Paced,
    Burst,
    Drain,
}

/// What hooks the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attach {
    Auto,
    Fentry,
    Kprobe,
    Tp,
    RawTp,
    Uprobe,
}

/// What reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    Rings,
    Ringbuf,
    TunedRingbuf,
}

impl Bench {
    /// What is to be measured.
    pub fn sweep(&self) -> Result<Sweep> {
        let wakes: Vec<Wake> = match self.wakeup.as_slice() {
            [] => self.latency.iter().map(|time| Wake::Latency(*time)).collect(),
            some => some.iter().map(|wakeup| (*wakeup).into()).collect(),
        };
        if let Some(size) = self.size.iter().find(|size| ring::size::round(**size).is_err()) {
            return ring::size::round(*size).map(|_| Sweep::default());
        }
        if self.producers.contains(&0) {
            return Err(Error::usage("--producers 0: somebody has to make events"));
        }
        if self.reader_threads.contains(&0) {
            return Err(Error::usage("--reader-threads 0: somebody has to read"));
        }
        if self.rate.contains(&0) {
            return Err(Error::usage("--rate 0: no calls a second are nothing to measure"));
        }
        let workloads = |kind: &Kind| match kind {
            Kind::Write => vec![Workload::Write],
            Kind::Paced => self.rate.iter().map(|rate| Workload::Paced(*rate)).collect(),
            Kind::Burst => vec![Workload::Burst],
            Kind::Drain => vec![Workload::Drain],
        };
        Ok(Sweep {
            workloads: self.workload.iter().flat_map(workloads).collect(),
            hooks: self.attach.iter().map(|attach| attach.hook()).collect(),
            payloads: self.payload.clone(),
            timed: self.age,
            gathers: self.gather.clone(),
            readers: self.reader.iter().map(|reader| reader.reader()).collect(),
            ring_sizes: self.size.iter().map(|size| ring::size::round(*size)).collect::<Result<_>>()?,
            wakes,
            sample_types: self.sample.clone(),
            producers: self.producers.clone(),
            reader_threads: self.reader_threads.clone(),
        })
    }

    /// How it is measured.
    pub fn options(&self) -> Options {
        Options { duration: self.duration, rounds: self.rounds, cpu: self.cpu }
    }
}

impl Attach {
    fn hook(self) -> Option<Hook> {
        match self {
            Attach::Auto => None,
            Attach::Fentry => Some(Hook::Fentry),
            Attach::Kprobe => Some(Hook::Kprobe),
            Attach::Tp => Some(Hook::Tracepoint),
            Attach::RawTp => Some(Hook::RawTracepoint),
            Attach::Uprobe => Some(Hook::Uprobe),
        }
    }
}

impl Source {
    fn reader(self) -> Reader {
        match self {
            Source::Rings => Reader::Rings,
            Source::Ringbuf => Reader::Ringbuf,
            Source::TunedRingbuf => Reader::TunedRingbuf,
        }
    }
}

/// The fields that a sample can carry here: each without a payload of its own.
pub const FIELDS: [(&str, u64); 8] = [
    ("raw", sample_type::RAW),
    ("time", sample_type::TIME),
    ("cpu", sample_type::CPU),
    ("tid", sample_type::TID),
    ("ip", sample_type::IP),
    ("id", sample_type::IDENTIFIER),
    ("period", sample_type::PERIOD),
    ("addr", sample_type::ADDR),
];

/// `raw+time+cpu`.
fn sample(text: &str) -> Result<u64, String> {
    text.split('+').try_fold(sample_type::RAW, |all, name| {
        let field = FIELDS.iter().find(|(known, _)| *known == name);
        field.map(|(_, bit)| all | bit).ok_or_else(|| {
            let names: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
            format!("'{name}' is no field of a sample: {} are", names.join(", "))
        })
    })
}

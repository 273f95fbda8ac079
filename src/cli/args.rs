//! What was typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use tracer::sink::{OnFull, TimeFormat};

use super::{
    attach::Manner,
    record::args as record,
    script::args as script,
    stat::args as stat,
    units::{self, Gather, Wakeup},
};

/// Live BPF tracing whose numbers add up.
#[derive(Debug, Parser)]
#[command(name = "tracer", version, arg_required_else_help = true, max_term_width = 110)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Stream events to stdout as they happen
    Run(Box<Run>),
    /// Record to a file or a pipe that perf reads
    Record(Box<record::Record>),
    /// Count in the kernel: rates, sums and histograms, with no events
    Stat(Box<stat::Args>),
    /// Read somebody else's pinned perf event array
    Read(Box<Read>),
    /// Show a recording, ours or perf's: text, json, csv, folded
    Script(Box<script::Args>),
    /// Write a recording anew: as NDJSON, as CTF, as a file or a pipe
    Convert(super::convert::Convert),
    /// Make a recording that was cut or never ended one that perf reads
    Repair(super::convert::Repair),
    /// What can be probed, with its parameters; and why not
    List(List),
    /// What this kernel and user allow, each with the exact fix
    Doctor(Doctor),
    /// The JSON Schema of the lines that `run -f json` writes for some specs
    Schema(SchemaOf),
    /// Measure this host's path from bpf_perf_event_output to a reader
    Bench(Box<super::bench::Bench>),
    /// Print a shell's completions: source <(tracer completions bash)
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page: tracer man run | man -l -
    Man {
        /// The page of this subcommand
        command: Option<String>,
    },
}

const RUN_HELP: &str = "\
A SPEC is [NAME=]PROVIDER:TARGET[+OFFSET][/PREDICATE/][{FIELD,...}]. Providers: kprobe (k), kretprobe (kr),
fentry (f), fexit (fr), tracepoint (t), rawtracepoint (rt), uprobe (u), uretprobe (ur), usdt, syscall (s), object
(o). Without a SPEC: s:write.

Examples:
  tracer run                                 every write(2) on this host
  tracer run s:openat -p 1234                one process and its children
  tracer run k:vfs_write kr:vfs_read         kernel functions
  tracer run t:sched:sched_process_exec      a tracepoint
  tracer run 's:openat/filename==\"/etc/*\"/{filename,flags:x}'
                                             a predicate and fields
  tracer run 's:read{fd,count,ret,lat}'      what it returned, and how long it took
  tracer run -k 'k:tcp_*' --missing warn     every function that matches, with stacks
  tracer run o:mine.bpf.o --set min_us=100 --event events=event
                                             an object of your own, its events by its BTF
  tracer run -f json -n 1000 -- make         a command from its first instruction

Exit codes: 0 clean stop, 1 runtime error, 2 usage, 3 this host does not allow it, 4 a probe is missing or cannot
be attached, 5 loss beyond --fail-on-loss or books that do not balance, 6 the output failed; with a command, its
status if all else is well.";

/// `tracer run`
#[derive(Debug, Group)]
#[command(after_help = RUN_HELP)]
pub struct Run {
    #[command(flatten)]
    pub probes: Probes,
    #[command(flatten)]
    pub stream: Stream,
}

/// What is traced.
#[derive(Debug, Group)]
pub struct Probes {
    /// What to trace
    #[arg(value_name = "SPEC")]
    pub specs: Vec<String>,

    /// A command to run and trace, with its children
    #[arg(last = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,

    #[command(flatten)]
    pub tasks: Tasks,

    /// Set a global variable of an object (o:) before it is loaded; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::pair)]
    pub set: Vec<(String, String)>,
    /// The struct that the events of an object's map are; may be repeated
    #[arg(long, value_name = "MAP=STRUCT", value_parser = units::pair)]
    pub event: Vec<(String, String)>,

    /// Have up to so many events of a CPU share a record, from 1 to 32, or 'auto': 8 where events are small; costs a
    /// busy traced program far less, and events come up to --latency late
    #[arg(long, value_name = "N|auto", value_parser = units::gather, default_value = "1", env = "TRACER_GATHER")]
    pub gather: Gather,
    /// Have so many threads read the rings, each its share of the CPUs; one serves many CPUs, and more are for rates
    /// that one cannot keep up with
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), default_value = "1",
          env = "TRACER_READER_THREADS")]
    pub reader_threads: u32,
    /// What to do when a probe cannot be attached
    #[arg(long, value_enum, default_value_t = Missing::Error, env = "TRACER_MISSING")]
    pub missing: Missing,
    /// Drop privileges to this user once the probes are attached
    #[arg(long, value_name = "NAME", env = "TRACER_USER")]
    pub user: Option<String>,
    /// Resolve, load and attach, say what was done, and detach
    #[arg(long)]
    pub dry_run: bool,
}

/// Which tasks are traced.
#[derive(Clone, Debug, Group)]
pub struct Tasks {
    /// Trace this process and its children (or this thread) until the last has ended; may be repeated
    #[arg(short, long, value_name = "PID", value_delimiter = ',', env = "TRACER_PID")]
    pub pid: Vec<u32>,
    /// Trace tasks whose name matches; * and ? match
    #[arg(long, value_name = "GLOB", env = "TRACER_COMM")]
    pub comm: Option<String>,
    /// Trace tasks of this user, by name or id
    #[arg(short = 'u', long = "uid", value_name = "USER", env = "TRACER_UID")]
    pub uid: Option<String>,
    /// Trace tasks in this cgroup v2 directory or below
    #[arg(long, value_name = "PATH", env = "TRACER_CGROUP")]
    pub cgroup: Option<PathBuf>,
    /// Trace tracer itself, its ancestors and its readers too
    #[arg(long, env = "TRACER_INCLUDE_SELF")]
    pub include_self: bool,
}

/// What every session is told, whatever becomes of its events.
#[derive(Debug, Group)]
pub struct Trace {
    /// Trace on these CPUs, such as 0-3,7
    #[arg(short = 'C', long, value_name = "CPUS", env = "TRACER_CPUS")]
    pub cpus: Option<String>,

    /// Stop after so many events
    #[arg(short = 'n', value_name = "N", env = "TRACER_COUNT")]
    pub count: Option<u64>,
    /// Stop after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = units::time, env = "TRACER_DURATION")]
    pub duration: Option<Duration>,
    /// The kernel's stack with every event
    #[arg(short = 'k', long, env = "TRACER_KSTACK")]
    pub kstack: bool,
    /// The user's stack with every event
    #[arg(short = 'U', long, env = "TRACER_USTACK")]
    pub ustack: bool,

    #[command(flatten)]
    pub rings: Rings,

    /// Exit with 5 if more than N events are missing at the end [default N: 0]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          env = "TRACER_FAIL_ON_LOSS")]
    pub fail_on_loss: Option<u64>,
    /// Print the ledger to stderr in this interval
    #[arg(long, value_name = "TIME", value_parser = units::time, env = "TRACER_STATS")]
    pub stats: Option<Duration>,
    /// No status and no summary; errors and loss are told all the same
    #[arg(short, long, env = "TRACER_QUIET")]
    pub quiet: bool,
    /// Say more; the kernel counts our programs' runs as a check of `fired`
    #[arg(short, long, env = "TRACER_VERBOSE")]
    pub verbose: bool,
}

/// In which order events come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// As the rings are read
    None,
    /// Each CPU's by time
    Cpu,
    /// All by time; what comes too late for that is marked and counted
    Time,
    /// All by time; what comes too late for that ends the run
    Strict,
}

/// What every stream of events is told, wherever they come from.
#[derive(Debug, Group)]
pub struct Stream {
    /// How events are written
    #[arg(short, long, value_enum, default_value_t = Format::Text, env = "TRACER_FORMAT")]
    pub format: Format,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE", env = "TRACER_OUTPUT")]
    pub output: Option<PathBuf>,
    /// In which order events come; but for 'none' they come up to --latency later, and twice that on a quiet machine
    #[arg(long, value_enum, default_value_t = Order::None, env = "TRACER_ORDER")]
    pub order: Order,
    /// What becomes of events where the output takes no more: block (rings fill up then, and the kernel loses what comes),
    /// drop-new, or sample=N (one in N is kept in what room is left)
    #[arg(long, value_name = "RULE", value_parser = units::on_full, default_value = "drop-new", env = "TRACER_ON_FULL")]
    pub on_full: OnFull,
    /// The columns of text: time, comm, pid, tid, cpu, uid, cgroup, seq, name, args, or fields by name
    #[arg(long, value_name = "LIST", env = "TRACER_FIELDS")]
    pub fields: Option<String>,
    /// The time column of text: none, delta, mono, wall or utc
    #[arg(short, long, value_name = "HOW", value_parser = units::shown, default_value = "mono", env = "TRACER_TIME")]
    pub time: TimeFormat,
    /// JSON integers of 64 bits: as numbers, exact in the text, or as strings for readers that keep doubles
    #[arg(long, value_enum, default_value_t = JsonInt::Number, env = "TRACER_JSON_INT")]
    pub json_int: JsonInt,
    /// Colours
    #[arg(long, value_enum, default_value_t = Color::Auto, env = "TRACER_COLOR")]
    pub color: Color,

    #[command(flatten)]
    pub trace: Trace,
}

impl Probes {
    /// How it attaches.
    pub fn manner(&self, trace: &Trace) -> Manner {
        Manner { missing: self.missing, quiet: trace.quiet, verbose: trace.verbose }
    }
}

/// What reads a flag of the session need not know where it stands.
impl std::ops::Deref for Stream {
    type Target = Trace;

    fn deref(&self) -> &Trace {
        &self.trace
    }
}

const READ_HELP: &str = "\
The programs that fill the map go on as they are, before and after. A slot that somebody else's reader has filled is
refused, as its reader would get nothing any more; the slots that were ours are empty at the end.

Examples:
  tracer read --map /sys/fs/bpf/events --btf their.bpf.o --event event
  tracer read --map /sys/fs/bpf/events -f hex

Exit codes are those of `tracer run`; 3: nothing is pinned there, or a slot is taken.";

/// `tracer read`
#[derive(Debug, Group)]
#[command(after_help = READ_HELP)]
pub struct Read {
    /// Where the perf event array is pinned
    #[arg(long, value_name = "PIN")]
    pub map: PathBuf,
    /// The struct that its events are, from the BTF of --btf
    #[arg(long, value_name = "STRUCT", requires = "btf")]
    pub event: Option<String>,
    /// The object (or file of BTF) that has the struct; without --event its tag or its size tells
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
    /// Take the place of another reader, which gets nothing from then on
    #[arg(long)]
    pub steal: bool,

    #[command(flatten)]
    pub stream: Stream,
}

/// `tracer schema`
#[derive(Debug, Group)]
pub struct SchemaOf {
    /// What would be traced [default: s:write]
    #[arg(value_name = "SPEC")]
    pub specs: Vec<String>,
    /// JSON integers of 64 bits, as for `run`
    #[arg(long, value_enum, default_value_t = JsonInt::Number, env = "TRACER_JSON_INT")]
    pub json_int: JsonInt,
}

/// The rings.
#[derive(Clone, Debug, Group)]
pub struct Rings {
    /// The ring of each CPU, in bytes [default: 1M, less where the limit says so]
    #[arg(short = 'm', long = "ring", value_name = "SIZE", value_parser = units::ring, env = "TRACER_RING")]
    pub size: Option<usize>,
    /// All rings together, in bytes
    #[arg(long, value_name = "SIZE", value_parser = units::size, env = "TRACER_RING_TOTAL")]
    pub ring_total: Option<usize>,
    /// How long an event may wait in its ring
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "100ms", env = "TRACER_LATENCY")]
    pub latency: Duration,
    /// Wake the reader every N records, or with a unit every so many bytes, instead of by --latency
    #[arg(long, value_name = "N|BYTES", value_parser = units::wakeup, env = "TRACER_WAKEUP")]
    pub wakeup: Option<Wakeup>,
}

const LIST_HELP: &str = "\
PATTERN is a glob over everything the kernel has, or PROVIDER:GLOB; * and ? match.

Examples:
  tracer list                        everything
  tracer list '*tcp_send*'           whatever has such a name
  tracer list 'k:vfs_*'              kernel functions (kr, f, fr too)
  tracer list 't:sched:*'            tracepoints, with the fields of their records
  tracer list 's:*at'                system calls
  tracer list 'u:/usr/bin/bash:*'    functions of a program
  tracer list usdt:/usr/bin/python3  the probes in a program or library

Exit codes: 0 something matches, 1 runtime error, 2 usage, 3 this host does not show it, 4 nothing matches.";

/// `tracer list`
#[derive(Debug, Group)]
#[command(after_help = LIST_HELP)]
pub struct List {
    /// What is looked for [default: everything]
    #[arg(default_value = "*", hide_default_value = true)]
    pub pattern: String,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = ListFormat::Text)]
    pub format: ListFormat,
    /// Say more: modules, addresses, and the bytes before functions
    #[arg(short, long)]
    pub verbose: bool,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// One line each, for people
    Text,
    /// NDJSON
    Json,
}

const DOCTOR_HELP: &str = "\
Every line is ok, warn (something cannot be done here) or fail (nothing can be traced, or not the SPEC). Rings are
opened, programs loaded and each SPEC attached, with a filter that no task passes, and let go at once.

Exit codes: 0 nothing fails, 1 runtime error, 2 usage, 3 something fails.";

/// `tracer doctor`
#[derive(Debug, Group)]
#[command(after_help = DOCTOR_HELP)]
pub struct Doctor {
    /// What is to be traced, attached once to see whether it can be
    #[arg(value_name = "SPEC")]
    pub specs: Vec<String>,
    /// Print NDJSON, one object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rings: Rings,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line an event, for people
    Text,
    /// NDJSON: a header, events and gaps, a footer
    Json,
    /// The raw bytes as a dump
    Hex,
    /// The raw bytes, framed by length
    Raw,
    /// Each stack with how often it was met, at the end: what flame graphs are drawn from
    Folded,
}

/// JSON's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JsonInt {
    Number,
    String,
}

/// What to do when a probe cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// Stop with its reason
    Error,
    /// Say so and go on with the others
    Warn,
    /// Go on with the others
    Ignore,
}

/// Colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

//! What fields and predicates cost the traced call, beside bpftrace on the same probe.

use crate::table::median;
use crate::tool::{Tool, told};
use crate::workload::{self, Writer};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is written: a path of 32 bytes, its NUL included.
const PATH: &[u8; 32] = b"/usr/share/doc/libsom/copyright\0";

/// What is asked for, of the tracer and of bpftrace.
struct Case {
    name: &'static str,
    fields: &'static str,
    predicate: &'static str,
    body: &'static str,
}

const CASES: [Case; 4] = [
    Case { name: "no fields", fields: "{pid}", predicate: "", body: "printf(\"x\\n\")" },
    Case {
        name: "3 integers",
        fields: "{fd,buf:x,count}",
        predicate: "",
        body: "printf(\"%d %lx %lu\\n\", args->fd, args->buf, args->count)",
    },
    Case {
        name: "a path of 32 bytes",
        fields: "{buf:str}",
        predicate: "",
        body: "printf(\"%s\\n\", str(args->buf))",
    },
    Case {
        name: "turned away",
        fields: "/count==12345/{pid}",
        predicate: "&& args->count == 12345",
        body: "@ = count()",
    },
];

/// Who traces.
const TRACERS: [&str; 3] = ["tracer", "tracer s:", "bpftrace"];

/// One round of one case: ns added to the call by each, and the share of events that it says it lost: bpftrace 0.17
/// loses most of them at this rate and says nothing, so its share is not shown.
type Round = [(f64, f64); TRACERS.len()];

/// Measures all cases in turns, and prints the medians.
pub fn run(tracer: &Path, cpu: u32, duration: Duration, rounds: usize) -> Result<()> {
    workload::keep_off(cpu)?;
    let scratch = std::env::temp_dir().join(format!("tracer-fields-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let measured =
        measure(&Stage { tracer: tracer.to_owned(), cpu, duration, scratch: scratch.clone() }, rounds);
    let _ = std::fs::remove_dir_all(&scratch);
    let (untraced, seen) = measured?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "write(2) of 32 bytes to /dev/null on CPU {cpu}; {rounds} rounds of {duration:?}, medians; ns of CPU time that \
         a traced call takes more than an untraced one ({untraced:.0} ns); load {}",
        load.split(' ').take(3).collect::<Vec<_>>().join(" "),
    );
    println!(
        "{:<20} {:>10} {:>7} {:>10} {:>7} {:>10} {:>16} {:>13}",
        "t:syscalls:…write",
        TRACERS[0],
        "lost %",
        TRACERS[1],
        "lost %",
        TRACERS[2],
        "bpftrace/tracer",
        "bpftrace/s:"
    );
    for (case, its) in CASES.iter().zip(&seen) {
        let column = |which: usize| {
            let (ns, lost) = (median(its.iter().map(|r| r[which].0)), median(its.iter().map(|r| r[which].1)));
            format!("{ns:>10.0} {:>7.2}", 100.0 * lost)
        };
        let ratio = |which: usize| median(its.iter().map(|r| r[2].0 / r[which].0));
        println!(
            "{:<20} {} {} {:>10.0} {:>16.2} {:>13.2}",
            case.name,
            column(0),
            column(1),
            median(its.iter().map(|r| r[2].0)),
            ratio(0),
            ratio(1)
        );
    }
    Ok(())
}

/// Where rounds take place.
struct Stage {
    tracer: PathBuf,
    cpu: u32,
    duration: Duration,
    scratch: PathBuf,
}

fn measure(stage: &Stage, rounds: usize) -> Result<(f64, Vec<Vec<Round>>)> {
    let (mut all_untraced, mut seen) = (Vec::new(), CASES.map(|_| Vec::new()).to_vec());
    for round in 0..rounds {
        for (case, its) in CASES.iter().zip(&mut seen) {
            let untraced = stage.write()?.0;
            let mut this = Round::default();
            for turn in 0..TRACERS.len() {
                let which = (round + turn) % TRACERS.len();
                let (ns, lost) = stage
                    .traced(which, case)
                    .with_context(|| format!("{}, {}, round {round}", TRACERS[which], case.name))?;
                this[which] = (ns - untraced, lost);
            }
            all_untraced.push(untraced);
            its.push(this);
        }
    }
    Ok((median(all_untraced.into_iter()), seen))
}

impl Stage {
    /// Nanoseconds a call, and how many there were.
    fn write(&self) -> Result<(f64, u64)> {
        let writer = Writer::start(self.cpu, PATH)?;
        std::thread::sleep(self.duration);
        let written = writer.stop();
        Ok((written.ns(), written.calls))
    }

    /// Nanoseconds a call that is traced, and the share of events that was lost.
    fn traced(&self, which: usize, case: &Case) -> Result<(f64, f64)> {
        let tool = match which {
            2 => {
                let (me, predicate, body) = (std::process::id(), case.predicate, case.body);
                let probe = "tracepoint:syscalls:sys_enter_write";
                let program = format!("{probe} /pid == {me} {predicate}/ {{ {body}; }}");
                Tool::bpftrace(&program, &[], &self.scratch)?
            }
            _ => {
                let target = ["t:syscalls:sys_enter_write", "s:write"][which];
                let spec = format!("{target}{}", case.fields);
                Tool::tracer(&self.tracer, &["run", "-o", "/dev/null", &spec], &self.scratch)?
            }
        };
        let (ns, calls) = self.write()?;
        Ok((ns, told(&tool.stop()?).1 as f64 / calls.max(1) as f64))
    }
}

//! The largest plans there can be are loaded at once, and what the verifier walks for them stays far from its limit.
//!
//! The verifier gives up at a million instructions, and one branch on data in the wrong place doubles what it walks
//! with every field: a count that has grown is told here long before a probe is refused.

use crate::context::Context;
use crate::fail;
use crate::program::TARGET;
use crate::table::{Outcome, Test};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use tracer::probe::Target;
use tracer::session::{Options, Session};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("verifier::the_largest_plans_of_tracepoints", largest_of_tracepoints),
    Test::new("verifier::the_largest_plans_with_returns", largest_with_returns),
    Test::new("verifier::the_largest_plans_of_functions", largest_of_functions).in_guests(),
];

/// The most instructions that the verifier may walk for a program.
const MOST: u64 = 20_000;
/// The same, where its events share records, whose outcome each of their probes is told.
const MOST_SHARED: u64 = 30_000;
/// Kernels tell how many they walked from here on (`bpf_prog_show_fdinfo`, kernel/bpf/syscall.c).
const COUNTED: (u32, u32) = (5, 16);

/// The fields and predicates that fill a program, of a task that `root` leads to.
struct Full {
    root: String,
}

impl Full {
    fn of(root: &str) -> Self {
        Self { root: root.to_owned() }
    }

    /// A number behind eight pointers.
    fn number(&self) -> String {
        format!("{}{}.pid", self.root, ".real_parent".repeat(8))
    }

    /// A string whose address is the eighth pointer.
    fn name(&self) -> String {
        let (root, parents) = (&self.root, ".real_parent".repeat(4));
        format!("{root}{parents}.mm.exe_file.f_path.dentry.d_name.name")
    }

    /// Sixteen operations: eight words of a string compared, joined, and denied.
    fn string_predicate(&self) -> String {
        format!("/{}!=\"{}\"/", self.name(), "x".repeat(63))
    }

    /// Sixteen operations on a number.
    fn number_predicate(&self) -> String {
        let ways = ["==1", "!=2", "<3", "<=4", ">5", ">=6", "&7", "==8"];
        let all: Vec<String> = ways.iter().map(|way| format!("{}{way}", self.number())).collect();
        format!("/!({})/", all.join(" && "))
    }

    /// The bodies of specs; `more` are fields that each has too.
    fn bodies(&self, more: &[&str]) -> Vec<String> {
        let body = |predicate: String, fields: Vec<String>| {
            let own = fields.iter().enumerate().map(|(i, field)| format!("f{i}:{field}"));
            let all: Vec<String> = own.chain(more.iter().map(|&field| field.to_owned())).collect();
            format!("{predicate}{{{}}}", all.join(","))
        };
        // One of sixteen slots tells which fields could not be read.
        let room = 15 - more.len();
        let (number, name) = (self.number(), self.name());
        let stacks = ["kstack".to_owned()];
        let buffers = format!("{}{}.comm:buf[144]", self.root, ".real_parent".repeat(8));
        vec![
            body(self.number_predicate(), vec![number.clone(); room]),
            body(self.string_predicate(), [vec![name.clone(); 8], vec![number.clone(); room - 8]].concat()),
            body(self.number_predicate(), [vec![name; 7], stacks.to_vec(), vec![number; room - 8]].concat()),
            body(self.string_predicate(), [vec![buffers; room - 1], stacks.to_vec()].concat()),
        ]
    }
}

/// The largest of what the verifier walked for this process's programs; `None` where the kernel does not tell.
fn walked() -> Result<Option<u64>> {
    let mut most = None;
    for entry in std::fs::read_dir("/proc/self/fdinfo")?.flatten() {
        // One of them is the folder's own, which is closed by now.
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let count = text.lines().find_map(|line| line.strip_prefix("verified_insns:"));
        most = most.max(count.map(|count| count.trim().parse().context("no count")).transpose()?);
    }
    Ok(most)
}

/// Specs under every filter that there is, and what their programs cost the verifier.
struct Walks<'a> {
    ctx: &'a Context,
    /// What was walked, beyond what was allowed where it was, and for which spec.
    seen: Vec<(u64, bool, String)>,
    attached: usize,
}

impl<'a> Walks<'a> {
    fn new(ctx: &'a Context) -> Self {
        Self { ctx, seen: Vec::new(), attached: 0 }
    }

    /// Attaches a spec, and looks at its programs.
    fn attach(&mut self, spec: &str) -> Result<()> {
        let what = || format!("attaching {spec}");
        let mut options = Options::default();
        options.rings.size = 8 * 4096;
        options.rings.cpus = Some(self.ctx.online()?);
        options.filter.targets = vec![Target::Process(std::process::id())];
        options.filter.uid = Some(0);
        options.filter.comm = Some("*a?b*c?d*e".to_owned());
        options.filter.excluded = (1..=64).collect();
        // Events that share a record are some instructions more: every second plan has them.
        let shared = self.attached % 2 == 1;
        options.gather = if shared { 32 } else { 1 };
        self.attached += 1;
        // A host may have the first version of cgroups alone.
        let cgroups = Path::new("/sys/fs/cgroup");
        options.filter.cgroup = cgroups.join("cgroup.procs").exists().then(|| cgroups.to_owned());
        let mut session = Session::prepare(options)?;
        session.attach(&spec.parse().with_context(what)?).with_context(what)?;
        match walked()? {
            Some(walked) => {
                let most = if shared { MOST_SHARED } else { MOST };
                self.seen.push((walked, walked >= most, spec.to_owned()));
            }
            None => ensure!(self.ctx.version() < COUNTED, "the kernel does not tell what it walked"),
        }
        Ok(())
    }

    /// None was near the verifier's limit.
    fn end(self) -> Outcome {
        for (walked, _, spec) in &self.seen {
            println!("{walked} instructions walked for {spec}");
        }
        match self.seen.into_iter().find(|(_, beyond, _)| *beyond) {
            Some((walked, _, spec)) => {
                fail!("the verifier walked {walked} instructions, which is too near its limit, for {spec}")
            }
            None => Ok(()),
        }
    }
}

fn largest_of_tracepoints(ctx: &Context) -> Outcome {
    let mut walks = Walks::new(ctx);
    for body in Full::of("p").bodies(&[]) {
        walks.attach(&format!("rt:sched_process_exec{body}"))?;
    }
    let all = Full::of("p");
    let fields: Vec<String> = (0..15).map(|i| format!("f{i}:{}", all.number())).collect();
    let pattern = "*a?b*c?d*e";
    walks.attach(&format!("rt:sched_process_exec/{}==\"{pattern}\"/{{{}}}", all.name(), fields.join(",")))?;
    // A record's arrays say where they lie and how long they are.
    let bytes = |i: usize| if i < 14 { 144 } else { 1024 };
    let arrays: Vec<String> = (0..15).map(|i| format!("f{i}:filename:buf[{}]", bytes(i))).collect();
    let (predicate, fields) = ("x".repeat(63), arrays.join(","));
    walks.attach(&format!("t:sched:sched_process_exec/filename!=\"{predicate}\"/{{{fields}}}"))?;
    walks.end()
}

fn largest_with_returns(ctx: &Context) -> Outcome {
    let mut walks = Walks::new(ctx);
    let me = ctx.program_path()?;
    for body in Full::of("(struct task_struct *)arg0").bodies(&["ret", "lat", "time", "cpu", "gid"]) {
        walks.attach(&format!("ur:{me}:{TARGET}{body}"))?;
    }
    for body in Full::of("(struct task_struct *)buf").bodies(&["ret", "lat"]) {
        walks.attach(&format!("s:write{body}"))?;
    }
    walks.end()
}

fn largest_of_functions(ctx: &Context) -> Outcome {
    let mut walks = Walks::new(ctx);
    for provider in ["k", "f"] {
        for body in Full::of("p").bodies(&[]) {
            walks.attach(&format!("{provider}:wake_up_new_task{body}"))?;
        }
    }
    for provider in ["kr", "fr"] {
        for body in Full::of("(struct task_struct *)file").bodies(&["ret", "lat"]) {
            walks.attach(&format!("{provider}:vfs_read{body}"))?;
        }
    }
    walks.end()
}

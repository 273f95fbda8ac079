//! The events of a recording by name, with what makes their raw bytes readable.

use tracer::{
    Error, Result,
    perf_data::{
        Attr,
        read::{EventInfo, Info, more},
    },
    record::sample_type as bit,
    schema::{Schema, Shapes, print::Print},
};

use super::{
    samples::Shape,
    structs::{self, Structs},
    text::right,
};

/// One event, made ready to be shown.
pub struct Known {
    /// Its name as perf gives it.
    pub name: String,
    /// Its name as a line has it: to the right of a column as wide as the longest.
    pub column: Vec<u8>,
    /// What it was opened with.
    pub attr: Attr,
    /// How its raw bytes are shown; of a tracepoint.
    pub print: Option<Print>,
    /// What its samples are as events: one of these.
    pub shapes: Vec<Shape>,
    /// Which of them, where that is told by how many raw bytes there are. The last is of bytes.
    structs: Option<Shapes>,
}

impl Known {
    /// Whether its samples have call chains.
    pub fn has_chain(&self) -> bool {
        self.attr.sample_type & bit::CALLCHAIN != 0
    }

    /// Which of its shapes a sample of so many raw bytes has.
    pub fn shape_of(&self, raw: usize) -> usize {
        self.structs.as_ref().map_or(0, |structs| structs.pick(raw))
    }

    /// Whether so many raw bytes are a struct.
    pub fn is_struct(&self, raw: usize) -> bool {
        self.structs.as_ref().is_some_and(|structs| structs.pick(raw) + 1 < self.shapes.len())
    }

    /// Why so many raw bytes of a BPF program are none.
    pub fn why_bytes(&self, raw: usize) -> Option<String> {
        self.structs.as_ref()?.why_bytes(raw)
    }
}

/// The events that have been seen.
#[derive(Default)]
pub struct Catalogue {
    known: Vec<Option<Known>>,
    width: Option<usize>,
    structs: Structs,
    /// What is asked for and cannot be.
    refused: Option<Error>,
}

impl Catalogue {
    /// One whose events of BPF programs are these structs.
    pub fn new(structs: Structs) -> Catalogue {
        Catalogue { structs, ..Catalogue::default() }
    }

    /// Refuses what was asked for and is not there, once all events are known.
    pub fn check(&mut self, info: &Info) -> Result<()> {
        let all = info.events.all().iter().filter(|event| structs::is_output(&event.attr));
        self.structs.check(&all.map(|event| info.name_of(event)).collect::<Vec<_>>())?;
        (0..info.events.all().len()).for_each(|index| _ = self.get(info, index));
        self.refused.take().map_or(Ok(()), Err)
    }

    /// An event by its place in the recording.
    #[inline]
    pub fn get(&mut self, info: &Info, index: usize) -> Option<&Known> {
        if self.known.get(index).is_none_or(Option::is_none) {
            self.add(info, index)?;
        }
        self.known.get(index)?.as_ref()
    }

    #[cold]
    fn add(&mut self, info: &Info, index: usize) -> Option<()> {
        // Of a pipe, the longest name as it was when the first event was shown.
        let width = *self.width.get_or_insert_with(|| {
            info.events.all().iter().map(|event| info.name_of(event).len()).max().unwrap_or(0)
        });
        let event = info.events.get(index)?;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        let structs = structs::is_output(&event.attr).then(|| self.structs.of(info, &info.name_of(event)));
        let structs = structs.transpose().unwrap_or_else(|refused| {
            self.refused.get_or_insert(refused);
            None
        });
        self.known[index] = Some(known(info, event, width, structs));
        Some(())
    }
}

fn known(info: &Info, event: &EventInfo, width: usize, structs: Option<Shapes>) -> Known {
    let text = info.format(&event.attr).map(|(_, _, text)| String::from_utf8_lossy(text).into_owned());
    let print = text.as_deref().map(|text| Print::new(text, &constant));
    let name = info.name_of(event);
    let mut column = Vec::new();
    right(name.as_bytes(), width, &mut column);
    column.extend_from_slice(b": ");
    let mut shapes = Vec::new();
    if let Some([all @ .., _]) = structs.as_ref().map(Shapes::schemas) {
        let one = |of: &Schema| match all.len() {
            1 => Shape::of_struct(&name, &event.attr, of),
            _ => Shape::of_struct(&format!("{name}.{}", of.name), &event.attr, of),
        };
        shapes.extend(all.iter().map(one));
    }
    shapes.push(Shape::new(&name, &event.attr, text.as_deref()));
    Known { name, column, attr: event.attr, print, shapes, structs }
}

/// What libtraceevent knows of the kernel's constants.
pub fn constant(name: &str) -> Option<u64> {
    const SOFTIRQS: [&str; 10] = [
        "HI_SOFTIRQ",
        "TIMER_SOFTIRQ",
        "NET_TX_SOFTIRQ",
        "NET_RX_SOFTIRQ",
        "BLOCK_SOFTIRQ",
        "IRQ_POLL_SOFTIRQ",
        "TASKLET_SOFTIRQ",
        "SCHED_SOFTIRQ",
        "HRTIMER_SOFTIRQ",
        "RCU_SOFTIRQ",
    ];
    match name {
        "HRTIMER_NORESTART" => Some(0),
        "HRTIMER_RESTART" => Some(1),
        _ => SOFTIRQS.iter().position(|known| *known == name).map(|n| n as u64),
    }
}

/// What an event was opened with, as perf's headers tell it.
pub fn describe(attr: &Attr) -> String {
    const TYPES: [(u64, &str); 25] = [
        (bit::IP, "IP"),
        (bit::TID, "TID"),
        (bit::TIME, "TIME"),
        (bit::ADDR, "ADDR"),
        (bit::READ, "READ"),
        (bit::CALLCHAIN, "CALLCHAIN"),
        (bit::ID, "ID"),
        (bit::CPU, "CPU"),
        (bit::PERIOD, "PERIOD"),
        (bit::STREAM_ID, "STREAM_ID"),
        (bit::RAW, "RAW"),
        (more::BRANCH_STACK, "BRANCH_STACK"),
        (more::REGS_USER, "REGS_USER"),
        (more::STACK_USER, "STACK_USER"),
        (more::WEIGHT, "WEIGHT"),
        (more::DATA_SRC, "DATA_SRC"),
        (bit::IDENTIFIER, "IDENTIFIER"),
        (more::TRANSACTION, "TRANSACTION"),
        (more::REGS_INTR, "REGS_INTR"),
        (more::PHYS_ADDR, "PHYS_ADDR"),
        (more::AUX, "AUX"),
        (more::CGROUP, "CGROUP"),
        (more::DATA_PAGE_SIZE, "DATA_PAGE_SIZE"),
        (more::CODE_PAGE_SIZE, "CODE_PAGE_SIZE"),
        (more::WEIGHT_STRUCT, "WEIGHT_STRUCT"),
    ];
    const FLAGS: [&str; 39] = [
        "disabled",
        "inherit",
        "pinned",
        "exclusive",
        "exclude_user",
        "exclude_kernel",
        "exclude_hv",
        "exclude_idle",
        "mmap",
        "comm",
        "freq",
        "inherit_stat",
        "enable_on_exec",
        "task",
        "watermark",
        "precise_ip",
        "",
        "mmap_data",
        "sample_id_all",
        "exclude_host",
        "exclude_guest",
        "exclude_callchain_kernel",
        "exclude_callchain_user",
        "mmap2",
        "comm_exec",
        "use_clockid",
        "context_switch",
        "write_backward",
        "namespaces",
        "ksymbol",
        "bpf_event",
        "aux_output",
        "cgroup",
        "text_poke",
        "build_id",
        "inherit_thread",
        "remove_on_exec",
        "sigtrap",
        "defer_callchain",
    ];
    let mut out = format!(", type = {}, size = 128", attr.kind);
    put(&mut out, "config", attr.config, true);
    put(&mut out, "{ sample_period, sample_freq }", attr.period, false);
    let types: Vec<&str> = TYPES.iter().filter(|(b, _)| attr.sample_type & b != 0).map(|(_, n)| *n).collect();
    if !types.is_empty() {
        out.push_str(&format!(", sample_type = {}", types.join("|")));
    }
    let reads = ["TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"].iter().enumerate();
    let reads: Vec<&str> = reads.filter(|(i, _)| attr.read_format >> i & 1 == 1).map(|(_, n)| *n).collect();
    if !reads.is_empty() {
        out.push_str(&format!(", read_format = {}", reads.join("|")));
    }
    for (i, flag) in FLAGS.iter().enumerate().filter(|(_, flag)| !flag.is_empty()) {
        let width = if *flag == "precise_ip" { 3 } else { 1 };
        match attr.flags >> i & width {
            0 => {}
            value => out.push_str(&format!(", {flag} = {value}")),
        }
    }
    let more: [(&str, u64, bool); 12] = [
        ("{ wakeup_events, wakeup_watermark }", attr.wakeup.into(), false),
        ("bp_type", attr.bp_type.into(), false),
        ("{ bp_addr, config1 }", attr.config1, true),
        ("{ bp_len, config2 }", attr.config2, true),
        ("branch_sample_type", attr.branch_sample_type, false),
        ("sample_regs_user", attr.sample_regs_user, true),
        ("sample_stack_user", attr.sample_stack_user.into(), false),
        ("clockid", attr.clockid as u64, false),
        ("sample_regs_intr", attr.sample_regs_intr, true),
        ("aux_watermark", attr.aux_watermark.into(), false),
        ("sample_max_stack", attr.sample_max_stack.into(), false),
        ("aux_sample_size", attr.aux_sample_size.into(), false),
    ];
    for (key, value, hex) in more {
        put(&mut out, key, value, hex);
    }
    out
}

fn put(out: &mut String, key: &str, value: u64, hex: bool) {
    if value != 0 {
        let value = if hex { format!("{value:#x}") } else { (value as i64).to_string() };
        out.push_str(&format!(", {key} = {value}"));
    }
}

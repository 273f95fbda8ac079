//! What a recording says of the host, the command and the events, in perf's own words.

use std::io::Write as _;

use tracer::perf_data::{
    Feature,
    feature::{CpuTopology, id},
    read::Info,
};

use super::{escape::escape, events, programs::Types};

/// The names of features, from bit 1 on.
const NAMES: [&str; 31] = [
    "TRACING_DATA",
    "BUILD_ID",
    "HOSTNAME",
    "OSRELEASE",
    "VERSION",
    "ARCH",
    "NRCPUS",
    "CPUDESC",
    "CPUID",
    "TOTAL_MEM",
    "CMDLINE",
    "EVENT_DESC",
    "CPU_TOPOLOGY",
    "NUMA_TOPOLOGY",
    "BRANCH_STACK",
    "PMU_MAPPINGS",
    "GROUP_DESC",
    "AUXTRACE",
    "STAT",
    "CACHE",
    "SAMPLE_TIME",
    "MEM_TOPOLOGY",
    "CLOCKID",
    "DIR_FORMAT",
    "BPF_PROG_INFO",
    "BPF_BTF",
    "COMPRESSED",
    "CPU_PMU_CAPS",
    "CLOCK_DATA",
    "HYBRID_TOPOLOGY",
    "PMU_CAPS",
];

/// Appends it.
pub fn show(info: &Info, out: &mut Vec<u8>) {
    out.extend_from_slice(b"# ========\n");
    if let Some(file) = &info.file {
        let _ = writeln!(out, "# data offset    : {}", file.data.offset);
        let _ = writeln!(out, "# data size      : {}", file.data.size);
        let _ = writeln!(out, "# feat offset    : {}", file.data.offset.saturating_add(file.data.size));
    }
    info.features.iter().for_each(|feature| one(info, feature, out));
    let missing = |id: &u32| match *id {
        id::TRACING_DATA => info.tracing.is_none(),
        id => info.feature(id).is_none(),
    };
    let missing: Vec<&str> = (1..=31).filter(missing).map(|id| NAMES[id as usize - 1]).collect();
    if !missing.is_empty() && info.file.is_some() {
        let _ = writeln!(out, "# missing features: {} ", missing.join(" "));
    }
    out.extend_from_slice(b"# ========\n#\n");
}

fn line(key: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"# ");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b" : ");
    escape(value, out);
    out.push(b'\n');
}

fn one(info: &Info, feature: &Feature, out: &mut Vec<u8>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let _ = match feature {
        Feature::Text(id, value) => {
            let key = match *id {
                id::HOSTNAME => "hostname",
                id::OSRELEASE => "os release",
                id::VERSION => "perf version",
                id::ARCH => "arch",
                id::CPUDESC => "cpudesc",
                _ => "cpuid",
            };
            return line(key, value, out);
        }
        Feature::Cpus(cpus) => {
            writeln!(out, "# nrcpus online : {}\n# nrcpus avail : {}", cpus.online, cpus.available)
        }
        Feature::TotalMem(kb) => writeln!(out, "# total memory : {kb} kB"),
        Feature::CommandLine(words) => {
            let mut all = words.join(&b' ');
            all.push(b' ');
            return line("cmdline", &all, out);
        }
        Feature::Events(all) => {
            for event in all {
                let known = (!event.ids.is_empty()).then(|| {
                    let ids: Vec<String> = event.ids.iter().map(u64::to_string).collect();
                    format!(", id = {{ {} }}", ids.join(", "))
                });
                let name = text(&event.name);
                let told = events::describe(&event.attr);
                let value = format!("name = {name}, {}{told}", known.unwrap_or_default());
                line("event", value.as_bytes(), out);
            }
            Ok(())
        }
        Feature::CpuTopology(topology) => return self::topology(topology, out),
        Feature::Numa(nodes) => nodes.iter().try_for_each(|n| {
            let (node, cpus) = (n.node, text(&n.cpus));
            writeln!(out, "# node{node} meminfo  : total = {} kB, free = {} kB", n.total, n.free)?;
            writeln!(out, "# node{node} cpu list : {cpus}")
        }),
        Feature::Pmus(all) => {
            let all: Vec<String> =
                all.iter().map(|(kind, name)| format!("{} = {kind}", text(name))).collect();
            writeln!(out, "# pmu mappings: {}", all.join(", "))
        }
        Feature::Groups(all) => all.iter().try_for_each(|group| {
            let name = |index: u32| info.events.get(index as usize).map(|event| info.name_of(event));
            let members = group.leader..group.leader.saturating_add(group.members.min(1 << 10));
            let names: Vec<String> = members.map_while(name).collect();
            // What perf calls a group that has no name.
            let own = if group.name == b"{anon_group}" { String::new() } else { text(&group.name) };
            writeln!(out, "# group: {own}{{{}}}", names.join(","))
        }),
        Feature::Caches(all) => {
            let _ = writeln!(out, "# CPU cache info:");
            all.iter().try_for_each(|c| {
                let (kind, size, cpus) = (text(&c.kind), text(&c.size), text(&c.cpus));
                writeln!(out, "#  L{} {kind:15} {size:>8} [{cpus}]", c.level)
            })
        }
        Feature::SampleTime(first, last) => {
            let time = |n: u64| format!("{}.{:06}", n / 1_000_000_000, n % 1_000_000_000 / 1000);
            let _ = writeln!(out, "# time of first sample : {}", time(*first));
            let _ = writeln!(out, "# time of last sample : {}", time(*last));
            let span = last.saturating_sub(*first) as f64 / 1e6;
            writeln!(out, "# sample duration : {span:10.3} ms")
        }
        Feature::MemTopology(memory) => {
            let (count, block) = (memory.nodes.len(), memory.block);
            let _ = writeln!(out, "# memory nodes (nr {count}, block size {block:#x}):");
            memory.nodes.iter().try_for_each(|(node, size, words)| {
                let set = |bit: &u64| words.get(*bit as usize / 64).is_some_and(|w| w >> (bit % 64) & 1 == 1);
                let bits: Vec<u64> = (0..(*size).min(64 * words.len() as u64)).filter(set).collect();
                let total = bits.len() as u64 * block;
                writeln!(out, "#  {node:3} [{}]: {}", gigabytes(total), ranges(&bits))
            })
        }
        Feature::ClockResolution(ns) => writeln!(out, "# clockid frequency: {} MHz", ns.saturating_mul(1000)),
        Feature::DirFormat(version) => writeln!(out, "# directory data version : {version}"),
        Feature::Compressed(how) => {
            let kind = if how.kind == 1 { "Zstd" } else { "Unknown" };
            writeln!(out, "# compressed : {kind}, level = {}, ratio = {}", how.level, how.ratio)
        }
        Feature::ClockData(clock) => {
            let clocks =
                ["realtime", "monotonic", "process_cputime_id", "thread_cputime_id", "monotonic_raw"];
            let name = clocks.get(clock.clockid as usize).unwrap_or(&"unknown");
            let (wall, mono) = (clock.wall, clock.clock);
            let whole = local(wall);
            let _ = writeln!(out, "# clockid: {name} ({})", clock.clockid);
            let seconds = (wall / 1_000_000_000, wall % 1_000_000_000 / 1000);
            writeln!(
                out,
                "# reference time: {whole}.{:06} = {}.{:06} (TOD) = {}.{:09} ({name})",
                seconds.1,
                seconds.0,
                seconds.1,
                mono / 1_000_000_000,
                mono % 1_000_000_000
            )
        }
        Feature::BpfPrograms(all) => {
            let types = Types::of(info);
            all.iter().for_each(|program| types.program(program, info.endian, out));
            Ok(())
        }
        Feature::BpfBtf(all) => all.iter().try_for_each(|(id, _)| writeln!(out, "# btf info of id {id}")),
        Feature::Mark(id::STAT) => writeln!(out, "# contains stat data"),
        Feature::Mark(_) => writeln!(out, "# contains samples with branch stack"),
        Feature::BuildIds(_) | Feature::Auxtrace(_) => Ok(()),
        Feature::Other(id, bytes) => writeln!(out, "# feature {id} : {} bytes", bytes.len()),
        _ => Ok(()),
    };
}

fn topology(topology: &CpuTopology, out: &mut Vec<u8>) {
    let lists = |key: &str, all: &[Vec<u8>], out: &mut Vec<u8>| {
        for list in all {
            let _ = writeln!(out, "# sibling {key:7} : {}", String::from_utf8_lossy(list));
        }
    };
    lists("sockets", &topology.sockets, out);
    if let Some((dies, _)) = &topology.dies {
        lists("dies", dies, out);
    }
    lists("threads", &topology.threads, out);
    for (cpu, (core, socket)) in topology.cpus.iter().enumerate() {
        let die = topology.dies.as_ref().and_then(|(_, dies)| dies.get(cpu));
        let die = die.map_or(String::new(), |die| format!(" Die ID {die},"));
        let _ = writeln!(out, "# CPU {cpu}: Core ID {core},{die} Socket ID {socket}");
    }
}

/// The local date and time of a moment of the wall clock.
fn local(wall: u64) -> String {
    let moment = jiff::Timestamp::from_second((wall / 1_000_000_000) as i64);
    moment.map_or(String::new(), |at| {
        at.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// As perf has it: whole units of 1024.
fn gigabytes(mut n: u64) -> String {
    for unit in ["B", "K", "M"] {
        if n < 1024 {
            return format!("{n}{unit}");
        }
        n /= 1024;
    }
    format!("{n}G")
}

/// Numbers as ranges, `0-3,7`.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for n in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *n => *last = *n,
            _ => ranges.push((*n, *n)),
        }
    }
    let told = |(a, b): &(u64, u64)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(told).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
        assert_eq!(gigabytes(25 << 30), "25G");
    }
}

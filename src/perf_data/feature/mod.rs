//! Features: what a file says of the host, the command and the events, beside the records.
//!
//! A file has them in sections, a pipe in HEADER_FEATURE records; what stands in both is alike. One that is not
//! known, or whose bytes are not what they should be, is kept as it lies: [`Feature::Other`].

mod events;
mod machine;
mod parts;
#[cfg(test)]
mod tests;
mod text;

pub use events::{EventDesc, Group, PmuCaps};
pub use machine::{CacheLevel, CpuTopology, Cpus, MemTopology, NumaNode};
pub use parts::{BpfProgram, BuildId, ClockData, Compressed};

use super::{Endian, Fields, TracingData};
use text::{pairs, put_pairs, put_text, put_texts, text, texts};

/// The features' numbers: bits of a file's header (`enum perf_header_feature`, `tools/perf/util/header.h`).
pub mod id {
    /// How tracepoints' raw bytes lie: their `format` texts.
    pub const TRACING_DATA: u32 = 1;
    /// What executed files are known by.
    pub const BUILD_ID: u32 = 2;
    /// The host's name. Where it is missing perf takes no feature at all from a file of the other byte order.
    pub const HOSTNAME: u32 = 3;
    /// The kernel's release.
    pub const OSRELEASE: u32 = 4;
    /// The recorder's version.
    pub const VERSION: u32 = 5;
    /// The machine's architecture, as `uname -m` gives it.
    pub const ARCH: u32 = 6;
    /// How many CPUs there are.
    pub const NRCPUS: u32 = 7;
    /// The CPUs' name.
    pub const CPUDESC: u32 = 8;
    /// What the CPUs identify themselves by.
    pub const CPUID: u32 = 9;
    /// The memory, in KiB.
    pub const TOTAL_MEM: u32 = 10;
    /// The recorder's command line.
    pub const CMDLINE: u32 = 11;
    /// The events' names.
    pub const EVENT_DESC: u32 = 12;
    /// Which CPUs share what.
    pub const CPU_TOPOLOGY: u32 = 13;
    /// The nodes of memory.
    pub const NUMA_TOPOLOGY: u32 = 14;
    /// Samples carry branch stacks.
    pub const BRANCH_STACK: u32 = 15;
    /// The names of event sources.
    pub const PMU_MAPPINGS: u32 = 16;
    /// Groups of events.
    pub const GROUP_DESC: u32 = 17;
    /// Where AUX data stand.
    pub const AUXTRACE: u32 = 18;
    /// The file is of `perf stat record`.
    pub const STAT: u32 = 19;
    /// The caches.
    pub const CACHE: u32 = 20;
    /// The times of the first sample and the last.
    pub const SAMPLE_TIME: u32 = 21;
    /// Which memory each node has.
    pub const MEM_TOPOLOGY: u32 = 22;
    /// The resolution of the samples' clock, in nanoseconds.
    pub const CLOCKID: u32 = 23;
    /// Records stand in several files of a folder.
    pub const DIR_FORMAT: u32 = 24;
    /// The BPF programs that were loaded.
    pub const BPF_PROG_INFO: u32 = 25;
    /// Types of BPF programs.
    pub const BPF_BTF: u32 = 26;
    /// There are COMPRESSED records.
    pub const COMPRESSED: u32 = 27;
    /// What the CPU's event source can do.
    pub const CPU_PMU_CAPS: u32 = 28;
    /// The wall clock.
    pub const CLOCK_DATA: u32 = 29;
    /// The kinds of CPUs.
    pub const HYBRID_TOPOLOGY: u32 = 30;
    /// What event sources can do.
    pub const PMU_CAPS: u32 = 31;
}

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// `TRACING_DATA`
    TracingData(Box<TracingData>),
    /// `BUILD_ID`
    BuildIds(Vec<BuildId>),
    /// `NRCPUS`
    Cpus(Cpus),
    /// `TOTAL_MEM`, in KiB.
    TotalMem(u64),
    /// `CMDLINE`
    CommandLine(Vec<Vec<u8>>),
    /// `EVENT_DESC`
    Events(Vec<EventDesc>),
    /// `CPU_TOPOLOGY`
    CpuTopology(CpuTopology),
    /// `NUMA_TOPOLOGY`
    Numa(Vec<NumaNode>),
    /// `PMU_MAPPINGS`: the type and the name of each.
    Pmus(Vec<(u32, Vec<u8>)>),
    /// `GROUP_DESC`
    Groups(Vec<Group>),
    /// `AUXTRACE`: the offset and the size of each piece.
    Auxtrace(Vec<(u64, u64)>),
    /// `CACHE`
    Caches(Vec<CacheLevel>),
    /// `SAMPLE_TIME`: of the first sample and of the last.
    SampleTime(u64, u64),
    /// `MEM_TOPOLOGY`
    MemTopology(MemTopology),
    /// `CLOCKID`: the resolution in nanoseconds.
    ClockResolution(u64),
    /// `DIR_FORMAT`: its version.
    DirFormat(u64),
    /// `BPF_PROG_INFO`
    BpfPrograms(Vec<BpfProgram>),
    /// `BPF_BTF`: the id and the bytes of each.
    BpfBtf(Vec<(u32, Vec<u8>)>),
    /// `COMPRESSED`
    Compressed(Compressed),
    /// `CPU_PMU_CAPS`
    CpuPmuCaps(Vec<(Vec<u8>, Vec<u8>)>),
    /// `CLOCK_DATA`
    ClockData(ClockData),
    /// `HYBRID_TOPOLOGY`: the name and the CPUs of each kind.
    Hybrid(Vec<(Vec<u8>, Vec<u8>)>),
    /// `PMU_CAPS`
    PmuCaps(Vec<PmuCaps>),
    /// A feature that is one string: `HOSTNAME`, `OSRELEASE`, `VERSION`, `ARCH`, `CPUDESC` or `CPUID`.
    Text(u32, Vec<u8>),
    /// A feature that says all by being there: `BRANCH_STACK` or `STAT`.
    Mark(u32),
    /// Any other, or one that is not as it should be: its number and its bytes.
    Other(u32, Vec<u8>),
}

/// Whether a feature is one string.
fn is_text(id: u32) -> bool {
    matches!(id, id::HOSTNAME | id::OSRELEASE | id::VERSION | id::ARCH | id::CPUDESC | id::CPUID)
}

impl Feature {
    /// Reads one. `cpus` is what `NRCPUS` said is available: `CPU_TOPOLOGY` cannot be read without it.
    pub fn parse(id: u32, bytes: &[u8], endian: Endian, cpus: u32) -> Feature {
        let known = Feature::known(id, bytes, endian, cpus);
        known.unwrap_or_else(|| Feature::Other(id, bytes.to_vec()))
    }

    fn known(id: u32, bytes: &[u8], endian: Endian, cpus: u32) -> Option<Feature> {
        let f = &mut Fields::new(bytes, endian);
        Some(match id {
            id::TRACING_DATA => Feature::TracingData(Box::new(TracingData::parse(bytes)?)),
            id::BUILD_ID => Feature::BuildIds(BuildId::parse_all(f)?),
            id if is_text(id) => Feature::Text(id, text(f)?),
            id::NRCPUS => Feature::Cpus(Cpus::parse(f)?),
            id::TOTAL_MEM => Feature::TotalMem(f.u64()?),
            id::CMDLINE => Feature::CommandLine(texts(f)?),
            id::EVENT_DESC => Feature::Events(events::parse_events(f)?),
            id::CPU_TOPOLOGY => Feature::CpuTopology(CpuTopology::parse(f, cpus)?),
            id::NUMA_TOPOLOGY => Feature::Numa(text::list(f, NumaNode::parse)?),
            id::BRANCH_STACK | id::STAT if bytes.is_empty() => Feature::Mark(id),
            id::PMU_MAPPINGS => Feature::Pmus(events::parse_pmus(f)?),
            id::GROUP_DESC => Feature::Groups(events::parse_groups(f)?),
            id::AUXTRACE => Feature::Auxtrace(parts::parse_index(f)?),
            id::CACHE => Feature::Caches(machine::parse_caches(f)?),
            id::SAMPLE_TIME => Feature::SampleTime(f.u64()?, f.u64()?),
            id::MEM_TOPOLOGY => Feature::MemTopology(MemTopology::parse(f)?),
            id::CLOCKID => Feature::ClockResolution(f.u64()?),
            id::DIR_FORMAT => Feature::DirFormat(f.u64()?),
            id::BPF_PROG_INFO => Feature::BpfPrograms(parts::parse_programs(f)?),
            id::BPF_BTF => Feature::BpfBtf(parts::parse_btf(f)?),
            id::COMPRESSED => Feature::Compressed(Compressed::parse(f)?),
            id::CPU_PMU_CAPS => Feature::CpuPmuCaps(pairs(f)?),
            id::CLOCK_DATA => Feature::ClockData(ClockData::parse(f)?),
            id::HYBRID_TOPOLOGY => Feature::Hybrid(pairs(f)?),
            id::PMU_CAPS => Feature::PmuCaps(events::parse_pmu_caps(f)?),
            _ => return None,
        })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        match self {
            Feature::TracingData(_) => id::TRACING_DATA,
            Feature::BuildIds(_) => id::BUILD_ID,
            Feature::Cpus(_) => id::NRCPUS,
            Feature::TotalMem(_) => id::TOTAL_MEM,
            Feature::CommandLine(_) => id::CMDLINE,
            Feature::Events(_) => id::EVENT_DESC,
            Feature::CpuTopology(_) => id::CPU_TOPOLOGY,
            Feature::Numa(_) => id::NUMA_TOPOLOGY,
            Feature::Pmus(_) => id::PMU_MAPPINGS,
            Feature::Groups(_) => id::GROUP_DESC,
            Feature::Auxtrace(_) => id::AUXTRACE,
            Feature::Caches(_) => id::CACHE,
            Feature::SampleTime(..) => id::SAMPLE_TIME,
            Feature::MemTopology(_) => id::MEM_TOPOLOGY,
            Feature::ClockResolution(_) => id::CLOCKID,
            Feature::DirFormat(_) => id::DIR_FORMAT,
            Feature::BpfPrograms(_) => id::BPF_PROG_INFO,
            Feature::BpfBtf(_) => id::BPF_BTF,
            Feature::Compressed(_) => id::COMPRESSED,
            Feature::CpuPmuCaps(_) => id::CPU_PMU_CAPS,
            Feature::ClockData(_) => id::CLOCK_DATA,
            Feature::Hybrid(_) => id::HYBRID_TOPOLOGY,
            Feature::PmuCaps(_) => id::PMU_CAPS,
            Feature::Text(id, _) | Feature::Mark(id) | Feature::Other(id, _) => *id,
        }
    }

    /// Appends it as it stands in a section, or in a record behind its number.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        match self {
            Feature::TracingData(data) => data.write(out),
            Feature::BuildIds(all) => BuildId::write_all(all, endian, out),
            Feature::Cpus(cpus) => cpus.write(endian, out),
            Feature::TotalMem(n) | Feature::ClockResolution(n) | Feature::DirFormat(n) => {
                endian.put_u64(out, *n);
            }
            Feature::CommandLine(words) => put_texts(words, endian, out),
            Feature::Events(all) => events::write_events(all, endian, out),
            Feature::CpuTopology(topology) => topology.write(endian, out),
            Feature::Numa(nodes) => text::put_list(nodes, endian, out, |node, out| node.write(endian, out)),
            Feature::Pmus(all) => events::write_pmus(all, endian, out),
            Feature::Groups(all) => events::write_groups(all, endian, out),
            Feature::Auxtrace(all) => parts::write_index(all, endian, out),
            Feature::Caches(all) => machine::write_caches(all, endian, out),
            Feature::SampleTime(first, last) => {
                endian.put_u64(out, *first);
                endian.put_u64(out, *last);
            }
            Feature::MemTopology(topology) => topology.write(endian, out),
            Feature::BpfPrograms(all) => parts::write_programs(all, endian, out),
            Feature::BpfBtf(all) => parts::write_btf(all, endian, out),
            Feature::Compressed(how) => how.write(endian, out),
            Feature::CpuPmuCaps(all) | Feature::Hybrid(all) => put_pairs(all, endian, out),
            Feature::ClockData(data) => data.write(endian, out),
            Feature::PmuCaps(all) => events::write_pmu_caps(all, endian, out),
            Feature::Text(_, text) => put_text(text, endian, out),
            Feature::Mark(_) => {}
            Feature::Other(_, bytes) => out.extend_from_slice(bytes),
        }
    }
}

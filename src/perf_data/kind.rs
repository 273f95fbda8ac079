//! The kinds of records that a file can hold: those of the kernel, and those that perf adds.
//!
//! The kernel's are of `include/uapi/linux/perf_event.h`, perf's of `tools/lib/perf/include/perf/event.h`.

pub use crate::record::kind::*;

/// `PERF_RECORD_AUX`
pub const AUX: u32 = 11;
/// `PERF_RECORD_ITRACE_START`
pub const ITRACE_START: u32 = 12;
/// `PERF_RECORD_SWITCH`
pub const SWITCH: u32 = 14;
/// `PERF_RECORD_SWITCH_CPU_WIDE`
pub const SWITCH_CPU_WIDE: u32 = 15;
/// `PERF_RECORD_NAMESPACES`
pub const NAMESPACES: u32 = 16;
/// `PERF_RECORD_KSYMBOL`
pub const KSYMBOL: u32 = 17;
/// `PERF_RECORD_BPF_EVENT`
pub const BPF_EVENT: u32 = 18;
/// `PERF_RECORD_CGROUP`
pub const CGROUP: u32 = 19;
/// `PERF_RECORD_TEXT_POKE`
pub const TEXT_POKE: u32 = 20;
/// `PERF_RECORD_AUX_OUTPUT_HW_ID`
pub const AUX_OUTPUT_HW_ID: u32 = 21;
/// `PERF_RECORD_CALLCHAIN_DEFERRED`
pub const CALLCHAIN_DEFERRED: u32 = 22;

/// The first of perf's own kinds.
pub const USER: u32 = 64;
/// `PERF_RECORD_HEADER_ATTR`: one event's attributes and ids, in pipes.
pub const HEADER_ATTR: u32 = 64;
/// `PERF_RECORD_HEADER_EVENT_TYPE`: of perf 3.x.
pub const HEADER_EVENT_TYPE: u32 = 65;
/// `PERF_RECORD_HEADER_TRACING_DATA`: what the record's size does not count **follows it**.
pub const TRACING_DATA: u32 = 66;
/// `PERF_RECORD_HEADER_BUILD_ID`
pub const BUILD_ID: u32 = 67;
/// `PERF_RECORD_FINISHED_ROUND`: what is older than the round before this one has all been written.
pub const FINISHED_ROUND: u32 = 68;
/// `PERF_RECORD_ID_INDEX`
pub const ID_INDEX: u32 = 69;
/// `PERF_RECORD_AUXTRACE_INFO`
pub const AUXTRACE_INFO: u32 = 70;
/// `PERF_RECORD_AUXTRACE`: what the record's size does not count **follows it**.
pub const AUXTRACE: u32 = 71;
/// `PERF_RECORD_AUXTRACE_ERROR`
pub const AUXTRACE_ERROR: u32 = 72;
/// `PERF_RECORD_THREAD_MAP`
pub const THREAD_MAP: u32 = 73;
/// `PERF_RECORD_CPU_MAP`
pub const CPU_MAP: u32 = 74;
/// `PERF_RECORD_STAT_CONFIG`
pub const STAT_CONFIG: u32 = 75;
/// `PERF_RECORD_STAT`
pub const STAT: u32 = 76;
/// `PERF_RECORD_STAT_ROUND`
pub const STAT_ROUND: u32 = 77;
/// `PERF_RECORD_EVENT_UPDATE`
pub const EVENT_UPDATE: u32 = 78;
/// `PERF_RECORD_TIME_CONV`
pub const TIME_CONV: u32 = 79;
/// `PERF_RECORD_HEADER_FEATURE`: one feature, in pipes. Its size need not be a multiple of eight.
pub const HEADER_FEATURE: u32 = 80;
/// `PERF_RECORD_COMPRESSED`: a piece of one zstd stream. Its size need not be a multiple of eight.
pub const COMPRESSED: u32 = 81;
/// `PERF_RECORD_FINISHED_INIT`
pub const FINISHED_INIT: u32 = 82;
/// `PERF_RECORD_COMPRESSED2`: the same, with a size of its own and padding.
pub const COMPRESSED2: u32 = 83;
/// `PERF_RECORD_BPF_METADATA`
pub const BPF_METADATA: u32 = 84;
/// `PERF_RECORD_SCHEDSTAT_CPU`
pub const SCHEDSTAT_CPU: u32 = 85;
/// `PERF_RECORD_SCHEDSTAT_DOMAIN`
pub const SCHEDSTAT_DOMAIN: u32 = 86;

/// A kind's name without `PERF_RECORD_`, as `perf script -D` prints it.
pub fn name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        MMAP => "MMAP",
        LOST => "LOST",
        COMM => "COMM",
        EXIT => "EXIT",
        THROTTLE => "THROTTLE",
        UNTHROTTLE => "UNTHROTTLE",
        FORK => "FORK",
        READ => "READ",
        SAMPLE => "SAMPLE",
        MMAP2 => "MMAP2",
        AUX => "AUX",
        ITRACE_START => "ITRACE_START",
        LOST_SAMPLES => "LOST_SAMPLES",
        SWITCH => "SWITCH",
        SWITCH_CPU_WIDE => "SWITCH_CPU_WIDE",
        NAMESPACES => "NAMESPACES",
        KSYMBOL => "KSYMBOL",
        BPF_EVENT => "BPF_EVENT",
        CGROUP => "CGROUP",
        TEXT_POKE => "TEXT_POKE",
        AUX_OUTPUT_HW_ID => "AUX_OUTPUT_HW_ID",
        CALLCHAIN_DEFERRED => "CALLCHAIN_DEFERRED",
        HEADER_ATTR => "ATTR",
        HEADER_EVENT_TYPE => "EVENT_TYPE",
        TRACING_DATA => "TRACING_DATA",
        BUILD_ID => "BUILD_ID",
        FINISHED_ROUND => "FINISHED_ROUND",
        ID_INDEX => "ID_INDEX",
        AUXTRACE_INFO => "AUXTRACE_INFO",
        AUXTRACE => "AUXTRACE",
        AUXTRACE_ERROR => "AUXTRACE_ERROR",
        THREAD_MAP => "THREAD_MAP",
        CPU_MAP => "CPU_MAP",
        STAT_CONFIG => "STAT_CONFIG",
        STAT => "STAT",
        STAT_ROUND => "STAT_ROUND",
        EVENT_UPDATE => "EVENT_UPDATE",
        TIME_CONV => "TIME_CONV",
        HEADER_FEATURE => "FEATURE",
        COMPRESSED => "COMPRESSED",
        FINISHED_INIT => "FINISHED_INIT",
        COMPRESSED2 => "COMPRESSED2",
        BPF_METADATA => "BPF_METADATA",
        SCHEDSTAT_CPU => "SCHEDSTAT_CPU",
        SCHEDSTAT_DOMAIN => "SCHEDSTAT_DOMAIN",
        _ => return None,
    })
}

//! A record's body by its kind.

use std::fmt;

use super::{
    Comm, EventUpdate, HeaderAttr, HeaderFeature, IdIndex, Lost, LostSamples, Mmap, Mmap2, Task,
    TracingDataHead,
    kernel::{Aux, BpfEvent, Cgroup, DeferredChain, Ksymbol, Namespaces, Read, TextPoke, Thread, Throttle},
    stat::{CpuMap, Stat, StatConfig, StatRound, ThreadMap, TimeConv},
    trace::{Auxtrace, AuxtraceError, AuxtraceInfo},
};
use crate::perf_data::{Attr, feature::BuildId, kind, read::Record};

/// Text of any bytes, shown as what of it is UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.0), f)
    }
}

/// What stands in a record that is no sample.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Body<'a> {
    Mmap(Mmap<'a>),
    Mmap2(Mmap2<'a>),
    Comm(Comm<'a>),
    Fork(Task),
    Exit(Task),
    Lost(Lost),
    LostSamples(LostSamples),
    Throttle(Throttle),
    Unthrottle(Throttle),
    Read(Read<'a>),
    Aux(Aux),
    ItraceStart(Thread),
    /// `misc` says whether out or in.
    Switch,
    SwitchCpuWide(Thread),
    Namespaces(Namespaces),
    Ksymbol(Ksymbol<'a>),
    BpfEvent(BpfEvent),
    Cgroup(Cgroup<'a>),
    TextPoke(TextPoke<'a>),
    AuxOutputHwId(u64),
    CallchainDeferred(DeferredChain<'a>),
    HeaderAttr(Box<HeaderAttr>),
    EventType {
        id: u64,
        name: Text<'a>,
    },
    TracingData(TracingDataHead),
    BuildId(BuildId),
    FinishedRound,
    IdIndex(IdIndex),
    AuxtraceInfo(AuxtraceInfo),
    Auxtrace(Auxtrace),
    AuxtraceError(AuxtraceError<'a>),
    ThreadMap(ThreadMap<'a>),
    CpuMap(CpuMap),
    StatConfig(StatConfig),
    Stat(Stat),
    StatRound(StatRound),
    EventUpdate(EventUpdate<'a>),
    TimeConv(TimeConv),
    HeaderFeature(HeaderFeature<'a>),
    Compressed(&'a [u8]),
    FinishedInit,
    BpfMetadata {
        program: Text<'a>,
    },
    /// A kind that is not known, a sample too: its bytes.
    Raw(&'a [u8]),
}

impl<'a> Body<'a> {
    /// Reads the body of a record; `None` where it is not what its kind has. `attr` is what its event was opened
    /// with: READ records are read by it, and MMAP2 if it is there.
    pub fn parse(record: &Record<'a>, attr: Option<&Attr>) -> Option<Body<'a>> {
        let (body, endian) = (record.body, record.endian);
        let mut f = record.fields();
        Some(match record.kind {
            kind::MMAP => Body::Mmap(Mmap::parse(body, endian)?),
            kind::MMAP2 => Body::Mmap2(Mmap2::of(record, attr)?),
            kind::COMM => Body::Comm(Comm::parse(body, endian)?),
            kind::FORK => Body::Fork(Task::parse(body, endian)?),
            kind::EXIT => Body::Exit(Task::parse(body, endian)?),
            kind::LOST => Body::Lost(Lost::parse(body, endian)?),
            kind::LOST_SAMPLES => Body::LostSamples(LostSamples::parse(body, endian)?),
            kind::THROTTLE => Body::Throttle(Throttle::parse(body, endian)?),
            kind::UNTHROTTLE => Body::Unthrottle(Throttle::parse(body, endian)?),
            kind::READ => Body::Read(Read::parse(body, endian, attr?)?),
            kind::AUX => Body::Aux(Aux::parse(body, endian)?),
            kind::ITRACE_START => Body::ItraceStart(Thread::parse(body, endian)?),
            kind::SWITCH => Body::Switch,
            kind::SWITCH_CPU_WIDE => Body::SwitchCpuWide(Thread::parse(body, endian)?),
            kind::NAMESPACES => Body::Namespaces(Namespaces::parse(body, endian)?),
            kind::KSYMBOL => Body::Ksymbol(Ksymbol::parse(body, endian)?),
            kind::BPF_EVENT => Body::BpfEvent(BpfEvent::parse(body, endian)?),
            kind::CGROUP => Body::Cgroup(Cgroup::parse(body, endian)?),
            kind::TEXT_POKE => Body::TextPoke(TextPoke::parse(body, endian)?),
            kind::AUX_OUTPUT_HW_ID => Body::AuxOutputHwId(f.u64()?),
            kind::CALLCHAIN_DEFERRED => Body::CallchainDeferred(DeferredChain::parse(body, endian)?),
            kind::HEADER_ATTR => Body::HeaderAttr(HeaderAttr::parse(body, endian)?.into()),
            kind::HEADER_EVENT_TYPE => Body::EventType { id: f.u64()?, name: Text(f.c_string()) },
            kind::TRACING_DATA => Body::TracingData(TracingDataHead::parse(body, endian)?),
            kind::BUILD_ID => Body::BuildId(BuildId::parse_body(record.misc, body, endian)?),
            kind::FINISHED_ROUND => Body::FinishedRound,
            kind::ID_INDEX => Body::IdIndex(IdIndex::parse(body, endian)?),
            kind::AUXTRACE_INFO => Body::AuxtraceInfo(AuxtraceInfo::parse(body, endian)?),
            kind::AUXTRACE => Body::Auxtrace(Auxtrace::parse(body, endian)?),
            kind::AUXTRACE_ERROR => Body::AuxtraceError(AuxtraceError::parse(body, endian)?),
            kind::THREAD_MAP => Body::ThreadMap(ThreadMap::parse(body, endian)?),
            kind::CPU_MAP => Body::CpuMap(CpuMap::parse(body, endian)?),
            kind::STAT_CONFIG => Body::StatConfig(StatConfig::parse(body, endian)?),
            kind::STAT => Body::Stat(Stat::parse(body, endian)?),
            kind::STAT_ROUND => Body::StatRound(StatRound::parse(body, endian)?),
            kind::EVENT_UPDATE => Body::EventUpdate(EventUpdate::parse(body, endian)?),
            kind::TIME_CONV => Body::TimeConv(TimeConv::parse(body, endian)?),
            kind::HEADER_FEATURE => Body::HeaderFeature(HeaderFeature::parse(body, endian)?),
            kind::COMPRESSED => Body::Compressed(body),
            kind::COMPRESSED2 => Body::Compressed(body.get(8..)?),
            kind::FINISHED_INIT => Body::FinishedInit,
            kind::BPF_METADATA => Body::BpfMetadata { program: Text(f.c_string()) },
            _ => Body::Raw(body),
        })
    }
}

//! Events, gaps and rounds as the records of a file.

use std::time::Instant;

use super::{Options, Symbol, host, rounds::Rounds, tasks::Tasks};
use crate::{
    event::{Carries, Event, Gap, NO_CPU},
    ledger::Report,
    perf_data::{
        Attr, Endian, Feature, TracingData,
        feature::{ClockData, EventDesc, id},
        flag, kind,
        records::{self, IdEntry, IdIndex, Ksymbol, Lost, SampleHead, Text, misc, put_trailer},
        write::{Compressor, Layout, Opening},
    },
    record::{Record, SampleId, sample_type},
    ring::{TaskRecord, sideband},
    schema::{Kind, Value, tracefs},
    sink::{Clock, Encode, Header, Note},
};

/// The byte order of all that is written: the ring's bytes have it.
const ENDIAN: Endian = Endian::NATIVE;
/// The types of our events begin behind this one, as the programs know them; where there are too many, at 1.
const TYPES: u16 = 0x7000;
/// Bytes of a sample's header and head.
const HEAD: usize = records::HEADER + SampleHead::SIZE;
/// What callchains say before addresses of the kernel, and of the process (`PERF_CONTEXT_*`).
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
/// What stands between the version and the id of the boot.
const BOOT: &str = ", boot ";
/// CLOCK_MONOTONIC, as attributes name it.
const MONOTONIC: i32 = 1;
/// Side-band records end as ours do: the fields that trailers have are the same.
const _: () = {
    use sample_type::*;
    let trailer = TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER;
    assert!(SampleHead::SAMPLE_TYPE & trailer == sideband::FORMAT.sample_type);
};

/// The state of a recording.
pub struct Recording {
    seekable: bool,
    command_line: Vec<Vec<u8>>,
    compress: Option<i32>,
    /// What else is said of the host and its programs.
    features: Vec<Feature>,
    symbols: Vec<Symbol>,
    /// The type of an event is this and its probe's number.
    types: u16,
    /// Of each kind of event, whether it opens with our own head.
    headed: Vec<bool>,
    sample_type: u64,
    layout: Option<Layout>,
    tasks: Tasks,
    rounds: Rounds,
    /// Times of the first and the last event of the file.
    span: Option<(u64, u64)>,
    /// The time of the latest event of all.
    latest: u64,
}

/// What is left to do for a file once its last record is written.
pub struct Finish {
    /// None where nothing was begun.
    pub layout: Option<Layout>,
    pub features: Vec<Feature>,
}

impl Recording {
    /// Of a file that can be sought in, or of a pipe.
    pub fn new(seekable: bool, options: &Options) -> Recording {
        Recording {
            seekable,
            command_line: options.command_line.clone(),
            compress: options.compress,
            features: options.features.clone(),
            symbols: options.symbols.clone(),
            types: TYPES,
            headed: Vec::new(),
            sample_type: SampleHead::SAMPLE_TYPE,
            layout: None,
            tasks: Tasks::default(),
            rounds: Rounds::new(Instant::now()),
            span: None,
            latest: 0,
        }
    }

    /// Ends the file: what comes next belongs to another.
    pub fn finish(&mut self) -> Finish {
        self.tasks.forget();
        let (first, last) = self.span.take().unwrap_or_default();
        Finish { layout: self.layout.clone(), features: vec![Feature::SampleTime(first, last)] }
    }

    fn opening(&self, header: &Header<'_>) -> Opening {
        let mut names: Vec<String> = Vec::with_capacity(header.probes.len());
        let mut formats = Vec::with_capacity(header.probes.len());
        let mut events = Vec::with_capacity(header.probes.len());
        for (i, probe) in header.probes.iter().enumerate() {
            let number = u64::from(self.types) + 1 + i as u64;
            let name = unused(tracefs::event_name(probe.schema), &names);
            let text = tracefs::text(probe.schema, &name, number as u16, probe.headed);
            formats.push(text.into_bytes());
            events.push(EventDesc {
                attr: self.attr(number, i == 0),
                name: format!("tracer:{name}").into_bytes(),
                ids: vec![i as u64 + 1],
            });
            names.push(name);
        }
        let clock = header.clock;
        let mut features = vec![
            Feature::TracingData(Box::new(TracingData::of(ENDIAN, vec![(b"tracer".to_vec(), formats)]))),
            Feature::Text(id::HOSTNAME, header.host.into()),
            Feature::Text(id::OSRELEASE, header.release.into()),
            Feature::Text(id::VERSION, version(header.boot_id).into()),
            Feature::ClockResolution(1),
            Feature::ClockData(ClockData {
                clockid: MONOTONIC as u32,
                wall: clock.realtime,
                clock: clock.monotonic,
            }),
        ];
        if !self.command_line.is_empty() {
            features.push(Feature::CommandLine(self.command_line.clone()));
        }
        features.extend(self.compress.map(Compressor::feature));
        features.extend(self.features.iter().cloned());
        features.extend(host::features());
        Opening { endian: ENDIAN, events, features }
    }

    fn attr(&self, number: u64, first: bool) -> Attr {
        // perf takes it from the first event what other records there may be.
        let sideband = flag::COMM | flag::COMM_EXEC | flag::MMAP | flag::MMAP2 | flag::TASK;
        Attr {
            kind: Attr::TRACEPOINT,
            config: number,
            period: 1,
            sample_type: self.sample_type,
            flags: flag::SAMPLE_ID_ALL | flag::USE_CLOCKID | if first { sideband } else { 0 },
            clockid: MONOTONIC,
            ..Attr::default()
        }
    }

    /// Appends a record that is no sample.
    fn put(&self, kind: u32, id: &SampleId, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let id = SampleId { id: Some(1), ..*id };
        records::put(kind, 0, ENDIAN, out, |out| {
            body(out);
            put_trailer(self.sample_type, &id, ENDIAN, out);
        });
    }
}

/// The recorder's version, and which boot it was: no feature of perf's has a place for that, and on one that perf does
/// not know `perf inject` ends.
fn version(boot_id: &str) -> String {
    let version = concat!("tracer ", env!("CARGO_PKG_VERSION"));
    if boot_id.is_empty() { version.to_owned() } else { format!("{version}{BOOT}{boot_id}") }
}

/// The boot that a recording's `VERSION` tells of, where it is one of ours.
pub fn boot_of(version: &str) -> Option<&str> {
    version.strip_prefix("tracer ")?.split_once(BOOT).map(|(_, boot_id)| boot_id)
}

/// A name that no other event has.
fn unused(name: String, taken: &[String]) -> String {
    let others = (2..).map(|n| format!("{name}_{n}"));
    let mut names = std::iter::once(name.clone()).chain(others);
    names.find(|n| !taken.contains(n)).unwrap_or(name)
}

impl Encode for Recording {
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>) {
        self.headed = header.probes.iter().map(|p| p.headed).collect();
        let fields = || header.probes.iter().flat_map(|p| &p.schema.fields);
        let stacks = |user| fields().any(|f| f.kind == Kind::Stack { user });
        if stacks(false) || stacks(true) {
            self.sample_type |= sample_type::CALLCHAIN;
        }
        self.tasks.mapped = stacks(true);
        self.types = if header.probes.len() > usize::from(u16::MAX - TYPES) { 0 } else { TYPES };
        let opening = self.opening(header);
        if self.seekable {
            let (bytes, layout) = opening.file();
            out.extend_from_slice(&bytes);
            self.layout = Some(layout);
        } else {
            out.extend_from_slice(&opening.pipe());
        }
        let ids =
            (0..header.probes.len() as u64).map(|i| IdEntry { id: i + 1, ..IdEntry::ANYWHERE }).collect();
        records::put(kind::ID_INDEX, 0, ENDIAN, out, |out| {
            IdIndex { entries: ids, guests: None }.write(ENDIAN, out);
        });
        // Without the first of them perf says that addresses were hidden, whether there are any or not.
        host::kernel_maps(stacks(false), |map| {
            let id = SampleId { id: Some(1), ..SampleId::default() };
            records::put(kind::MMAP, misc::KERNEL, ENDIAN, out, |out| {
                map.write(ENDIAN, out);
                put_trailer(self.sample_type, &id, ENDIAN, out);
            });
        });
        if stacks(false) {
            for symbol in &self.symbols {
                let (addr, len, name) = (symbol.address, symbol.len, Text(symbol.name.as_bytes()));
                let symbol = Ksymbol { addr, len, kind: Ksymbol::BPF, flags: 0, name };
                self.put(kind::KSYMBOL, &SampleId::default(), out, |out| symbol.write(ENDIAN, out));
            }
        }
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let wire = &event.wire;
        let time = event.time.unwrap_or_else(Clock::monotonic_now);
        self.latest = self.latest.max(time);
        self.span = Some(self.span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        let sample_type = self.sample_type;
        // Of an event that does not tell its task, it is none: 0 is that of an idle CPU.
        let (tgid, tid) = match wire.carries {
            Carries::Nothing => (u32::MAX, u32::MAX),
            _ => (wire.tgid, wire.pid),
        };
        let comm = match wire.carries {
            Carries::All | Carries::Task => Some(wire.comm),
            Carries::Ids => self.tasks.name(tid),
            Carries::Nothing => None,
        };
        if let Some(comm) = comm {
            self.tasks.seen((tgid, tid), comm, time, out, |id, out| {
                put_trailer(sample_type, &SampleId { id: Some(1), ..*id }, ENDIAN, out);
            });
        }
        let start = out.len();
        out.resize(start + HEAD, 0);
        let mut ip = 0;
        if sample_type & sample_type::CALLCHAIN != 0 {
            ip = callchain(event, out);
        }
        let headed = self.headed.get(usize::from(wire.probe).wrapping_sub(1)).copied().unwrap_or(true);
        let prefix = if headed { 0 } else { tracefs::PREFIX_SIZE as usize };
        // Of what no record is large enough for, the end is left out.
        let room = usize::from(u16::MAX) - 7 - (out.len() - start) - 4 - prefix;
        let len = event.raw.len().min(room);
        // The ring's are padded; those of a BPF ringbuf may be any number.
        let padded = (4 + prefix + len).next_multiple_of(8) - 4;
        ENDIAN.put_u32(out, padded as u32);
        let raw_at = out.len();
        if !headed {
            put_prefix(event, len, out);
        }
        match event.raw.range(0, len) {
            Some(raw) => raw.append_to(out),
            None => out.resize(out.len() + len, 0),
        }
        out.resize(raw_at + padded, 0);
        let number = self.types.wrapping_add(wire.probe);
        out[raw_at..raw_at + 2].copy_from_slice(&number.to_ne_bytes());
        let size = out.len() - start;
        let head = SampleHead {
            id: wire.probe.into(),
            ip,
            pid: tgid,
            tid,
            time,
            cpu: if event.cpu == NO_CPU { 0 } else { event.cpu },
            period: 1,
        };
        let at = &mut out[start..start + HEAD];
        at[..4].copy_from_slice(&kind::SAMPLE.to_ne_bytes());
        at[4..6].copy_from_slice(&misc::KERNEL.to_ne_bytes());
        at[6..8].copy_from_slice(&(size as u16).to_ne_bytes());
        at[8..].copy_from_slice(&head.to_bytes(ENDIAN));
    }

    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        // Where no event follows, it stands behind all: perf may have handed out what is older.
        let time = gap.before.unwrap_or(self.latest);
        let cpu = if gap.cpu == NO_CPU { 0 } else { gap.cpu };
        let id = SampleId { time: Some(time), cpu: Some(cpu), ..SampleId::default() };
        let lost = Lost { id: 1, lost: gap.count.unwrap_or(0) };
        self.put(kind::LOST, &id, out, |out| lost.write(ENDIAN, out));
    }

    fn note(&mut self, _: &Note<'_>, _: &mut Vec<u8>) {}

    /// The trailer has the fields that ours has: [`sideband::FORMAT`] names all of ours but those that no trailer has.
    fn sideband(&mut self, task: &TaskRecord<'_>, out: &mut Vec<u8>) {
        let Record { header, body } = task.record;
        // What was lost of these is none of what was lost of events.
        if header.kind == kind::LOST || body.len() < 8 {
            return;
        }
        self.tasks.told(header.kind, &body);
        out.extend_from_slice(&header.to_bytes());
        body.append_to(out);
        let id_at = out.len() - 8;
        out[id_at..].copy_from_slice(&1u64.to_ne_bytes());
    }

    fn caught_up(&mut self, out: &mut Vec<u8>) {
        if self.rounds.pass(Instant::now()) {
            records::put(kind::FINISHED_ROUND, 0, ENDIAN, out, |_| {});
        }
    }

    fn footer(&mut self, _: &Report, _: &mut Vec<u8>) {}
}

/// Appends the stacks of an event, the kernel's first, and gives the address of the event itself.
fn callchain(event: &Event<'_>, out: &mut Vec<u8>) -> u64 {
    let start = out.len();
    ENDIAN.put_u64(out, 0);
    let mut ip = 0;
    for user in [false, true] {
        for (_, value) in event.fields() {
            let Value::Stack(stack) = value else { continue };
            if stack.user != user || stack.is_empty() {
                continue;
            }
            ENDIAN.put_u64(out, if user { CONTEXT_USER } else { CONTEXT_KERNEL });
            for address in stack.addresses() {
                ip = if ip == 0 { address } else { ip };
                ENDIAN.put_u64(out, address);
            }
        }
    }
    let count = ((out.len() - start) / 8 - 1) as u64;
    out[start..start + 8].copy_from_slice(&count.to_ne_bytes());
    ip
}

/// Appends the head of an event that has none of ours.
fn put_prefix(event: &Event<'_>, len: usize, out: &mut Vec<u8>) {
    ENDIAN.put_u32(out, 0);
    ENDIAN.put_u32(out, event.wire.pid);
    ENDIAN.put_u32(out, event.wire.seq);
    ENDIAN.put_u32(out, (len as u32) << 16 | tracefs::PREFIX_SIZE);
}

//! What the samples of a BPF program's own events are: structs that the types in the recording name.
//!
//! perf records what programs hand to `bpf_perf_event_output` as bytes of a software event, and beside it the types of
//! all programs that were loaded. Which struct it is says `--event`, else a tag on a variable of the event's name, else
//! the size: where one struct has it.

use std::collections::HashSet;

use tracer::{
    Error, Result,
    perf_data::{Attr, Endian, Feature, feature::id, read::Info},
    probe::near,
    record::sample_type as bit,
    schema::{self, Kind, Schema, Shapes, btf::Btf},
};

/// `PERF_TYPE_SOFTWARE`, and its `PERF_COUNT_SW_BPF_OUTPUT`.
const SOFTWARE: u32 = 1;
const BPF_OUTPUT: u64 = 10;
/// How the tag of a variable begins that names its struct: `btf_decl_tag("event:struct foo")`.
const TAG: &str = "event:";
/// The kernel's own types, which programs name too.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// Whether an event's raw bytes are what a BPF program handed to it.
pub fn is_output(attr: &Attr) -> bool {
    attr.kind == SOFTWARE && attr.config == BPF_OUTPUT && attr.sample_type & bit::RAW != 0
}

/// The structs of a recording.
#[derive(Default)]
pub struct Structs {
    /// Events and the structs that they are said to be.
    asked: Vec<(String, String)>,
    known: Option<Known>,
}

#[derive(Default)]
struct Known {
    /// Of all programs, each once; those that the kernel has are left out of `candidates`.
    all: Vec<schema::Shape>,
    candidates: Vec<schema::Shape>,
    tags: Vec<(String, String)>,
}

impl Structs {
    /// With what `--event NAME=STRUCT` said.
    pub fn new(asked: &[(String, String)]) -> Structs {
        Structs { asked: asked.to_vec(), known: None }
    }

    /// What the samples of an event may be.
    ///
    /// # Errors
    ///
    /// No struct has the name that is asked for or tagged.
    pub fn of(&mut self, info: &Info, event: &str) -> Result<Shapes> {
        let asked = self.asked.iter().find(|(name, _)| name == event).map(|(_, of)| bare(of).to_owned());
        let known = self.known.get_or_insert_with(|| Known::new(info));
        let bytes = Shapes::bytes(event.to_owned(), event.to_owned());
        // A record's raw bytes are padded to 4 mod 8 (`perf_prepare_sample`, kernel/events/core.c).
        let raw_size = |size: usize| (size + 4).next_multiple_of(8) - 4;
        let tag = || known.tags.iter().find(|(name, _)| name == event).map(|(_, of)| of.clone());
        let Some(name) = asked.clone().or_else(tag) else {
            return Ok(Shapes::by_size(known.candidates.clone(), bytes, raw_size));
        };
        let mut named = known.all.iter().filter(|s| s.schema.name == name).cloned().collect::<Vec<_>>();
        match named.len() {
            1 => Ok(Shapes::declared(named.remove(0), bytes)),
            // Programs may have different ones of a name.
            2.. => Ok(Shapes::by_size(named, bytes, raw_size)),
            0 if asked.is_none() => Ok(Shapes::by_size(known.candidates.clone(), bytes, raw_size)),
            0 => {
                let all = known.all.iter().map(|s| s.schema.name.clone()).collect();
                let near = near(&name, all, str::to_owned);
                Err(Error::usage(format!("--event {event}={name}: the recording has no such struct")).with_help(
                    format!(
                        "{near} (types stand in the recording's feature BPF_BTF; clang leaves out what programs \
                         alone use: a global `struct {name} *unused;` puts it in)"
                    ),
                ))
            }
        }
    }

    /// Refuses what is said of an event that is no program's.
    pub fn check(&self, events: &[String]) -> Result<()> {
        let Some((other, _)) = self.asked.iter().find(|(name, _)| !events.contains(name)) else {
            return Ok(());
        };
        let why = format!("--event {other}: no BPF program's event has that name in this recording");
        Err(Error::usage(why).with_help(match events {
            [] => "there is none (events of bpf_perf_event_output are meant)".to_owned(),
            events => format!("there are {}", events.join(", ")),
        }))
    }
}

impl Known {
    fn new(info: &Info) -> Known {
        let Some(Feature::BpfBtf(programs)) = info.feature(id::BPF_BTF) else { return Known::default() };
        let kernel = std::fs::read(KERNEL).unwrap_or_default();
        let kernel: HashSet<&str> =
            Btf::parse(&kernel).iter().flat_map(|btf| btf.structs().map(|of| of.name)).collect();
        let mut known = Known::default();
        let mut seen = HashSet::new();
        for (_, bytes) in programs {
            // The same program loaded twice.
            if !seen.insert(bytes) {
                continue;
            }
            if let Some(btf) = Btf::parse(bytes) {
                known.add(&btf, &kernel, info.endian);
            }
        }
        known
    }

    fn add(&mut self, btf: &Btf<'_>, kernel: &HashSet<&str>, endian: Endian) {
        for of in btf.structs().filter(|of| of.size > 0) {
            let Ok(fields) = btf.fields(&of) else { continue };
            // The bits of the other byte order are elsewhere.
            let turned = endian != Endian::NATIVE;
            if turned && fields.iter().any(|f| matches!(f.kind, Kind::Bits { .. })) {
                continue;
            }
            let schema = Schema { name: of.name.to_owned(), spec: of.name.to_owned(), fields };
            let shape = schema::Shape { schema, size: of.size };
            if self.all.contains(&shape) {
                continue;
            }
            // `foo___bar` is another version of the kernel's `foo` (CO-RE).
            // Nor does another tracer's program put out what tracer's own are made of.
            let others = of.name.contains("___") || of.name.starts_with("tracer_");
            if !others && !kernel.contains(of.name) {
                self.candidates.push(shape.clone());
            }
            self.all.push(shape);
        }
        let tags = btf.tags().filter_map(|(of, text)| Some((of, text.strip_prefix(TAG)?)));
        self.tags.extend(tags.map(|(of, text)| (of.to_owned(), bare(text).to_owned())));
    }
}

/// A struct's name without the word `struct`.
fn bare(name: &str) -> &str {
    name.trim().trim_start_matches("struct ").trim()
}

/// `NAME=STRUCT` of `--event`.
pub fn parse(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((event, of)) if !event.trim().is_empty() && !bare(of).is_empty() => {
            Ok((event.trim().to_owned(), of.trim().to_owned()))
        }
        _ => Err("an event and its struct with '=' between, such as output=event".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_their_structs() {
        assert_eq!(parse("out=struct event"), Ok(("out".into(), "struct event".into())));
        assert_eq!(bare("struct event"), "event");
        for text in ["", "out", "=event", "out="] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

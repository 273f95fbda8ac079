//! What a recording says of itself: its events, its features, and what was amiss while it was read.

use std::{collections::BTreeMap, fmt};

use super::{Events, FileHead, Record};
use crate::perf_data::{
    Attr, Endian, TracingData,
    feature::{Feature, id},
    kind,
};

/// The most of one kind that are told one by one.
const TOLD: usize = 20;

/// What is known of a recording. Of a file nearly all of it is known from the start; a pipe tells it as it goes.
#[derive(Clone, Debug)]
pub struct Info {
    /// The byte order.
    pub endian: Endian,
    /// Where things stand in a file; `None` of a pipe.
    pub file: Option<FileHead>,
    /// The events.
    pub events: Events,
    /// The features, in the order in which they stand.
    pub features: Vec<Feature>,
    /// The `format` texts, where there are tracepoints.
    pub tracing: Option<TracingData>,
    /// What was amiss.
    pub notes: Notes,
}

/// What was amiss in a recording that was read all the same.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    told: Vec<Note>,
    /// How many there are of each, by name.
    counts: BTreeMap<&'static str, u64>,
    /// Records of kinds that are not known, by kind.
    unknown: BTreeMap<u32, u64>,
}

/// One thing that was amiss.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The recording was never ended: its head says neither how much there is nor anything of the features.
    Unfinished,
    /// It ends within a record.
    Cut {
        /// Where that begins.
        offset: u64,
        /// How many bytes of it are there.
        bytes: u64,
    },
    /// The file ends before the place where its head says that the records do.
    Short {
        /// How many bytes are missing.
        missing: u64,
    },
    /// A record has a size that cannot be, so that what follows cannot be found.
    Size {
        /// Where it begins.
        offset: u64,
        /// What it says.
        size: u64,
    },
    /// A COMPRESSED record cannot be unpacked.
    Packed {
        /// Where it begins.
        offset: u64,
        /// Why.
        why: String,
    },
    /// A feature's section does not lie within the file.
    Feature(u32),
    /// A record that tells of the recording is not as it should be.
    Malformed {
        /// Where it begins.
        offset: u64,
        /// Its kind.
        kind: u32,
    },
    /// Bytes that are no attribute stand where one should.
    Attribute,
}

impl Notes {
    pub(super) fn add(&mut self, note: Note) {
        let count = self.counts.entry(note.name()).or_default();
        *count += 1;
        if *count <= TOLD as u64 {
            self.told.push(note);
        }
    }

    pub(super) fn unknown_kind(&mut self, kind: u32) {
        // A count for each of 2^32 kinds would take more than the file does.
        if self.unknown.len() < TOLD || self.unknown.contains_key(&kind) {
            *self.unknown.entry(kind).or_default() += 1;
        } else {
            *self.unknown.entry(u32::MAX).or_default() += 1;
        }
    }

    /// Each of them; of one sort the first twenty.
    pub fn all(&self) -> &[Note] {
        &self.told
    }

    /// The kinds of records that are not known, and how many there were: they were passed over by their size.
    pub fn unknown_kinds(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.unknown.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Whether nothing was amiss.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.unknown.is_empty()
    }
}

impl Note {
    fn name(&self) -> &'static str {
        match self {
            Note::Unfinished => "unfinished",
            Note::Cut { .. } => "cut",
            Note::Short { .. } => "short",
            Note::Size { .. } => "size",
            Note::Packed { .. } => "packed",
            Note::Feature(_) => "feature",
            Note::Malformed { .. } => "malformed",
            Note::Attribute => "attribute",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Unfinished => {
                f.write_str("the recording was never ended: what its features say is not there")
            }
            Note::Cut { offset, bytes } => {
                write!(
                    f,
                    "it ends within a record: the last {bytes} bytes, from {offset:#x} on, are left out"
                )
            }
            Note::Short { missing } => {
                write!(f, "it is cut: {missing} bytes of records are missing at its end")
            }
            Note::Size { offset, size } => {
                write!(f, "the record at {offset:#x} says that it has {size} bytes: what follows is not read")
            }
            Note::Packed { offset, why } => {
                write!(
                    f,
                    "what is compressed at {offset:#x} cannot be unpacked ({why}): nothing behind it is read"
                )
            }
            Note::Feature(id) => write!(f, "feature {id} does not lie within the file"),
            Note::Malformed { offset, kind } => {
                let name = kind::name(*kind).unwrap_or("?");
                write!(f, "the record {name} at {offset:#x} is not as it should be")
            }
            Note::Attribute => f.write_str("an event's attributes are not as they should be"),
        }
    }
}

impl Info {
    pub(super) fn new(endian: Endian, file: Option<FileHead>) -> Info {
        Info {
            endian,
            file,
            events: Events::default(),
            features: Vec::new(),
            tracing: None,
            notes: Notes::default(),
        }
    }

    /// A feature by its number.
    pub fn feature(&self, id: u32) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.id() == id)
    }

    /// Takes a feature's bytes.
    pub(super) fn take_feature(&mut self, id: u32, bytes: &[u8]) {
        let cpus = match self.feature(id::NRCPUS) {
            Some(Feature::Cpus(cpus)) => cpus.available,
            _ => 0,
        };
        match Feature::parse(id, bytes, self.endian, cpus) {
            Feature::TracingData(data) => self.tracing = Some(*data),
            feature => {
                if let Feature::Events(all) = &feature {
                    for event in all {
                        self.name(&event.ids, &event.attr, &event.name);
                    }
                }
                self.features.push(feature);
            }
        }
    }

    /// Gives an event its name: it is known by its ids, or where it has none by what it was opened with.
    fn name(&mut self, ids: &[u64], attr: &Attr, name: &[u8]) {
        let by_id = ids.first().and_then(|id| self.events.of_id(*id));
        let alike = || self.events.all().iter().position(|e| e.attr == *attr && e.name.is_none());
        if let Some(event) = by_id.or_else(alike).and_then(|index| self.events.get_mut(index)) {
            event.name = Some(name.to_vec());
        }
    }

    /// Takes what a record tells of the recording itself.
    pub(super) fn take(&mut self, record: &Record<'_>) {
        let told = match record.kind {
            kind::HEADER_ATTR => self.take_attr(record),
            kind::HEADER_FEATURE => self.take_feature_record(record),
            kind::EVENT_UPDATE => self.take_update(record),
            kind::TRACING_DATA => TracingData::parse_prefix(record.payload).map(|(data, _)| {
                self.tracing = Some(data);
            }),
            known if kind::name(known).is_some() => Some(()),
            unknown => {
                self.notes.unknown_kind(unknown);
                Some(())
            }
        };
        if told.is_none() {
            self.notes.add(Note::Malformed { offset: record.offset, kind: record.kind });
        }
    }

    fn take_attr(&mut self, record: &Record<'_>) -> Option<()> {
        let (attr, size) = Attr::parse(record.body, record.endian)?;
        let ids = record.body[size..].chunks_exact(8);
        self.events.add(attr, ids.filter_map(|id| record.endian.u64_at(id, 0)).collect());
        Some(())
    }

    fn take_feature_record(&mut self, record: &Record<'_>) -> Option<()> {
        let mut f = record.fields();
        let id = u32::try_from(f.u64()?).ok()?;
        // The end mark has no bytes.
        if !f.rest().is_empty() {
            self.take_feature(id, f.rest());
        }
        Some(())
    }

    fn take_update(&mut self, record: &Record<'_>) -> Option<()> {
        let mut f = record.fields();
        let (what, id) = (f.u64()?, f.u64()?);
        let Some(index) = self.events.of_id(id) else { return Some(()) };
        let event = self.events.get_mut(index)?;
        let unit = event.unit.clone().unwrap_or((Vec::new(), 1.0));
        match what {
            0 => event.unit = Some((f.c_string().to_vec(), unit.1)),
            1 => event.unit = Some((unit.0, f64::from_bits(f.u64()?))),
            2 => event.name = Some(f.c_string().to_vec()),
            // Which CPUs it counts on.
            _ => {}
        }
        Some(())
    }
}

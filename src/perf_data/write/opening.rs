//! What is known before the first record, as bytes: of a file, or of a pipe.

use super::Layout;
use crate::perf_data::{
    Endian, Feature,
    feature::{BuildId, EventDesc, id},
    kind,
    records::{self, EventUpdate, HeaderAttr, HeaderFeature, TracingDataHead},
};

/// What is known at the start.
///
/// For perf to make sense of what follows:
///
/// * all events have the same `sample_type`, with `PERF_SAMPLE_IP`, and `PERF_SAMPLE_IDENTIFIER` where there are
///   several; each id that a sample carries is one of theirs;
/// * a tracepoint's raw bytes begin with the number that its format text and its `config` say: 1 to 65,535;
/// * there are `HOSTNAME`, `OSRELEASE`, `ARCH`, `VERSION` and `CPUDESC`, and `NRCPUS` counts the highest CPU;
/// * `COMPRESSED` is there where COMPRESSED records follow.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The byte order of all that is written.
    pub endian: Endian,
    /// The events: also the feature `EVENT_DESC`, which need not be among the others.
    pub events: Vec<EventDesc>,
    /// Features that are known now. Those above 31 are left out: perf ends on them in a pipe.
    pub features: Vec<Feature>,
}

/// The highest feature that every perf takes.
const LAST: u32 = id::PMU_CAPS;
/// Bytes of a file's header, and of a pipe's.
pub(super) const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;

/// The first eight bytes.
pub(super) fn magic(endian: Endian, out: &mut Vec<u8>) {
    endian.put_u64(out, u64::from_le_bytes(*b"PERFILE2"));
}

impl Opening {
    /// The features that are written, the events' among them, by their numbers; of two alike the first.
    fn features(&self) -> Vec<Feature> {
        let mut all = self.features.clone();
        all.push(Feature::Events(self.events.clone()));
        all.retain(|feature| feature.id() <= LAST);
        all.sort_by_key(Feature::id);
        all.dedup_by_key(|feature| feature.id());
        all
    }

    /// A file up to its first record, its data section empty, and where everything lies.
    pub fn file(&self) -> (Vec<u8>, Layout) {
        let endian = self.endian;
        let mut ids = Vec::new();
        let mut attrs = Vec::new();
        for event in &self.events {
            event.attr.write(endian, &mut attrs);
            endian.put_u64(&mut attrs, FILE_HEADER + ids.len() as u64);
            endian.put_u64(&mut attrs, 8 * event.ids.len() as u64);
            event.ids.iter().for_each(|id| endian.put_u64(&mut ids, *id));
        }
        let attrs_at = FILE_HEADER + ids.len() as u64;
        let prologue_at = attrs_at + attrs.len() as u64;
        let mut prologue = Vec::new();
        let mut placed = Vec::new();
        for feature in self.features() {
            if let Some((at, size)) = self.put_feature(&feature, &mut prologue) {
                placed.push((feature.id(), prologue_at + at as u64, size as u64));
            }
        }
        let prologue_len = prologue.len() as u64;
        prologue.resize(prologue.len().next_multiple_of(8), 0);
        let data_at = prologue_at + prologue.len() as u64;

        let mut out = Vec::new();
        magic(endian, &mut out);
        let attr_size = (attrs.len() / self.events.len().max(1)) as u64;
        let sections = [attrs_at, attrs.len() as u64, data_at, 0, prologue_at, prologue_len];
        for n in [FILE_HEADER, attr_size].into_iter().chain(sections).chain([0; 4]) {
            endian.put_u64(&mut out, n);
        }
        out.extend_from_slice(&ids);
        out.extend_from_slice(&attrs);
        out.extend_from_slice(&prologue);
        let late = self.features().into_iter().filter(|f| !placed.iter().any(|(id, ..)| *id == f.id()));
        let layout = Layout { endian, data_at, late: late.collect(), placed };
        (out, layout)
    }

    /// A pipe up to its first record.
    pub fn pipe(&self) -> Vec<u8> {
        let endian = self.endian;
        let mut out = Vec::new();
        magic(endian, &mut out);
        endian.put_u64(&mut out, PIPE_HEADER);
        for event in &self.events {
            let attr = HeaderAttr { attr: event.attr, ids: event.ids.clone() };
            records::put(kind::HEADER_ATTR, 0, endian, &mut out, |out| attr.write(endian, out));
        }
        let features = self.features();
        for feature in &features {
            self.put_feature(feature, &mut out);
        }
        for event in &self.events {
            if let Some(id) = event.ids.first() {
                records::put(kind::EVENT_UPDATE, 0, endian, &mut out, |out| {
                    EventUpdate::write_name(*id, &event.name, endian, out);
                });
            }
        }
        for feature in features {
            if let Feature::BuildIds(all) = feature {
                for each in all {
                    records::put(kind::BUILD_ID, each.misc | BuildId::SIZED, endian, &mut out, |out| {
                        each.write_body(endian, out);
                    });
                }
            }
        }
        out
    }

    /// Appends a feature as records, and says where what a file's section holds stands in `out`, and how long it is.
    /// `None` where no record is large enough.
    fn put_feature(&self, feature: &Feature, out: &mut Vec<u8>) -> Option<(usize, usize)> {
        let endian = self.endian;
        let mut bytes = Vec::new();
        feature.write(endian, &mut bytes);
        if let Feature::TracingData(_) = feature {
            let padded = bytes.len().next_multiple_of(8);
            let head = TracingDataHead { size: u32::try_from(padded).ok()? };
            records::put(kind::TRACING_DATA, 0, endian, out, |out| head.write(endian, out));
            let at = out.len();
            let len = bytes.len();
            bytes.resize(padded, 0);
            out.extend_from_slice(&bytes);
            return Some((at, len));
        }
        if let Feature::BuildIds(_) = feature {
            return None;
        }
        let head = HeaderFeature { feature: feature.id().into(), bytes: &bytes };
        let put = records::put(kind::HEADER_FEATURE, 0, endian, out, |out| head.write(endian, out));
        put.then(|| (out.len() - bytes.len(), bytes.len()))
    }
}

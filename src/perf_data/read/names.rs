//! What events are called, and the `format` texts of tracepoints.

use super::{EventInfo, Info};
use crate::perf_data::Attr;

impl Info {
    /// The `format` text of an event that is a tracepoint: its system, its name and all of it.
    pub fn format(&self, attr: &Attr) -> Option<(&[u8], &[u8], &[u8])> {
        if attr.kind != Attr::TRACEPOINT {
            return None;
        }
        let id = format!("ID: {}", attr.config);
        let has_id = |text: &[u8]| text.split(|b| *b == b'\n').take(4).any(|line| line == id.as_bytes());
        self.tracing.as_ref()?.formats().find(|(_, _, text)| has_id(text))
    }

    /// An event's name: as the recording says it, else what perf would call it.
    pub fn name_of(&self, event: &EventInfo) -> String {
        if let Some(name) = &event.name {
            return String::from_utf8_lossy(name).into_owned();
        }
        if let Some((system, name, _)) = self.format(&event.attr) {
            return format!("{}:{}", String::from_utf8_lossy(system), String::from_utf8_lossy(name));
        }
        const SOFTWARE: [&str; 12] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        let attr = &event.attr;
        match attr.kind {
            Attr::SOFTWARE => {
                SOFTWARE.get(attr.config as usize).map_or("unknown-software", |name| name).to_owned()
            }
            Attr::TRACEPOINT => format!("unknown:tracepoint_{}", attr.config),
            kind => format!("type-{kind}:{:#x}", attr.config),
        }
    }
}

//! Stacks and how often they were seen, in the lines of `run -f folded`.

use std::collections::HashMap;

use tracer::{sink::folded::Folder, symbol::Symbols};

use super::Sampled;

/// The folded form.
pub struct Folded {
    folder: Folder,
    stacks: HashMap<Box<str>, u64>,
    lost: u64,
    /// How often it was not told how much was lost.
    unknown: u64,
    scratch: Vec<u8>,
    line: String,
}

impl Folded {
    /// With names by `symbols`.
    pub fn new(symbols: Symbols) -> Folded {
        Folded {
            folder: Folder::new(symbols),
            stacks: HashMap::new(),
            lost: 0,
            unknown: 0,
            scratch: Vec::new(),
            line: String::new(),
        }
    }

    /// Counts a sample; false where its raw bytes are too few for their own format.
    pub fn sample(&mut self, sampled: &Sampled<'_>) -> bool {
        let Some(event) = sampled.shape().event(sampled, 0, &mut self.scratch) else { return false };
        self.line.clear();
        self.folder.fold(sampled.comm, &event, &mut self.line);
        match self.stacks.get_mut(self.line.as_str()) {
            Some(count) => *count += 1,
            None => drop(self.stacks.insert(self.line.as_str().into(), 1)),
        }
        true
    }

    /// Counts a loss.
    pub fn lost(&mut self, count: Option<u64>) {
        match count {
            Some(count) => self.lost = self.lost.saturating_add(count),
            None => self.unknown += 1,
        }
    }

    /// Appends the lines, the most frequent first.
    pub fn end(&self, out: &mut Vec<u8>) {
        let mut all: Vec<_> = self.stacks.iter().collect();
        all.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        for (stack, count) in all {
            out.extend_from_slice(format!("{stack} {count}\n").as_bytes());
        }
        for (word, count) in [("lost", self.lost), ("unknown", self.unknown)] {
            if count > 0 {
                out.extend_from_slice(format!("[{word}] {count}\n").as_bytes());
            }
        }
    }
}

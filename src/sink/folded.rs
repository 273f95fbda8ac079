//! Folded stacks: how often each stack was met, in the form that flame graphs are drawn from.
//!
//! ```text
//! dd;_start;main;write;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];vfs_write_[k] 512
//! [lost] 13
//! ```
//!
//! A line has the task's name, the frames from the outermost in (those of the process before those of the
//! kernel, which end in `_[k]`; inlined ones in `_[i]`), and how many events had that stack. Lines are written
//! at the end, the most frequent first. What was not counted by stack has lines of its own: `[overflow]` for
//! events after there were too many different stacks, and `[lost]`, `[failed]`, `[dropped]` and so on for gaps,
//! `[unknown]` for how many gaps had no count.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Counts, Header, Note, Outlet, Sink,
    frames::{Namer, folded},
};
use crate::{
    Result,
    event::{Event, Gap},
    ledger::Report,
    schema::Value,
    symbol::Symbols,
};

/// Different stacks that are counted, and the bytes that they may take.
const MOST: usize = 1 << 16;
const BYTES: usize = 64 << 20;

/// Folds stacks: events to lines, still without their counts.
pub struct Folder {
    namer: Namer,
}

impl Folder {
    /// With names by `symbols`.
    pub fn new(symbols: Symbols) -> Folder {
        Folder { namer: Namer::new(symbols) }
    }

    /// Appends the stack of an event of a task, those of the process first, as they are further out.
    pub fn fold(&mut self, comm: &[u8], event: &Event<'_>, line: &mut String) {
        line.extend(String::from_utf8_lossy(comm).chars().map(|c| match c {
            ';' => '_',
            c if c.is_control() => '_',
            c => c,
        }));
        for user in [true, false] {
            for (_, value) in event.fields() {
                match value {
                    Value::Stack(stack) if stack.user == user => {
                        folded(self.namer.stack(&stack, event.wire.tgid), user, line);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Counts stacks, and writes them at the end.
pub struct Folded {
    outlet: Outlet,
    folder: Folder,
    stacks: HashMap<Box<str>, u64>,
    bytes: usize,
    /// What has no stack of its own: a word and a count.
    beside: Vec<(&'static str, u64)>,
    /// Events of the lines that are written, in their order; empty before the end.
    written: Vec<u64>,
    taken: u64,
    line: String,
}

impl Folded {
    /// Writes to `outlet` what is named by `symbols`.
    pub fn new(symbols: Symbols, outlet: Outlet) -> Folded {
        Folded {
            outlet,
            folder: Folder::new(symbols),
            stacks: HashMap::new(),
            bytes: 0,
            beside: Vec::new(),
            written: Vec::new(),
            taken: 0,
            line: String::new(),
        }
    }

    /// Opens `path` again for what is written at the end; see [`Outlet::reopen`].
    pub fn reopen(&mut self, path: &Path) -> Result<()> {
        self.outlet.reopen(path)
    }

    fn beside(&mut self, word: &'static str, count: u64) {
        match self.beside.iter_mut().find(|(known, _)| *known == word) {
            Some((_, sum)) => *sum += count,
            None => self.beside.push((word, count)),
        }
    }

    /// All lines with the events that each stands for; the most frequent first.
    fn lines(&mut self) -> Vec<(String, u64)> {
        let mut stacks: Vec<(Box<str>, u64)> = self.stacks.drain().collect();
        stacks.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        let stacks = stacks.into_iter().map(|(stack, n)| (format!("{stack} {n}\n"), n));
        let beside = self.beside.drain(..).map(|(word, n)| {
            // Those that overflowed were events; gaps never were.
            (format!("[{word}] {n}\n"), if word == "overflow" { n } else { 0 })
        });
        stacks.chain(beside).collect()
    }
}

impl Sink for Folded {
    fn name(&self) -> &str {
        self.outlet.name()
    }

    fn header(&mut self, _: &Header<'_>) -> Result<()> {
        self.outlet.check()
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.taken += 1;
        self.outlet.check()?;
        self.line.clear();
        self.folder.fold(event.wire.comm(), event, &mut self.line);
        if let Some(count) = self.stacks.get_mut(self.line.as_str()) {
            *count += 1;
        } else if self.stacks.len() < MOST && self.bytes + self.line.len() <= BYTES {
            self.bytes += self.line.len();
            self.stacks.insert(self.line.as_str().into(), 1);
        } else {
            self.beside("overflow", 1);
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        match gap.count {
            Some(count) => self.beside(gap.cause.name(), count),
            None => self.beside("unknown", 1),
        }
        self.outlet.check()
    }

    fn note(&mut self, _: &Note<'_>) -> Result<()> {
        self.outlet.check()
    }

    fn flush(&mut self) -> Result<()> {
        self.outlet.check()
    }

    fn settle(&mut self, bound: Duration) -> Result<()> {
        let deadline = Instant::now() + bound;
        for (line, events) in self.lines() {
            if self.outlet.check().is_err() || !self.outlet.wait_room(deadline) {
                break;
            }
            if let Some(out) = self.outlet.room() {
                out.extend_from_slice(line.as_bytes());
            }
            self.written.push(events);
            if self.outlet.event_ends().is_err() {
                break;
            }
        }
        self.outlet.settle(deadline)
    }

    fn footer(&mut self, _: &Report) -> Result<()> {
        self.outlet.finish(|_| {})
    }

    /// Before the end no event is in any of them: its line is still to be written.
    fn counts(&self) -> Counts {
        // Lines go out in order, so those that did are the first.
        let lines = usize::try_from(self.outlet.counts().delivered).unwrap_or(usize::MAX);
        let delivered = self.written.iter().take(lines).sum();
        let settled = self.outlet.check().is_err();
        let dropped_sink = if settled { self.taken - delivered } else { 0 };
        Counts { delivered, dropped_sink, ..Counts::default() }
    }
}

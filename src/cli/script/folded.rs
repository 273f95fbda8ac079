//! Stacks and how often they were seen, a line each: `comm;outermost;…;innermost COUNT`.
//!
//! Frames of the kernel have their names where the recording is of the kernel that runs; those of processes are
//! `FILE+0xOFFSET` by what was mapped where.

use std::collections::{BTreeMap, HashMap};

use tracer::perf_data::{
    kind,
    read::Record,
    records::{Mmap, Mmap2},
};

use super::{Sampled, escape, samples::addresses};

/// Files by the first address at which they are mapped: the end, the offset in the file, its name.
type Maps = BTreeMap<u64, (u64, u64, Box<[u8]>)>;

/// The folded form.
#[derive(Default)]
pub struct Folded {
    stacks: HashMap<Vec<u8>, u64>,
    /// By process.
    maps: HashMap<u32, Maps>,
    line: Vec<u8>,
}

impl Folded {
    /// Takes what a record tells of what is mapped.
    pub fn take(&mut self, record: &Record<'_>) {
        let map = match record.kind {
            kind::MMAP => Mmap::parse(record.body, record.endian),
            kind::MMAP2 => Mmap2::parse(record.misc, record.body, record.endian).map(|m| m.map),
            kind::FORK => {
                if let Some(task) = tracer::perf_data::records::Task::parse(record.body, record.endian)
                    && task.pid != task.ppid
                    && let Some(maps) = self.maps.get(&task.ppid).cloned()
                {
                    self.maps.insert(task.pid, maps);
                }
                return;
            }
            _ => return,
        };
        if let Some(map) = map {
            let file = map.file.rsplit(|b| *b == b'/').next().unwrap_or(map.file).into();
            let value = (map.addr.saturating_add(map.len), map.pgoff, file);
            self.maps.entry(map.pid).or_default().insert(map.addr, value);
        }
    }

    /// Counts a sample.
    pub fn sample(&mut self, sampled: &Sampled<'_>) {
        let sample = &sampled.sample;
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        escape(sampled.comm, &mut line);
        let both = |user| {
            let mut all: Vec<u64> = sample.callchain.iter().flat_map(|c| addresses(c, user)).collect();
            all.reverse();
            all
        };
        for address in both(true) {
            line.push(b';');
            self.user(sample.tgid.unwrap_or(0), address, &mut line);
        }
        for address in both(false) {
            line.push(b';');
            match sampled.kernel.name(address) {
                Some((name, _)) => line.extend_from_slice(name.as_bytes()),
                None => line.extend_from_slice(format!("{address:#x}").as_bytes()),
            }
        }
        match self.stacks.get_mut(&line) {
            Some(count) => *count += 1,
            None => drop(self.stacks.insert(line.clone(), 1)),
        }
        self.line = line;
    }

    fn user(&self, pid: u32, address: u64, out: &mut Vec<u8>) {
        let map = self.maps.get(&pid).and_then(|maps| maps.range(..=address).next_back());
        match map.filter(|(_, (end, ..))| address < *end) {
            Some((start, (_, offset, file))) => {
                escape(file, out);
                let within = (address - start).wrapping_add(*offset);
                out.extend_from_slice(format!("+{within:#x}").as_bytes());
            }
            None => out.extend_from_slice(format!("{address:#x}").as_bytes()),
        }
    }

    /// Appends the lines, in the order of their texts.
    pub fn end(&self, out: &mut Vec<u8>) {
        let mut all: Vec<_> = self.stacks.iter().collect();
        all.sort();
        for (stack, count) in all {
            out.extend_from_slice(stack);
            out.extend_from_slice(format!(" {count}\n").as_bytes());
        }
    }
}

//! Which tasks a file has told of: their names, and where addresses are asked for, what they have mapped.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use crate::{
    perf_data::{
        Endian, kind,
        records::{self, Comm, MapId, Mmap, Mmap2, misc},
    },
    record::{Body, SampleId},
};

const PROT_EXEC: u32 = 4;

/// The tasks of a file.
#[derive(Debug, Default)]
pub struct Tasks {
    names: HashMap<u32, [u8; 16]>,
    /// The last one looked up: most often the next.
    last: Option<(u32, [u8; 16])>,
    /// Whether mappings are told too, and of which processes they were.
    pub mapped: bool,
    told: HashSet<u32>,
    /// Threads whose FORK record stands in the file: perf begins them anew there.
    forked: HashSet<u32>,
}

impl Tasks {
    /// Forgets all: another file begins.
    pub fn forget(&mut self) {
        *self = Tasks { mapped: self.mapped, ..Tasks::default() };
    }

    /// The name of a thread whose events do not tell it: as it was when it was first asked for.
    pub fn name(&self, tid: u32) -> Option<[u8; 16]> {
        if let Some(known) = self.names.get(&tid) {
            return Some(*known);
        }
        let text = fs::read(format!("/proc/{tid}/comm")).ok()?;
        let mut name = [0; 16];
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let len = text.len().min(name.len() - 1);
        name[..len].copy_from_slice(&text[..len]);
        Some(name)
    }

    /// Takes note of a side-band record that stands in the file.
    pub fn told(&mut self, kind: u32, body: &Body<'_>) {
        // A FORK has pid, ppid, tid, ptid.
        if let Some(tid) = body.u32_at(8).filter(|_| kind == kind::FORK) {
            self.last = None;
            self.names.remove(&tid);
            self.told.remove(&tid);
            self.forked.insert(tid);
        }
    }

    /// Appends what has to be told before an event of this task. `put` appends a record's trailer, with the time.
    ///
    /// A name that is the first of a thread that was there already has time 0: perf takes it for earlier than anything, so that events of
    /// the same thread on other CPUs, which are read later, have it too.
    #[inline]
    pub fn seen(
        &mut self,
        (tgid, tid): (u32, u32),
        comm: [u8; 16],
        time: u64,
        out: &mut Vec<u8>,
        trailer: impl Fn(&SampleId, &mut Vec<u8>),
    ) {
        if self.last == Some((tid, comm)) {
            return;
        }
        self.last = Some((tid, comm));
        let before = self.names.insert(tid, comm);
        if before == Some(comm) {
            return;
        }
        let time = if before.is_none() && !self.forked.contains(&tid) { 0 } else { time };
        let id = SampleId { tgid: Some(tgid), pid: Some(tid), time: Some(time), ..SampleId::default() };
        let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
        let of = Comm { pid: tgid, tid, comm: &comm[..end] };
        records::put(kind::COMM, 0, Endian::NATIVE, out, |out| {
            of.write(Endian::NATIVE, out);
            trailer(&id, out);
        });
        // A process of another name may have called exec.
        if self.mapped && (self.told.insert(tgid) || before.is_some() && tgid == tid) {
            maps(tgid, &id, out, trailer);
        }
    }
}

/// Appends an MMAP2 record for each part of a file that the process may execute. A process that is gone has none.
fn maps(tgid: u32, id: &SampleId, out: &mut Vec<u8>, trailer: impl Fn(&SampleId, &mut Vec<u8>)) {
    let text = fs::read(format!("/proc/{tgid}/maps")).unwrap_or_default();
    for line in text.split(|b| *b == b'\n') {
        let Some(map) = map(tgid, &String::from_utf8_lossy(line)) else { continue };
        let (map, file) = map;
        let map = Mmap2 { map: Mmap { file: file.as_bytes(), ..map.map }, ..map };
        records::put(kind::MMAP2, misc::USER, Endian::NATIVE, out, |out| {
            map.write(Endian::NATIVE, out);
            trailer(id, out);
        });
    }
}

/// A line of `/proc/PID/maps` that can be executed, and its file.
fn map(tgid: u32, line: &str) -> Option<(Mmap2<'static>, String)> {
    let mut words = line.splitn(6, ' ');
    let (range, rights, offset, device, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let file = words.next().unwrap_or_default().trim_start();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (maj, min) = device.split_once(':')?;
    let addr = hex(start)?;
    if !rights.contains('x') {
        return None;
    }
    let head = Mmap {
        pid: tgid,
        tid: tgid,
        addr,
        len: hex(end)?.checked_sub(addr)?,
        pgoff: hex(offset)?,
        file: b"",
    };
    let id = MapId::Inode {
        maj: hex(maj)? as u32,
        min: hex(min)? as u32,
        ino: inode.parse().ok()?,
        generation: 0,
    };
    let file = if file.is_empty() { "//anon" } else { file };
    Some((Mmap2 { map: head, id, prot: PROT_EXEC | 1, flags: 2 }, file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = "7f12-7f22 r-xp 00001000 fe:01 4711                       /usr/lib/a b.so";
        let (map, file) = map(9, line).unwrap();
        assert_eq!(
            (map.map.addr, map.map.len, map.map.pgoff, &*file),
            (0x7f12, 0x10, 0x1000, "/usr/lib/a b.so")
        );
        assert_eq!(map.id, MapId::Inode { maj: 0xfe, min: 1, ino: 4711, generation: 0 });
        for none in ["", "7f12-7f22 rw-p 0 0:0 0 ", "7f12 r-xp 0 0:0 0", "7f22-7f12 r-xp 0 0:0 0 x"] {
            assert!(super::map(9, none).is_none(), "{none}");
        }
    }

    #[test]
    fn a_name_is_told_once_and_again_when_it_changes() {
        let mut tasks = Tasks::default();
        let mut told = |tid: u32, name: &[u8; 16]| {
            let mut out = Vec::new();
            tasks.seen((1, tid), *name, 50, &mut out, |id, out| {
                out.extend_from_slice(&id.time.unwrap().to_ne_bytes());
            });
            (!out.is_empty()).then(|| u64::from_ne_bytes(out[out.len() - 8..].try_into().unwrap()))
        };
        let (sh, dd) = (b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!([told(1, sh), told(1, sh), told(2, sh), told(1, sh)], [Some(0), None, Some(0), None]);
        assert_eq!([told(1, dd), told(1, dd), told(1, sh)], [Some(50), None, Some(50)]);
    }
}

//! Reading the tallies that programs keep in place of events.

use std::collections::HashMap;

use libbpf_rs::{Map, MapCore, MapFlags};

use super::{Attached, Probes};
use crate::{
    Error, ErrorKind, Result,
    schema::{
        Kind,
        tally::{Key, Missing, Tally},
    },
};

/// One tally as a program keeps it: of a key, a CPU and a scratch level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The id of its probe.
    pub probe: usize,
    /// The CPU on which its runs were.
    pub cpu: u32,
    /// What they have in common.
    pub key: Key,
    /// What is known of them.
    pub tally: Tally,
}

impl Probes {
    /// All tallies as they stand. While probes are attached a run may be half way through its additions.
    ///
    /// # Errors
    ///
    /// Runtime, where the kernel does not let this process read the map.
    pub fn tallies(&self) -> Result<Vec<Row>> {
        let map = |name: &str| self.base.maps().find(|m| m.name() == name);
        let (Some(keep), Some(tallies)) = (&self.keep, map("tallies")) else { return Ok(Vec::new()) };
        let cannot = |e| Error::caused(ErrorKind::Runtime, "reading the BPF map 'tallies'", e);
        let kind = |attached: &Attached| Ok(keep.kept(&attached.schema)?.by.map(|by| by.kind));
        let kinds: Vec<Option<Kind>> = self.attached.iter().map(kind).collect::<Result<_>>()?;
        let mut known = HashMap::new();
        let mut rows = Vec::new();
        for bytes in tallies.keys() {
            let Some(value) = tallies.lookup(&bytes, MapFlags::ANY).map_err(cannot)? else { continue };
            let (Some(group), Some(tally)) = (Group::from_bytes(&bytes), Tally::from_bytes(&value)) else {
                continue;
            };
            let kind = kinds.get(group.probe.wrapping_sub(1)).copied().flatten();
            let key = match (kind, group.words) {
                (None, _) => Key::All,
                _ if group.why != 0 => Key::Unknown(Missing::from_errno(group.why)),
                (Some(Kind::Chars(_)), [low, high]) => {
                    let mut comm = [0; 16];
                    comm[..8].copy_from_slice(&low.to_ne_bytes());
                    comm[8..].copy_from_slice(&high.to_ne_bytes());
                    // What stands behind the first NUL is no part of the name.
                    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
                    comm[end..].fill(0);
                    Key::Comm(comm)
                }
                (Some(Kind::Stack { user }), [id, tgid]) => {
                    let stacks = map("stacks");
                    let read = || stacks.as_ref().and_then(|map| addresses(map, id as u32));
                    let addresses = known.entry(id).or_insert_with(read).clone();
                    let process = user.then_some(tgid as u32);
                    match addresses {
                        Some(addresses) => Key::Stack { addresses, process },
                        None => Key::Unknown(Missing::Fault),
                    }
                }
                (Some(_), [number, _]) => Key::Number(number),
            };
            rows.push(Row { probe: group.probe, cpu: group.cpu, key, tally });
        }
        Ok(rows)
    }
}

/// `struct tracer_group` of `bpf/tracer.h`.
struct Group {
    words: [u64; 2],
    probe: usize,
    cpu: u32,
    why: u32,
}

impl Group {
    fn from_bytes(bytes: &[u8]) -> Option<Group> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let words = [long(0)?, long(8)?];
        Some(Group { words, probe: word(16)? as usize, cpu: word(20)?, why: word(28)? })
    }
}

/// A stack by its id; what follows its last address is zero.
fn addresses(stacks: &Map<'_>, id: u32) -> Option<Vec<u64>> {
    let bytes = stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok()??;
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
    Some(words.take_while(|&address| address != 0).collect())
}

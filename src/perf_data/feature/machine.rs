//! Features that tell the machine: its CPUs, caches and memory.

use super::text::{list, put_list, put_text, put_texts, text, texts};
use crate::perf_data::{Endian, Fields};

/// `NRCPUS`: how many CPUs there can be, and how many were online.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// As many as there can be; the newest perf takes a CPU beyond them for 0.
    pub available: u32,
    /// As many as were online.
    pub online: u32,
}

/// `CPU_TOPOLOGY`: which CPUs share a socket, a core and a die.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// The CPUs of each socket, as lists such as `0-3`.
    pub sockets: Vec<Vec<u8>>,
    /// The CPUs of each core.
    pub threads: Vec<Vec<u8>>,
    /// Of each CPU its core and its socket; older perf told neither.
    pub cpus: Vec<(u32, u32)>,
    /// The CPUs of each die, and of each CPU its die; from perf 5.3 on.
    pub dies: Option<(Vec<Vec<u8>>, Vec<u32>)>,
}

/// One of `NUMA_TOPOLOGY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its memory in KiB.
    pub total: u64,
    /// What of it was free, in KiB.
    pub free: u64,
    /// Its CPUs, as a list such as `0-3`.
    pub cpus: Vec<u8>,
}

/// One of `CACHE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheLevel {
    /// From 1 on.
    pub level: u32,
    /// Bytes of a line.
    pub line_size: u32,
    /// How many sets it has.
    pub sets: u32,
    /// How many ways a set has.
    pub ways: u32,
    /// Such as `Data`.
    pub kind: Vec<u8>,
    /// Such as `32K`.
    pub size: Vec<u8>,
    /// The CPUs that share it, as a list such as `0-3`.
    pub cpus: Vec<u8>,
}

/// `MEM_TOPOLOGY`: which blocks of memory each node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemTopology {
    /// Bytes of a block.
    pub block: u64,
    /// Each node, the size of its bitmap in bits, and the bitmap: a bit for each block.
    pub nodes: Vec<(u64, u64, Vec<u64>)>,
}

impl Cpus {
    pub(super) fn parse(f: &mut Fields<'_>) -> Option<Cpus> {
        Some(Cpus { available: f.u32()?, online: f.u32()? })
    }

    pub(super) fn write(self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, self.available);
        endian.put_u32(out, self.online);
    }
}

impl CpuTopology {
    /// `cpus` is [`Cpus::available`]: nothing in the topology itself says how many CPUs it tells of.
    pub(super) fn parse(f: &mut Fields<'_>, cpus: u32) -> Option<CpuTopology> {
        let (sockets, threads) = (texts(f)?, texts(f)?);
        let mut topology = CpuTopology { sockets, threads, ..CpuTopology::default() };
        if f.rest().is_empty() {
            return Some(topology);
        }
        topology.cpus = (0..cpus).map(|_| f.u32().zip(f.u32())).collect::<Option<_>>()?;
        if !f.rest().is_empty() {
            let dies = texts(f)?;
            topology.dies = Some((dies, (0..cpus).map(|_| f.u32()).collect::<Option<_>>()?));
        }
        Some(topology)
    }

    pub(super) fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        put_texts(&self.sockets, endian, out);
        put_texts(&self.threads, endian, out);
        for (core, socket) in &self.cpus {
            endian.put_u32(out, *core);
            endian.put_u32(out, *socket);
        }
        if let Some((dies, each)) = &self.dies {
            put_texts(dies, endian, out);
            each.iter().for_each(|die| endian.put_u32(out, *die));
        }
    }
}

impl NumaNode {
    pub(super) fn parse(f: &mut Fields<'_>) -> Option<NumaNode> {
        Some(NumaNode { node: f.u32()?, total: f.u64()?, free: f.u64()?, cpus: text(f)? })
    }

    pub(super) fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        endian.put_u32(out, self.node);
        endian.put_u64(out, self.total);
        endian.put_u64(out, self.free);
        put_text(&self.cpus, endian, out);
    }
}

/// The version of `CACHE` and of `MEM_TOPOLOGY`: there has been no other.
const VERSION: u32 = 1;

pub(super) fn parse_caches(f: &mut Fields<'_>) -> Option<Vec<CacheLevel>> {
    f.u32().filter(|version| *version == VERSION)?;
    list(f, |f| {
        Some(CacheLevel {
            level: f.u32()?,
            line_size: f.u32()?,
            sets: f.u32()?,
            ways: f.u32()?,
            kind: text(f)?,
            size: text(f)?,
            cpus: text(f)?,
        })
    })
}

pub(super) fn write_caches(all: &[CacheLevel], endian: Endian, out: &mut Vec<u8>) {
    endian.put_u32(out, VERSION);
    put_list(all, endian, out, |cache, out| {
        for n in [cache.level, cache.line_size, cache.sets, cache.ways] {
            endian.put_u32(out, n);
        }
        for text in [&cache.kind, &cache.size, &cache.cpus] {
            put_text(text, endian, out);
        }
    });
}

impl MemTopology {
    pub(super) fn parse(f: &mut Fields<'_>) -> Option<MemTopology> {
        f.u64().filter(|version| *version == u64::from(VERSION))?;
        let (block, count) = (f.u64()?, f.u64()?);
        let mut nodes = Vec::new();
        for _ in 0..count {
            let (node, _, bits) = (f.u64()?, f.u64()?, f.u64()?);
            let words = (0..bits.div_ceil(64)).map(|_| f.u64()).collect::<Option<_>>()?;
            nodes.push((node, bits, words));
        }
        Some(MemTopology { block, nodes })
    }

    pub(super) fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        for n in [VERSION.into(), self.block, self.nodes.len() as u64] {
            endian.put_u64(out, n);
        }
        for (node, bits, words) in &self.nodes {
            // The size stands there twice: once of the node, once of its bitmap.
            for n in [*node, *bits, *bits] {
                endian.put_u64(out, n);
            }
            let count = bits.div_ceil(64) as usize;
            let padded = words.iter().copied().chain(std::iter::repeat(0)).take(count);
            padded.for_each(|word| endian.put_u64(out, word));
        }
    }
}

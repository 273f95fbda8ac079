//! What a header says of the host, from `/proc` and `/sys`: what is not to be had there is left out.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use nix::sys::utsname::uname;

use crate::perf_data::{
    Feature,
    feature::{BuildId, CacheLevel, CpuTopology, Cpus, MemTopology, NumaNode, id},
    records::{Mmap, misc},
};
use crate::symbol;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// All of them but those that the stream's header knows.
pub fn features() -> Vec<Feature> {
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let arch = uname().map(|u| u.machine().to_string_lossy().into_owned()).unwrap_or_default();
    let possible = list(&text(format!("{CPUS}/possible")).unwrap_or_default());
    let online = list(&text(format!("{CPUS}/online")).unwrap_or_default());
    // perf takes a CPU that is not below the first for number 0.
    let available = possible.last().map_or(1, |last| last + 1);
    let all = [
        Some(Feature::Text(id::ARCH, arch.into())),
        Some(Feature::Cpus(Cpus { available, online: online.len() as u32 })),
        Some(Feature::Text(id::CPUDESC, cpu_name(&cpuinfo).into())),
        cpu_id(&cpuinfo).map(|text| Feature::Text(id::CPUID, text.into())),
        memory("/proc/meminfo", "MemTotal:").map(Feature::TotalMem),
        cpu_topology(available).map(Feature::CpuTopology),
        some(nodes()).map(Feature::Numa),
        some(pmus()).map(Feature::Pmus),
        some(caches(&online)).map(Feature::Caches),
        mem_topology().map(Feature::MemTopology),
        kernel_build_id().map(|id| Feature::BuildIds(vec![id])),
    ];
    all.into_iter().flatten().collect()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

fn some<T>(all: Vec<T>) -> Option<Vec<T>> {
    Some(all).filter(|all| !all.is_empty())
}

/// The numbers of a list such as `0-3,7`.
fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Folders of one kind, such as `node0`, with their numbers, in order.
fn numbered(folder: &str, prefix: &str) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| {
        Some((entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, entry.path()))
    };
    let mut all: Vec<_> = entries.filter_map(one).collect();
    all.sort();
    all
}

/// The value behind a key of `/proc/cpuinfo`.
fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

/// The CPUs' name. perf ends on a file that has none, so there always is one.
fn cpu_name(cpuinfo: &str) -> &str {
    let keys = ["model name", "Processor", "cpu", "Model"];
    keys.iter().find_map(|key| value(cpuinfo, key)).unwrap_or("unknown")
}

/// As perf has it: on x86 `vendor,family,model,stepping`.
fn cpu_id(cpuinfo: &str) -> Option<String> {
    let parts = ["vendor_id", "cpu family", "model", "stepping"].map(|key| value(cpuinfo, key));
    let [vendor, family, model, stepping] = parts;
    Some(format!("{},{},{},{}", vendor?, family?, model?, stepping?))
}

/// KiB, from a file like `/proc/meminfo`.
fn memory(path: impl AsRef<Path>, key: &str) -> Option<u64> {
    let text = text(path)?;
    let line = text.lines().find(|line| line.contains(key))?;
    line.split(key).nth(1)?.split_whitespace().next()?.parse().ok()
}

fn cpu_topology(available: u32) -> Option<CpuTopology> {
    let of = |cpu: u32, name: &str| text(format!("{CPUS}/cpu{cpu}/topology/{name}"));
    let lists = |name: &str| {
        let mut seen = BTreeSet::new();
        let all = (0..available).filter_map(|cpu| of(cpu, name)).filter(|list| seen.insert(list.clone()));
        all.map(String::into_bytes).collect::<Vec<_>>()
    };
    // Of a CPU that is off nothing is known: -1.
    let id = |cpu, name: &str| of(cpu, name).and_then(|n| n.parse::<i32>().ok()).unwrap_or(-1) as u32;
    let (sockets, threads) = (lists("core_siblings_list"), lists("thread_siblings_list"));
    if sockets.is_empty() {
        return None;
    }
    let cpus = (0..available).map(|cpu| (id(cpu, "core_id"), id(cpu, "physical_package_id"))).collect();
    let dies = lists("die_cpus_list");
    let dies = some(dies).map(|dies| (dies, (0..available).map(|cpu| id(cpu, "die_id")).collect()));
    Some(CpuTopology { sockets, threads, cpus, dies })
}

fn nodes() -> Vec<NumaNode> {
    let node = |(node, path): (u64, PathBuf)| {
        Some(NumaNode {
            node: node as u32,
            total: memory(path.join("meminfo"), "MemTotal:")?,
            free: memory(path.join("meminfo"), "MemFree:")?,
            cpus: text(path.join("cpulist"))?.into(),
        })
    };
    numbered(NODES, "node").into_iter().filter_map(node).collect()
}

fn pmus() -> Vec<(u32, Vec<u8>)> {
    let entries = fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| {
        Some((number(entry.path().join("type"))?, entry.file_name().into_encoded_bytes()))
    };
    let mut all: Vec<_> = entries.filter_map(one).collect();
    all.sort();
    all
}

fn caches(online: &[u32]) -> Vec<CacheLevel> {
    let mut all: Vec<CacheLevel> = Vec::new();
    for cpu in online {
        for (_, path) in numbered(&format!("{CPUS}/cpu{cpu}/cache"), "index") {
            let n = |name: &str| number(path.join(name)).unwrap_or(0);
            let t = |name: &str| text(path.join(name)).unwrap_or_default().into_bytes();
            let cache = CacheLevel {
                level: n("level"),
                line_size: n("coherency_line_size"),
                sets: n("number_of_sets"),
                ways: n("ways_of_associativity"),
                kind: t("type"),
                size: t("size"),
                cpus: t("shared_cpu_list"),
            };
            if !all.contains(&cache) {
                all.push(cache);
            }
        }
    }
    all.sort_by_key(|cache| cache.level);
    all
}

fn mem_topology() -> Option<MemTopology> {
    let block = u64::from_str_radix(&text("/sys/devices/system/memory/block_size_bytes")?, 16).ok()?;
    let node = |(node, path): (u64, PathBuf)| {
        let blocks = numbered(path.to_str()?, "memory");
        let bits = blocks.last()?.0 + 1;
        let mut words = vec![0u64; bits.div_ceil(64) as usize];
        blocks.iter().for_each(|(block, _)| words[*block as usize / 64] |= 1 << (block % 64));
        Some((node, bits, words))
    };
    let nodes: Vec<_> = numbered(NODES, "node").into_iter().filter_map(node).collect();
    Some(MemTopology { block, nodes }).filter(|topology| !topology.nodes.is_empty())
}

/// What the running kernel is known by.
fn kernel_build_id() -> Option<BuildId> {
    let (id, file) = (symbol::kernel_build_id()?, b"[kernel.kallsyms]".to_vec());
    Some(BuildId { misc: misc::KERNEL | BuildId::SIZED, pid: -1, id, file })
}

/// Tells where the kernel lies, and its `modules`, as far as we may know.
pub fn kernel_maps(modules: bool, mut put: impl FnMut(&Mmap<'_>)) {
    let symbols = fs::read("/proc/kallsyms").unwrap_or_default();
    let (mut text, mut end) = (None, None);
    for line in symbols.split(|b| *b == b'\n') {
        let Ok(line) = str::from_utf8(line) else { continue };
        let mut words = line.split_whitespace();
        let (address, name) = (words.next(), words.nth(1));
        let address = address.and_then(|a| u64::from_str_radix(a, 16).ok()).filter(|a| *a != 0);
        match name {
            Some("_text") => text = address,
            Some("_etext") => end = address,
            _ => continue,
        }
        if text.is_some() && end.is_some() {
            break;
        }
    }
    let Some(addr) = text else { return };
    let len = end.and_then(|end| end.checked_sub(addr)).unwrap_or(u64::MAX - addr);
    let head = Mmap { pid: u32::MAX, tid: 0, addr, len, pgoff: addr, file: b"[kernel.kallsyms]_text" };
    put(&head);
    if !modules {
        return;
    }
    for line in self::text("/proc/modules").unwrap_or_default().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, size, .., address] = words[..] else { continue };
        // A module that taints the kernel has a word more at the end.
        let address = if address.starts_with("0x") { Some(address) } else { words.get(5).copied() };
        let address = address.and_then(|a| u64::from_str_radix(a.trim_start_matches("0x"), 16).ok());
        let (Some(addr), Ok(len)) = (address.filter(|a| *a != 0), size.parse()) else { continue };
        put(&Mmap { addr, len, pgoff: 0, file: format!("[{name}]").as_bytes(), ..head });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_keys() {
        assert_eq!(list("0-2,7"), [0, 1, 2, 7]);
        assert!(list("").is_empty());
        let info = "processor\t: 0\nvendor_id\t: X\ncpu family\t: 6\nmodel\t: 85\nmodel name\t: A CPU\nstepping\t: 7\n";
        assert_eq!((cpu_name(info), cpu_id(info)), ("A CPU", Some("X,6,85,7".into())));
        assert_eq!((cpu_name(""), cpu_id("vendor_id : X")), ("unknown", None));
    }

    #[test]
    fn every_host_tells_what_perf_cannot_do_without() {
        let all = features();
        for id in [id::ARCH, id::NRCPUS, id::CPUDESC] {
            assert!(all.iter().any(|f| f.id() == id), "feature {id}");
        }
        let mut ids: Vec<u32> = all.iter().map(Feature::id).collect();
        ids.dedup();
        assert_eq!(ids.len(), all.len(), "none is there twice");
    }
}

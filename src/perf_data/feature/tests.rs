//! Every feature reads as it was written, in both byte orders, and no bytes make the parsers panic.

use super::*;
use crate::perf_data::Attr;

fn t(text: &str) -> Vec<u8> {
    text.into()
}

/// One of each kind, with two CPUs.
fn all(endian: Endian) -> Vec<Feature> {
    let attr = Attr { kind: Attr::TRACEPOINT, config: 0x7000, sample_type: 0x10587, ..Attr::default() };
    vec![
        Feature::TracingData(Box::new(TracingData::of(
            endian,
            vec![(t("tracer"), vec![t("name: a\nID: 7\n")])],
        ))),
        Feature::BuildIds(vec![
            BuildId { misc: 1 | BuildId::SIZED, pid: -1, id: vec![7; 20], file: t("[kernel.kallsyms]") },
            BuildId { misc: 2 | BuildId::SIZED, pid: 42, id: vec![9; 16], file: t(&"/long/".repeat(20)) },
        ]),
        Feature::Text(id::HOSTNAME, t("host")),
        Feature::Text(id::OSRELEASE, t(&"r".repeat(64))),
        Feature::Text(id::VERSION, Vec::new()),
        Feature::Cpus(Cpus { available: 2, online: 1 }),
        Feature::TotalMem(1 << 40),
        Feature::CommandLine(vec![t("tracer"), t("record"), t("")]),
        Feature::Events(vec![
            EventDesc { attr, name: t("tracer:write"), ids: vec![1, u64::MAX] },
            EventDesc { attr: Attr::default(), name: t("dummy:u"), ids: vec![] },
        ]),
        Feature::CpuTopology(CpuTopology {
            sockets: vec![t("0-1")],
            threads: vec![t("0"), t("1")],
            cpus: vec![(0, 0), (1, 0)],
            dies: Some((vec![t("0-1")], vec![0, 0])),
        }),
        Feature::CpuTopology(CpuTopology { sockets: vec![t("0-1")], ..CpuTopology::default() }),
        Feature::Numa(vec![NumaNode { node: 1, total: 5, free: 3, cpus: t("0-1") }]),
        Feature::Mark(id::BRANCH_STACK),
        Feature::Pmus(vec![(1, t("software")), (8, t("uprobe"))]),
        Feature::Groups(vec![Group { name: t("{a,b}"), leader: 3, members: 2 }]),
        Feature::Auxtrace(vec![(104, 4096), (1 << 33, 8)]),
        Feature::Mark(id::STAT),
        Feature::Caches(vec![CacheLevel {
            level: 1,
            line_size: 64,
            sets: 128,
            ways: 8,
            kind: t("Data"),
            size: t("32K"),
            cpus: t("0-1"),
        }]),
        Feature::SampleTime(1, u64::MAX),
        Feature::MemTopology(MemTopology { block: 1 << 27, nodes: vec![(0, 70, vec![u64::MAX, 63])] }),
        Feature::ClockResolution(1),
        Feature::DirFormat(1),
        Feature::BpfPrograms(vec![BpfProgram { arrays: 3, info: vec![1; 232], data: vec![2; 24] }]),
        Feature::BpfBtf(vec![(17, vec![0x9f, 0xeb, 1])]),
        Feature::Compressed(Compressed { kind: Compressed::ZSTD, level: 1, ratio: 5, mmap_len: 528_384 }),
        Feature::CpuPmuCaps(vec![(t("max_precise"), t("3"))]),
        Feature::ClockData(ClockData { clockid: 1, wall: 1 << 60, clock: 12 }),
        Feature::Hybrid(vec![(t("cpu_core"), t("0-7"))]),
        Feature::PmuCaps(vec![(t("cpu"), vec![(t("branches"), t("32"))])]),
        Feature::Other(35, vec![1, 2, 3]),
    ]
}

#[test]
fn what_is_written_is_what_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        for feature in all(endian) {
            let mut out = Vec::new();
            feature.write(endian, &mut out);
            assert_eq!(Feature::parse(feature.id(), &out, endian, 2), feature, "{endian:?}");
        }
    }
    let kinds: std::collections::HashSet<_> =
        all(Endian::Little).iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 26, "one of each kind of feature");
}

#[test]
fn what_is_cut_off_is_kept_as_it_lies() {
    for feature in all(Endian::Little) {
        let mut out = Vec::new();
        feature.write(Endian::Little, &mut out);
        for len in 0..out.len().min(2000) {
            let cut = Feature::parse(feature.id(), &out[..len], Endian::Little, 2);
            let whole =
                matches!(feature, Feature::BuildIds(_) | Feature::CpuTopology(_) | Feature::TracingData(_));
            let other = Feature::Other(feature.id(), out[..len].to_vec());
            assert!(whole || cut == other, "{feature:?} cut to {len}: {cut:?}");
        }
    }
}

#[test]
fn sizes_that_cannot_be_end_at_once() {
    for id in 0..40 {
        for byte in [0, 1, 0x7f, 0xff] {
            for len in [0, 4, 8, 12, 16, 24, 64, 256] {
                Feature::parse(id, &vec![byte; len], Endian::Big, u32::MAX);
            }
        }
    }
}

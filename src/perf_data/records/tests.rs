//! Every record reads as it was written, in both byte orders, and none panics where it is cut.

use super::*;
use crate::{
    perf_data::{Attr, attr::flag, kind, read},
    record::{Body, Header, Record, SampleFormat, SampleId, sample_type},
};

const ORDERS: [Endian; 2] = [Endian::Little, Endian::Big];

fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    assert_eq!(out.len() % 8, 0, "a whole number of words");
    out
}

#[test]
fn tasks_and_losses() {
    for endian in ORDERS {
        for name in [&b"dd"[..], b"", b"fifteen bytes.."] {
            let comm = Comm { pid: 1, tid: 2, comm: name };
            let out = bytes(|out| comm.write(endian, out));
            assert_eq!(Comm::parse(&out, endian), Some(comm));
            assert!((0..8).all(|len| Comm::parse(&out[..len], endian).is_none()));
        }
        let task = Task { pid: 1, ppid: 2, tid: 3, ptid: 4, time: u64::MAX - 1 };
        let out = bytes(|out| task.write(endian, out));
        assert_eq!(Task::parse(&out, endian), Some(task));
        assert!((0..out.len()).all(|len| Task::parse(&out[..len], endian).is_none()));
        let lost = Lost { id: 7, lost: 1 << 40 };
        let out = bytes(|out| lost.write(endian, out));
        assert_eq!(Lost::parse(&out, endian), Some(lost));
        let lost = LostSamples { lost: 9 };
        let out = bytes(|out| lost.write(endian, out));
        assert_eq!(LostSamples::parse(&out, endian), Some(lost));
        assert_eq!(LostSamples::parse(&out[1..], endian), None);
    }
}

#[test]
fn mappings() {
    let map =
        Mmap { pid: u32::MAX, tid: 0, addr: 1 << 63, len: 4096, pgoff: 8, file: b"[kernel.kallsyms]_text" };
    let inode = MapId::Inode { maj: 8, min: 1, ino: 1 << 33, generation: 5 };
    for endian in ORDERS {
        let out = bytes(|out| map.write(endian, out));
        assert_eq!(Mmap::parse(&out, endian), Some(map));
        for id in [inode, MapId::BuildId { size: 16, id: [3; 20] }] {
            let map = Mmap2 { map, id, prot: 5, flags: 2 };
            let out = bytes(|out| map.write(endian, out));
            assert_eq!(Mmap2::parse(map.misc(), &out, endian), Some(map));
            assert!((0..64).all(|len| Mmap2::parse(map.misc(), &out[..len], endian).is_none()));
        }
    }
}

/// The kernel's mark of a build id on a record that has none, as on a virtio disk, and disks of other kinds.
#[test]
fn an_inode_marked_as_a_build_id() {
    let map = Mmap { pid: 1, tid: 1, addr: 0x1000, len: 4096, pgoff: 0, file: b"/usr/bin/dash" };
    let asked = Attr { flags: flag::BUILD_ID, ..Attr::default() };
    let of = |id, endian, attr: Option<&Attr>| {
        let map = Mmap2 { map, id, prot: 5, flags: 2 };
        let body = bytes(|out| map.write(endian, out));
        let record = read::Record {
            offset: 0,
            part: 0,
            kind: kind::MMAP2,
            misc: misc::MMAP_BUILD_ID | 2,
            size: body.len() as u16 + 8,
            body: &body,
            payload: &[],
            endian,
        };
        Mmap2::of(&record, attr).map(|map| map.id)
    };
    for endian in ORDERS {
        for maj in [254, 259, 0] {
            let inode = MapId::Inode { maj, min: 0, ino: 247_030, generation: 0 };
            assert_eq!(of(inode, endian, Some(&Attr::default())), Some(inode), "{maj}");
            assert_eq!(of(inode, endian, Some(&asked)), Some(inode), "{maj}");
        }
        // A SCSI disk's number could be a size; then only the event tells.
        let scsi = MapId::Inode { maj: 8, min: 1, ino: 247_030, generation: 0 };
        assert_eq!(of(scsi, endian, Some(&Attr::default())), Some(scsi));
        let mut id = [0; 20];
        id[..8].copy_from_slice(&[7; 8]);
        let short = MapId::BuildId { size: 8, id };
        assert_eq!((of(short, endian, Some(&asked)), of(short, endian, None)), (Some(short), Some(short)));
        // What `perf inject` put in has no event that asked for it.
        let whole = MapId::BuildId { size: 20, id: [7; 20] };
        assert_eq!(of(whole, endian, Some(&Attr::default())), Some(whole));
    }
}

#[test]
fn what_is_perfs_own() {
    let attr = Attr { kind: 2, config: 0x7000, ..Attr::default() };
    for endian in ORDERS {
        let of = HeaderAttr { attr, ids: vec![1, u64::MAX] };
        let out = bytes(|out| of.write(endian, out));
        assert_eq!(HeaderAttr::parse(&out, endian), Some(of));
        let of = HeaderFeature { feature: 12, bytes: b"12345678" };
        let out = bytes(|out| of.write(endian, out));
        assert_eq!(HeaderFeature::parse(&out, endian), Some(of));
        let out = bytes(|out| EventUpdate::write_name(7, b"tracer:write", endian, out));
        let update = EventUpdate::parse(&out, endian).unwrap();
        assert_eq!(
            (update.kind, update.id, update.text()),
            (EventUpdate::NAME, 7, Some(&b"tracer:write"[..]))
        );
        let entries = vec![IdEntry { id: 1, index: 0, cpu: 3, tid: u64::MAX }; 2];
        for guests in [None, Some(vec![(0, 1), (2, 3)])] {
            let of = IdIndex { entries: entries.clone(), guests };
            let out = bytes(|out| of.write(endian, out));
            assert_eq!(IdIndex::parse(&out, endian), Some(of));
        }
        assert_eq!(IdIndex::parse(&[0xff; 64], endian), None);
        let of = TracingDataHead { size: 4096 };
        let out = bytes(|out| of.write(endian, out));
        assert_eq!(TracingDataHead::parse(&out, endian), Some(of));
    }
}

#[test]
fn a_record_says_its_size_and_none_is_too_large() {
    for endian in ORDERS {
        let mut out = vec![1, 2, 3];
        assert!(put(kind::COMM, misc::COMM_EXEC, endian, &mut out, |out| out.extend_from_slice(b"12345678")));
        assert_eq!(endian.u32_at(&out, 3), Some(kind::COMM));
        assert_eq!((endian.u16_at(&out, 7), endian.u16_at(&out, 9)), (Some(misc::COMM_EXEC), Some(16)));
        let before = out.clone();
        assert!(!put(kind::COMM, 0, endian, &mut out, |out| out.resize(out.len() + 65_528, 0)));
        assert_eq!(out, before);
        assert!(put(kind::COMM, 0, endian, &mut out, |out| out.resize(out.len() + 65_527, 0)));
    }
}

#[test]
fn a_head_and_a_trailer_are_those_that_samples_are_read_by() {
    let head = SampleHead { id: 1, ip: 2, pid: 3, tid: 4, time: 5, cpu: 6, period: 7 };
    let format = SampleFormat { sample_type: SampleHead::SAMPLE_TYPE, sample_id_all: true };
    let mut body = head.to_bytes(Endian::NATIVE).to_vec();
    body.extend_from_slice(&4u32.to_ne_bytes());
    body.extend_from_slice(b"abcd");
    let header = Header { kind: kind::SAMPLE, misc: 0, size: body.len() as u16 + 8 };
    let sample = format.sample(&Record { header, body: Body::new(&body) }).unwrap();
    assert_eq!((sample.id(), sample.ip(), sample.tgid(), sample.pid()), (Some(1), Some(2), Some(3), Some(4)));
    assert_eq!((sample.time(), sample.cpu(), sample.period()), (Some(5), Some(6), Some(7)));
    assert_eq!(sample.raw(), Some(Body::new(b"abcd")));

    let id = SampleId {
        tgid: Some(1),
        pid: Some(2),
        time: Some(3),
        id: Some(4),
        stream_id: Some(5),
        cpu: Some(6),
    };
    for kept in [SampleHead::SAMPLE_TYPE, sample_type::ID | sample_type::STREAM_ID | SampleHead::SAMPLE_TYPE]
    {
        let format = SampleFormat { sample_type: kept, sample_id_all: true };
        let out = bytes(|out| put_trailer(kept, &id, Endian::NATIVE, out));
        assert_eq!(out.len(), format.trailer_size());
        let header = Header { kind: kind::COMM, misc: 0, size: 0 };
        let read = format.sample_id(&Record { header, body: Body::new(&out) }).unwrap();
        let stream_id = id.stream_id.filter(|_| kept & sample_type::STREAM_ID != 0);
        assert_eq!(read, SampleId { stream_id, ..id });
    }
    let big = SampleHead::to_bytes(head, Endian::Big);
    assert_eq!((big[7], big[19], big[35]), (1, 3, 6));
}

#[test]
fn strings_are_shown_as_strings() {
    let comm = Comm { pid: 1, tid: 2, comm: b"dd" };
    assert_eq!(format!("{comm:?}"), "Comm { pid: 1, tid: 2, comm: \"dd\" }");
    let map = Mmap { pid: u32::MAX, tid: 0, addr: 0x1000, len: 16, pgoff: 0, file: b"/a" };
    let shown = "Mmap { pid: -1, tid: 0, addr: 0x1000, len: 0x10, pgoff: 0x0, file: \"/a\" }";
    assert_eq!(format!("{map:?}"), shown);
}

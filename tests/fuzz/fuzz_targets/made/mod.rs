//! A recording by our own writer, for targets that break it; and all that can be asked of what came of it.
#![allow(dead_code)]

use std::io::Cursor;

use tracer::perf_data::{
    Attr, Endian, Feature, TracingData,
    feature::{EventDesc, id},
    flag, kind,
    read::{Limits, Reader, Sample, Sorted},
    records::{self, Body, Comm, SampleHead},
    write::{Compressor, FileWriter, Opening, PipeWriter},
};

/// The text that tells of the events.
pub const FORMAT: &str = "name: e\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:__data_loc char[] path;\toffset:16;\tsize:4;\tsigned:0;\n\n\
    print fmt: \"n=%llu path=%s\", REC->n, __get_str(path)\n";

/// Two events.
pub fn opening(endian: Endian) -> Opening {
    let attr = Attr {
        kind: Attr::TRACEPOINT,
        config: 7,
        sample_type: SampleHead::SAMPLE_TYPE,
        flags: flag::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event = |name: &str, id| EventDesc { attr, name: name.into(), ids: vec![id] };
    let tracing = TracingData::of(endian, vec![(b"s".to_vec(), vec![FORMAT.into()])]);
    let features = vec![Feature::Text(id::HOSTNAME, b"h".to_vec()), Feature::TracingData(tracing.into())];
    Opening { endian, events: vec![event("s:e", 1), event("s:f", 2)], features }
}

/// Two rounds; packed, they are zstd's.
pub fn records(endian: Endian, packed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    records::put(kind::COMM, 0, endian, &mut out, |out| {
        Comm { pid: 10, tid: 10, comm: b"dd" }.write(endian, out);
        out.extend_from_slice(&[0; 40]);
    });
    for i in 0..8u64 {
        records::put(kind::SAMPLE, 2, endian, &mut out, |out| {
            let head =
                SampleHead { id: 1 + i % 2, ip: 0, pid: 10, tid: 10, time: 1000 - i, cpu: 0, period: 1 };
            out.extend_from_slice(&head.to_bytes(endian));
            endian.put_u32(out, 28);
            out.extend_from_slice(&[0; 8]);
            endian.put_u64(out, i);
            endian.put_u32(out, 4 << 16 | 20);
            out.extend_from_slice(b"abc\0\0\0\0\0");
        });
        if i % 4 == 3 {
            records::put(kind::FINISHED_ROUND, 0, endian, &mut out, |_| {});
        }
    }
    if !packed {
        return out;
    }
    let mut small = Vec::new();
    let mut compressor = Compressor::new(endian, 1).expect("a compressor");
    compressor.write(&out, &mut small).expect("packed");
    small
}

/// A finished file.
pub fn file(endian: Endian, packed: bool) -> Vec<u8> {
    let mut file = FileWriter::new(Cursor::new(Vec::new()), &opening(endian)).expect("begun");
    file.write(&records(endian, packed)).expect("written");
    file.finish(&[Feature::SampleTime(1, 2)]).expect("finished").into_inner()
}

/// The same through a pipe.
pub fn pipe(endian: Endian, packed: bool) -> Vec<u8> {
    let mut pipe = PipeWriter::new(Vec::new(), &opening(endian)).expect("begun");
    pipe.write(&records(endian, packed)).expect("written");
    pipe.into_inner()
}

/// One of `whole` broken as the bytes say: the first says which, each three after it a place and what is put there,
/// and the last few are added. From 0xf0 on the bytes stand for themselves.
pub fn broken(whole: [Vec<u8>; 4], bytes: &[u8]) -> Vec<u8> {
    let Some((first, rest)) = bytes.split_first() else { return Vec::new() };
    if *first >= 0xf0 {
        return rest.to_vec();
    }
    let [a, b, c, d] = whole;
    let mut made = [a, b, c, d].into_iter().nth(usize::from(first % 4)).unwrap_or_default();
    let changes = rest.chunks_exact(3);
    made.extend_from_slice(changes.remainder());
    for change in changes {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match made.get_mut(at) {
            Some(byte) => *byte = change[2],
            None => made.truncate(at % (made.len() + 1)),
        }
    }
    made
}

/// Reads all, in order; how many records there were.
pub fn read(reader: Reader<'_>) -> usize {
    let (mut sorted, mut count) = (Sorted::new(reader, Limits { bytes: 1 << 20 }), 0);
    while let Ok(Some(next)) = sorted.next_record() {
        let attr = next.info.events.of(&next.record).map(|i| next.info.events.all()[i].attr);
        std::hint::black_box(Body::parse(&next.record, attr.as_ref()));
        if let Some(attr) = attr {
            std::hint::black_box(Sample::parse(&attr, next.record.body, next.record.endian));
        }
        count += 1;
    }
    count
}

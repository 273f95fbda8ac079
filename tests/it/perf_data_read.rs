//! Recordings read, whole and broken: what the writer wrote, every prefix of it, and with bytes turned over.
//!
//! With recordings of perf's own (tests/fixtures/record.sh, into target/perf) these are broken too.

use std::{io::Cursor, path::Path, time::Instant};

use tracer::{
    perf_data::{
        Attr, Endian, Feature, TracingData,
        feature::{EventDesc, id},
        flag, kind,
        read::{Limits, Reader, Record, Sample, Sorted},
        records::{self, Body},
        rewrite,
        write::{Compressor, FileWriter, Opening, PipeWriter},
    },
    record::sample_type as bit,
};

const FORMAT: &str = "name: e\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"n=%llu\", REC->n\n";

fn opening(endian: Endian) -> Opening {
    let attr = Attr {
        kind: Attr::TRACEPOINT,
        config: 7,
        sample_type: bit::IDENTIFIER | bit::IP | bit::TID | bit::TIME | bit::CPU | bit::RAW,
        flags: flag::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event = |name: &str, id| EventDesc { attr, name: name.into(), ids: vec![id] };
    let tracing = TracingData::of(endian, vec![(b"s".to_vec(), vec![FORMAT.into()])]);
    Opening {
        endian,
        events: vec![event("s:e", 1), event("s:f", 2)],
        features: vec![Feature::Text(id::HOSTNAME, b"h".to_vec()), Feature::TracingData(tracing.into())],
    }
}

/// Two rounds of samples whose times go down within a round.
fn body(endian: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    for round in 0..4u64 {
        for i in 0..5u64 {
            records::put(kind::SAMPLE, 2, endian, &mut out, |out| {
                for word in [1 + i % 2, 0xffff] {
                    endian.put_u64(out, word);
                }
                for half in [10, 11] {
                    endian.put_u32(out, half);
                }
                endian.put_u64(out, 1000 * (round + 1) - i);
                endian.put_u64(out, 0);
                endian.put_u32(out, 20);
                endian.put_u64(out, 7 << (48 * u32::from(endian == Endian::Big)));
                endian.put_u64(out, 100 * round + i);
                endian.put_u32(out, 0);
            });
        }
        records::put(kind::FINISHED_ROUND, 0, endian, &mut out, |_| {});
    }
    out
}

fn file(endian: Endian, records: &[u8]) -> Vec<u8> {
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &opening(endian)).unwrap();
    writer.write(records).unwrap();
    writer.finish(&[]).unwrap().into_inner()
}

fn pipe(endian: Endian, records: &[u8]) -> Vec<u8> {
    let mut writer = PipeWriter::new(Vec::new(), &opening(endian)).unwrap();
    writer.write(records).unwrap();
    writer.into_inner()
}

/// The samples of a recording in order: event, time and the number in the raw bytes.
fn samples(reader: Reader<'_>) -> Vec<(usize, u64, u64)> {
    let mut sorted = Sorted::new(reader, Limits::default());
    let mut all = Vec::new();
    while let Some(next) = sorted.next_record().unwrap() {
        if next.record.kind != kind::SAMPLE {
            continue;
        }
        let index = next.info.events.of(&next.record).unwrap();
        let attr = next.info.events.all()[index].attr;
        let sample = Sample::parse(&attr, next.record.body, next.record.endian).unwrap();
        let n = next.record.endian.u64_at(sample.raw.unwrap(), 8).unwrap();
        all.push((index, sample.time.unwrap(), n));
    }
    assert_eq!((sorted.early(), sorted.late()), (0, 0));
    all
}

fn expected() -> Vec<(usize, u64, u64)> {
    let mut all: Vec<_> = (0..4u64)
        .flat_map(|round| (0..5u64).map(move |i| ((i % 2) as usize, 1000 * (round + 1) - i, 100 * round + i)))
        .collect();
    all.sort_by_key(|(_, time, _)| *time);
    all
}

#[test]
fn what_is_written_is_what_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        let (file, pipe) = (file(endian, &body(endian)), pipe(endian, &body(endian)));
        for reader in [Reader::new(&file), Reader::new(&pipe), Reader::pipe(&pipe[..])] {
            let reader = reader.unwrap();
            assert_eq!(samples(reader), expected(), "{endian:?}");
        }
        let mut reader = Reader::pipe(&pipe[..]).unwrap();
        while reader.next_record().unwrap().is_some() {}
        let info = reader.info();
        assert_eq!(info.feature(id::HOSTNAME), Some(&Feature::Text(id::HOSTNAME, b"h".to_vec())));
        assert_eq!(info.name_of(&info.events.all()[1]), "s:f");
        assert!(info.format(&info.events.all()[0].attr).is_some());
        assert!(info.notes.is_empty(), "{:?}", info.notes);
    }
}

#[test]
fn what_was_compressed() {
    let (endian, mut packed) = (Endian::Little, Vec::new());
    let mut compressor = Compressor::new(endian, 3).unwrap();
    compressor.write(&body(endian), &mut packed).unwrap();
    assert_eq!(samples(Reader::new(&file(endian, &packed)).unwrap()), expected());
    // The same as one large piece of type 83 whose size cannot say how large it is.
    let mut noise = 1u64;
    let mut plain = body(endian);
    for _ in 0..1200 {
        records::put(kind::COMM, 0, endian, &mut plain, |out| {
            for _ in 0..16 {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                endian.put_u64(out, noise);
            }
        });
    }
    let stream = zstd::bulk::compress(&plain, 1).unwrap();
    assert!(stream.len() > 1 << 16);
    let mut record = Vec::new();
    endian.put_u32(&mut record, kind::COMPRESSED2);
    endian.put_u16(&mut record, 0);
    endian.put_u16(&mut record, (stream.len() + 16) as u16);
    endian.put_u64(&mut record, stream.len() as u64);
    record.extend_from_slice(&stream);
    assert_eq!(samples(Reader::new(&file(endian, &record)).unwrap()), expected());
}

#[test]
fn an_unfinished_file_and_a_cut_one() {
    let endian = Endian::Little;
    let whole = file(endian, &body(endian));
    // As a killed recorder leaves it: no size, no features, half a record at its end.
    let (mut unfinished, layout) = opening(endian).file();
    unfinished.extend_from_slice(&body(endian));
    unfinished.truncate(unfinished.len() - 8 - 20);
    let left = samples(Reader::new(&unfinished).unwrap());
    assert_eq!(left.len(), 19);
    let mut reader = Reader::new(&unfinished).unwrap();
    assert!(reader.info().format(&reader.info().events.all()[0].attr).is_some(), "of its prologue");
    while reader.next_record().unwrap().is_some() {}
    assert_eq!(reader.info().notes.all().len(), 2, "{:?}", reader.info().notes);
    assert!(whole.len() as u64 > layout.data_at);
    // Repaired it is whole, and has the same samples.
    let mut repaired = Cursor::new(Vec::new());
    let told = rewrite::file(Reader::new(&unfinished).unwrap(), &mut repaired, &|_| None).unwrap();
    assert_eq!((told.left_out, told.notes.len()), (0, 2));
    let repaired = repaired.into_inner();
    let reader = Reader::new(&repaired).unwrap();
    assert!(reader.info().notes.is_empty(), "{:?}", reader.info().notes);
    assert_eq!(samples(reader), left);
}

#[test]
fn a_file_becomes_a_pipe_and_a_file_again() {
    for endian in [Endian::Little, Endian::Big] {
        let file = file(endian, &body(endian));
        let mut pipe = Vec::new();
        rewrite::pipe(Reader::new(&file).unwrap(), &mut pipe, &|_| None).unwrap();
        assert_eq!(samples(Reader::pipe(&pipe[..]).unwrap()), expected());
        let mut again = Cursor::new(Vec::new());
        rewrite::file(Reader::pipe(&pipe[..]).unwrap(), &mut again, &|_| None).unwrap();
        assert_eq!(samples(Reader::new(again.get_ref()).unwrap()), expected());
    }
}

/// perf ends on what the kernel marks so; every other record stays as it is.
#[test]
fn a_mark_of_a_build_id_without_one_is_mended() {
    let id = |maj| records::MapId::Inode { maj, min: 0, ino: 4711, generation: 0 };
    let build_id = records::MapId::BuildId { size: 20, id: [7; 20] };
    for endian in [Endian::Little, Endian::Big] {
        let mut all = Vec::new();
        for id in [id(254), id(8), build_id] {
            let map = records::Mmap { pid: 1, tid: 1, addr: 0, len: 4096, pgoff: 0, file: b"/usr/bin/dash" };
            let map = records::Mmap2 { map, id, prot: 5, flags: 2 };
            records::put(kind::MMAP2, records::misc::MMAP_BUILD_ID | 2, endian, &mut all, |out| {
                map.write(endian, out);
                [10 << 32 | 11, 1000, 0, 1].into_iter().for_each(|word| endian.put_u64(out, word));
            });
        }
        all.extend(body(endian));
        let mut mended = Cursor::new(Vec::new());
        let told = rewrite::file(Reader::new(&file(endian, &all)).unwrap(), &mut mended, &|_| None).unwrap();
        assert_eq!((told.mended, told.left_out), (2, 0));
        let mut reader = Reader::new(mended.get_ref()).unwrap();
        let mut seen = Vec::new();
        while let Some(next) = reader.next_record().unwrap() {
            if let Some(map) = records::Mmap2::parse(next.record.misc, next.record.body, endian)
                .filter(|_| next.record.kind == kind::MMAP2)
            {
                seen.push((next.record.misc, map.id));
            }
        }
        assert_eq!(seen, [(2, id(254)), (2, id(8)), (records::misc::MMAP_BUILD_ID | 2, build_id)]);
    }
}

#[test]
fn little_memory_costs_order_and_says_so() {
    let file = file(Endian::Little, &body(Endian::Little));
    let mut sorted = Sorted::new(Reader::new(&file).unwrap(), Limits { bytes: 64 });
    let mut count = 0;
    while let Some(next) = sorted.next_record().unwrap() {
        count += usize::from(next.record.kind == kind::SAMPLE);
    }
    assert_eq!(count, 20);
    assert!(sorted.early() > 0 && sorted.late() > 0);
}

/// Reads all of it in every way; nothing but ending is asked of it.
fn read(bytes: &[u8]) {
    let look = |record: &Record<'_>, attr: Option<Attr>| {
        std::hint::black_box(Body::parse(record, attr.as_ref()));
        if let Some(attr) = attr {
            std::hint::black_box(Sample::parse(&attr, record.body, record.endian));
        }
    };
    if let Ok(reader) = Reader::new(bytes) {
        let mut sorted = Sorted::new(reader, Limits::default());
        while let Some(next) = sorted.next_record().unwrap() {
            let attr = next.info.events.of(&next.record).map(|i| next.info.events.all()[i].attr);
            look(&next.record, attr);
        }
    }
    if let Ok(mut reader) = Reader::pipe(bytes) {
        while reader.next_record().unwrap().is_some() {}
    }
}

/// The same, and what it held at most was justified by how large the input is: all that a compressed one unpacks to may
/// have to wait for its turn. What does not depend on it are the buffers of a pipe and of unpacking.
fn read_within(bytes: &[u8]) -> u64 {
    let held = allocation_counter::measure(|| read(bytes)).bytes_max;
    let bound = (2 << 20) + 64 * bytes.len() as u64;
    assert!(held <= bound, "{held} bytes for an input of {}", bytes.len());
    held
}

#[test]
fn every_prefix_and_bytes_turned_over() {
    let begin = Instant::now();
    let mut packed = Vec::new();
    Compressor::new(Endian::Little, 3).unwrap().write(&body(Endian::Little), &mut packed).unwrap();
    let mut inputs = vec![
        file(Endian::Little, &body(Endian::Little)),
        file(Endian::Big, &body(Endian::Big)),
        file(Endian::Little, &packed),
        pipe(Endian::Little, &packed),
        pipe(Endian::Big, &body(Endian::Big)),
    ];
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/perf");
    for entry in std::fs::read_dir(recordings).into_iter().flatten().flatten() {
        let small = entry.metadata().is_ok_and(|meta| meta.is_file() && (1..8 << 10).contains(&meta.len()));
        let small = small && entry.path().extension().is_some_and(|end| end == "data");
        inputs.extend(small.then(|| std::fs::read(entry.path()).unwrap()));
    }
    let break_it = |(index, input): (usize, &Vec<u8>)| {
        let mut dice = 0x9e37_79b9_7f4a_7c15u64 + index as u64;
        let mut roll = |below: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice as usize % below.max(1)
        };
        let mut most = (0..input.len()).map(|end| read_within(&input[..end])).max().unwrap_or(0);
        for _ in 0..10_000 {
            let mut broken = input.clone();
            for _ in 0..1 + roll(4) {
                let at = roll(broken.len());
                broken[at] ^= 1 << roll(8);
            }
            most = most.max(read_within(&broken));
        }
        println!("{} bytes: at most {most} held", input.len());
    };
    std::thread::scope(|scope| {
        for half in [0, 1] {
            let inputs = &inputs;
            scope.spawn(move || inputs.iter().enumerate().skip(half).step_by(2).for_each(break_it));
        }
    });
    assert!(begin.elapsed().as_secs() < 300, "{:?}", begin.elapsed());
}

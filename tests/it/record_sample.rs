//! Samples by `sample_type`, LOST, LOST_SAMPLES and the `sample_id_all` trailer.

use tracer::record::{Body, Header, Record, SampleFormat, kind, sample_type::*};

fn record(kind: u32, body: &[u8]) -> Record<'_> {
    Record { header: Header { kind, misc: 0, size: 8 + body.len() as u16 }, body: Body::new(body) }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn two(low: u32, high: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&low.to_ne_bytes());
    bytes[4..].copy_from_slice(&high.to_ne_bytes());
    bytes
}

const FIELDS: [u64; 9] = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];

/// Every combination of the eleven fields, in the kernel's order, wrapped at every eight bytes.
#[test]
fn every_combination_reads_each_field_where_it_is() {
    for combination in 0..1_u64 << 11 {
        let has = |i: usize| combination >> i & 1 == 1;
        let mut sample_type = 0;
        let mut body = Vec::new();
        for (i, field) in FIELDS.into_iter().enumerate().filter(|&(i, _)| has(i)) {
            sample_type |= field;
            body.extend(if field == TID { two(77, 78) } else { (100 + i as u64).to_ne_bytes() });
        }
        if has(9) {
            sample_type |= CALLCHAIN;
            body.extend(words(&[3, 0xa, 0xb, 0xc]));
        }
        if has(10) {
            sample_type |= RAW;
            body.extend(12_u32.to_ne_bytes());
            body.extend(b"twelve bytes");
        }
        let format = SampleFormat { sample_type, sample_id_all: true };
        for edge in (0..=body.len()).step_by(8) {
            let (first, second) = body.split_at(edge);
            let wrapped = Record { body: Body::wrapped(first, second), ..record(kind::SAMPLE, &body) };
            let sample = format.sample(&wrapped).expect("a good sample");
            let expect = |i: usize| has(i).then_some(100 + i as u64);
            assert_eq!(sample.id(), expect(0).or(expect(5)));
            assert_eq!(sample.ip(), expect(1));
            assert_eq!(sample.tgid(), has(2).then_some(77));
            assert_eq!(sample.pid(), has(2).then_some(78));
            assert_eq!(sample.time(), expect(3));
            assert_eq!(sample.addr(), expect(4));
            assert_eq!(sample.stream_id(), expect(6));
            assert_eq!(sample.cpu().map(u64::from), expect(7));
            assert_eq!(sample.period(), expect(8));
            assert_eq!(sample.callchain().map(|c| c.collect()), has(9).then(|| vec![0xa, 0xb, 0xc]));
            let raw = sample.raw().map(|raw| raw.to_contiguous().into_owned());
            assert_eq!(raw, has(10).then(|| b"twelve bytes".to_vec()));
        }
        // Cut anywhere, it is no sample and no panic.
        for len in 0..body.len() {
            assert!(
                format.sample(&record(kind::SAMPLE, &body[..len])).is_none(),
                "{sample_type:#x} cut to {len}"
            );
        }
    }
}

#[test]
fn sizes_that_lie_are_no_sample() {
    let mut body = u32::MAX.to_ne_bytes().to_vec();
    body.extend([0; 12]);
    assert!(SampleFormat::RAW.sample(&record(kind::SAMPLE, &body)).is_none());
    // Smaller than the record: no kernel writes that where nothing follows the raw bytes.
    body[..4].copy_from_slice(&4_u32.to_ne_bytes());
    assert!(SampleFormat::RAW.sample(&record(kind::SAMPLE, &body)).is_none());
    // Where something may follow them, it is good.
    let branches = SampleFormat { sample_type: RAW | 1 << 11, sample_id_all: false };
    assert!(branches.sample(&record(kind::SAMPLE, &body)).is_some());
    let chain = SampleFormat { sample_type: CALLCHAIN, sample_id_all: false };
    for n in [1, 2, u64::MAX, u64::MAX / 8, 1 << 61] {
        assert!(chain.sample(&record(kind::SAMPLE, &words(&[n]))).is_none());
    }
    assert!(chain.sample(&record(kind::SAMPLE, &words(&[0]))).is_some());
}

#[test]
fn read_is_not_supported_and_other_kinds_are_no_samples() {
    let format = SampleFormat { sample_type: RAW | READ, sample_id_all: false };
    assert!(format.sample(&record(kind::SAMPLE, &[0; 64])).is_none());
    let mut body = 4_u32.to_ne_bytes().to_vec();
    body.extend([0; 4]);
    assert!(SampleFormat::RAW.sample(&record(kind::LOST, &body)).is_none());
    assert!(SampleFormat::RAW.sample(&record(kind::SAMPLE, &body)).is_some());
}

#[test]
fn lost_with_and_without_a_trailer() {
    let bare = record(kind::LOST, &[0; 0]);
    assert!(SampleFormat::RAW.lost(&bare).is_none());
    let body = words(&[5, 18]);
    let lost = SampleFormat::RAW.lost(&record(kind::LOST, &body)).unwrap();
    assert_eq!((lost.id, lost.lost, lost.sample_id), (5, 18, None));
    assert_eq!(SampleFormat::RAW.lost_size(), 24);

    let format = SampleFormat { sample_type: TID | TIME | CPU | RAW, sample_id_all: true };
    assert_eq!(format.lost_size(), 48);
    assert!(format.lost(&record(kind::LOST, &body)).is_none(), "the trailer is missing");
    let mut body = body;
    body.extend(two(7, 8));
    body.extend(words(&[123]));
    body.extend(two(1, 0));
    let lost = format.lost(&record(kind::LOST, &body)).unwrap();
    let id = lost.sample_id.unwrap();
    assert_eq!((id.tgid, id.pid, id.time, id.cpu, id.id), (Some(7), Some(8), Some(123), Some(1), None));
    assert_eq!(format.sample_id(&record(kind::COMM, &body)), Some(id));
    assert_eq!(format.lost_samples(&record(kind::LOST_SAMPLES, &body[8..])).unwrap().lost, 18);
}

#[test]
fn sample_sizes_are_the_kernels() {
    // raw.size = roundup8(n + 4) - 4
    for (n, size) in [(0, 16), (1, 16), (4, 16), (5, 24), (12, 24), (13, 32), (20, 32)] {
        assert_eq!(SampleFormat::RAW.sample_size(n), size);
    }
    let timed = SampleFormat { sample_type: RAW | TIME | CPU, sample_id_all: true };
    assert_eq!(timed.sample_size(4), 32);
    assert!(timed.sample_size(usize::MAX) > 1 << 30);
}

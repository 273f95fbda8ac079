//! The hexadecimal and raw forms: golden dumps, frames read back, and a reader that any bytes end.

use tracer::{
    event::Event,
    record::Body,
    sink::{
        Encode,
        hex::Hex,
        raw::{Broken, Data, Raw, frames},
    },
};

use crate::sink_fixture::{WRITE, gap, golden, raw, stream};

#[test]
fn golden_hex() {
    golden("stream.hex", &stream(&mut Hex::new(false)));
}

#[test]
fn a_wrapped_event_dumps_as_a_whole_one() {
    let bytes = raw(5, 0, b"dd");
    let dump = |body| {
        let mut out = Vec::new();
        let event = Event::decode(0, Some(1), body, |_| Some(&*WRITE)).unwrap();
        Hex::new(false).event(&event, &mut out);
        Raw::new().event(&event, &mut out);
        out
    };
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(dump(Body::wrapped(first, second)), dump(Body::new(&bytes)), "wrapped at {at}");
    }
}

#[test]
fn frames_read_back() {
    let out = stream(&mut Raw::new());
    assert_eq!(&out[..12], b"tracer\0r\x01\0\0\0");
    let read: Vec<_> = frames(&out).collect::<Result<_, _>>().unwrap();
    let Data::Json(header) = read[0] else { panic!("{:?}", read[0]) };
    assert_eq!(serde_json::from_slice::<serde_json::Value>(header).unwrap()["type"], "header");
    let bytes = raw(5, 0, b"dd");
    assert_eq!(read[1], Data::Event { cpu: 1, time: Some(2_083_123_456_789), raw: &bytes });
    assert!(read.contains(&Data::Gap(gap())));
    assert!(read.contains(&Data::Gap(tracer::event::Gap {
        count: None,
        seq: None,
        after: None,
        before: None,
        ..gap()
    })));
    let Some(Data::Json(footer)) = read.last() else { panic!("no footer") };
    assert_eq!(serde_json::from_slice::<serde_json::Value>(footer).unwrap()["type"], "footer");
    // One file after another, as after a reopening.
    let twice = [&out[..], &out[..]].concat();
    assert_eq!(frames(&twice).count(), 2 * read.len());
}

#[test]
fn a_file_cut_off_anywhere_is_told_where() {
    let out = stream(&mut Raw::new());
    let whole = frames(&out).count();
    for cut in 0..out.len() {
        let mut good = 0;
        for frame in frames(&out[..cut]) {
            match frame {
                Ok(_) => good += 1,
                Err(Broken { at }) => assert!(at <= cut),
            }
        }
        assert!(good < whole);
    }
}

#[test]
fn damaged_frames_end_the_reading() {
    let out = stream(&mut Raw::new());
    let whole = frames(&out).count();
    for at in 0..out.len() {
        for value in [0, 1, 7, 0x80, 0xff] {
            let mut bad = out.clone();
            bad[at] = value;
            assert!(frames(&bad).count() <= whole + 1);
        }
    }
}

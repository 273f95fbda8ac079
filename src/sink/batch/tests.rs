//! What is put into batches comes out again, in order, and their memory goes round.

use std::{collections::BTreeSet, sync::LazyLock};

use super::*;
use crate::{
    event::Cause,
    record::Body,
    schema::{Field, Kind},
    sink::{Clock, Header, Probe},
};

static SCHEMAS: LazyLock<[Schema; 2]> = LazyLock::new(|| {
    let field = Field::new("n", "u64", Kind::Unsigned(8), 0);
    ["first", "second"].map(|name| Schema {
        name: name.into(),
        spec: name.into(),
        fields: vec![field.clone()],
    })
});

fn filled(most: usize, keep: usize, missed: Option<Missed>) -> Fill {
    let mut fill = Fill::new(most, keep, missed);
    let probes =
        [0, 1].map(|at| Probe { schema: &SCHEMAS[at], attached: ["kprobe", "fentry"][at], headed: at == 0 });
    let clock = Clock { monotonic: 1, realtime: 2 };
    fill.header(&Header { host: "host", release: "6", boot_id: "id", clock, probes: &probes });
    fill
}

fn put(fill: &mut Fill, cpu: u32, seq: u32, raw: &[u8]) {
    let (first, second) = raw.split_at(raw.len() / 2);
    let wire = Wire::foreign(2, 0, seq, None);
    let schema = &SCHEMAS[1];
    let raw = Body::wrapped(first, second);
    let time = Some(u64::from(100 + seq));
    fill.event(&Event { cpu, time, wire, schema, raw, late: seq == 2 }).unwrap();
}

fn gap(cpu: u32, count: u64) -> Gap {
    Gap { cpu, count: Some(count), cause: Cause::Lost, seq: None, level: None, after: None, before: None }
}

/// Events by number, gaps by their count with a minus.
fn told(batch: &Batch) -> Vec<i64> {
    let one = |item| match item {
        Item::Event(event) => Some(i64::from(event.wire.seq)),
        Item::Gap(gap) => gap.count.map(|count| -(count as i64)),
        _ => None,
    };
    batch.iter().filter_map(one).collect()
}

#[test]
fn what_was_put_in_comes_out_in_order() {
    let mut fill = filled(1 << 16, 1, None);
    fill.note(&Note::Probe("attached"));
    fill.gap(&gap(0, 7));
    put(&mut fill, 0, 1, &1u64.to_ne_bytes());
    put(&mut fill, 3, 2, &[9; 20]);
    fill.gap(&gap(3, 8));
    fill.note(&Note::Error("oh"));
    let batch = fill.take();
    assert_eq!(told(&batch), [-7, 1, 2, -8]);
    let texts: Vec<&str> = (batch.iter())
        .filter_map(|item| match item.note()? {
            Note::Error(text) | Note::Probe(text) => Some(text),
            Note::Stats(_) => None,
        })
        .collect();
    assert_eq!(texts, ["attached", "oh"]);
    let events: Vec<Event<'_>> = batch.events().collect();
    assert_eq!(batch.events().len(), 2);
    let first = events[0].fields().next().map(|(field, value)| (field.name.clone(), format!("{value:?}")));
    assert_eq!((events[0].cpu, events[0].time, events[0].late), (0, Some(101), false));
    assert_eq!(first.unwrap().0, "n");
    assert_eq!(events[0].raw.u64_at(0), Some(1));
    assert_eq!((events[1].cpu, events[1].late, &*events[1].schema.name), (3, true, "second"));
    assert_eq!(events[1].raw.contiguous(), Some(&[9; 20][..]), "in one piece now");
    assert!(fill.is_empty() && fill.take().iter().next().is_none());
    let header = batch.start().with(|header| {
        header
            .probes
            .iter()
            .map(|p| (p.schema.name.clone(), p.attached.to_owned(), p.headed))
            .collect::<Vec<_>>()
    });
    assert_eq!(header[1], ("second".into(), "fentry".into(), false));
}

#[test]
fn an_event_of_a_probe_that_the_header_did_not_tell_is_refused() {
    let mut fill = filled(1 << 16, 1, None);
    let schema = &SCHEMAS[0];
    for probe in [0, 3] {
        let wire = Wire::foreign(probe, 0, 1, None);
        let event = Event { cpu: 0, time: None, wire, schema, raw: Body::new(&[0; 8]), late: false };
        assert_eq!(fill.event(&event).unwrap_err().kind(), crate::ErrorKind::Sink);
    }
    assert!(fill.is_empty());
}

#[test]
fn memory_goes_round() {
    let mut fill = filled(1 << 12, 2, None);
    let mut fill_one = |seq| {
        while !fill.is_full() {
            put(&mut fill, 0, seq, &[1; 64]);
        }
        fill.take()
    };
    let address = |batch: &Batch| batch.event(0).unwrap().raw.contiguous().unwrap().as_ptr() as usize;
    drop([fill_one(1), fill_one(2), fill_one(3)]);
    let counts = allocation_counter::measure(|| {
        for seq in 0..50 {
            let batch = fill_one(seq);
            assert!(batch.events().all(|event| event.raw.len() == 64) && batch.len() > 20);
        }
    });
    assert_eq!(counts.count_total, 0);
    let places: BTreeSet<usize> = (0..50).map(|seq| address(&fill_one(seq))).collect();
    assert!(places.len() <= 3, "{places:?}");
}

#[test]
fn the_holes_of_dropped_batches_are_told_by_the_next() {
    let missed = Missed::default();
    let mut fill = filled(1 << 16, 1, Some(missed.clone()));
    let mut batch = |events: &[(u32, u32)], lost: u64| {
        if lost > 0 {
            fill.gap(&gap(0, lost));
        }
        events.iter().for_each(|(cpu, seq)| put(&mut fill, *cpu, *seq, &[0; 8]));
        fill.take()
    };
    let kept = batch(&[(0, 1)], 0);
    assert_eq!(missed.drop_one(|| Some(batch(&[(0, 2), (1, 1), (0, 3)], 5))), 3);
    assert_eq!(missed.drop_one(|| Some(batch(&[(0, 4)], 0))), 1);
    let next = batch(&[(0, 5), (1, 2)], 0);
    assert_eq!(missed.drop_one(|| Some(batch(&[(0, 6)], 0))), 1);
    assert_eq!(missed.drop_one(|| None), 0);
    let last = batch(&[(0, 7)], 0);
    // Taken before, opened after: the holes are none of its.
    assert_eq!(told(&kept), [1]);
    let gaps: Vec<Gap> = next.gaps().collect();
    let seqs: Vec<_> = gaps.iter().map(|gap| (gap.cpu, gap.cause, gap.seq, gap.before)).collect();
    assert_eq!(
        seqs,
        [
            (0, Cause::Lost, None, Some(105)),
            (0, Cause::Dropped, Some((2, 4)), Some(105)),
            (1, Cause::Dropped, Some((1, 1)), Some(102)),
        ]
    );
    assert_eq!(told(&next), [-5, -3, -1, 5, 2]);
    assert_eq!(told(&next), [-5, -3, -1, 5, 2], "it stays so");
    assert_eq!(told(&last), [-1, 7]);
}

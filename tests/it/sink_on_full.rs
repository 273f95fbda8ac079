//! What an output does where it has no room, by the rule it was given.

use std::{
    fs::File,
    io::Read,
    num::NonZeroU32,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use nix::unistd::pipe;
use tracer::{
    ErrorKind,
    sink::{OnFull, Options, Outlet, Sink, StreamSink, json::Json},
};

use crate::sink_fixture::hand;

fn output(fd: &impl AsFd, on_full: OnFull) -> tracer::Result<StreamSink<Json>> {
    let options = Options { buffers: 3, batch: 4096, on_failure: None, transform: None };
    let outlet = Outlet::new("out", fd.as_fd(), options)?;
    StreamSink::new(Json::default(), outlet).with_on_full(on_full, None, Duration::ZERO)
}

/// The lines of events, those of gaps, and how many events these tell of.
fn lines(text: &str) -> (u64, u64, u64) {
    let (mut events, mut gaps, mut dropped) = (0, 0, 0);
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        events += u64::from(line["type"] == "event");
        if line["type"] == "gap" {
            assert_eq!(line["cause"], "dropped");
            gaps += 1;
            dropped += line["count"].as_u64().unwrap();
        }
    }
    (events, gaps, dropped)
}

#[test]
fn block_waits_for_a_slow_reader_and_drops_nothing() {
    let (read, write) = pipe().unwrap();
    let mut sink = output(&write, OnFull::Block).unwrap();
    let reader = thread::spawn(move || {
        let (mut read, mut text, mut part) = (File::from(read), String::new(), [0; 8192]);
        while let Ok(n @ 1..) = read.read(&mut part) {
            text.push_str(std::str::from_utf8(&part[..n]).unwrap());
            thread::sleep(Duration::from_millis(1));
        }
        text
    });
    (0..3000).for_each(|seq| hand(&mut sink, seq % 2, seq).unwrap());
    sink.settle(Duration::from_secs(10)).unwrap();
    assert_eq!((sink.counts().delivered, sink.counts().dropped_queue), (3000, 0));
    assert_eq!(sink.on_full(), Some(OnFull::Block));
    drop((sink, write));
    assert_eq!(lines(&reader.join().unwrap()), (3000, 0, 0));
}

#[test]
fn the_end_of_a_run_ends_the_wait() {
    let (_read, write) = pipe().unwrap();
    let mut sink = output(&write, OnFull::Block).unwrap();
    let start = Instant::now();
    sink.ending(Duration::from_millis(100));
    (0..1000).for_each(|seq| hand(&mut sink, 0, seq).unwrap());
    sink.settle(Duration::from_millis(100)).unwrap();
    assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    let counts = sink.counts();
    assert_eq!(counts.delivered + counts.dropped_queue + counts.dropped_sink, 1000);
    assert!(counts.dropped_queue > 100);
}

#[test]
fn a_sample_of_what_comes_while_a_reader_is_stuck() {
    let (read, write) = pipe().unwrap();
    let mut sink = output(&write, OnFull::Sample(NonZeroU32::new(20).unwrap())).unwrap();
    let mut handed = 0;
    // Behind a full pipe, until there is no more room for a sample either.
    let before_last = loop {
        hand(&mut sink, 0, handed).unwrap();
        handed += 1;
        if handed == 8000 {
            break sink.counts().dropped_queue;
        }
    };
    assert!(before_last > 5000);
    let reader = thread::spawn(move || {
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        text
    });
    sink.settle(Duration::from_secs(10)).unwrap();
    let counts = sink.counts();
    assert_eq!((counts.delivered + counts.dropped_queue, counts.dropped_sink), (8000, 0));
    drop((sink, write));
    let (events, gaps, dropped) = lines(&reader.join().unwrap());
    assert_eq!((events, dropped), (counts.delivered, counts.dropped_queue));
    assert!(gaps >= 3, "between samples: {gaps}");
}

#[test]
fn drop_old_is_refused() {
    let (_read, write) = pipe().unwrap();
    let Err(error) = output(&write, OnFull::DropOld) else { panic!("it was taken") };
    assert_eq!(error.kind(), ErrorKind::Usage);
}

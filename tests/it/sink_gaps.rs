//! Holes that had to wait for room: none is hidden, each stands at its place, and the sums are right.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, poll};
use serde_json::Value;
use tracer::{
    event::{Cause, Gap},
    sink::{Note, Options, Outlet, Sink, StreamSink, json::Json},
};

use crate::sink_fixture::hand;

struct Stuck {
    sink: StreamSink<Json>,
    read: OwnedFd,
    handed: u64,
}

/// A sink whose every buffer stands before a full pipe.
fn stuck() -> Stuck {
    let (read, write) = nix::unistd::pipe().unwrap();
    let options = Options { buffers: 3, batch: 4096, on_failure: None, transform: None };
    let mut sink = StreamSink::new(Json::default(), Outlet::new("out", write.as_fd(), options).unwrap());
    let mut handed = 0;
    // A drop alone may mean that the writer is slow today; one behind a full pipe is for good.
    loop {
        let full = poll(&mut [PollFd::new(write.as_fd(), PollFlags::POLLOUT)], 1u8).unwrap() == 0;
        let dropped = sink.counts().dropped_queue;
        hand(&mut sink, 9, handed).unwrap();
        handed += 1;
        if full && sink.counts().dropped_queue > dropped {
            break;
        }
    }
    Stuck { sink, read, handed: u64::from(handed) }
}

impl Stuck {
    /// Reads on to the end, and returns the lines.
    fn lines(mut self) -> Vec<Value> {
        let mut read = File::from(self.read);
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            read.read_to_string(&mut text).unwrap();
            text
        });
        self.sink.settle(Duration::from_secs(5)).unwrap();
        let c = self.sink.counts();
        assert_eq!(c.delivered + c.dropped_queue, self.handed);
        assert_eq!(c.dropped_sink, 0);
        drop(self.sink);
        let lines: Vec<Value> =
            reader.join().unwrap().lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        let sum = |cause: &str| -> u64 {
            lines.iter().filter(|l| l["cause"] == cause).map(|l| l["count"].as_u64().unwrap()).sum()
        };
        assert_eq!(sum("dropped"), c.dropped_queue, "every drop is told");
        let events = lines.iter().filter(|l| l["type"] == "event").count() as u64;
        assert_eq!(events, c.delivered);
        lines
    }
}

fn lost(cpu: u32, count: u64, first: u32) -> Gap {
    let seq = Some((first, first + count as u32 - 1));
    Gap { cpu, count: Some(count), cause: Cause::Lost, seq, level: None, after: Some(1), before: Some(2) }
}

/// A gap's cause, count and sequence numbers.
type Told<'a> = (&'a str, u64, Option<(u64, u64)>);

fn told(lines: &[Value], cpu: u32) -> Vec<Told<'_>> {
    (lines.iter().filter(|l| l["type"] == "gap" && l["cpu"] == cpu))
        .map(|l| {
            let seq = l["seq"].as_array().map(|s| (s[0].as_u64().unwrap(), s[1].as_u64().unwrap()));
            (l["cause"].as_str().unwrap(), l["count"].as_u64().unwrap(), seq)
        })
        .collect()
}

#[test]
fn holes_of_the_kernel_wait_in_order_among_our_own() {
    let mut s = stuck();
    for seq in [10, 11, 15, 16] {
        if seq == 15 {
            s.sink.gap(&lost(1, 3, 12)).unwrap();
        }
        hand(&mut s.sink, 1, seq).unwrap();
        s.handed += 1;
    }
    s.sink.gap(&lost(2, 1, 7)).unwrap();
    let lines = s.lines();
    assert_eq!(
        told(&lines, 1),
        [("dropped", 2, Some((10, 11))), ("lost", 3, Some((12, 14))), ("dropped", 2, Some((15, 16)))]
    );
    assert_eq!(told(&lines, 2), [("lost", 1, Some((7, 7)))]);
}

#[test]
fn very_many_holes_are_added_up_and_not_kept() {
    let mut s = stuck();
    for i in 0..1000 {
        s.sink.gap(&lost(1, 2, 3 * i)).unwrap();
        hand(&mut s.sink, 1, 3 * i + 2).unwrap();
        s.handed += 1;
    }
    let lines = s.lines();
    let told = told(&lines, 1);
    assert!(told.len() <= 16, "{} lines", told.len());
    let sum = |cause| -> u64 { told.iter().filter(|t| t.0 == cause).map(|t| t.1).sum() };
    assert_eq!((sum("lost"), sum("dropped")), (2000, 1000));
    // Those that were added up have no range: it would claim what lies between.
    assert!(told.iter().any(|t| t.2.is_none()));
}

#[test]
fn notes_wait_too() {
    let mut s = stuck();
    s.sink.note(&Note::Error("something")).unwrap();
    let lines = s.lines();
    assert!(lines.iter().any(|l| l["type"] == "error" && l["message"] == "something"));
}

#[test]
fn a_hole_says_between_which_events_it_lies() {
    let mut s = stuck();
    let mut read = File::from(s.read.try_clone().unwrap());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        text
    });
    // Room comes back, and the next event of that CPU closes the hole.
    while s.sink.counts().delivered + s.sink.counts().dropped_queue < s.handed {
        std::thread::sleep(Duration::from_millis(1));
    }
    hand(&mut s.sink, 9, s.handed as u32).unwrap();
    s.sink.settle(Duration::from_secs(5)).unwrap();
    drop(s.sink);
    let text = reader.join().unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
    let [.., before, gap, after] = &lines[..] else { panic!("{text}") };
    assert_eq!(gap["type"], "gap");
    assert_eq!(gap["seq"][0].as_u64(), before["seq"].as_u64().map(|n| n + 1));
    assert_eq!(gap["seq"][1].as_u64(), Some(s.handed - 1));
    assert_eq!(after["seq"].as_u64(), Some(s.handed));
    assert_eq!((&gap["after"], &gap["before"]), (&before["time"], &after["time"]));
}

//! An outlet's promises: it never holds up its caller, drops are gaps at their place, and its counts are exact.

use std::{
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe,
};
use tracer::{
    ErrorKind,
    sink::{Options, Outlet, Sink, StreamSink, TimeFormat, text},
};

use crate::sink_fixture::{event, hand, raw, report, with_header};

pub type TextSink = StreamSink<text::Text>;

pub fn sink(fd: &impl AsFd, options: Options) -> TextSink {
    let format = text::Options { time: TimeFormat::None, ..text::Options::default() };
    StreamSink::new(text::Text::new(format), Outlet::new("out", fd.as_fd(), options).unwrap())
}

pub fn small() -> Options {
    Options { buffers: 4, batch: 4096, on_failure: None, transform: None }
}

pub fn total(sink: &TextSink) -> u64 {
    let c = sink.counts();
    c.delivered + c.dropped_queue + c.dropped_sink
}

/// Reads all there is until the end of the file, on a thread of its own.
fn reader(fd: OwnedFd) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).unwrap();
        text
    })
}

pub fn nonblocking(fd: &impl AsFd) -> bool {
    OFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFL).unwrap()).contains(OFlag::O_NONBLOCK)
}

/// How many events stand there whole.
pub fn events(text: &str) -> u64 {
    text.split_inclusive('\n').filter(|l| l.ends_with('\n') && !l.starts_with("-- ")).count() as u64
}

#[test]
fn everything_arrives_where_somebody_reads() {
    let (read, write) = pipe().unwrap();
    let reader = reader(read);
    let mut sink = sink(&write, Options::default());
    assert!(!nonblocking(&write), "the flag of a description that others share was changed");
    drop(write);
    with_header(|h| sink.header(h)).unwrap();
    let mut handed = 0;
    while handed < 50_000 {
        hand(&mut sink, 0, handed).unwrap();
        handed += 1;
    }
    sink.flush().unwrap();
    sink.settle(Duration::from_secs(10)).unwrap();
    assert_eq!(total(&sink), 50_000);
    let counts = sink.counts();
    sink.footer(&report()).unwrap();
    assert_eq!(sink.counts(), counts, "the counts were final");
    drop(sink);
    let text = reader.join().unwrap();
    assert_eq!(events(&text), counts.delivered);
    assert!(text.ends_with("balanced: yes --\n"));
}

#[test]
fn a_stuck_pipe_holds_nobody_up_and_every_event_is_counted() {
    let (read, write) = pipe().unwrap();
    let mut sink = sink(&write, Options { buffers: 4, batch: 40_000, on_failure: None, transform: None });
    let start = Instant::now();
    for seq in 0..10_000 {
        hand(&mut sink, seq % 2, seq).unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(2), "handing over waited for the reader");
    assert!(sink.counts().dropped_queue > 5_000);
    let start = Instant::now();
    sink.settle(Duration::from_secs(2)).unwrap();
    sink.footer(&report()).unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_millis(2500), "{took:?}");
    assert_eq!(total(&sink), 10_000);
    let counts = sink.counts();
    assert!(counts.dropped_sink > 0, "batches stood before a full pipe");
    drop((sink, write));
    // What was counted as delivered is what a late reader finds whole.
    let text = reader(read).join().unwrap();
    assert_eq!(events(&text), counts.delivered);
    assert!(!text.ends_with('\n'), "the last write was a part of its batch, and of a line");
}

#[test]
fn a_drop_is_a_gap_before_the_next_event_of_its_cpu() {
    let (read, write) = pipe().unwrap();
    let mut sink = sink(&write, small());
    drop(write);
    let mut seq = 0;
    while sink.counts().dropped_queue < 10 {
        hand(&mut sink, 3, seq).unwrap();
        seq += 1;
    }
    hand(&mut sink, 5, 7_000_000).unwrap();
    let reader = reader(read);
    while sink.counts().delivered + 11 < u64::from(seq) {
        std::thread::sleep(Duration::from_millis(1));
    }
    hand(&mut sink, 3, seq).unwrap();
    // CPU 5 has no more to say: its gap comes with the end.
    sink.settle(Duration::from_secs(5)).unwrap();
    assert_eq!(total(&sink), u64::from(seq) + 2);
    drop(sink);
    let text = reader.join().unwrap();
    let lines: Vec<_> = text.lines().collect();
    let delivered = seq as usize - 10;
    let gap = format!("-- dropped 10 events on cpu 3 (seq {}..{}) --", seq - 10, seq - 1);
    assert_eq!(lines[delivered], gap);
    assert!(lines[delivered + 1].contains("[003]"));
    assert_eq!(lines[delivered + 2], "-- dropped 1 event on cpu 5 (seq 7000000..7000000) --");
    assert_eq!(lines.len(), delivered + 3);
}

#[test]
fn a_quiet_cpu_tells_its_gap_after_two_flushes() {
    let (mut read, write) = pipe().map(|(r, w)| (File::from(r), w)).unwrap();
    let mut sink = sink(&write, small());
    while sink.counts().dropped_queue == 0 {
        hand(&mut sink, 0, 0).unwrap();
    }
    let mut text = String::new();
    let mut buffer = vec![0; 1 << 16];
    let end = Instant::now() + Duration::from_secs(5);
    while !text.contains("-- dropped 1 event on cpu 0") {
        assert!(Instant::now() < end, "no gap came");
        let n = read.read(&mut buffer).unwrap();
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
        std::thread::sleep(Duration::from_millis(5));
        sink.flush().unwrap();
        sink.flush().unwrap();
        sink.flush().unwrap();
    }
}

#[test]
fn counts_are_exact_through_partial_writes() {
    // Pages of a pipe are taken in parts; the reader takes odd amounts and goes away in the middle of a line.
    for taken in [1, 4095, 70_001, 150_000] {
        let (read, write) = pipe().unwrap();
        let mut sink = sink(&write, small());
        drop(write);
        let mut read = File::from(read);
        let mut got = Vec::new();
        let mut handed = 0u64;
        while got.len() < taken {
            for seq in 0..50 {
                if hand(&mut sink, 0, seq).is_ok() {
                    handed += 1;
                }
            }
            sink.flush().unwrap();
            let mut part = vec![0; 777.min(taken - got.len())];
            let n = read.read(&mut part).unwrap();
            got.extend_from_slice(&part[..n]);
        }
        sink.settle(Duration::from_millis(50)).unwrap();
        assert_eq!(total(&sink), handed);
        let counts = sink.counts();
        drop(sink);
        read.read_to_end(&mut got).unwrap();
        assert_eq!(events(std::str::from_utf8(&got).unwrap()), counts.delivered, "{taken} bytes taken");
    }
}

#[test]
fn a_closed_pipe_is_found_by_a_write() {
    let (read, write) = pipe().unwrap();
    let mut sink = sink(&write, small());
    drop((read, write));
    let mut handed = 0;
    let end = Instant::now() + Duration::from_secs(5);
    let error = loop {
        assert!(Instant::now() < end);
        handed += 1;
        if let Err(e) = hand(&mut sink, 0, 0).and_then(|()| sink.flush()) {
            break e;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(sink.settle(Duration::from_secs(2)).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(total(&sink), handed);
    assert_eq!(sink.counts().delivered, 0);
}

#[test]
fn a_closed_pipe_wakes_its_owner_while_nothing_is_written() {
    let (read, write) = pipe().unwrap();
    let (tell, told) = mpsc::channel();
    let on_failure: Box<dyn Fn() + Send + Sync> = Box::new(move || tell.send(()).unwrap());
    let mut sink = sink(&write, Options { on_failure: Some(on_failure), ..Options::default() });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
    sink.flush().unwrap();
    drop(read);
    told.recv_timeout(Duration::from_secs(2)).expect("nobody was told");
    assert_eq!(sink.flush().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_full_disk_is_an_error_with_its_cause_and_a_way_out() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut sink = sink(&full, small());
    for seq in 0..10 {
        hand(&mut sink, 0, seq).unwrap();
    }
    let error = sink.settle(Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sink);
    assert_eq!(error.to_string(), "out: cannot write: No space left on device (os error 28)");
    assert!(error.help().unwrap().contains("-o"));
    assert_eq!(sink.counts().dropped_sink, 10);
    assert_eq!(total(&sink), 10);
    assert_eq!(sink.footer(&report()).unwrap_err().kind(), ErrorKind::Sink);
}

#[test]
fn a_stuck_socket_keeps_the_bound_and_its_flags() {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let mut sink = sink(&ours, small());
    for seq in 0..20_000 {
        hand(&mut sink, 0, seq).unwrap();
    }
    let start = Instant::now();
    sink.settle(Duration::from_millis(200)).unwrap();
    assert!(start.elapsed() < Duration::from_millis(600));
    assert!(!nonblocking(&ours));
    assert_eq!(total(&sink), 20_000);
    let counts = sink.counts();
    drop((sink, ours));
    let text = reader(theirs.into()).join().unwrap();
    assert_eq!(events(&text), counts.delivered);
}

#[test]
fn a_file_is_emptied_then_appended_to_after_a_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("out"), dir.path().join("out.1"));
    std::fs::write(&path, "left from before\n").unwrap();
    let mut sink =
        StreamSink::new(text::Text::new(text::Options::default()), Outlet::create(&path, small()).unwrap());
    hand(&mut sink, 0, 1).unwrap();
    std::fs::rename(&path, &old).unwrap();
    sink.reopen(&path).unwrap();
    hand(&mut sink, 0, 2).unwrap();
    sink.reopen(&path).unwrap();
    hand(&mut sink, 0, 3).unwrap();
    assert!(sink.reopen(Path::new("/nonexistent/x")).unwrap_err().to_string().contains("/nonexistent/x"));
    sink.settle(Duration::from_secs(2)).unwrap();
    assert_eq!(sink.counts().delivered, 3);
    let lines = |p: &Path| std::fs::read_to_string(p).unwrap().lines().count();
    assert_eq!((lines(&old), lines(&path)), (1, 2));
}

#[test]
fn descriptors_and_threads_are_given_back() {
    let here = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let cycle = || {
        let (read, write) = pipe().unwrap();
        let mut sink = sink(&write, small());
        hand(&mut sink, 0, 0).unwrap();
        sink.settle(Duration::from_secs(1)).unwrap();
        drop(read);
        sink.counts().delivered
    };
    let first = cycle();
    let before = here("fd");
    for _ in 0..200 {
        assert_eq!(cycle(), first);
    }
    // Other tests run beside this one; 200 leaks would show.
    assert!(here("fd") < before + 150, "{} descriptors after {before}", here("fd"));
    assert!(here("task") < 150);
}

#[test]
fn an_event_larger_than_a_batch_arrives_whole() {
    let (read, write) = pipe().unwrap();
    let reader = reader(read);
    let mut sink = sink(&write, Options { batch: 1024, ..small() });
    drop(write);
    for _ in 0..3 {
        let raw = raw(1, 0, &[0xff; 16]);
        sink.event(&event(0, 1, &raw)).unwrap();
    }
    sink.settle(Duration::from_secs(2)).unwrap();
    assert_eq!(sink.counts().delivered, 3);
    drop(sink);
    assert_eq!(reader.join().unwrap().lines().count(), 3);
}

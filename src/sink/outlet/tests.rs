//! What can only be shown with an output that is taken for another: a held write, a terminal, no `/proc`.

use std::{io::Read, os::unix::net::UnixDatagram};

use super::*;

fn append(outlet: &mut Outlet, bytes: &[u8]) {
    outlet.room().unwrap().extend_from_slice(bytes);
    outlet.event_ends().unwrap();
}

fn soon(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

#[test]
fn a_writer_held_in_a_write_is_left_behind_with_its_books_closed() {
    let (mut read, write) = std::io::pipe().unwrap();
    let target = Target::plain(write.as_fd()).unwrap();
    let mut outlet = Outlet::start("held", target, Options { buffers: 2, ..Options::default() }).unwrap();
    // The second event goes past what a pipe takes: its write is held for as long as nobody reads.
    for _ in 0..2 {
        append(&mut outlet, &[b'x'; 60 << 10]);
        outlet.hand_over().unwrap();
    }
    let start = Instant::now();
    outlet.settle(soon(100)).unwrap();
    assert!(start.elapsed() < Duration::from_millis(600));
    let counts = Counts { delivered: 1, dropped_sink: 1, ..Counts::default() };
    assert_eq!(outlet.counts(), counts);
    // It is let go, finds its books closed, and changes nothing.
    drop(write);
    read.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(outlet.counts(), counts);
}

#[test]
fn a_terminal_gets_one_line_a_write() {
    // One write to a datagram socket is one datagram.
    let (theirs, ours) = UnixDatagram::pair().unwrap();
    let target = Target::terminal(ours.as_fd()).unwrap();
    let mut outlet = Outlet::start("tty", target, Options::default()).unwrap();
    append(&mut outlet, b"one\n");
    append(&mut outlet, b"two\nlines\n");
    outlet.flush().unwrap();
    let mut buffer = [0; 64];
    for line in ["one\n", "two\n", "lines\n"] {
        let n = theirs.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], line.as_bytes());
    }
    outlet.settle(soon(1000)).unwrap();
    assert_eq!(outlet.counts().delivered, 2);
}

#[test]
fn polling_alone_keeps_a_stuck_pipe_from_holding_the_writer() {
    let (mut read, write) = std::io::pipe().unwrap();
    let target = Target::polled(write.as_fd()).unwrap();
    let mut outlet = Outlet::start("polled", target, Options { buffers: 4, ..Options::default() }).unwrap();
    drop(write);
    for _ in 0..3 {
        append(&mut outlet, &[b'x'; 60_000]);
        outlet.hand_over().unwrap();
    }
    outlet.settle(soon(50)).unwrap();
    assert!(outlet.thread.is_none() && outlet.shared.lock().done, "it was not held");
    let counts = outlet.counts();
    assert_eq!(counts.delivered + counts.dropped_sink, 3);
    drop(outlet);
    let mut got = Vec::new();
    read.read_to_end(&mut got).unwrap();
    assert_eq!(got.len() as u64 / 60_000, counts.delivered);
}

//! Terminals as outputs: read, stopped, or the other side's.

use std::{
    fs::File,
    io::Read,
    time::{Duration, Instant},
};

use nix::pty::openpty;
use tracer::sink::Sink;

use crate::{
    sink_fixture::hand,
    sink_outlet::{events, nonblocking, sink, small, total},
};

#[test]
fn a_terminal_that_nobody_reads_holds_nobody() {
    let pty = openpty(None, None).unwrap();
    let mut sink = sink(&pty.slave, small());
    let mut master = File::from(pty.master);
    for seq in 0..3 {
        hand(&mut sink, 0, seq).unwrap();
    }
    sink.flush().unwrap();
    let mut text = Vec::new();
    while text.iter().filter(|b| **b == b'\n').count() < 3 {
        let mut part = [0; 4096];
        let n = master.read(&mut part).unwrap();
        text.extend_from_slice(&part[..n]);
    }
    assert!(!nonblocking(&pty.slave));
    // Nobody reads from here on.
    for seq in 0..20_000 {
        hand(&mut sink, 0, seq).unwrap();
    }
    let start = Instant::now();
    sink.settle(Duration::from_millis(200)).unwrap();
    assert!(start.elapsed() < Duration::from_millis(600));
    assert_eq!(total(&sink), 20_003);
    assert!(sink.counts().delivered < 20_003);
}

#[test]
fn the_master_of_a_pseudo_terminal_is_not_opened_again() {
    // Opened again it would be the master of another pair, and everything would go nowhere.
    let pty = openpty(None, None).unwrap();
    let mut sink = sink(&pty.master, small());
    hand(&mut sink, 0, 0).unwrap();
    sink.settle(Duration::from_secs(2)).unwrap();
    let mut line = [0; 4096];
    let n = File::from(pty.slave).read(&mut line).unwrap();
    assert_eq!(events(std::str::from_utf8(&line[..n]).unwrap()), 1);
}

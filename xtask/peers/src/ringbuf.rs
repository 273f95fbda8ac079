//! The alternative to rings: a BPF ringbuf, read by libbpf.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::rc::Rc;
use tracer::probe::bench::RingbufReader;

struct Ringbuf<'a> {
    reader: RingbufReader<'a>,
    seen: Rc<Seen>,
    ring_size: usize,
}

/// Opens it.
pub fn open<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let seen = Rc::clone(&stage.seen);
    let reader = stage.bench.ringbuf(move |raw| seen.bytes(raw))?;
    Ok(Box::new(Ringbuf { reader, seen: Rc::clone(&stage.seen), ring_size: stage.pages * 4096 }))
}

impl Reader for Ringbuf<'_> {
    fn turn(&mut self) -> Result<()> {
        self.seen.waited();
        poll(&mut [PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)], PollTimeout::from(100u16))?;
        self.reader.drain();
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        self.reader.drain();
        Ok(())
    }
    fn ring_size(&self) -> usize {
        self.ring_size
    }
}

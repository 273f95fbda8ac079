//! aya's perf buffers, on a map that another loader made: a wake-up for each record, and the waiting left to the user.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::Result;
use aya::maps::perf::{PerfEvent, PerfEventArrayBuffer};
use aya::maps::{Map, MapData, PerfEventArray};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::rc::Rc;

struct Buffers {
    buffers: Vec<PerfEventArrayBuffer<MapData>>,
    seen: Rc<Seen>,
    ring_size: usize,
}

/// Opens one a CPU.
pub fn open<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let map = Map::PerfEventArray(MapData::from_fd(stage.array()?.as_fd().try_clone_to_owned()?)?);
    let mut array: PerfEventArray<MapData> = map.try_into()?;
    let cpus = aya::util::online_cpus().map_err(|(what, error)| anyhow::anyhow!("{what}: {error}"))?;
    let buffers = cpus.into_iter().map(|cpu| array.open(cpu, Some(stage.pages))).collect::<Result<_, _>>()?;
    Ok(Box::new(Buffers { buffers, seen: Rc::clone(&stage.seen), ring_size: stage.pages * 4096 }))
}

impl Reader for Buffers {
    fn turn(&mut self) -> Result<()> {
        self.seen.waited();
        let mut fds: Vec<_> =
            self.buffers.iter().map(|b| PollFd::new(b.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(100u16))?;
        drop(fds);
        self.all()
    }

    fn all(&mut self) -> Result<()> {
        let seen = &*self.seen;
        for buffer in &mut self.buffers {
            buffer.for_each(|event| match event {
                PerfEvent::Sample { head, tail: [] } => seen.bytes(head),
                PerfEvent::Sample { head, tail } => seen.bytes(&[head, tail].concat()),
                PerfEvent::Lost { count } => seen.told(count),
            });
        }
        Ok(())
    }
    fn ring_size(&self) -> usize {
        self.ring_size
    }
}

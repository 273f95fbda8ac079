//! libbpf's perf_buffer as libbpf-rs offers it: a wake-up for each record.

use crate::peer::Reader;
use crate::round::Stage;
use crate::seen::Seen;
use anyhow::Result;
use libbpf_rs::{MapHandle, PerfBuffer, PerfBufferBuilder};
use std::rc::Rc;
use std::time::Duration;

struct Buffer {
    buffer: PerfBuffer<'static>,
    seen: Rc<Seen>,
    ring_size: usize,
    /// The slots of the array go with it.
    _array: MapHandle,
}

/// Opens it.
pub fn open<'a>(stage: &Stage<'a>) -> Result<Box<dyn Reader + 'a>> {
    let array = stage.array()?;
    let (samples, losses) = (Rc::clone(&stage.seen), Rc::clone(&stage.seen));
    let buffer = PerfBufferBuilder::new(&array)
        .pages(stage.pages)
        .sample_cb(move |_, raw: &[u8]| samples.bytes(raw))
        .lost_cb(move |_, lost| losses.told(lost))
        .build()?;
    Ok(Box::new(Buffer {
        buffer,
        seen: Rc::clone(&stage.seen),
        ring_size: stage.pages * 4096,
        _array: array,
    }))
}

impl Reader for Buffer {
    fn turn(&mut self) -> Result<()> {
        self.seen.waited();
        Ok(self.buffer.poll(Duration::from_millis(100))?)
    }

    fn all(&mut self) -> Result<()> {
        Ok(self.buffer.consume()?)
    }
    fn ring_size(&self) -> usize {
        self.ring_size
    }
}

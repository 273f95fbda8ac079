//! libbpf's perf_buffer as libbpf-rs offers it: a wake-up for each record.

use crate::round::{Seen, Stage};
use anyhow::Result;
use std::cell::RefCell;
use std::time::Duration;

/// One round, with rings of so many pages.
pub fn run(stage: &mut Stage<'_>, pages: usize) -> Result<Seen> {
    let array = stage.array()?;
    let seen = RefCell::new(Seen::default());
    let buffer = libbpf_rs::PerfBufferBuilder::new(&array)
        .pages(pages)
        .sample_cb(|_, raw: &[u8]| {
            let cookie = raw.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
            seen.borrow_mut().sample(raw.len(), cookie);
        })
        .lost_cb(|_, lost| seen.borrow_mut().lost += lost)
        .build()?;
    stage.begin()?;
    while !stage.over() {
        seen.borrow_mut().waits += 1;
        buffer.poll(Duration::from_millis(100))?;
    }
    stage.end();
    buffer.consume()?;
    stage.mark()?;
    buffer.consume()?;
    drop(buffer);
    Ok(seen.into_inner())
}

//! perf.data as a sink: a file or a pipe that stock perf reads, each kind of event a tracepoint `tracer:NAME`.
//!
//! ```text
//!   event ─► Recording: head, callchain, raw bytes as the ring holds them ─► StreamSink ─► writer ─► file
//!              │  before it: COMM, MMAP2 of a task that is new; LOST where events are missing        or pipe
//!              └  after a pass that read all rings: FINISHED_ROUND
//! ```
//!
//! * All events have one `sample_type`; `PERF_SAMPLE_CALLCHAIN` is part of it where any has a stack.
//! * Our own events lie in the file as in the ring. Those of users' objects do not begin as a tracepoint's do: they
//!   stand behind a head of 16 bytes, see [`tracefs::text`](crate::schema::tracefs::text).
//! * Events that no CPU is told of (BPF ringbufs) stand on CPU 0; those without a time have that of their reading.
//! * A hole is a LOST record before the next event of its CPU; one of which nobody knows how many are missing says 0.
//! * Side-band records lie in the file as in their ring, but for the id in their trailer. A task of which none has
//!   told gets a COMM (and MMAP2s, where there are stacks of processes) when its first event is met.
//! * Notes and the ledger have no place in the format.
//!
//! A file whose header says that it has no data is one that was not finished: see [`crate::perf_data::write`].

mod files;
mod host;
#[cfg(feature = "probe")]
mod programs;
mod recording;
mod rounds;
mod snapshots;
mod tasks;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(feature = "probe")]
pub use self::programs::{features_of, symbols_of};
pub use self::recording::boot_of;
pub use self::snapshots::{Held, Snapshots};
use self::{files::Files, recording::Recording};
use super::{Counts, Header, Note, OnFull, Outlet, Sink, StreamSink, Transform, outlet};
use crate::{
    Result,
    event::{Event, Gap},
    ledger::Report,
    perf_data::{Endian, Feature, write::Compressor},
    ring::TaskRecord,
};

/// How it is written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// zstd's level, from 1 to 22, where records are to be compressed.
    pub compress: Option<i32>,
    /// How many finished files are kept beside the one in use; all where `None`.
    pub keep: Option<usize>,
    /// What stands in the file's place is a finished one of the same recording, and gets its number.
    pub follows: bool,
    /// What was typed, for the header.
    pub command_line: Vec<Vec<u8>>,
    /// What else the header is to say, such as of our programs.
    pub features: Vec<Feature>,
    /// Where our programs lie, so that their frames have names.
    pub symbols: Vec<Symbol>,
}

/// Where a function of a program lies in the kernel, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
    /// As `/proc/kallsyms` has it.
    pub name: String,
}

/// Batches of 64 KiB that wait for the disk.
const BUFFERS: usize = 256;

/// Writes perf.data.
pub struct PerfData {
    stream: StreamSink<Recording>,
    /// None of a pipe.
    files: Option<Files>,
}

impl PerfData {
    /// Writes to a new file; one that is there is moved to `PATH.old`, as perf does. What is no file (a FIFO, a
    /// device) is written to as a pipe is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`](crate::ErrorKind::Sink) where it cannot be made.
    pub fn create(
        path: &Path,
        options: Options,
        on_failure: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<PerfData> {
        let outlet = PerfData::outlet(&options, on_failure)?;
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let outlet = Outlet::create(path, outlet)?;
            let recording = Recording::new(false, &options);
            return Ok(PerfData { stream: StreamSink::new(recording, outlet), files: None });
        }
        let files = match options.follows {
            true => Files::follow(path, options.keep)?,
            false => Files::create(path, options.keep)?,
        };
        let outlet = Outlet::new(&path.to_string_lossy(), files.file(), outlet)?;
        let recording = Recording::new(true, &options);
        Ok(PerfData { stream: StreamSink::new(recording, outlet), files: Some(files) })
    }

    /// Writes to a pipe: nothing is sought in it. `name` stands for it in errors and in the ledger.
    ///
    /// # Errors
    ///
    /// As [`Outlet::new`].
    pub fn pipe(
        name: &str,
        fd: std::os::fd::BorrowedFd<'_>,
        options: Options,
        on_failure: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<PerfData> {
        let outlet = Outlet::new(name, fd, PerfData::outlet(&options, on_failure)?)?;
        Ok(PerfData { stream: StreamSink::new(Recording::new(false, &options), outlet), files: None })
    }

    fn outlet(options: &Options, on_failure: Option<Box<dyn Fn() + Send + Sync>>) -> Result<outlet::Options> {
        let transform = options.compress.map(|level| Compressing::new(level).map(Box::new)).transpose();
        let transform = transform.map_err(|e| {
            crate::Error::caused(crate::ErrorKind::Usage, "the level of compression", e)
                .with_help("levels are 1 (fastest) to 22")
        })?;
        let transform = transform.map(|t| t as Box<dyn Transform>);
        Ok(outlet::Options { buffers: BUFFERS, on_failure, transform, ..outlet::Options::default() })
    }

    /// Bytes of the file in use that are written.
    pub fn written(&self) -> u64 {
        self.stream.written()
    }

    /// Finishes the file in use, renames it to `PATH.N`, and goes on in a new one. What comes in meanwhile is in one
    /// of the two. Finished files beyond those to be kept are removed, the oldest first. Of a pipe nothing is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`](crate::ErrorKind::Sink) where the new one cannot be made.
    pub fn rotate(&mut self) -> Result<Option<PathBuf>> {
        let Some(files) = &mut self.files else { return Ok(None) };
        let finish = self.stream.encode().finish();
        let (old, name) = files.rotate()?;
        self.stream.switch(files.file(), move || finish.file(old))?;
        Ok(Some(name))
    }
}

impl Sink for PerfData {
    fn name(&self) -> &str {
        self.stream.name()
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.stream.header(header)
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.stream.event(event)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.stream.gap(gap)
    }

    fn task(&mut self, task: &TaskRecord<'_>) -> Result<()> {
        self.stream.task(task)
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.stream.note(note)
    }

    fn caught_up(&mut self) -> Result<()> {
        self.stream.caught_up()
    }

    fn wait_room(&mut self, bound: Duration) -> bool {
        self.stream.wait_room(bound)
    }

    fn on_full(&self) -> Option<OnFull> {
        self.stream.on_full()
    }

    fn ending(&mut self, bound: Duration) {
        self.stream.ending(bound);
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }

    fn settle(&mut self, bound: Duration) -> Result<()> {
        self.stream.settle(bound)
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        let written = self.stream.footer(report);
        let Some(files) = &self.files else { return written };
        let cut = self.stream.counts().dropped_sink > 0;
        let finish = self.stream.encode().finish();
        // Where it failed, what there is gets finished all the same, so that it can be read.
        let finished = files.finish(finish, self.stream.whole(), cut);
        written.and(finished)
    }

    fn counts(&self) -> Counts {
        self.stream.counts()
    }
}

/// Compresses in the writer's thread.
struct Compressing {
    compressor: Compressor,
    /// What the next bytes are compressed into.
    spare: Vec<u8>,
}

impl Compressing {
    fn new(level: i32) -> io::Result<Compressing> {
        if !(1..=22).contains(&level) {
            return Err(io::Error::other(format!("there is no level {level}")));
        }
        Ok(Compressing { compressor: Compressor::new(Endian::NATIVE, level)?, spare: Vec::new() })
    }
}

impl Transform for Compressing {
    fn restart(&mut self) -> io::Result<()> {
        self.compressor.restart()
    }

    fn apply(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.spare.clear();
        self.compressor.write(bytes, &mut self.spare)?;
        std::mem::swap(bytes, &mut self.spare);
        Ok(())
    }
}

//! A recording written anew: a file made of a pipe, a pipe of a file, and a whole file of what was cut or never
//! ended.
//!
//! Records stay as they are and where they are. What was compressed is written unpacked; what perf would end on is
//! mended (the mark of a build id on an MMAP2 that has none) or left out (kinds of records above FINISHED_INIT, AUX data
//! whose bytes are not there), and counted.

use std::io::{self, Seek, Write};

use super::{
    Feature, TracingData, feature, kind,
    read::{Info, Reader, Record},
    records::{Mmap2, misc},
    write::{FileWriter, Opening, PipeWriter},
};
use crate::error::{Error, ErrorKind, Result};

/// The `format` text of a tracepoint by its id, with the name of its system: what a recording does not say itself.
pub type Formats<'a> = &'a dyn Fn(u64) -> Option<(String, String)>;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Records that were written.
    pub written: u64,
    /// Records that perf does not take, and that were left out.
    pub left_out: u64,
    /// MMAP2 records whose `misc` said of their device and inode that they were a build id, and does no longer.
    pub mended: u64,
    /// What was amiss in what was read, in words.
    pub notes: Vec<String>,
    /// The names of the features that had to be made up.
    pub made_up: Vec<&'static str>,
}

/// Writes a file that perf reads.
///
/// # Errors
///
/// What reading a pipe or writing fails with.
pub fn file<W: Write + Seek>(reader: Reader<'_>, to: W, formats: Formats<'_>) -> Result<Told> {
    let mut to = Some(to);
    rewrite(reader, formats, |opening| {
        Ok(To::<W, io::Sink>::File(FileWriter::new(to.take().ok_or_else(again)?, opening)?))
    })
}

/// Writes a pipe that perf reads.
///
/// # Errors
///
/// As of [`file()`].
pub fn pipe<W: Write>(reader: Reader<'_>, to: W, formats: Formats<'_>) -> Result<Told> {
    let mut to = Some(to);
    rewrite(reader, formats, |opening| {
        Ok(To::<NoFile, W>::Pipe(PipeWriter::new(to.take().ok_or_else(again)?, opening)?))
    })
}

fn again() -> io::Error {
    io::Error::other("the output was begun already")
}

/// What a pipe's writer does not have.
type NoFile = io::Cursor<Vec<u8>>;

enum To<F, P> {
    File(FileWriter<F>),
    Pipe(PipeWriter<P>),
}

impl<F: Write + Seek, P: Write> To<F, P> {
    fn write(&mut self, records: &[u8]) -> io::Result<()> {
        match self {
            To::File(file) => file.write(records),
            To::Pipe(pipe) => pipe.write(records),
        }
    }
}

/// How much is written at once.
const BATCH: usize = 1 << 20;

fn rewrite<F: Write + Seek, P: Write>(
    reader: Reader<'_>,
    formats: Formats<'_>,
    open: impl FnMut(&Opening) -> io::Result<To<F, P>>,
) -> Result<Told> {
    Rewrite { told: Told::default(), batch: Vec::with_capacity(BATCH + (1 << 16)), formats, open }.run(reader)
}

struct Rewrite<'a, O> {
    told: Told,
    batch: Vec<u8>,
    formats: Formats<'a>,
    open: O,
}

impl<F: Write + Seek, P: Write, O: FnMut(&Opening) -> io::Result<To<F, P>>> Rewrite<'_, O> {
    fn run(mut self, mut reader: Reader<'_>) -> Result<Told> {
        let fail = |e| Error::caused(ErrorKind::Sink, "writing a recording", e);
        let mut to = None;
        while let Some(next) = reader.next_record()? {
            let mut record = next.record;
            match record.kind {
                // They are in the opening.
                kind::HEADER_ATTR | kind::HEADER_FEATURE | kind::TRACING_DATA => continue,
                // What they hold comes next.
                kind::COMPRESSED | kind::COMPRESSED2 => continue,
                _ if !is_taken(&record) => {
                    self.told.left_out += 1;
                    continue;
                }
                _ => {}
            }
            if record.kind == kind::MMAP2 && record.misc & misc::MMAP_BUILD_ID != 0 {
                let attr = next
                    .info
                    .events
                    .of(&record)
                    .and_then(|index| next.info.events.get(index))
                    .map(|e| e.attr);
                if Mmap2::of(&record, attr.as_ref()).is_some_and(|map| map.misc() == 0) {
                    record.misc &= !misc::MMAP_BUILD_ID;
                    self.told.mended += 1;
                }
            }
            // A pipe says what it has to before the first record that is not about itself.
            if to.is_none() && record.is_kernels() {
                let opening = self.opening(next.info);
                to = Some((self.open)(&opening).map_err(fail)?);
            }
            record.write(&mut self.batch);
            self.told.written += 1;
            if let Some(to) = to.as_mut().filter(|_| self.batch.len() >= BATCH) {
                to.write(&self.batch).map_err(fail)?;
                self.batch.clear();
            }
        }
        let mut to = match to {
            Some(to) => to,
            None => {
                let opening = self.opening(reader.info());
                (self.open)(&opening).map_err(fail)?
            }
        };
        to.write(&self.batch).map_err(fail)?;
        match to {
            To::File(file) => drop(file.finish(&[]).map_err(fail)?),
            To::Pipe(pipe) => pipe.into_inner().flush().map_err(fail)?,
        }
        let notes = &reader.info().notes;
        self.told.notes = notes.all().iter().map(ToString::to_string).collect();
        Ok(self.told)
    }

    /// What is known, and what perf cannot do without.
    fn opening(&mut self, info: &Info) -> Opening {
        let mut features = info.features.clone();
        features.retain(|f| !matches!(f.id(), feature::id::COMPRESSED | feature::id::DIR_FORMAT));
        for (id, name, value) in NEEDED {
            if info.feature(id).is_none() {
                self.told.made_up.push(name);
                features.push(match id {
                    feature::id::NRCPUS => {
                        let available = cpus(info);
                        Feature::Cpus(feature::Cpus { available, online: available })
                    }
                    id => Feature::Text(id, value.into()),
                });
            }
        }
        let tracing = self.tracing(info);
        features.extend(tracing.map(|tracing| Feature::TracingData(Box::new(tracing))));
        let event = |event: &super::read::EventInfo| feature::EventDesc {
            attr: event.attr,
            name: info.name_of(event).into_bytes(),
            ids: event.ids.clone(),
        };
        Opening { endian: info.endian, events: info.events.all().iter().map(event).collect(), features }
    }

    /// The format texts, with those added that perf would look for in vain and end.
    fn tracing(&mut self, info: &Info) -> Option<TracingData> {
        let tracepoints = info.events.all().iter().filter(|e| e.attr.kind == super::Attr::TRACEPOINT);
        let missing: Vec<u64> =
            tracepoints.filter(|e| info.format(&e.attr).is_none()).map(|e| e.attr.config).collect();
        let mut tracing = info.tracing.clone();
        if missing.is_empty() {
            return tracing;
        }
        self.told.made_up.push("TRACING_DATA");
        let all = tracing.get_or_insert_with(|| TracingData::of(info.endian, Vec::new()));
        for id in missing {
            let (system, text) = (self.formats)(id).unwrap_or_else(|| ("unknown".to_owned(), unknown(id)));
            all.systems.push((system.into_bytes(), vec![text.into_bytes()]));
        }
        tracing
    }
}

/// What perf cannot do without: its `--to-json` ends on the first four, a reader of the other byte order takes no
/// feature at all without a host's name.
const NEEDED: [(u32, &str, &str); 6] = [
    (feature::id::HOSTNAME, "HOSTNAME", "unknown"),
    (feature::id::OSRELEASE, "OSRELEASE", "unknown"),
    (feature::id::VERSION, "VERSION", concat!("tracer ", env!("CARGO_PKG_VERSION"))),
    (feature::id::ARCH, "ARCH", "unknown"),
    (feature::id::CPUDESC, "CPUDESC", "unknown"),
    (feature::id::NRCPUS, "NRCPUS", ""),
];

/// How many CPUs there are at least: as many as an event has ids, which has one for each.
fn cpus(info: &Info) -> u32 {
    let most = info.events.all().iter().map(|event| event.ids.len()).max().unwrap_or(1);
    most.clamp(1, 1 << 16) as u32
}

/// A format of which nothing is known but its id. It stands there as a field too: perf shows no common ones alone.
fn unknown(id: u64) -> String {
    format!(
        "name: tracepoint_{id}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:unsigned short id;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         print fmt: \"id=%u\", REC->id\n"
    )
}

/// Whether perf 6.1 takes a record, and all of it is there.
fn is_taken(record: &Record<'_>) -> bool {
    let there = record.kind != kind::AUXTRACE || !record.payload.is_empty();
    kind::name(record.kind).is_some() && record.kind <= kind::FINISHED_INIT && there
}

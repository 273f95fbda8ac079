//! A file for each snapshot of rings in overwrite mode, whole as soon as it is taken.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::{AccessFlags, access};

use super::{Options, PerfData};
use crate::{
    Error, ErrorKind, Result,
    event::{Cause, Event, Gap},
    ledger::Report,
    sink::{Counts, Header, Note, Sink},
};

/// How long a disk may take for what it is given: events wait in memory, and programs write into other rings.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes snapshots, each between [`Snapshots::begin`] and [`Snapshots::end`]. The newest is at `PATH`, those before it
/// at `PATH.1`, `PATH.2` and so on, as files that are rotated.
pub struct Snapshots {
    path: PathBuf,
    name: String,
    options: Options,
    current: Option<PerfData>,
    /// The disk took too long for the one in hand: what is left of it is dropped at once.
    stuck: bool,
    held: Held,
    /// Of those that are ended.
    past: Counts,
}

/// What a snapshot held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Events.
    pub events: u64,
    /// Events that were overwritten since the snapshot before.
    pub overwritten: u64,
    /// The time of the newest event.
    pub last: u64,
    /// Before this time the ring of some CPU was overwritten; none was where 0.
    pub whole_since: u64,
}

impl Snapshots {
    /// Whether files can be made at this path: that is not to be found out when the moment has come.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`] where none can.
    pub fn check(path: &Path) -> Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        access(folder, AccessFlags::W_OK).map_err(|e| {
            Error::caused(ErrorKind::Sink, format!("{}: cannot be opened for writing", path.display()), e)
        })
    }

    /// None yet, and no file.
    pub fn new(path: &Path, options: Options) -> Snapshots {
        Snapshots {
            path: path.to_owned(),
            name: path.to_string_lossy().into_owned(),
            options,
            current: None,
            stuck: false,
            held: Held::default(),
            past: Counts::default(),
        }
    }

    /// Opens the file of the next one. A header is to follow.
    ///
    /// # Errors
    ///
    /// As [`PerfData::create`].
    pub fn begin(&mut self) -> Result<()> {
        self.current = Some(PerfData::create(&self.path, self.options.clone(), None)?);
        self.options.follows = true;
        (self.stuck, self.held) = (false, Held::default());
        Ok(())
    }

    /// Finishes it, and says what is in it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Sink`], where it could not be written or finished.
    pub fn end(&mut self, report: &Report) -> Result<Held> {
        let Some(mut file) = self.current.take() else { return Ok(Held::default()) };
        let settled = file.settle(PATIENCE);
        let finished = file.footer(report);
        self.past += file.counts();
        settled.and(finished).map(|()| self.held)
    }
}

impl Sink for Snapshots {
    fn name(&self) -> &str {
        &self.name
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |file| file.header(header))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let Some(file) = &mut self.current else {
            self.past.dropped_sink += 1;
            return Err(Error::new(ErrorKind::Sink, format!("{}: no snapshot is being taken", self.name)));
        };
        self.stuck = self.stuck || !file.wait_room(PATIENCE);
        self.held.events += 1;
        self.held.last = self.held.last.max(event.time.unwrap_or(0));
        file.event(event)
    }

    /// What is told between two snapshots has its place in neither.
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        let Some(file) = &mut self.current else { return Ok(()) };
        if gap.cause == Cause::Overwritten {
            self.held.overwritten += gap.count.unwrap_or(0);
            self.held.whole_since = self.held.whole_since.max(gap.before.unwrap_or(0));
        }
        file.gap(gap)
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |file| file.note(note))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn footer(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        let mut all = self.past;
        all += self.current.as_ref().map(Sink::counts).unwrap_or_default();
        all
    }
}

//! A format and an outlet make a sink; events that the outlet had no room for become a gap at their place.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Counts, Header, Note, OnFull, Outlet, Sink,
    hold::Lanes,
    on_full::{OneIn, Patience, Stopping},
};
use crate::{
    Error, Result,
    event::{Event, Gap},
    ledger::Report,
    ring::TaskRecord,
};

/// The most bytes of notes that wait for room.
const NOTES: usize = 64 << 10;

/// A format: each thing appended to `out` as whole lines or frames.
///
/// None of them fails, and none allocates for an event once `out` and whatever the format reuses have grown
/// to size.
pub trait Encode: Send {
    /// What comes before the first event.
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>);
    /// An event.
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>);
    /// A hole.
    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>);
    /// A note.
    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>);
    /// What became of a task; most formats have no place for it.
    fn sideband(&mut self, _task: &TaskRecord<'_>, _out: &mut Vec<u8>) {}
    /// Every ring has been read, see [`Sink::caught_up`]; not called where there is no room.
    fn caught_up(&mut self, _out: &mut Vec<u8>) {}
    /// The final ledger.
    fn footer(&mut self, report: &Report, out: &mut Vec<u8>);
    /// The same format for a thread of its own, after the header. `None` where what it writes hangs on all that came
    /// before.
    fn arm(&self) -> Option<Box<dyn Encode>> {
        None
    }
}

impl<E: Encode + ?Sized> Encode for Box<E> {
    fn header(&mut self, header: &Header<'_>, out: &mut Vec<u8>) {
        (**self).header(header, out);
    }
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        (**self).event(event, out);
    }
    fn gap(&mut self, gap: &Gap, out: &mut Vec<u8>) {
        (**self).gap(gap, out);
    }
    fn note(&mut self, note: &Note<'_>, out: &mut Vec<u8>) {
        (**self).note(note, out);
    }
    fn sideband(&mut self, task: &TaskRecord<'_>, out: &mut Vec<u8>) {
        (**self).sideband(task, out);
    }
    fn caught_up(&mut self, out: &mut Vec<u8>) {
        (**self).caught_up(out);
    }
    fn footer(&mut self, report: &Report, out: &mut Vec<u8>) {
        (**self).footer(report, out);
    }
    fn arm(&self) -> Option<Box<dyn Encode>> {
        (**self).arm()
    }
}

/// Events in a format to a descriptor. What there is no room for is dropped, newest first, and told as a gap
/// before the next event of its CPU, or after two flushes where that CPU has no more to say.
pub struct StreamSink<E> {
    encode: E,
    outlet: Outlet,
    lanes: Lanes,
    header: Vec<u8>,
    notes: Vec<u8>,
    on_full: OnFull,
    one_in: OneIn,
    patience: Patience,
}

impl<E: Encode> StreamSink<E> {
    /// A sink that writes in the format `encode` to `outlet`.
    pub fn new(encode: E, outlet: Outlet) -> StreamSink<E> {
        StreamSink {
            encode,
            outlet,
            lanes: Lanes::default(),
            header: Vec::new(),
            notes: Vec::new(),
            on_full: OnFull::DropNew,
            one_in: OneIn::default(),
            patience: Patience::new(None, Duration::ZERO),
        }
    }

    /// The same with another rule for events that there is no room for. [`OnFull::Block`] waits for as long as it
    /// takes, until `stopping` says yes; from then on no longer than `stop_bound`.
    ///
    /// # Errors
    ///
    /// Usage: [`OnFull::DropOld`]. What waits is formatted, and other formats cannot be told what it was.
    pub fn with_on_full(
        self,
        on_full: OnFull,
        stopping: Option<Stopping>,
        stop_bound: Duration,
    ) -> Result<StreamSink<E>> {
        if on_full == OnFull::DropOld {
            let what = format!("{}: what waits to be written is not dropped", self.name());
            return Err(Error::usage(what).with_help("block, drop-new or sample=N; batches have drop-old"));
        }
        Ok(StreamSink { on_full, patience: Patience::new(stopping, stop_bound), ..self })
    }

    /// Writes what stands before an event. True if there is room for the event then.
    #[inline]
    fn place(&mut self, event: &Event<'_>) -> Result<bool> {
        if self.lanes.holds(event.cpu) || !self.notes.is_empty() {
            self.lanes.close(event.cpu, event.time);
            self.release(|lanes| lanes.take_of(event.cpu))?;
        }
        // Room may have come just now: what waits still stands before this event.
        let behind = self.lanes.holds(event.cpu) || !self.notes.is_empty();
        Ok(!behind && self.outlet.room().is_some())
    }

    /// The same by the rule for events that there is no room for: true where this one has room and is kept.
    fn place_by_rule(&mut self, event: &Event<'_>, mut room: bool) -> Result<bool> {
        match self.on_full {
            OnFull::Block => {
                while !room && let Some(left) = self.patience.left() {
                    self.outlet.wait_room(Instant::now() + left);
                    self.outlet.check()?;
                    room = self.place(event)?;
                }
                Ok(room)
            }
            OnFull::Sample(n) if room && self.outlet.is_tight() => Ok(self.one_in.keeps(n)),
            _ => Ok(room),
        }
    }

    /// Opens `path` again and sends what follows there, the header first; see [`Outlet::reopen`].
    pub fn reopen(&mut self, path: &Path) -> Result<()> {
        self.outlet.reopen(path)?;
        // Before all that waits, here and in other ways in: the new file begins with it.
        self.outlet.plain(&self.header)
    }

    /// Sends what follows to another file, the format's beginning first; `then` is done behind all that came before.
    #[cfg(feature = "perf-data")]
    pub(super) fn switch(
        &mut self,
        file: std::os::fd::BorrowedFd<'_>,
        then: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        self.outlet.switch(file, then)?;
        self.outlet.plain(&self.header)
    }

    /// The format.
    #[cfg(feature = "perf-data")]
    pub(super) fn encode(&mut self) -> &mut E {
        &mut self.encode
    }

    /// Bytes up to the end of what is whole in the file in use, once nothing is written any more.
    #[cfg(feature = "perf-data")]
    pub(super) fn whole(&self) -> Option<u64> {
        self.outlet.whole()
    }

    /// Bytes written to the file in use.
    #[cfg(feature = "perf-data")]
    pub(super) fn written(&self) -> u64 {
        self.outlet.written()
    }

    /// Writes what waits for room and belongs before anything else. True if there is room now.
    #[inline]
    fn catch_up(&mut self) -> bool {
        let Some(out) = self.outlet.room() else { return false };
        if !self.notes.is_empty() {
            out.extend_from_slice(&self.notes);
            self.notes.clear();
        }
        true
    }

    /// Writes gaps that wait, as `take` chooses them, while there is room.
    fn release(&mut self, take: impl Fn(&mut Lanes) -> Option<Gap>) -> Result<()> {
        while self.catch_up() {
            let Some(gap) = take(&mut self.lanes) else { break };
            let StreamSink { encode, outlet, .. } = self;
            if let Some(out) = outlet.room() {
                encode.gap(&gap, out);
            }
            self.outlet.appended()?;
        }
        Ok(())
    }
}

impl<E: Encode> Sink for StreamSink<E> {
    fn name(&self) -> &str {
        self.outlet.name()
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.outlet.check()?;
        self.header.clear();
        self.encode.header(header, &mut self.header);
        self.outlet.plain(&self.header)
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if let Err(e) = self.outlet.check() {
            self.outlet.too_late();
            return Err(e);
        }
        let mut room = self.place(event);
        if self.on_full != OnFull::DropNew {
            room = room.and_then(|room| self.place_by_rule(event, room));
        }
        let room = room.inspect_err(|_| self.outlet.too_late())?;
        let StreamSink { encode, outlet, lanes, .. } = self;
        match if room { outlet.room() } else { None } {
            Some(out) => {
                encode.event(event, out);
                lanes.wrote(event);
                outlet.event_ends()
            }
            None => {
                lanes.dropped(event);
                outlet.no_room();
                Ok(())
            }
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.outlet.check()?;
        self.lanes.close(gap.cpu, gap.before.or(gap.after));
        // What waits already stands before this one.
        self.lanes.hold(*gap);
        self.release(|lanes| lanes.take_of(gap.cpu))
    }

    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.outlet.check()?;
        self.catch_up();
        let StreamSink { encode, outlet, notes, .. } = self;
        match outlet.room() {
            Some(out) if notes.is_empty() => encode.note(note, out),
            _ if notes.len() < NOTES => encode.note(note, notes),
            _ => {}
        }
        self.outlet.appended()
    }

    /// As a note: what there is no room for waits for it, and beyond 64 KiB is left out.
    fn task(&mut self, task: &TaskRecord<'_>) -> Result<()> {
        self.outlet.check()?;
        self.catch_up();
        let StreamSink { encode, outlet, notes, .. } = self;
        match outlet.room() {
            Some(out) if notes.is_empty() => encode.sideband(task, out),
            _ if notes.len() < NOTES => encode.sideband(task, notes),
            _ => {}
        }
        self.outlet.appended()
    }

    fn caught_up(&mut self) -> Result<()> {
        if self.catch_up()
            && let Some(out) = self.outlet.room()
        {
            self.encode.caught_up(out);
        }
        self.outlet.appended()
    }

    fn on_full(&self) -> Option<OnFull> {
        Some(self.on_full)
    }

    fn ending(&mut self, bound: Duration) {
        self.patience.ending(bound);
    }

    fn flush(&mut self) -> Result<()> {
        self.outlet.check()?;
        if self.lanes.any_held() {
            self.lanes.grow_older();
            self.release(|lanes| lanes.take(2))?;
        }
        if !self.notes.is_empty() {
            self.catch_up();
        }
        self.outlet.flush()
    }

    fn wait_room(&mut self, bound: Duration) -> bool {
        self.outlet.room().is_some() || self.outlet.wait_room(Instant::now() + bound)
    }

    fn settle(&mut self, bound: Duration) -> Result<()> {
        let deadline = match self.on_full {
            // What it has waited for the last events is of this bound too.
            OnFull::Block => self.patience.until(bound),
            _ => Instant::now() + bound,
        };
        let mut result = Ok(());
        while result.is_ok() && (self.lanes.any_held() || !self.notes.is_empty()) {
            if self.outlet.check().is_err() || !self.outlet.wait_room(deadline) {
                break;
            }
            self.catch_up();
            result = self.release(|lanes| lanes.take(0));
        }
        self.outlet.settle(deadline).and(result)
    }

    fn footer(&mut self, report: &Report) -> Result<()> {
        let StreamSink { encode, outlet, .. } = self;
        outlet.finish(|out| encode.footer(report, out))
    }

    fn counts(&self) -> Counts {
        self.outlet.counts()
    }

    fn arm(&mut self) -> Option<Box<dyn Sink + Send>> {
        let mut arm = StreamSink::new(self.encode.arm()?, self.outlet.arm());
        (arm.on_full, arm.patience) = (self.on_full, self.patience.another());
        Some(Box::new(arm))
    }
}

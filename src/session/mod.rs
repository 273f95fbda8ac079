//! A running trace: probes, rings and decoding tied together, and the ledger kept. It never waits.
//!
//! In come specs; out go events and gaps to a [`Sink`], and at the stop a [`Report`] whose identities were
//! checked.
//!
//! ```text
//!   prepare            attach         drain, drain, …                         stop
//!   ├ load own programs ├ each spec    ├ rings → streams → sink                ├ detach; wait for programs
//!   ├ map rings                        └ look after CPUs that came or went     ├ drain; end markers; drain
//!   └ set slots                                                                └ settle the sink; check; footer
//! ```
//!
//! [`stat::Stat`] is the session without rings: its programs keep tallies, and no event leaves the kernel.
//! Beside our own programs there may be others', users' objects and pinned arrays: each of their maps is a feed, with
//! rings, numbers and counts of its own, drained after ours and told by the same events and gaps.
//!
//! **Invariants.** Rings are mapped and slots set before anything is attached, so there is no blind window at
//! the start; the end of each ring is proved by a marker, so there is none at the stop. No term of the ledger is
//! found by subtraction. Whatever a sink does (fails, panics, is stuck), the rings are read and counted.

pub mod arrays;
mod books;
mod books_foreign;
mod feed;
mod flight;
mod foreign;
mod host;
mod hotplug;
mod lane;
#[cfg(any(test, feature = "test-utils"))]
pub mod mock;
mod own;
mod reader;
mod shard;
pub mod stat;
mod take;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use self::{books::Marks, host::Host, own::Own, reader::Reader, take::Quota};
use crate::{
    Error, Result,
    ledger::{Report, Tail},
    probe::{self, Filter, Found, MAX_RAW, Outcome, Probes, Provider, Spec, foreign::Settings},
    ring::{self, Budget, Drained, Set, Sideband, sideband},
    sink::{Header, Probe, Sink},
};

pub use self::{
    foreign::FeedInfo,
    shard::{Parts, Rest, Shard},
};

/// The errno of a bpf(2) call without rights.
const EPERM: i32 = nix::errno::Errno::EPERM as i32;
/// What a session is prepared with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rings; `max_raw` is set by the session.
    pub rings: ring::Options,
    /// While few records come, each wakes the front end ([`Session::set_prompt`]). False spares the traced programs
    /// that where nobody looks at the output as it comes.
    pub prompt: bool,
    /// Which tasks and CPUs are traced.
    pub filter: Filter,
    /// The most probes that will be attached, objects not counted; with none, no rings of ours are opened.
    pub probes: usize,
    /// Up to so many events of a CPU share a record, from 1 to [`Probes::GATHERED`]: that costs a traced call some
    /// 200 ns less where events come fast, as the helper that outputs is what one costs most. An event waits for its
    /// record to be full, at most as long as the rings' latency says, and keeps its own time. 1: each has its own.
    pub gather: u32,
    /// How many threads are to read our own programs' rings ([`frontend::threads`](crate::frontend::threads)): each
    /// has a share of them. At most one a ring; [`Session::reader_threads`] says how many it is. Rings of others'
    /// programs, and those in overwrite mode, are one thread's.
    pub reader_threads: usize,
    /// Side-band records, where the sink wants them: what becomes of tasks.
    pub sideband: Option<sideband::Options>,
    /// The rings of our own programs are in overwrite mode: nothing is read of them but by [`Session::snapshot`].
    pub flight: Option<Flight>,
    /// What is said of users' objects.
    pub objects: Settings,
    /// The sink gets this many events, and no more.
    pub limit: Option<u64>,
    /// How long the stop waits for a stuck sink.
    pub stop_bound: Duration,
    /// Have the kernel count the runs of our programs, as a second source for `fired`; costs some ns a run.
    pub count_runs: bool,
}

impl Default for Options {
    /// Rings of 1 MiB, one reader, every task, 64 probes, no limit, 2 s for a stuck sink.
    fn default() -> Options {
        Options {
            rings: ring::Options::default(),
            prompt: true,
            filter: Filter::default(),
            probes: 64,
            gather: 1,
            reader_threads: 1,
            sideband: None,
            flight: None,
            objects: Settings::default(),
            limit: None,
            stop_bound: Duration::from_secs(2),
            count_runs: false,
        }
    }
}

/// What a snapshot is of, where rings are in overwrite mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Events that are older are not handed on; all that are in the rings are, where `None`.
    pub window: Option<Duration>,
}

/// A running trace.
///
/// Dropping it detaches the probes and closes the rings without a last drain; [`Session::stop`] is the orderly
/// end.
pub struct Session {
    probes: Probes,
    rings: Own,
    /// In place of `rings`, which are none then.
    flight: Option<ring::Flight>,
    sideband: Option<Sideband>,
    /// By CPU, every possible one.
    readers: Vec<Reader>,
    foreign: foreign::Foreign,
    options: Options,
    host: Host,
    quota: Quota,
    /// Events that were read and never reached the sink, as it panicked before.
    unhanded: Arc<AtomicU64>,
    started: Instant,
    cpus_checked: Instant,
    cpus_rescanned: Instant,
    put_out: Instant,
    generation: u64,
    ring_refused: bool,
    report: Option<Report>,
    /// What the sink said first when it was to end.
    sink_error: Option<Error>,
}

impl Session {
    /// Loads our own programs, opens and maps the rings and puts them into their slots. Nothing is attached yet.
    ///
    /// # Errors
    ///
    /// Usage: a size, wake rule or filter that cannot be. Precondition: capabilities, or a limit of the system,
    /// with the arithmetic.
    pub fn prepare(mut options: Options) -> Result<Session> {
        options.rings.max_raw = MAX_RAW;
        options.filter.cpus = options.rings.cpus.clone();
        if options.gather > 1 && options.flight.is_some() {
            return Err(Error::usage("events that share records are no matter for rings in overwrite mode")
                .with_help("leave --gather out: what is overwritten costs a traced call no wake-up anyway"));
        }
        let probes =
            Probes::open(options.filter.clone(), options.probes, options.count_runs, None, options.gather)?;
        let none = ring::Options { cpus: Some(Vec::new()), ..options.rings.clone() };
        let own = if options.probes == 0 || options.flight.is_some() { &none } else { &options.rings };
        let rings = Own::new(Set::open(own, Some(arrays::of_probes(&probes)))?, options.reader_threads)?;
        let flight = match &options.flight {
            Some(_) => Some(ring::Flight::open(&options.rings, arrays::of_probes(&probes))?),
            None => None,
        };
        let sideband = options.sideband.as_ref().map(Sideband::open).transpose()?;
        let readers = (0..probes.possible_cpus()).map(|cpu| Reader::new(cpu, probes.gathers())).collect();
        let now = Instant::now();
        Ok(Session {
            probes,
            rings,
            flight,
            sideband,
            readers,
            foreign: foreign::Foreign::default(),
            quota: Quota::new(options.limit, options.reader_threads > 1),
            unhanded: Arc::default(),
            options,
            host: Host::read(),
            started: now,
            cpus_checked: now,
            cpus_rescanned: now,
            put_out: now,
            generation: 0,
            ring_refused: false,
            report: None,
            sink_error: None,
        })
    }

    /// Attaches all that a spec matches, or a user's object; its events flow from now on.
    ///
    /// # Errors
    ///
    /// Attach or Precondition: why not, and the way out.
    pub fn attach(&mut self, spec: &Spec) -> Result<Outcome> {
        self.attach_found(&probe::find(spec)?, &mut |_, _| {})
    }

    /// Attaches what was found of a spec; `progress` is told how many of how many are done, where there are
    /// several. Of what a pattern matches some may be refused: the outcome says which and why.
    ///
    /// # Errors
    ///
    /// As [`Session::attach`].
    pub fn attach_found(&mut self, found: &Found, progress: &mut dyn FnMut(usize, usize)) -> Result<Outcome> {
        let spec = found.spec();
        let outcome = if spec.provider == Provider::Object {
            self.attach_object(spec)?;
            Outcome::none(self.probes.attached().len())
        } else {
            self.probes.attach(found, progress)?
        };
        self.started = Instant::now();
        Ok(outcome)
    }

    /// Prepares a session and attaches all specs, or none.
    ///
    /// # Errors
    ///
    /// As [`Session::prepare`] and [`Session::attach`].
    pub fn start(options: Options, specs: &[Spec]) -> Result<Session> {
        let found: Vec<Found> = specs.iter().map(probe::find).collect::<Result<_>>()?;
        let own = found.iter().filter(|f| f.spec().provider != Provider::Object);
        let probes = options.probes.max(own.map(|f| f.each().len()).sum());
        let mut session = Session::prepare(Options { probes, ..options })?;
        found.iter().try_for_each(|found| session.attach_found(found, &mut |_, _| {}).map(|_| ()))?;
        Ok(session)
    }

    /// The programs, for whoever wants to fire them by hand or read their accounts.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// The programs, to attach what no spec can say.
    pub fn probes_mut(&mut self) -> &mut Probes {
        &mut self.probes
    }

    /// The side-band rings, where there are any: their ids and what they lost.
    pub fn sideband(&self) -> Option<&Sideband> {
        self.sideband.as_ref()
    }

    /// Grows whenever a ring was added or replaced: whoever polls its descriptors registers them anew then.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Tells a sink what comes before the first event.
    pub fn header(&self, sink: &mut dyn Sink) -> Result<()> {
        let attached = self.probes.attached().iter();
        let mut probes: Vec<Probe<'_>> =
            attached.map(|a| Probe { schema: &a.schema, attached: &a.how, headed: true }).collect();
        self.foreign.announce(&mut probes);
        let Host { name, release, boot_id, clock } = &self.host;
        sink.header(&Header { host: name, release, boot_id, clock: *clock, probes: &probes })
    }

    /// True once the sink has had as many events as [`Options::limit`] allows.
    pub fn limit_reached(&self) -> bool {
        self.quota.is_spent()
    }

    /// Hands what is in the rings to `sink`, within the budget; never waits. Looks after CPUs that came or went.
    ///
    /// # Errors
    ///
    /// What the sink said first; the record it said it of counts as read, and the session is good.
    pub fn drain(&mut self, budget: Budget, sink: &mut dyn Sink) -> Result<Drained> {
        let none_held = self.look_after(sink)?;
        self.drain_all(budget, none_held, sink)
    }

    /// Looks after CPUs that came or went, and where events share records has those put out that have waited long
    /// enough. True where none of before waits for its record to be full.
    fn look_after(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        self.look_after_cpus(sink)?;
        if self.probes.gathers() && self.put_out.elapsed() >= self.options.rings.wake.sweep() / 2 {
            self.put_out = Instant::now();
            return Ok(self.put_out_held());
        }
        Ok(!self.probes.gathers())
    }

    /// Has each CPU output the events that wait for their record to be full. One that has gone keeps them until it
    /// is back; without the right to run programs, all do until their record is full.
    /// True where all could.
    fn put_out_held(&self) -> bool {
        let mut all = true;
        for cpu in self.rings.cpus().filter(|cpu| self.probes.held(*cpu) > 0) {
            all &= self.probes.put_out(cpu).is_ok();
        }
        all
    }

    /// Side-band records first, so that a task's name precedes its events; then the rings of our own programs and
    /// those of others. Where `none_held`, no event of before waits for its record to be full.
    fn drain_all(&mut self, budget: Budget, none_held: bool, sink: &mut dyn Sink) -> Result<Drained> {
        let tasks = shard::drain_sideband(&mut self.sideband, budget, sink)?;
        let budget = self.foreign.share(budget);
        let own = self.drain_rings(budget, sink)?;
        let base = self.probes.attached().len();
        let events = self.foreign.drain(budget, own, base, &mut self.quota, sink)?;
        let (more, stopped) = (events.more || tasks.more, events.stopped || tasks.stopped);
        if none_held && !(more || stopped) {
            sink.caught_up()?;
        }
        Ok(Drained { more, stopped, ..events })
    }

    /// The ledger as it stands; its identities are checked at the stop alone, as events are in flight before.
    pub fn report(&self, sink: &dyn Sink) -> Report {
        let tail = Tail::Derived("the session is running".into());
        books::report(self, sink, tail)
    }

    /// The longest that its stop waits for a sink.
    pub fn stop_bound(&self) -> Duration {
        self.options.stop_bound
    }

    /// What the sink said when it was to end, if it failed then; a stop itself does not fail for that.
    pub fn take_sink_error(&mut self) -> Option<Error> {
        self.sink_error.take()
    }

    /// Ends the trace: detaches, reads every ring to its proved end, settles the sink, checks the books, and
    /// tells the sink the footer. Waits for the sink up to [`Options::stop_bound`]. Twice is fine.
    ///
    /// # Errors
    ///
    /// None of the sink's: what it could not take is in its counts. Runtime, where a slot cannot be emptied.
    pub fn stop(&mut self, sink: &mut dyn Sink) -> Result<Report> {
        if let Some(report) = &self.report {
            return Ok(report.clone());
        }
        self.probes.detach();
        self.foreign.detach();
        // Programs that were running when they were detached have ended after this.
        ring::wait_for_programs();
        sink.ending(self.options.stop_bound);
        self.rings.resume();
        self.drain_out(sink);
        if self.probes.gathers() {
            self.put_out_held();
            self.drain_out(sink);
        }
        let marks = self.mark_ends();
        self.foreign.mark_ends();
        self.drain_out(sink);
        self.end_flight(sink)?;
        if self.foreign.let_go() {
            ring::wait_for_programs();
            self.drain_out(sink);
        }
        self.foreign.end(sink);
        for cpu in 0..self.readers.len() {
            let gaps = self.readers[cpu].stream.end(self.probes.attempts(cpu as u32));
            for gap in gaps.iter().flatten() {
                // A sink that fails now has its counts; the ledger still wants the rest.
                let _ = sink.gap(gap);
            }
        }
        self.sink_error = sink.settle(self.options.stop_bound).err();
        let mut report = books::report(self, sink, marks.tail.clone());
        report.identities = books::check(self, &report, &marks);
        if let Err(error) = sink.footer(&report) {
            self.sink_error.get_or_insert(error);
        }
        self.report = Some(report.clone());
        let tasks = self.sideband.as_mut().map_or(Ok(()), Sideband::close);
        let flight = self.flight.as_mut().map_or(Ok(()), ring::Flight::close);
        match self.rings.close().and(self.foreign.close()).and(tasks).and(flight) {
            // Who has given up the right to empty a slot leaves that to the kernel: the array ends with us.
            Err(error) if error.os_error() != Some(EPERM) => Err(error),
            _ => Ok(report),
        }
    }

    /// Reads all rings to the end, whatever the sink says.
    fn drain_out(&mut self, sink: &mut dyn Sink) {
        while !matches!(
            self.drain_all(Budget::ALL, false, sink),
            Ok(Drained { more: false, stopped: false, .. })
        ) {}
    }

    /// Writes an end marker on every CPU that has a ring.
    fn mark_ends(&self) -> Marks {
        let mut marks = Marks { cpus: Vec::new(), tail: Tail::Proved };
        for cpu in self.ring_cpus() {
            match self.probes.mark_end(cpu) {
                Ok(()) => marks.cpus.push(cpu),
                Err(e) => marks.tail = Tail::Derived(format!("no end marker on CPU {cpu}: {e}")),
            }
        }
        marks
    }
}

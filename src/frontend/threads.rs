//! The front end of several threads: each reads its share of the rings, with a poller and a pace of its own.
//!
//! ```text
//!   ├─ together: what is the whole session's ─┼─ apart: each thread drains its rings, waits, drains … ─┼─ together ─
//!   │  CPUs, wake rules, the ledger, `tick`   │  this one also what is no shard's, and it ends them    │
//! ```
//!
//! Threads read apart for a sweep at most, so that a tick, a CPU that came back and whoever asks for a flush wait no
//! longer than that. They are started for each such stretch, which costs tens of microseconds, and end with it: what
//! they borrow is the session's again then, whatever became of them.
//!
//! **Invariants.** A CPU's ring is read by one thread. At the end of a stretch every ring has been read to an end that
//! it had in it, and what was read is with the sink.

use std::{
    ops::ControlFlow,
    os::fd::AsFd,
    panic::resume_unwind,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use super::{
    Control, Pace, Poller,
    blocking::{self, Ended, PASS, ended},
};
use crate::{
    Error, ErrorKind, Result,
    ring::{Drained, Set},
    session::{Parts, Rest, Session, Shard},
    sink::{Arms, Sink, Way},
};

/// As [`blocking::run`], with [`Session::reader_threads`] threads, the calling one among them. `tick` is called some
/// ten times a second, and when `control` is woken; while it runs nothing is read.
///
/// A sink that has ways of its own for threads ([`Sink::arm`]) formats in each of them; with any other, threads decode
/// what they read and take turns at the sink, a batch at a time. Either way a CPU's events come in their order.
///
/// The sink was told the header ([`Session::header`]).
///
/// # Errors
///
/// Runtime, where polling fails or a thread is not to be had; the session is stopped in order even so.
pub fn run<S: Sink + Send>(
    session: &mut Session,
    sink: &mut S,
    control: &Control,
    until: Option<Instant>,
    mut tick: impl FnMut(&mut Session, &mut S) -> ControlFlow<()>,
) -> Result<Ended> {
    if session.reader_threads() == 1 {
        return blocking::run(session, sink, control, until, tick);
    }
    let of = (0..session.possible_cpus()).map(|cpu| session.shard_of(cpu)).collect();
    let mut arms = Arms::new(sink, of, session.schemas().cloned(), &session.unhanded_count());
    let looped = turn(session, &mut arms, control, until, &mut tick);
    let report = session.stop(&mut arms)?;
    ended(session, control, looped, report)
}

/// What a thread keeps from one stretch to the next.
struct Seat {
    poller: Poller,
    pace: Pace,
    /// Wakes it.
    control: Control,
    /// The wake rule that the pace asks for.
    wish: Option<bool>,
}

impl Seat {
    fn new(rings: &Set) -> Result<Seat> {
        Ok(Seat { poller: Poller::new()?, pace: Pace::new(rings), control: Control::new()?, wish: None })
    }
}

/// Tells all threads to come to an end; on unwinding and on failure too.
struct Halt<'a> {
    asked: &'a AtomicBool,
    all: &'a [Control],
}

impl Halt<'_> {
    fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
}

impl Drop for Halt<'_> {
    fn drop(&mut self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.all.iter().for_each(Control::wake);
        }
    }
}

fn turn<S: Sink + Send>(
    session: &mut Session,
    arms: &mut Arms<'_, S>,
    control: &Control,
    until: Option<Instant>,
    tick: &mut impl FnMut(&mut Session, &mut S) -> ControlFlow<()>,
) -> Result<()> {
    control.begin();
    let mut seats: Vec<Seat> = session.shard_rings().iter().map(Seat::new).collect::<Result<_>>()?;
    loop {
        let none_held = session.between(arms)?;
        let generation = session.generation();
        for (at, (seat, rings)) in seats.iter_mut().zip(session.shard_rings()).enumerate() {
            if seat.poller.register(rings, generation, &seat.control)? && at == 0 {
                seat.poller.also(session.further_fds().chain([control.as_fd()]))?;
            }
        }
        let end = Instant::now() + session.stretch();
        let end = until.map_or(end, |until| until.min(end));
        let caught_up = apart(session, arms, control, &mut seats, end)?;
        for (shard, seat) in seats.iter_mut().enumerate() {
            if let Some(prompt) = seat.wish.take() {
                seat.pace.holds(session.set_prompt_of(shard, prompt)?);
            }
        }
        let sink = arms.main();
        if caught_up && none_held {
            sink.caught_up()?;
        }
        sink.flush()?;
        control.tell(|| session.report(arms));
        let sink = arms.main();
        let over = until.is_some_and(|until| until <= Instant::now()) || session.limit_reached();
        if tick(session, sink).is_break() || control.stopping() || over {
            return Ok(());
        }
    }
}

/// Has all threads read until `end`, or until something is asked for, reached or wrong; true where every ring was read
/// to an end that it had meanwhile.
fn apart<S: Sink + Send>(
    session: &mut Session,
    arms: &mut Arms<'_, S>,
    control: &Control,
    seats: &mut [Seat],
    end: Instant,
) -> Result<bool> {
    let asked = AtomicBool::new(false);
    let all: Vec<Control> = seats.iter().map(|seat| seat.control.clone()).collect();
    all.iter().for_each(|control| _ = control.drain_wakes());
    let (main, ways) = arms.ways();
    let Parts { shards, rest } = session.parts();
    let readings = shards.into_iter().zip(ways).zip(seats);
    let mut readings = readings.map(|((shard, way), seat)| Reading { shard, way, seat });
    let read = thread::scope(|scope| {
        // Whatever ends this one ends the others.
        let halt = Halt { asked: &asked, all: &all };
        let Some(first) = readings.next() else { return Ok(true) };
        let mut threads = Vec::with_capacity(all.len());
        for reading in readings {
            let halt = Halt { asked: &asked, all: &all };
            let thread = thread::Builder::new().name("tracer-reader".into());
            let started = thread.spawn_scoped(scope, move || reading.follow(&halt));
            let no_thread = |e| Error::caused(ErrorKind::Runtime, "starting a reader thread", e);
            threads.push(started.map_err(no_thread)?);
        }
        let mut said = first.lead(rest, main, control, end, &halt);
        drop(halt);
        for thread in threads {
            let read = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            said = said.and_then(|all| read.map(|this| all && this));
        }
        said
    });
    let rejoined = arms.rejoin();
    read.and_then(|all| rejoined.map(|()| all))
}

/// One thread's work.
struct Reading<'r, 's, S> {
    shard: Shard<'r>,
    way: Way<'r, 's, S>,
    seat: &'r mut Seat,
}

impl<'s, S: Sink> Reading<'_, 's, S> {
    /// Reads until it is told to end, and then once more; true where its rings were read to an end.
    fn follow(mut self, halt: &Halt<'_>) -> Result<bool> {
        let mut ended = false;
        loop {
            let last = halt.asked();
            let drained = self.shard.drain(PASS, &mut self.way)?;
            self.after(&drained)?;
            ended |= !drained.more;
            if last || self.shard.limit_reached() {
                return Ok(ended);
            }
            if !drained.more {
                self.seat.poller.wait(self.seat.pace.sweep(), &self.seat.control)?;
            }
        }
    }

    /// The same on the calling thread, which reads what is no shard's too, and says when all end.
    fn lead(
        mut self,
        mut rest: Rest<'_>,
        main: &Mutex<&'s mut S>,
        control: &Control,
        end: Instant,
        halt: &Halt<'_>,
    ) -> Result<bool> {
        let (mut ended, mut asked) = (false, false);
        loop {
            let over = control.stopping() || self.shard.limit_reached() || end <= Instant::now();
            let last = asked || over || halt.asked();
            let more = rest.drain_tasks(PASS, &mut **lock(main))?.more;
            let own = self.shard.drain(PASS, &mut self.way)?;
            let drained = rest.drain_foreign(PASS, own, &mut **lock(main))?;
            self.after(&drained)?;
            let more = more || drained.more;
            ended |= !more;
            if last {
                return Ok(ended);
            }
            if !more {
                let left = end.saturating_duration_since(Instant::now());
                asked = self.seat.poller.wait_asked(self.seat.pace.sweep().min(left), control)?;
            }
        }
    }

    fn after(&mut self, drained: &Drained) -> Result<()> {
        let (Seat { pace, wish, .. }, holds) = (&mut *self.seat, self.shard.rings().prompt());
        pace.count(drained, |prompt| {
            *wish = (prompt != holds).then_some(prompt);
            Ok(holds)
        })?;
        self.way.flush()
    }
}

fn lock<'m, 's, S>(main: &'m Mutex<&'s mut S>) -> MutexGuard<'m, &'s mut S> {
    main.lock().unwrap_or_else(PoisonError::into_inner)
}

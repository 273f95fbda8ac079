//! What the session knows of one CPU beside its ring's own counts.

use crate::{
    Result,
    event::{Gaps, Stream},
    sink::Sink,
};

/// One CPU's stream and counts. Threads may read neighbours: two of them share no line of the cache.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct Reader {
    pub stream: Stream,
    /// End markers read.
    pub markers: u64,
    /// Records read that events share.
    pub shared: u64,
    /// Events read of them.
    pub unshared: u64,
    /// Samples that no schema fits.
    pub undecoded: u64,
    /// Events with a field that could not be read.
    pub faulty: u64,
    /// Events after the last that was asked for.
    pub beyond: u64,
    /// Events whose gap made the sink panic: they never reached it.
    pub unhanded: u64,
    /// That this CPU's events fail was told.
    pub told: bool,
    empty: u64,
    dead: u64,
}

/// Which refusals have become more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rise {
    /// Outputs into an empty slot.
    pub empty: bool,
    /// Outputs into a dead output event.
    pub dead: bool,
}

impl Reader {
    /// Of a CPU whose events share records where `gathers`.
    pub fn new(cpu: u32, gathers: bool) -> Reader {
        Reader {
            stream: if gathers { Stream::gathering(cpu) } else { Stream::new(cpu) },
            markers: 0,
            shared: 0,
            unshared: 0,
            undecoded: 0,
            faulty: 0,
            beyond: 0,
            unhanded: 0,
            told: false,
            empty: 0,
            dead: 0,
        }
    }

    /// Tells a sink the gaps before an event; all of them, whatever it says of the first.
    #[inline]
    pub fn tell(&mut self, gaps: &Gaps, sink: &mut dyn Sink) -> Result<()> {
        let mut told = Ok(());
        if gaps.iter().any(Option::is_some) {
            self.unhanded += 1;
            for gap in gaps.iter().flatten() {
                told = told.and(sink.gap(gap));
            }
            self.unhanded -= 1;
        }
        told
    }

    /// Whether the account of outputs into an empty slot has risen since it was last taken.
    pub fn found_empty(&self, empty: u64) -> bool {
        empty > self.empty
    }

    /// Takes the accounts of refusals as they stand and says which have risen since it was last asked.
    pub fn refused(&mut self, empty: u64, dead: u64) -> Rise {
        let rise = Rise { empty: empty > self.empty, dead: dead > self.dead };
        (self.empty, self.dead) = (empty, dead);
        rise
    }
}

//! What a session has of programs that are not its own: users' objects and pinned arrays.

use std::{os::fd::BorrowedFd, path::Path};

use super::{
    Session,
    feed::{Feed, Pin},
    lane::Way,
    take::Quota,
};
use crate::{
    Error, Result,
    ledger::FeedReport,
    probe::{
        Spec,
        foreign::{self, ForeignObject},
    },
    ring::{Budget, Drained},
    schema::{LEVELS, Schema},
    sink::{Probe, Sink},
};

/// Objects, and every map that is read.
#[derive(Default)]
pub struct Foreign {
    objects: Vec<(Spec, ForeignObject)>,
    feeds: Vec<Feed>,
}

/// One map of programs that are not ours, for a message.
#[derive(Clone, Copy, Debug)]
pub struct FeedInfo<'a> {
    /// The spec it belongs to.
    pub spec: &'a str,
    /// Its name.
    pub map: &'a str,
    /// How its events are decoded.
    pub how: &'a str,
    /// What they may be; bytes last.
    pub schemas: &'a [Schema],
}

impl Session {
    /// Reads a pinned perf event array that somebody else's programs fill; they are never touched. `event` is the
    /// struct of its events, from the BTF in `btf`. Its slots are emptied at the stop.
    ///
    /// # Errors
    ///
    /// Precondition: nothing is pinned there, or a slot is taken and not to be stolen. Usage: another type of map, or
    /// no such struct.
    pub fn read_pinned(
        &mut self,
        path: &Path,
        event: Option<&str>,
        btf: Option<&Path>,
        steal: bool,
    ) -> Result<()> {
        let map = foreign::pinned(path, event, btf)?;
        let spec = format!("map:{}", path.display());
        let level = self.level(0)?;
        let pin = Some(Pin { steal });
        let feed = Feed::open(map, spec, level, &self.options.rings, pin)?;
        self.add(vec![feed]);
        Ok(())
    }

    pub(super) fn attach_object(&mut self, spec: &Spec) -> Result<()> {
        if self.options.flight.is_some() {
            return Err(Error::usage(format!("{spec}: rings in overwrite mode are our own programs' only"))
                .with_help("trace objects in a session of their own, without a flight"));
        }
        let possible = self.probes.possible_cpus() as usize;
        let (mut object, maps) = ForeignObject::load(spec, &self.options.objects, possible)?;
        let mut feeds = Vec::with_capacity(maps.len());
        for map in maps {
            let level = self.level(feeds.len())?;
            feeds.push(Feed::open(map, spec.to_string(), level, &self.options.rings, None)?);
        }
        object.attach()?;
        self.foreign.objects.push((spec.clone(), object));
        self.add(feeds);
        Ok(())
    }

    /// Where the numbers of one more map count; `more` are about to be added.
    fn level(&self, more: usize) -> Result<u8> {
        u8::try_from(LEVELS + self.foreign.feeds.len() + more)
            .map_err(|_| Error::usage("more than 251 maps of objects cannot be read at once"))
    }

    fn add(&mut self, feeds: Vec<Feed>) {
        let taken: Vec<String> = self.schemas().map(|s| s.name.clone()).collect();
        for mut feed in feeds {
            for schema in feed.schemas_mut() {
                schema.name = unused_name(&schema.name, &taken);
            }
            self.foreign.feeds.push(feed);
        }
        self.generation += 1;
    }

    /// What every event of this session may be.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        let own = self.probes.attached().iter().map(|a| &a.schema);
        own.chain(self.foreign.feeds.iter().flat_map(Feed::schemas))
    }

    /// The maps that are read of programs that are not ours.
    pub fn feeds(&self) -> impl Iterator<Item = FeedInfo<'_>> {
        self.foreign.feeds.iter().map(|f| FeedInfo {
            spec: &f.spec,
            map: &f.map,
            how: &f.how,
            schemas: f.schemas(),
        })
    }

    /// What became of an object's programs, for a message.
    pub fn programs_of(&self, spec: &Spec) -> &[String] {
        let object = self.foreign.objects.iter().find(|(s, _)| s == spec);
        object.map_or(&[], |(_, object)| object.said())
    }

    /// Checks that every variable and map that [`Options::objects`](super::Options::objects) speaks of is in some
    /// object.
    ///
    /// # Errors
    ///
    /// Usage: names the first that is not.
    pub fn check_objects(&self) -> Result<()> {
        let objects = &self.foreign.objects;
        let used = |name: &str| objects.iter().any(|(_, o)| o.used().iter().any(|u| u == name));
        let settings = &self.options.objects;
        if let Some((name, _)) = settings.set.iter().find(|(name, _)| !used(name)) {
            let there = objects.iter().map(|(s, _)| foreign::variables_like(Path::new(&s.scope), name));
            return Err(Error::usage(format!("--set {name}: no object has such a variable"))
                .with_help(there.collect::<Vec<_>>().join("; ")));
        }
        if let Some((map, _)) = settings.events.iter().find(|(map, _)| !used(map)) {
            let maps: Vec<&str> = self.feeds().map(|f| f.map).collect();
            return Err(Error::usage(format!("--event {map}: no object has such a map that is read"))
                .with_help(format!("there are {}", maps.join(", "))));
        }
        Ok(())
    }

    /// What to poll beside [`Session::rings`]: side-band rings, and rings and ringbufs of programs that are not
    /// ours.
    pub fn further_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sideband = self.sideband().into_iter().flat_map(|s| s.fds().map(|(_, fd)| fd));
        sideband.chain(self.foreign.feeds.iter().flat_map(Feed::fds))
    }
}

/// A name that no event of another probe or object has. Maps of one object may emit the same struct: the level tells
/// them apart.
fn unused_name(name: &str, taken: &[String]) -> String {
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}_{n}")));
    names.find(|n| !taken.contains(n)).unwrap_or_else(|| name.to_owned())
}

impl Foreign {
    pub fn announce<'a>(&'a self, probes: &mut Vec<Probe<'a>>) {
        for feed in &self.feeds {
            let all = feed.schemas().iter();
            probes.extend(all.map(|schema| Probe { schema, attached: &feed.attached, headed: false }));
        }
    }

    /// What each of the sets of rings gets of a budget.
    pub fn share(&self, budget: Budget) -> Budget {
        let of = 1 + self.feeds.len() as u32;
        Budget { time: budget.time.map(|time| time / of), ..budget }
    }

    /// Drains every map, after our own rings did as `own` says.
    pub fn drain(
        &mut self,
        budget: Budget,
        own: Drained,
        base: usize,
        quota: &mut Quota,
        sink: &mut dyn Sink,
    ) -> Result<Drained> {
        let mut sum = own;
        let mut base = base;
        for feed in &mut self.feeds {
            let drained = feed.drain(budget, &mut Way { quota, sink, base })?;
            base += feed.schemas().len();
            sum.records += drained.records;
            sum.bytes += drained.bytes;
            sum.more |= drained.more;
            sum.stopped |= drained.stopped;
        }
        Ok(sum)
    }

    pub fn set_prompt(&mut self, prompt: bool) -> Result<()> {
        self.feeds.iter_mut().try_for_each(|feed| feed.set_prompt(prompt))
    }

    pub fn rescan(&mut self) -> Result<usize> {
        self.feeds.iter_mut().try_fold(0, |sum, feed| Ok(sum + feed.rescan()?))
    }

    pub fn detach(&mut self) {
        self.objects.iter_mut().for_each(|(_, object)| object.detach());
    }

    pub fn mark_ends(&mut self) {
        self.feeds.iter_mut().for_each(Feed::mark_ends);
    }

    /// Lets go of arrays whose programs go on; true where one may be running that still sees a slot.
    pub fn let_go(&mut self) -> bool {
        self.feeds.iter_mut().for_each(Feed::let_go);
        self.feeds.iter().any(|feed| feed.pinned)
    }

    pub fn end(&mut self, sink: &mut dyn Sink) {
        self.feeds.iter_mut().for_each(|feed| feed.end(sink));
    }

    pub fn reports(&self) -> Vec<FeedReport> {
        self.feeds.iter().map(Feed::report).collect()
    }

    pub fn beyond(&self) -> u64 {
        self.feeds.iter().map(Feed::beyond).sum()
    }

    pub fn close(&mut self) -> Result<()> {
        let mut closed = Ok(());
        self.feeds
            .iter_mut()
            .for_each(|feed| closed = std::mem::replace(&mut closed, Ok(())).and(feed.close()));
        closed
    }
}

//! A session without rings: its programs keep counts, sums and histograms, and no event leaves the kernel.

use std::{collections::HashMap, time::Instant};

use super::books;
use crate::{
    Error, Result,
    ledger::{Identity, ProbeReport, Report, Tail},
    probe::{Filter, Found, Keep, Outcome, Probes, Row, Spec},
    ring,
    schema::tally::{Counted, Kept, Tally},
};

/// What such a session is prepared with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tasks and CPUs are traced.
    pub filter: Filter,
    /// The most probes that will be attached.
    pub probes: usize,
    /// What is kept of each run.
    pub keep: Keep,
    /// Have the kernel count the runs of our programs, as a second source for `fired`; costs some ns a run.
    pub count_runs: bool,
}

/// A running session that counts.
///
/// Dropping it detaches its probes; [`Stat::stop`] is the orderly end.
pub struct Stat {
    probes: Probes,
    keep: Keep,
    /// What each probe was asked for as, and what its tallies hold.
    told: Vec<(String, Kept)>,
    count_runs: bool,
    excluded: u32,
    started: Instant,
    ended: Option<(Vec<Counted>, Report)>,
}

impl Stat {
    /// Loads our own programs and makes the maps. Nothing is attached yet.
    ///
    /// # Errors
    ///
    /// Usage: a filter or a number of entries that cannot be. Precondition: capabilities.
    pub fn prepare(options: Options) -> Result<Stat> {
        let Options { filter, probes, keep, count_runs } = options;
        if keep.entries == 0 {
            return Err(Error::usage("no room for any tally: one entry is the least"));
        }
        let excluded = filter.excluded.len() as u32;
        let probes = Probes::open(filter, probes, count_runs, Some(keep.clone()), 1)?;
        let started = Instant::now();
        Ok(Stat { probes, keep, told: Vec::new(), count_runs, excluded, started, ended: None })
    }

    /// The programs.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Attaches what was found of a spec that [`Keep::spec`] made of `asked`; as
    /// [`Session::attach_found`](super::Session::attach_found).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn attach(
        &mut self,
        asked: &Spec,
        found: &Found,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Outcome> {
        let outcome = self.probes.attach(found, progress)?;
        for attached in &self.probes.attached()[outcome.attached.clone()] {
            let spec: Spec = attached.schema.spec.parse()?;
            let spec = Spec { fields: asked.fields.clone(), ..spec };
            self.told.push((spec.to_string(), self.keep.kept(&attached.schema)?));
        }
        self.started = Instant::now();
        Ok(outcome)
    }

    /// Nanoseconds since the last probe was attached.
    pub fn elapsed(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// What has been counted so far, by probe. A run that is under way may be half in it.
    ///
    /// # Errors
    ///
    /// Runtime, where the kernel does not let this process read its maps any more.
    pub fn counted(&self) -> Result<Vec<Counted>> {
        Ok(self.merged(&self.probes.tallies()?))
    }

    fn merged(&self, rows: &[Row]) -> Vec<Counted> {
        let told = self.told.iter().cloned();
        let mut all: Vec<Counted> =
            told.map(|(spec, kept)| Counted { spec, kept, ..Counted::default() }).collect();
        for row in rows {
            let Some(counted) = row.probe.checked_sub(1).and_then(|i| all.get_mut(i)) else { continue };
            let signed = counted.kept.signed();
            counted.groups.entry(row.key.clone()).or_default().add(&row.tally, signed);
        }
        all
    }

    /// The accounts of each probe as they stand.
    pub fn accounts(&self) -> Vec<ProbeReport> {
        let mut all = books::by_probe(&self.probes);
        all.iter_mut().zip(&self.told).for_each(|(report, (spec, _))| report.spec.clone_from(spec));
        all
    }

    /// Ends it: detaches, reads every tally, and checks the books. Twice is fine.
    ///
    /// # Errors
    ///
    /// Runtime, where the maps cannot be read.
    pub fn stop(&mut self) -> Result<(Vec<Counted>, Report)> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let elapsed = self.elapsed();
        self.probes.detach();
        // Programs that were running when they were detached have ended after this.
        ring::wait_for_programs();
        let rows = self.probes.tallies()?;
        let mut identities =
            vec![books::accounts(&self.probes), books::pairs(&self.probes), tallies(&self.probes, &rows)];
        if self.count_runs {
            identities.push(books::runs(&self.probes));
        }
        let report = Report {
            elapsed,
            probes: self.accounts(),
            cpus: Vec::new(),
            feeds: Vec::new(),
            sinks: Vec::new(),
            excluded: self.excluded,
            beyond: 0,
            // There is no ring whose end would have to be.
            tail: Tail::Proved,
            identities,
        };
        let ended = (self.merged(&rows), report);
        self.ended = Some(ended.clone());
        Ok(ended)
    }
}

/// The programs' accounts beside what stands in the map.
fn tallies(probes: &Probes, rows: &[Row]) -> Identity {
    let mut identity = Identity::new("tallies", "tallied = sum of counts; values = sum of histogram");
    let mut sums: HashMap<(u32, usize), [u64; 3]> = HashMap::new();
    for Row { cpu, probe, tally, .. } in rows {
        let Tally { count, valued, histogram, .. } = tally;
        let sum = sums.entry((*cpu, *probe)).or_default();
        let more = [*count, *valued, histogram.iter().sum()];
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    for cpu in 0..probes.possible_cpus() {
        for id in 0..probes.ids() {
            let [count, valued, counted] = sums.get(&(cpu, id)).copied().unwrap_or_default();
            let place = format!("probe {id} on cpu {cpu}");
            identity.check(format_args!("{place}, runs"), probes.accounts(cpu, id).tallied, count);
            identity.check(format_args!("{place}, values"), valued, counted);
        }
    }
    identity
}

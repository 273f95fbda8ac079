//! What was asked for on the command line.

use crate::scene::Scene;
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// What was asked for.
pub struct Asked {
    /// How long a round of one reader is.
    pub duration: Duration,
    /// How many.
    pub rounds: usize,
    /// The CPU that makes events.
    pub cpu: u32,
    /// What is measured.
    pub scenes: Vec<Scene>,
    /// What ours must at least be, of the 2015 sample's manner.
    pub at_least: Option<f64>,
    /// JSON in place of tables.
    pub json: bool,
}

impl Asked {
    /// Reads the options, of which these are allowed beside `--duration`, `--rounds` and `--cpu`.
    pub fn read(args: impl Iterator<Item = String>, also: &[&str]) -> Result<Self> {
        let mut asked = Self {
            duration: Duration::from_secs(1),
            rounds: 5,
            cpu: 0,
            scenes: Scene::list("live,paced,burst,drain")?,
            at_least: None,
            json: false,
        };
        let all = [&["--duration", "--rounds", "--cpu"], also].concat();
        let mut args = args;
        while let Some(arg) = args.next() {
            if !all.contains(&arg.as_str()) {
                bail!("there are {}, and no {arg}", all.join(", "));
            }
            if arg == "--json" {
                asked.json = true;
                continue;
            }
            let value = args.next().with_context(|| format!("{arg} takes a value"))?;
            let wrong = || format!("{arg} {value} is no value for it");
            match arg.as_str() {
                "--duration" => {
                    let seconds: f64 = value.trim_end_matches('s').parse().with_context(wrong)?;
                    asked.duration = Duration::try_from_secs_f64(seconds).with_context(wrong)?;
                }
                "--rounds" => asked.rounds = value.parse().with_context(wrong)?,
                "--cpu" => asked.cpu = value.parse().with_context(wrong)?,
                "--workload" => asked.scenes = Scene::list(&value)?,
                _ => asked.at_least = Some(value.parse().with_context(wrong)?),
            }
        }
        if asked.rounds == 0 || asked.duration.is_zero() {
            bail!("no rounds, or rounds of no time, measure nothing");
        }
        Ok(asked)
    }
}

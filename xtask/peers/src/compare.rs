//! All readers in all scenes, round after round.

use crate::args::Asked;
use crate::peer::{Load, PEERS, Peer};
use crate::round::{self, Round, Stage};
use crate::scene::Scene;
use crate::seen::Seen;
use crate::workload;
use anyhow::{Context, Result};
use std::rc::Rc;
use tracer::probe::bench::{Bench, Emit};

/// What was measured of one scene.
pub struct Outcome {
    /// The scene.
    pub scene: Scene,
    /// What made its events.
    pub attached: String,
    /// The rounds of each of [`PEERS`].
    pub rounds: Vec<Vec<Round>>,
}

impl Outcome {
    /// The rounds of the reader of this name.
    pub fn of(&self, name: &str) -> &[Round] {
        PEERS.iter().position(|peer| peer.name == name).map_or(&[], |which| &self.rounds[which])
    }
}

/// Measures. In each round the object is loaded once for all readers of the same [`Load`].
pub fn run(asked: &Asked) -> Result<Vec<Outcome>> {
    workload::keep_off(asked.cpu)?;
    let new = |scene: &Scene| Outcome {
        scene: *scene,
        attached: String::new(),
        rounds: PEERS.iter().map(|_| Vec::new()).collect(),
    };
    let mut all: Vec<Outcome> = asked.scenes.iter().map(new).collect();
    for round in 0..asked.rounds {
        for outcome in &mut all {
            for turn in 0..Load::ALL.len() {
                let load = Load::ALL[(round + turn) % Load::ALL.len()];
                one_load(asked, outcome, load, round)
                    .with_context(|| format!("{:?}, round {round}", outcome.scene))?;
            }
        }
    }
    Ok(all)
}

fn one_load(asked: &Asked, outcome: &mut Outcome, load: Load, round: usize) -> Result<()> {
    let scene = outcome.scene;
    let untraced = if scene.calls() { workload::untraced(asked.cpu)? } else { f64::NAN };
    let emit = load.emit(&scene, workload::online()?);
    let bench = load_object(outcome, &emit)?;
    let peers: Vec<(usize, &Peer)> = PEERS.iter().enumerate().filter(|(_, peer)| peer.load == load).collect();
    for turn in 0..peers.len() {
        let (which, peer) = peers[(round + turn) % peers.len()];
        let stage = Stage {
            bench: &bench,
            emit,
            cpu: asked.cpu,
            pages: scene.pages(),
            seen: Rc::new(Seen::new(emit)),
        };
        let measured = round::measure(peer, &stage, &scene, asked.duration, untraced);
        outcome.rounds[which].push(measured.with_context(|| peer.name)?);
    }
    Ok(())
}

fn load_object(outcome: &mut Outcome, emit: &Emit) -> Result<Bench> {
    if !outcome.scene.calls() {
        "test-run".clone_into(&mut outcome.attached);
        return Ok(Bench::by_hand(emit)?);
    }
    let (bench, _, attached) = Bench::attach(std::process::id(), None, emit)?;
    outcome.attached = attached;
    Ok(bench)
}

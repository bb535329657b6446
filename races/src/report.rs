//! Which runs make up the proof, and what they say.

use crate::cases::{Adversary, Memory, Plant, Protocol, Setting, ADVERSARIES};
use crate::search::{search, Found, Model, Search};
use crate::world::BEGINNINGS;
use rayon::prelude::*;
use serde::Serialize;
use std::fmt::Write as _;

/// One search.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunReport {
    /// Names of the adversaries.
    pub against: Vec<&'static str>,
    /// States visited.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Steps to the farthest state.
    pub depth: u64,
    /// States in which everybody is at the end.
    pub ends: u64,
    /// What went wrong, if anything.
    pub counterexample: Option<Counterexample>,
}

/// A shortest way to a broken property.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Counterexample {
    /// The property, in words.
    pub property: &'static str,
    /// How it is broken.
    pub broken: String,
    /// Names of the adversaries.
    pub against: Vec<&'static str>,
    /// Where it begins.
    pub initial: &'static str,
    /// The steps, "actor: what".
    pub steps: Vec<String>,
    #[serde(skip)]
    mild: bool,
}

/// A protocol against all its adversaries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProtocolReport {
    /// Name.
    pub protocol: &'static str,
    /// Kind of memory.
    pub memory: &'static str,
    /// One line.
    pub doc: &'static str,
    /// No property is broken in any run.
    pub holds: bool,
    /// States of all runs.
    pub states: u64,
    /// Steps of all runs.
    pub transitions: u64,
    /// The runs.
    pub runs: Vec<RunReport>,
}

/// A planted bug.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlantReport {
    /// Name.
    pub plant: &'static str,
    /// What is wrong.
    pub doc: &'static str,
    /// The protocol it is put into.
    pub protocol: &'static str,
    /// States visited until it was found.
    pub states: u64,
    /// How it was found, or nothing.
    pub counterexample: Option<Counterexample>,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RaceReport {
    /// The protocols that must hold.
    pub protocols: Vec<ProtocolReport>,
    /// The bugs that must be found.
    pub plants: Vec<PlantReport>,
}

impl RunReport {
    /// Explores what the engine can do in `limit` steps against adversaries that do so much `work` each.
    fn new(setting: Setting, adversaries: Vec<Adversary>, work: u8, limit: u64) -> Self {
        let against: Vec<_> = adversaries.iter().map(|a| a.name).collect();
        let model = Model {
            setting,
            adversaries,
            work,
        };
        let Search {
            states,
            transitions,
            depth,
            ends,
            found,
        } = search(&model, limit);
        RunReport {
            counterexample: found.map(|f| Counterexample::new(f, against.clone())),
            against,
            states,
            transitions,
            depth,
            ends,
        }
    }
}

impl Counterexample {
    fn new(found: Found, against: Vec<&'static str>) -> Self {
        Counterexample {
            property: found.alarm.property().text(),
            broken: found.alarm.to_string(),
            against,
            initial: BEGINNINGS[found.beginning].text,
            steps: found.steps,
            mild: found.alarm.mild(),
        }
    }

    /// One line a step.
    pub fn text(&self) -> String {
        let mut out = format!("  at first: {}\n", self.initial);
        for (i, step) in self.steps.iter().enumerate() {
            writeln!(out, "  {:>2}. {step}", i + 1).expect("a string takes it");
        }
        writeln!(out, "  broken: {}: {}", self.property, self.broken).expect("a string takes it");
        out
    }
}

/// Everybody alone, then all pairs; the first is nobody.
fn levels() -> [Vec<Vec<Adversary>>; 3] {
    let one = ADVERSARIES.iter().map(|&a| vec![a]).collect();
    let mut two = Vec::new();
    for (i, &a) in ADVERSARIES.iter().enumerate() {
        for &b in &ADVERSARIES[i + 1..] {
            two.push(vec![a, b]);
        }
    }
    [vec![vec![]], one, two]
}

/// A form of the engine and a kind of memory against nobody, everybody alone, and all pairs.
pub fn prove(protocol: Protocol, memory: Memory) -> ProtocolReport {
    let sets: Vec<_> = levels().into_iter().flatten().collect();
    prove_against(protocol, memory, sets)
}

/// A form of the engine and a kind of memory against the given sets of adversaries.
pub fn prove_against(
    protocol: Protocol,
    memory: Memory,
    sets: Vec<Vec<Adversary>>,
) -> ProtocolReport {
    let setting = Setting {
        kind: memory.kind,
        switch: protocol.switch,
        fault: None,
    };
    let runs: Vec<RunReport> = sets
        .into_par_iter()
        .map(|set| {
            // With company, one piece of work each keeps a run within seconds.
            let work = if set.len() < 2 { 2 } else { 1 };
            RunReport::new(setting, set, work, u64::MAX)
        })
        .collect();
    ProtocolReport {
        protocol: protocol.name,
        memory: memory.name,
        doc: protocol.doc,
        holds: runs.iter().all(|r| r.counterexample.is_none()),
        states: runs.iter().map(|r| r.states).sum(),
        transitions: runs.iter().map(|r| r.transitions).sum(),
        runs,
    }
}

/// Looks for planted bugs, each as [`find`] does.
pub fn find_all(plants: &[Plant]) -> Vec<PlantReport> {
    plants.par_iter().map(find).collect()
}

/// Looks for a planted bug: with nobody, with one adversary, then with pairs. A write-out that merely
/// was not quiet is named only if the same sets of adversaries show nothing worse.
pub fn find(plant: &Plant) -> PlantReport {
    let setting = Setting {
        kind: plant.kind,
        switch: plant.switch,
        fault: plant.fault,
    };
    let mut report = PlantReport {
        plant: plant.name,
        doc: plant.doc,
        protocol: plant.protocol,
        states: 0,
        counterexample: None,
    };
    let [none, one, two] = levels();
    let few = [none, one].concat();
    // A few sets at a time, so that a bug that shows early ends the search early.
    for sets in std::iter::once(&few[..]).chain(two.chunks(7)) {
        for set in sets {
            let best = report.counterexample.as_ref().filter(|c| !c.mild);
            if best.is_some_and(|c| c.against.len() < set.len()) {
                break;
            }
            let limit = best.map_or(u64::MAX, |c| c.steps.len() as u64);
            let run = RunReport::new(setting, set.clone(), 1, limit);
            report.states += run.states;
            let both = report.counterexample.into_iter().chain(run.counterexample);
            report.counterexample = both.min_by_key(|c| (c.mild, c.against.len(), c.steps.len()));
        }
        if report.counterexample.is_some() {
            break;
        }
    }
    report
}

impl ProtocolReport {
    /// A table of its runs, and what went wrong.
    pub fn text(&self) -> String {
        let verdict = if self.holds { "holds" } else { "BROKEN" };
        let mut out = format!(
            "{} {verdict} for {}: {} ({} runs, {} states, {} steps)\n",
            self.protocol,
            self.memory,
            self.doc,
            self.runs.len(),
            self.states,
            self.transitions
        );
        for run in &self.runs {
            let against = match run.against.len() {
                0 => "nobody".into(),
                _ => run.against.join(" + "),
            };
            writeln!(
                out,
                "  {against:<28} {:>9} states {:>10} steps  depth {:>3}  ends {:>5}",
                run.states, run.transitions, run.depth, run.ends
            )
            .expect("a string takes it");
            if let Some(c) = &run.counterexample {
                out += &c.text();
            }
        }
        out
    }
}

impl PlantReport {
    /// The counterexample, one line a step.
    pub fn text(&self) -> String {
        let mut out = format!("{} in {}: {}\n", self.plant, self.protocol, self.doc);
        match &self.counterexample {
            Some(c) => {
                let against = match c.against.len() {
                    0 => "nobody".into(),
                    _ => c.against.join(" + "),
                };
                writeln!(out, "  found against {against} in {} steps", c.steps.len())
                    .expect("a string takes it");
                out += &c.text();
            }
            None => out += "  NOT FOUND\n",
        }
        out
    }
}

impl RaceReport {
    /// All protocols hold and all bugs are found.
    pub fn good(&self) -> bool {
        self.protocols.iter().all(|p| p.holds)
            && self.plants.iter().all(|p| p.counterexample.is_some())
    }
}

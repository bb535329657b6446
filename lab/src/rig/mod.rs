//! The rig: a machine to run an experiment or a replay on.
//!
//! An experiment says what hardware it wants ([`Host`]). Everything else of a machine comes from one
//! place, here: the costs, the tick, the scale of sizes and times, kernel memory, fault-around, samples.

mod counts;
mod failure;

pub use counts::Counts;
pub use failure::Failure;

use crate::experiment::{most_pages, ExperimentError, Host, RunInput};
use crate::recording::Recording;
use coldset_engine::batch::BATCH_MAX;
use coldset_engine::memcg::{CounterKind, UNLIMITED};
use coldset_engine::{MemcgId, Scale};
use coldset_machine::{Machine, MachineConfig, MachineError, MachineRun, OpError};
use coldset_report::{RunResult, Samples};
use std::sync::Arc;

/// A machine under load.
pub struct Rig {
    run: MachineRun,
    failure: Failure,
    /// Who records what its tasks do, and its name there.
    recording: Option<(Arc<Recording>, String)>,
    /// The parameters of the run, for messages.
    given: String,
}

impl Rig {
    /// Builds the machine.
    ///
    /// # Errors
    /// Hardware or costs that no machine can have.
    pub fn new(input: &RunInput, host: Host) -> Result<Self, MachineError> {
        let name = host.name.clone();
        let run = MachineRun::new(&config(input, host))?;
        run.machine.world_mut().set_most_pages(most_pages());
        let failure = Failure::new(&run.machine.sim);
        if let Some(recording) = &input.recording {
            recording.begin(&name, &run.machine);
        }
        let recording = input.recording.clone().map(|r| (r, name));
        Ok(Self {
            run,
            failure,
            recording,
            given: given(&input.params),
        })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.run.machine
    }

    /// The machine with its executor, for those who drive it access by access.
    pub fn into_run(self) -> MachineRun {
        // Nobody would ask whether there were too many.
        self.run.machine.world_mut().set_most_pages(u64::MAX);
        self.run
    }

    /// A new memcg below the root.
    ///
    /// # Errors
    /// If there are too many.
    pub fn memcg(&self) -> Result<MemcgId, ExperimentError> {
        self.memcg_below(MemcgId::ROOT)
    }

    /// A new memcg below another one.
    ///
    /// # Errors
    /// If there are too many.
    pub fn memcg_below(&self, parent: MemcgId) -> Result<MemcgId, ExperimentError> {
        let mut w = self.run.machine.world_mut();
        Ok(w.engine.memcg_create(parent)?)
    }

    /// Sets memory.max of a memcg that has no pages yet.
    ///
    /// # Errors
    /// The limit is refused.
    pub fn limit(&self, memcg: MemcgId, pages: u64) -> Result<(), ExperimentError> {
        let tree = &mut self.run.machine.world_mut().engine.memcgs;
        tree.set_max(memcg, CounterKind::Memory, pages)?;
        if let Some((recording, machine)) = &self.recording {
            let mut above = std::iter::successors(tree[memcg].parent(), |&id| tree[id].parent());
            let below = above.any(|id| tree[id].memory().max() < UNLIMITED);
            recording.limit(machine, pages, below);
        }
        Ok(())
    }

    /// A new memcg below the root with memory.max of `pages`.
    ///
    /// # Errors
    /// If there are too many, or the limit is refused.
    pub fn limited(&self, pages: u64) -> Result<MemcgId, ExperimentError> {
        let memcg = self.memcg()?;
        self.limit(memcg, pages)?;
        Ok(memcg)
    }

    /// Where tasks report an operation that has failed.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Runs until nothing is left to happen or a task stops the simulation. `what` was being done, for
    /// the error.
    ///
    /// # Errors
    /// The failure that a task has reported, or more pages than fit.
    pub fn run(&mut self, what: &'static str) -> Result<(), ExperimentError> {
        self.check_size()?;
        self.run.executor.run();
        self.check_size()?;
        match self.failure.get() {
            None => Ok(()),
            Some(error) => Err(ExperimentError::Op { what, error }),
        }
    }

    fn check_size(&self) -> Result<(), ExperimentError> {
        match self.run.machine.world().is_too_large() {
            false => Ok(()),
            true => Err(ExperimentError::TooManyPages {
                most: most_pages(),
                given: self.given.clone(),
            }),
        }
    }

    /// As [`Self::run`], where running out of memory is a result like any other: a counter tells of it.
    ///
    /// # Errors
    /// Any other failure.
    pub fn run_or_oom(&mut self, what: &'static str) -> Result<(), ExperimentError> {
        match self.run(what) {
            Err(ExperimentError::Op {
                error: OpError::NoMemory,
                ..
            }) => Ok(()),
            done => done,
        }
    }

    /// Virtual time, ns.
    pub fn now(&self) -> u64 {
        self.run.executor.now()
    }

    /// Counters of a memcg with everything below it.
    pub fn counts(&self, memcg: MemcgId) -> Counts {
        Counts::of_memcg(&self.run.machine, memcg)
    }

    /// Counters of the whole machine.
    pub fn vmstat(&self) -> Counts {
        Counts::of_machine(&self.run.machine)
    }

    /// What the machine has sampled over virtual time.
    pub fn samples(&self) -> Samples {
        self.run.samples()
    }

    /// Adds the samples to a result, each name after `prefix`.
    pub fn put_samples(&self, prefix: &str, r: &mut RunResult) {
        r.take_samples(prefix, self.samples());
    }
}

/// ` (a=1, b=2)`, or nothing.
fn given(params: &[(String, String)]) -> String {
    let all = params.iter().map(|(name, value)| format!("{name}={value}"));
    let all: Vec<String> = all.collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", all.join(", ")),
    }
}

/// The one translation of an experiment's wishes into a machine.
fn config(input: &RunInput, host: Host) -> MachineConfig {
    let mut cfg = MachineConfig::new(input.switches.clone());
    cfg.cpus = host.cpus.clamp(1, 256) as u16;
    let params = input.costs_on(&host.name);
    cfg.sample_points = input.sample_points;
    cfg.seed = input.seed;
    cfg.engine.seed = input.seed;
    cfg.engine.nr_nodes = host.nodes;
    let scale = input.scale_on(&host);
    cfg.engine.scale = Scale::one_over(scale);
    cfg.engine.time_scale = scale;
    cfg.engine.fold_interval = (cfg.engine.fold_interval / scale).max(1);
    cfg.engine.fold_phase = host.fold_phase.unwrap_or(cfg.engine.fold_interval);
    cfg.engine.swappiness = host.swappiness;
    cfg.engine.batch_size = host.batch.clamp(1, BATCH_MAX as u64) as usize;
    cfg.engine.cgroup_v2 = host.cgroup_v2;
    cfg.ram = host.ram;
    cfg.zones = host.zones;
    cfg.cpu_lists = host.cpu_lists;
    cfg.swap = host.swap;
    cfg.devices = host.devices;
    cfg.shared_tables = host.shared_tables;
    cfg.read_lat_ns = host.read_lat_ns;
    cfg.file_system = host.file_system;
    cfg.large_folios = host.large_folios;
    cfg.thp = host.thp;
    cfg.dirty = host.dirty.over(cfg.dirty);
    cfg.dirty_balance = host.dirty_balance;
    cfg.memcg_writeback = host.memcg_writeback;
    cfg.inline_on_cpu = host.inline_on_cpu;
    cfg.page_cluster = host.page_cluster;
    cfg.watermark_scale_factor = host.watermark_scale_factor;
    cfg.read_ahead = host.read_ahead;
    cfg.fault_around = params.fault_around_max_ptes as u32;
    cfg.kernel_memory = params.kernel_memory_enabled == 1;
    cfg.engine.resched_in_lists = params.resched_in_lists_enabled == 1;
    cfg.params = params;
    cfg.stop_at_oom = host.stop_at_oom;
    cfg.check = host.check;
    cfg
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::presets::preset;
    use coldset_machine::MappingFlags;

    #[test]
    fn more_pages_than_fit_are_an_error() {
        let mut input = RunInput::new("v5", preset("v5").unwrap());
        input.params = vec![("a".into(), "1".into()), ("b".into(), "2".into())];
        let mut rig = Rig::new(&input, Host::default()).unwrap();
        let machine = rig.machine().clone();
        machine.world_mut().set_most_pages(1000);
        machine.create_file(0, 1000);
        // Of which few pages are used: it takes memory by those.
        machine.create_scattered_file(0, 1000);
        rig.run("nothing").unwrap();
        let large = machine.create_anon(u32::MAX);
        let mm = machine.create_mm(MemcgId::ROOT);
        machine.mmap(mm, large, 0, u32::MAX, MappingFlags::empty());
        let said = rig.run("nothing").unwrap_err().to_string();
        assert!(said.contains("smaller values (a=1, b=2)"), "{said}");
    }
}

//! A workload at one scale, effort and set of parameters.

use super::fields::{Fields, Setting};
use super::machine::{self, MachineSpec};
use super::places::{self, Cgroup, Region};
use super::results::{self, ResultSpec};
use super::tasks::{self, Action, Cpu, Group};
use super::tree::Node;
use super::WorkloadError;

/// What a run does.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub machines: Vec<MachineSpec>,
    pub cgroups: Vec<Cgroup>,
    pub regions: Vec<Region>,
    pub groups: Vec<Group>,
    pub results: Vec<ResultSpec>,
}

impl Description {
    /// Reads what a run needs; the rest of the keys is [`super::Workload`]'s.
    pub fn read(setting: &Setting<'_>, node: &Node) -> Result<Self, WorkloadError> {
        let top = Fields::top(setting, node)?;
        let machines = machine::read(&top)?;
        let cgroups = places::cgroups(&top, &machines)?;
        let regions = places::regions(&top, &machines)?;
        let groups = tasks::read(&top, &machines, &cgroups, &regions)?;
        let results = results::read(&top, &machines, &cgroups, &groups)?;
        Ok(Self {
            machines,
            cgroups,
            regions,
            groups,
            results,
        })
    }

    /// Rows of the table of costs that the steps charge.
    pub fn charged(&self) -> Vec<&'static str> {
        let mut rows = Vec::new();
        let phases = self.groups.iter().flat_map(|g| &g.phases);
        for step in phases.flat_map(|p| &p.steps) {
            if let Some(Cpu::Row(row)) = step.cpu {
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// Regions that a group maps, or opens, on a machine, in the order in which they are listed.
    pub fn used<'a>(&'a self, group: &Group, machine: &str, mapped: bool) -> Vec<&'a Region> {
        let steps = || group.phases.iter().flat_map(|p| &p.steps);
        let names = |r: &Region| {
            steps().any(|s| match &s.action {
                Action::Block(access, blocks) => {
                    access.is_mapped() == mapped && blocks.region == r.name
                }
                Action::Fsync(name) | Action::Truncate(name) => !mapped && *name == r.name,
                Action::Sleep(_) | Action::Compute => false,
            })
        };
        let here = self.regions.iter().filter(|r| r.on.has(machine));
        here.filter(|r| names(r)).collect()
    }
}

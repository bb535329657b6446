//! Runs a workload on one machine.

use super::description::Description;
use super::machine::MachineSpec;
use super::measure::{GroupMeter, Meter};
use super::places::{Fill, Kind, Region};
use super::task::{tables, task, Body};
use super::tasks::Group;
use crate::draw::Stream;
use crate::experiment::{ExperimentError, RunInput};
use crate::rig::Rig;
use coldset_engine::memcg::CounterKind;
use coldset_engine::{MemcgId, MmId, ObjectId};
use coldset_machine::sim::Affinity;
use coldset_machine::{Machine, MappingId};
use coldset_report::RunResult;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Files that all processes share, by name.
type Shared = BTreeMap<String, ObjectId>;

/// One machine's part of a run.
pub(super) fn run(
    input: &RunInput,
    description: &Description,
    spec: &MachineSpec,
    r: &mut RunResult,
) -> Result<(), ExperimentError> {
    let mut rig = Rig::new(input, spec.host.clone())?;
    let machine = rig.machine().clone();
    let here = |g: &&Group| g.on.has(&spec.name);
    let cgroups = cgroups(&rig, description, &spec.name)?;
    let mut shared = Shared::new();
    for region in description.regions.iter().filter(|r| r.on.has(&spec.name)) {
        if let Kind::File { own: false, .. } = region.kind {
            shared.insert(region.name.clone(), create(&machine, region));
        }
    }
    let groups: Vec<&Group> = description.groups.iter().filter(here).collect();
    let meters = groups
        .iter()
        .map(|g| GroupMeter::new(&machine, g))
        .collect();
    let meter = Rc::new(Meter::new(&rig, meters, cgroups.clone()));
    for (number, group) in groups.iter().enumerate() {
        let group = Rc::new((*group).clone());
        let memcg = group.cgroup.as_ref().map_or(MemcgId::ROOT, |name| {
            let found = cgroups.iter().find(|(n, _)| n == name);
            found.map_or(MemcgId::ROOT, |(_, id)| *id)
        });
        let tables = tables(&group)?;
        let mut process = None;
        for index in 0..group.count {
            let process = match (&process, group.threads) {
                (Some(process), true) => Rc::clone(process),
                _ => {
                    let of = &shared;
                    let new = Rc::new(Process::new(
                        &machine,
                        description,
                        &group,
                        &spec.name,
                        memcg,
                        of,
                    ));
                    process = Some(Rc::clone(&new));
                    new
                }
            };
            let mm = process.mm;
            let draw = Stream::new(input.seed, &group.draws, index);
            let body = Body::new(
                input,
                &group,
                tables.clone(),
                (number, index),
                process,
                &meter,
                draw,
            )?;
            machine.spawn(&group.name, Affinity::Any, mm, move |m, ctx| {
                task(m, ctx, body)
            });
        }
    }
    rig.run_or_oom("a task of the workload")?;
    if let Some(why) = meter.stuck() {
        return Err(ExperimentError::Stuck(why));
    }
    let quantities = meter.quantities(&rig);
    for result in &description.results {
        r.set(
            format!("{}{}", spec.host.name, result.name),
            quantities.value(&result.formula),
        );
    }
    quantities.histograms(&spec.host.name, r);
    rig.put_samples(&spec.host.name, r);
    Ok(())
}

fn cgroups(
    rig: &Rig,
    description: &Description,
    machine: &str,
) -> Result<Vec<(String, MemcgId)>, ExperimentError> {
    let mut all: Vec<(String, MemcgId)> = Vec::new();
    for c in description.cgroups.iter().filter(|c| c.on.has(machine)) {
        let above = c.parent.as_ref().and_then(|parent| {
            let found = all.iter().find(|(name, _)| name == parent);
            found.map(|(_, id)| *id)
        });
        let id = rig.memcg_below(above.unwrap_or(MemcgId::ROOT))?;
        if let Some(pages) = c.limit {
            rig.limit(id, pages)?;
        }
        let tree = &mut rig.machine().world_mut().engine.memcgs;
        if let Some(pages) = c.high {
            tree.set_high(id, CounterKind::Memory, pages)?;
        }
        if let Some(pages) = c.low {
            tree.set_low(id, pages)?;
        }
        if let Some(pages) = c.min {
            tree.set_min(id, pages)?;
        }
        if let Some(pages) = c.swap_limit {
            tree.set_max(id, CounterKind::Swap, pages)?;
        }
        all.push((c.name.clone(), id));
    }
    Ok(all)
}

fn create(machine: &Machine, region: &Region) -> ObjectId {
    match region.kind {
        Kind::File { device, .. } => machine.create_file(device, region.pages),
        Kind::Anon(Fill::Mixed) => machine.create_anon(region.pages),
        Kind::Anon(Fill::Same) => machine.create_anon_same_filled(region.pages),
        Kind::Anon(Fill::Random) => machine.create_anon_random(region.pages),
    }
}

/// An address space with what is mapped in it.
pub(super) struct Process {
    mm: MmId,
    /// By the region's name.
    pub maps: BTreeMap<String, MappingId>,
    /// Files with how they are used, likewise.
    pub files: BTreeMap<String, (ObjectId, coldset_machine::Advice)>,
}

impl Process {
    fn new(
        machine: &Machine,
        description: &Description,
        group: &Group,
        on: &str,
        memcg: MemcgId,
        shared: &Shared,
    ) -> Self {
        let mapped = description.used(group, on, true);
        let opened = description.used(group, on, false);
        let mut objects = shared.clone();
        for region in mapped.iter().chain(&opened) {
            let own = objects.entry(region.name.clone());
            own.or_insert_with(|| create(machine, region));
        }
        let mm = machine.create_mm(memcg);
        let map = |r: &&Region| {
            let id = machine.mmap(mm, objects[&r.name], 0, r.pages, r.flags);
            (r.name.clone(), id)
        };
        let open = |r: &&Region| match r.kind {
            Kind::File { advice, .. } => Some((r.name.clone(), (objects[&r.name], advice))),
            Kind::Anon(_) => None,
        };
        Self {
            maps: mapped.iter().map(map).collect(),
            files: opened.iter().filter_map(open).collect(),
            mm,
        }
    }
}

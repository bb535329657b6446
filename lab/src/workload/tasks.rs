//! Groups of tasks, their phases and steps.

use super::fields::{Fields, Item, Times};
use super::machine::MachineSpec;
use super::places::{Cgroup, Kind, On, Region};
use super::WorkloadError;
use coldset_machine::Params;

/// Tasks that do the same.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub name: String,
    pub on: On,
    pub count: u64,
    pub threads: bool,
    pub cgroup: Option<String>,
    pub start: Times,
    pub background: bool,
    pub draws: String,
    pub phases: Vec<Phase>,
}

/// A part of their work.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub end: End,
    pub measured: bool,
    pub together: bool,
    pub steps: Vec<Step>,
}

/// When a phase is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// So many ns after the phase before it.
    Time(u64),
    /// After so many operations.
    Count(u64),
    /// When a step has come to the end of its region.
    Through,
}

/// One of the things an operation does.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub action: Action,
    pub cpu: Option<Cpu>,
    pub times: u64,
    /// In millionths.
    pub chance: u64,
}

/// What it does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Something with blocks of a region.
    Block(Access, Blocks),
    /// Waits for what is dirty.
    Fsync(String),
    /// Drops everything.
    Truncate(String),
    /// Thinks.
    Sleep(Times),
    /// Only computes.
    Compute,
}

/// How a block is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
    Pread,
    Pwrite { partial: bool },
}

impl Access {
    /// Through a mapping, not a descriptor.
    pub fn is_mapped(self) -> bool {
        matches!(self, Self::Load | Self::Store)
    }
}

/// Which blocks of a region.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub region: String,
    /// First page of the part that is used.
    pub first: u32,
    /// Pages of a block.
    pub size: u32,
    /// Blocks.
    pub count: u32,
    pub choice: Choice,
}

/// Which one next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice {
    Uniform,
    Sequential,
    Cyclic,
    Share,
    Zipf { theta: f64, own: bool },
    Hot { blocks: u32, hits: u64 },
}

/// CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cpu {
    /// So long.
    Time(Times),
    /// As long as a row of the table of costs says.
    Row(&'static str),
}

/// A whole, in millionths.
pub(super) const WHOLE: u64 = 1_000_000;
/// Shortest time of a phase, ns.
const SHORTEST: u64 = 1_000_000;
/// Most tasks.
const TASKS: u64 = 10_000;

const ACTIONS: [&str; 7] = [
    "load", "store", "pread", "pwrite", "fsync", "truncate", "sleep",
];

/// What a group can name.
struct Known<'a> {
    regions: Vec<&'a Region>,
    cgroups: Vec<&'a Cgroup>,
    /// Only phases that are marked are measured.
    marked: bool,
}

/// All groups.
pub(super) fn read(
    top: &Fields<'_>,
    machines: &[MachineSpec],
    cgroups: &[Cgroup],
    regions: &[Region],
) -> Result<Vec<Group>, WorkloadError> {
    let mut all: Vec<Group> = Vec::new();
    let tables = top.tables("tasks")?;
    let marked = is_marked(&tables)?;
    for fields in &tables {
        let on = On::read(fields, machines)?;
        // What a group names must be on every machine that runs it; one of the name on each will do.
        let mine: Vec<&str> = (machines.iter().map(|m| m.name.as_str()))
            .filter(|m| on.has(m))
            .collect();
        let everywhere = |name: &str| {
            let has = |m: &&str| cgroups.iter().any(|c| c.name == name && c.on.has(m));
            mine.iter().all(has)
        };
        let known = Known {
            regions: (regions.iter())
                .filter(|r| mine.iter().all(|m| r.on.has(m)))
                .collect(),
            cgroups: cgroups.iter().filter(|c| everywhere(&c.name)).collect(),
            marked,
        };
        let group = group(fields, on, &known)?;
        let twice = |g: &Group| g.name == group.name && mine.iter().any(|m| g.on.has(m));
        if all.iter().any(twice) {
            return Err(fields.error(format!("a second one is called '{}'", group.name)));
        }
        all.push(group);
    }
    for machine in machines {
        let mut here = all.iter().filter(|g| g.on.has(&machine.name));
        if !here.clone().any(|g| !g.background) {
            return Err(top.error(match (here.next(), machine.name.as_str()) {
                (Some(_), _) => {
                    "all tasks are in the background: the run would end at once".to_owned()
                }
                (None, "") => "there are no tasks; describe some: [[tasks]]".to_owned(),
                (None, name) => format!("no tasks run on machine '{name}'"),
            }));
        }
    }
    Ok(all)
}

/// That a phase is marked as measured. Without a mark all of them are.
fn is_marked(groups: &[Fields<'_>]) -> Result<bool, WorkloadError> {
    for group in groups {
        for phase in group.tables("phases")? {
            if phase.flag("measured", false)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn group(fields: &Fields<'_>, on: On, known: &Known<'_>) -> Result<Group, WorkloadError> {
    let name = fields.need("name")?.name()?;
    let cgroup = fields.read("cgroup", |item| {
        let name = item.text()?;
        match known.cgroups.iter().any(|c| c.name == name) {
            true => Ok(name),
            false => Err(item.unknown("cgroup", known.cgroups.iter().map(|c| c.name.as_str()))),
        }
    })?;
    let tables = fields.tables("phases")?;
    if tables.is_empty() {
        return Err(fields.error("the tasks have nothing to do: give them [[tasks.phases]]"));
    }
    let phases: Result<Vec<_>, _> = tables.iter().map(|p| phase(p, known)).collect();
    let scale = fields.setting.scale;
    let start = fields.read("start", Item::times)?.unwrap_or_default();
    Ok(Group {
        on,
        count: fields.number("count", 1..=TASKS, 1)?,
        threads: fields.flag("threads", false)?,
        cgroup,
        start: Times {
            least: start.least / scale,
            end: start.end / scale,
        },
        background: fields.flag("background", false)?,
        draws: match fields.read("draws", Item::name)? {
            Some(draws) => draws,
            None => name.clone(),
        },
        phases: phases?,
        name,
    })
}

fn phase(fields: &Fields<'_>, known: &Known<'_>) -> Result<Phase, WorkloadError> {
    let measured = fields.flag("measured", false)? || !known.marked;
    let tables = fields.tables("steps")?;
    if tables.is_empty() {
        return Err(fields.error("it has no steps: steps = [{ load = \"NAME\" }]"));
    }
    let steps: Result<Vec<Step>, _> = tables.iter().map(|s| step(s, known)).collect();
    let steps = steps?;
    let (scale, effort) = (fields.setting.scale, fields.setting.effort_permille);
    let part = |whole: u64| match measured {
        true => (u128::from(whole / scale) * u128::from(effort) / 1000) as u64,
        false => whole / scale,
    };
    let end = match fields.given(&["time", "count"]).as_slice() {
        ["time"] => End::Time(part(fields.need("time")?.time()?).max(SHORTEST)),
        ["count"] => End::Count(part(fields.need("count")?.number(1..=1 << 40)?).max(1)),
        [] if steps.iter().any(Step::ends) => End::Through,
        [] => {
            return Err(fields.error(
                "nothing ends it: give it a time or a count, or a step with at = \"sequential\" or \"share\"",
            ))
        }
        _ => return Err(fields.error("it has a time and a count; give it one of them")),
    };
    Ok(Phase {
        end,
        measured,
        together: fields.flag("together", false)?,
        steps,
    })
}

impl Step {
    /// It comes to an end by itself.
    fn ends(&self) -> bool {
        match &self.action {
            Action::Block(_, blocks) => blocks.choice.ends(),
            _ => false,
        }
    }
}

impl Choice {
    /// It comes to an end.
    pub fn ends(self) -> bool {
        matches!(self, Self::Sequential | Self::Share)
    }
}

fn step(fields: &Fields<'_>, known: &Known<'_>) -> Result<Step, WorkloadError> {
    let action = match fields.given(&ACTIONS).as_slice() {
        [one] => action(fields, one, known)?,
        [] if !fields.given(&["cpu"]).is_empty() => Action::Compute,
        [] => {
            return Err(fields.error(format!(
                "it does nothing: write one of {}, cpu",
                ACTIONS.join(", ")
            )))
        }
        several => {
            let list = several.join(" and ");
            return Err(fields.error(format!("{list} are in one step; write a step for each")));
        }
    };
    if !matches!(action, Action::Block(..)) {
        if let Some(key) = fields.given(&["at", "size", "part", "partial"]).first() {
            return Err(fields.error(format!("'{key}' goes with load, store, pread and pwrite")));
        }
    }
    if !matches!(action, Action::Block(Access::Pwrite { .. }, _))
        && fields.given(&["partial"]).len() == 1
    {
        return Err(fields.error("'partial' goes with pwrite"));
    }
    let chance = fields.read("chance", Item::share)?.unwrap_or(WHOLE);
    if chance == 0 {
        return Err(fields.error("a chance of 0%: the step is never done; leave it out"));
    }
    Ok(Step {
        action,
        cpu: fields.read("cpu", cpu)?,
        times: fields.number("times", 1..=1_000_000, 1)?,
        chance,
    })
}

fn cpu(item: &Item<'_>) -> Result<Cpu, WorkloadError> {
    let word = item.text().unwrap_or_default();
    if let Some(&row) = Params::NAMES.iter().find(|row| **row == word) {
        return Ok(Cpu::Row(row));
    }
    match word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => Err(item.unknown("cost", Params::NAMES.iter().copied())),
        false => item.times().map(Cpu::Time),
    }
}

fn region<'a>(
    item: &Item<'_>,
    known: &Known<'a>,
    files: bool,
) -> Result<&'a Region, WorkloadError> {
    let name = item.text()?;
    let fits = |r: &&&Region| !files || matches!(r.kind, Kind::File { .. });
    let here = known.regions.iter().filter(fits);
    match here.clone().find(|r| r.name == name) {
        Some(region) => Ok(*region),
        None => {
            let what = if files { "file" } else { "file or memory" };
            Err(item.unknown(what, here.map(|r| r.name.as_str())))
        }
    }
}

fn action(fields: &Fields<'_>, key: &str, known: &Known<'_>) -> Result<Action, WorkloadError> {
    let item = fields.need(key)?;
    let access = match key {
        "sleep" => return Ok(Action::Sleep(item.times()?)),
        "fsync" => return Ok(Action::Fsync(region(&item, known, true)?.name.clone())),
        "truncate" => return Ok(Action::Truncate(region(&item, known, true)?.name.clone())),
        "load" => Access::Load,
        "store" => Access::Store,
        "pread" => Access::Pread,
        _ => Access::Pwrite {
            partial: fields.flag("partial", false)?,
        },
    };
    let region = region(&item, known, !access.is_mapped())?;
    Ok(Action::Block(access, blocks(fields, region)?))
}

fn blocks(fields: &Fields<'_>, region: &Region) -> Result<Blocks, WorkloadError> {
    let size = fields.read("size", Item::block)?.unwrap_or(1);
    let part = fields.read("part", |item| match item.list()?.as_slice() {
        [from, to] => match (from.share()?, to.share()?) {
            (from, to) if from < to => Ok((from, to)),
            _ => Err(item.error("the part ends before it begins")),
        },
        _ => Err(item.expected("two shares: [\"0%\", \"50%\"]")),
    })?;
    let (from, to) = part.unwrap_or((0, WHOLE));
    let at = |share: u64| (u64::from(region.pages) * share / WHOLE) as u32;
    let (first, end) = (at(from), at(to));
    let count = (end - first) / size as u32;
    if count == 0 {
        return Err(fields.error(format!(
            "no block fits: {} KiB of '{}' are used, a block is {} KiB",
            u64::from(end - first) * 4,
            region.name,
            size * 4
        )));
    }
    Ok(Blocks {
        region: region.name.clone(),
        first,
        size: size as u32,
        count,
        choice: match fields.get("at")? {
            None => Choice::Uniform,
            Some(item) => choice(&item, count)?,
        },
    })
}

fn choice(item: &Item<'_>, count: u32) -> Result<Choice, WorkloadError> {
    if !item.is_table() {
        let words = [
            ("uniform", Choice::Uniform),
            ("sequential", Choice::Sequential),
            ("cyclic", Choice::Cyclic),
            ("share", Choice::Share),
        ];
        return item.one_of(&words).map_err(|_| {
            item.expected("uniform, sequential, cyclic, share, { zipf = 1.1 } or { hot = \"10%\" }")
        });
    }
    let fields = item.table("at")?;
    match fields.given(&["zipf", "hot"]).as_slice() {
        ["zipf"] => {
            if !fields.given(&["hits"]).is_empty() {
                return Err(fields.error("'hits' goes with hot"));
            }
            let theta = fields.need("zipf")?;
            let value = theta.real(0.1..=4.0)?;
            if (value - 1.0).abs() < 0.01 {
                return Err(theta.expected(
                    "a number at least 0.01 away from 1: the formula divides by 1 - theta",
                ));
            }
            if count < 3 {
                return Err(theta.error(format!("{count} blocks are too few for zipf; it takes 3")));
            }
            Ok(Choice::Zipf {
                theta: value,
                own: fields.flag("own_hot", false)?,
            })
        }
        ["hot"] => {
            if !fields.given(&["own_hot"]).is_empty() {
                return Err(fields.error("'own_hot' goes with zipf"));
            }
            let item = fields.need("hot")?;
            let blocks = (u64::from(count) * item.share()? / WHOLE) as u32;
            if blocks == 0 || blocks == count {
                return Err(item.error(format!(
                    "{blocks} of {count} blocks are hot; take another share"
                )));
            }
            Ok(Choice::Hot {
                blocks,
                hits: fields.read("hits", Item::share)?.unwrap_or(WHOLE / 10 * 9),
            })
        }
        _ => Err(fields.error("write { zipf = 1.1 } or { hot = \"10%\" }")),
    }
}

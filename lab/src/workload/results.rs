//! What is reported of a machine: quantities, and formulas over them.

use super::fields::{Fields, Item};
use super::formula::Formula;
use super::machine::MachineSpec;
use super::places::Cgroup;
use super::tasks::Group;
use super::WorkloadError;
use coldset_engine::Counter;
use coldset_nearest::did_you_mean;

/// A quantity that is measured, and what it is.
pub type Quantity = (&'static str, &'static str);

/// Of a group (`GROUP.ops`), and without a group's name of all that are not in the background.
pub const OF_GROUP: &[Quantity] = &[
    ("ops", "operations of measured phases that were finished"),
    ("pages", "pages that they loaded, stored, read or wrote"),
    ("finished", "tasks that came to the end of all their phases"),
    (
        "killed",
        "tasks that ran out of memory, or were killed for it",
    ),
    ("mean_us", "mean time of an operation, us"),
    ("p50_us", "median of the times of operations, us"),
    ("p90_us", "90th percentile, us"),
    ("p95_us", "95th percentile, us"),
    ("p99_us", "99th percentile, us"),
    ("p999_us", "99.9th percentile, us"),
    ("max_us", "longest time, us"),
];

/// Of a machine.
pub const OF_MACHINE: &[Quantity] = &[
    (
        "seconds",
        "measured time, s: that of the measured phases if all of them have one, else from the first operation to the end",
    ),
    ("ops_per_s", "ops / seconds"),
    ("mib_per_s", "pages / 256 / seconds"),
    ("elapsed_ns", "from the start of the first task to the end of the run, ns"),
    ("tasks", "tasks that are not in the background"),
];

/// Sums of counters, which are named with them.
pub const SUMS: &[Quantity] = &[
    (
        "pgscan",
        "pages scanned, by direct reclaim and kswapd. Kernels before 7.2 count reclaim for the limit of a cgroup in that \
         cgroup alone: on a machine with several cgroups, ask for `NAME.pgscan`",
    ),
    ("pgsteal", "pages reclaimed, counted in the same way"),
];

/// Reported of a workload that says nothing about it.
const DEFAULT: &[&str] = &[
    "ops_per_s",
    "mib_per_s",
    "mean_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "ops",
    "seconds",
    "finished",
    "killed",
    "pgfault",
    "pgmajfault",
    "workingset_refault_file",
    "workingset_refault_anon",
    "pswpin",
    "pswpout",
    "pgscan",
    "pgsteal",
    "pgactivate",
    "pgrefill",
    "aging_runs",
    "throttle_waits",
    "oom_kill",
];

/// A line of the results of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResultSpec {
    pub name: String,
    pub formula: Formula,
}

/// Names of counters and their sums.
fn counted() -> impl Iterator<Item = &'static str> {
    let counters = Counter::without_huge_pages().map(|c| c.name());
    counters.chain(SUMS.iter().map(|(name, _)| *name))
}

/// Every quantity that a machine has.
fn known(machine: &MachineSpec, cgroups: &[Cgroup], groups: &[Group]) -> Vec<String> {
    let plain = OF_GROUP.iter().chain(OF_MACHINE).map(|(name, _)| *name);
    let mut all: Vec<String> = plain.chain(counted()).map(str::to_owned).collect();
    for group in groups.iter().filter(|g| g.on.has(&machine.name)) {
        all.extend(OF_GROUP.iter().map(|(q, _)| format!("{}.{q}", group.name)));
    }
    for cgroup in cgroups.iter().filter(|c| c.on.has(&machine.name)) {
        all.extend(counted().map(|q| format!("{}.{q}", cgroup.name)));
    }
    all
}

fn one(item: &Item<'_>) -> Result<ResultSpec, WorkloadError> {
    let text = item.text()?;
    let (name, formula) = match text.split_once('=') {
        Some((name, formula)) => (name.trim(), Formula::parse(formula)),
        None => (text.trim(), Ok(Formula::Name(text.trim().to_owned()))),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(good) {
        return Err(item.expected("\"NAME\" or \"NAME = FORMULA\""));
    }
    Ok(ResultSpec {
        name: name.to_owned(),
        formula: formula.map_err(|e| item.error(e))?,
    })
}

/// What reclaim for limits did, where machines count it in cgroups alone: of one among several, on all machines.
fn of_limits(machines: &[MachineSpec], cgroups: &[Cgroup]) -> Vec<String> {
    let everywhere = |c: &&Cgroup| machines.iter().all(|m| c.on.has(&m.name));
    let limited = |c: &&Cgroup| c.limit.is_some();
    let names = |c: &Cgroup| {
        SUMS.iter()
            .map(|(q, _)| format!("{}.{q}", c.name))
            .collect::<Vec<_>>()
    };
    match cgroups.len() {
        0 | 1 => Vec::new(),
        _ => cgroups
            .iter()
            .filter(everywhere)
            .filter(limited)
            .flat_map(names)
            .collect(),
    }
}

/// The results of each machine.
pub(super) fn read(
    top: &Fields<'_>,
    machines: &[MachineSpec],
    cgroups: &[Cgroup],
    groups: &[Group],
) -> Result<Vec<ResultSpec>, WorkloadError> {
    let Some(list) = top.get("results")? else {
        let plain = |name: String| ResultSpec {
            formula: Formula::Name(name.clone()),
            name,
        };
        let all = DEFAULT.iter().map(|&name| name.to_owned());
        let all = all.chain(of_limits(machines, cgroups));
        return Ok(all.map(plain).collect());
    };
    let mut all: Vec<ResultSpec> = Vec::new();
    for item in list.list()? {
        let result = one(&item)?;
        if all.iter().any(|r| r.name == result.name) {
            return Err(item.error(format!("'{}' is listed twice", result.name)));
        }
        for machine in machines {
            let known = known(machine, cgroups, groups);
            let names = result.formula.names();
            if let Some(name) = names.iter().find(|n| !known.iter().any(|k| k == **n)) {
                let near = did_you_mean(name, known.iter().map(String::as_str));
                return Err(item.error(format!(
                    "there is no quantity '{name}' (see docs/reference/workloads.md){near}"
                )));
            }
        }
        all.push(result);
    }
    match all.is_empty() {
        true => Err(list.error("name at least one result, or leave the key out")),
        false => Ok(all),
    }
}

/// Their names in the run's result, with those of the machines.
pub(super) fn names(results: &[ResultSpec], machines: &[MachineSpec]) -> Vec<String> {
    let of = |m: &MachineSpec| {
        let prefix = m.host.name.clone();
        let name = move |r: &ResultSpec| format!("{prefix}{}", r.name);
        results.iter().map(name).collect::<Vec<_>>()
    };
    machines.iter().flat_map(of).collect()
}

//! What other programs did to a run.

use crate::cgroup::Cgroup;
use crate::grouped::grouped;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// Something that was not the trace's doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disturbance {
    /// What, as the kernel calls it: `drop_pagecache`, `drop_slab`, `pgscan_kswapd`, `allocstall`, `pgscan_proactive`; `tasks`
    /// in the group.
    pub name: &'static str,
    /// Times, pages or tasks.
    pub count: u64,
}

impl Disturbance {
    /// The machine, rather than the group, was short of memory.
    pub(crate) fn is_shortage(&self) -> bool {
        ["pgscan_kswapd", "allocstall"].contains(&self.name)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = grouped(self.count);
        let s = if self.count == 1 { "" } else { "s" };
        match self.name {
            "drop_pagecache" => write!(f, "the page cache was dropped {n} time{s}"),
            "drop_slab" => write!(f, "slabs were dropped {n} time{s}"),
            "pgscan_kswapd" => write!(f, "kswapd scanned {n} page{s} of the machine"),
            "allocstall" => write!(f, "the machine was out of free memory {n} time{s}"),
            "pgscan_proactive" => write!(f, "memory.reclaim scanned {n} page{s}"),
            "tasks" => write!(f, "{n} other task{s} in the cgroup"),
            name => write!(f, "{name} {n}"),
        }
    }
}

/// What would show a disturbance, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Watch {
    /// Counters that only grow.
    grown: BTreeMap<&'static str, u64>,
    tasks: u64,
}

impl Watch {
    /// `stat` is the group's `memory.stat`, `vmstat` the machine's.
    pub(crate) fn read(group: &Cgroup, stat: &str, vmstat: &str) -> Self {
        Self {
            tasks: others(group.path()),
            ..Self::parse(stat, vmstat)
        }
    }

    /// The machine's `pgscan_direct` is of no use: some kernels count reclaim for a limit there. That is nobody's stall, though,
    /// and never kswapd's.
    fn parse(stat: &str, vmstat: &str) -> Self {
        let value = |text: &str, name: &str| -> Option<u64> {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
            text.lines().find_map(value)
        };
        let mut grown = BTreeMap::new();
        for name in ["drop_pagecache", "drop_slab", "pgscan_kswapd"] {
            grown.extend(value(vmstat, name).map(|n| (name, n)));
        }
        grown.extend(value(stat, "pgscan_proactive").map(|n| ("pgscan_proactive", n)));
        // One for each zone.
        let stalls = vmstat.lines().filter(|line| line.starts_with("allocstall"));
        let stalls = stalls.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok());
        grown.extend(stalls.reduce(|a, b| a + b).map(|n| ("allocstall", n)));
        Self { grown, tasks: 0 }
    }

    /// What has happened since `before`.
    pub(crate) fn since(&self, before: &Self) -> Vec<Disturbance> {
        let both = self.grown.iter().filter_map(|(&name, now)| {
            let was = before.grown.get(name)?;
            Some((name, now.saturating_sub(*was)))
        });
        let all = both.chain([("tasks", self.tasks.max(before.tasks))]);
        let all = all.filter(|(_, count)| *count > 0);
        all.map(|(name, count)| Disturbance { name, count })
            .collect()
    }
}

/// The parent of a process.
fn parent(pid: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Processes in a group and below that are not children of this one, as workers are.
fn others(group: &Path) -> u64 {
    let procs = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let ours = std::process::id();
    let other = |pid: &&str| parent(pid).is_some_and(|parent| parent != ours);
    let own = procs.lines().filter(other).count() as u64;
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    let below = below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    own + below.map(|e| others(&e.path())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_did_is_told_apart_from_the_limit() {
        let stat = |n: u64| format!("pgscan {n}\npgscan_direct {n}\npgscan_proactive 3\n");
        let vmstat = |kswapd: u64, direct: u64, stalls: u64, slab: u64| {
            format!(
                "allocstall_dma 4\nallocstall_normal {stalls}\npgscan_kswapd {kswapd}\npgscan_direct {direct}\n\
                 drop_pagecache 1\ndrop_slab {slab}\n"
            )
        };
        let before = Watch::parse(&stat(10), &vmstat(7, 10, 1, 2));
        // Some kernels count the limit's scans for the machine, too.
        let quiet = Watch::parse(&stat(5000), &vmstat(7, 5000, 1, 2));
        assert_eq!(quiet.since(&before), []);
        let stat = stat(5000).replace("proactive 3", "proactive 40");
        let mut loud = Watch::parse(&stat, &vmstat(2007, 5000, 2, 3));
        loud.tasks = 2;
        let said: Vec<String> = loud
            .since(&before)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "the machine was out of free memory 1 time",
            "slabs were dropped 1 time",
            "kswapd scanned 2,000 pages of the machine",
            "memory.reclaim scanned 37 pages",
            "2 other tasks in the cgroup",
        ];
        assert_eq!(said, expected);
        // A counter that is not there says nothing.
        assert_eq!(loud.since(&Watch::default()).len(), 1);
    }

    #[test]
    fn a_child_is_no_other_task() {
        let child = std::process::Command::new("sleep").arg("10").spawn();
        let mut child = child.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let procs = dir.path().join("cgroup.procs");
        fs::write(&procs, format!("{}\n", child.id())).unwrap();
        let alone = others(dir.path());
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), "1\n").unwrap();
        let both = others(dir.path());
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!((alone, both), (0, 1));
    }
}

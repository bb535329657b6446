//! What the kernel counted, by the names the lab has for it.
//!
//! Version 2 counts nearly everything by group. Version 1 counts refaults and faults by group, and activations for
//! the whole machine: those are marked, and are right as far as nothing else reclaims. What the reclaim of a group of
//! version 1 scans, frees and refills is counted nowhere.

use crate::cgroup::{Cgroup, Version};
use crate::disturbed::{Disturbance, Watch};
use crate::machine;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Counters at one moment. They only grow, but for what is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Of the group.
    pub group: BTreeMap<String, u64>,
    /// Of the machine, if the group has none of that name.
    pub machine: BTreeMap<String, u64>,
    /// Bytes that the worker has had read from devices, swap included, if the kernel tells.
    pub worker_read: Option<u64>,
    /// Bytes charged to the group: CPUs charge ahead of use.
    pub usage: u64,
    /// Bytes of it that are memory, where the kernel tells (version 2).
    pub used: Option<u64>,
    watch: Watch,
}

/// Events of `memory.stat` and `vmstat` that are kept: these beginnings.
const EVENTS: [&str; 7] = [
    "workingset_",
    "pg",
    "pswp",
    "zswp",
    "thp_",
    "pageoutrun",
    "kswapd_",
];
/// But these: a gauge, and what allocation and migration count for the whole machine.
const OTHERS: [&str; 7] = [
    "workingset_nodes",
    "pgalloc",
    "pgskip",
    "pgfree",
    "pgmigrate",
    "pgpromote",
    "pgdemote",
];

fn is_event(name: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|e| name.starts_with(e));
    begins(&EVENTS) && !begins(&OTHERS)
}

/// "NAME NUMBER" lines.
fn lines(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.trim().parse().ok()?))
    })
}

/// Microseconds that some and all tasks have waited for memory, of a pressure file.
fn pressure(text: &str) -> Vec<(String, u64)> {
    let total = |line: &str| {
        let (kind, rest) = line.split_once(' ')?;
        let (_, total) = rest.split_once("total=")?;
        Some((format!("pressure_{kind}_us"), total.trim().parse().ok()?))
    };
    text.lines().filter_map(total).collect()
}

/// Fields of the `stat` of a block device, times in ms.
const BLOCK: [&str; 11] = [
    "read_ios",
    "read_merges",
    "read_sectors",
    "read_ticks",
    "write_ios",
    "write_merges",
    "write_sectors",
    "write_ticks",
    "in_flight",
    "io_ticks",
    "time_in_queue",
];

fn block(text: &str) -> Vec<(String, u64)> {
    let fields = BLOCK.iter().zip(text.split_whitespace());
    // What is in flight does not only grow.
    let fields = fields.filter(|(name, _)| **name != "in_flight");
    let field = |(name, n): (&&str, &str)| Some((format!("block_{name}"), n.parse().ok()?));
    fields.filter_map(field).collect()
}

/// What the faults of a worker are called.
const FAULTS: [&str; 2] = ["worker_minflt", "worker_majflt"];

/// Faults of a process, from its `stat`: the fields 10 and 12, counted from 1.
fn faults(stat: &str) -> Option<[(String, u64); 2]> {
    // The name, in brackets, may have anything in it; the third field follows.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(7);
    let (minor, major) = (fields.next()?, fields.nth(1)?);
    Some([
        (FAULTS[0].into(), minor.parse().ok()?),
        (FAULTS[1].into(), major.parse().ok()?),
    ])
}

impl Counters {
    /// Reads them all. `worker`: the process that does the accesses; `dir`: where the files are.
    pub fn read(group: &Cgroup, worker: u32, dir: &Path) -> Self {
        let stat = group.read("memory.stat").unwrap_or_default();
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let events = group.read("memory.events").unwrap_or_default();
        let failcnt = group.read("memory.failcnt");
        let io = fs::read_to_string(format!("/proc/{worker}/io")).ok();
        let mut read = Self::parse(group.version(), &stat, &vmstat);
        let named = lines(&events).map(|(name, n)| (format!("events_{name}"), n));
        read.group.extend(named);
        if let Some(n) = failcnt.and_then(|text| text.trim().parse().ok()) {
            read.group.insert("events_max".into(), n);
        }
        read.group.insert("events_oom_kill".into(), group.kills());
        let text = |path: String| fs::read_to_string(path).unwrap_or_default();
        match group.read("memory.pressure") {
            Some(own) => read.group.extend(pressure(&own)),
            None => read
                .machine
                .extend(pressure(&text("/proc/pressure/memory".into()))),
        }
        if let Some(number) = machine::number(dir) {
            let stat = text(format!("/sys/dev/block/{number}/stat"));
            read.machine.extend(block(&stat));
        }
        let own = faults(&text(format!("/proc/{worker}/stat")));
        read.group.extend(own.into_iter().flatten());
        read.watch = Watch::read(group, &stat, &vmstat);
        read.usage = group.usage().unwrap_or(0);
        read.worker_read = io.and_then(|text| {
            let bytes = text.lines().find_map(|l| l.strip_prefix("read_bytes: "));
            bytes?.trim().parse().ok()
        });
        read
    }

    /// The faults of several workers, where this is of the group that has them all.
    pub(crate) fn faults_of_all(&mut self, workers: &[Self]) {
        for name in FAULTS {
            let each = workers.iter().filter_map(|w| w.group.get(name));
            self.group.insert(name.into(), each.sum());
        }
    }

    fn parse(version: Version, stat: &str, vmstat: &str) -> Self {
        let mut group = BTreeMap::new();
        for (name, n) in lines(stat) {
            // Version 1 counts charges as pgpgin and pgpgout, which is something else.
            let name = match version {
                Version::V2 => name,
                Version::V1 => match name.strip_prefix("total_") {
                    None | Some("pgpgin" | "pgpgout") => continue,
                    Some(name) => name,
                },
            };
            if is_event(name) {
                group.insert(name.to_owned(), n);
            }
        }
        let uncounted = |name: &str| {
            let scans = ["pgscan", "pgsteal", "pgrefill"];
            version == Version::V1 && scans.iter().any(|s| name.starts_with(s))
        };
        let other = |(name, _): &(&str, u64)| {
            is_event(name) && !group.contains_key(*name) && !uncounted(name)
        };
        let kinds = ["anon", "file", "kernel"];
        let of_kind = |(name, n): (&str, u64)| kinds.contains(&name).then_some(n);
        let used = lines(stat).filter_map(of_kind).reduce(|a, b| a + b);
        let machine = lines(vmstat).filter(other);
        let machine = machine.map(|(name, n)| (name.to_owned(), n)).collect();
        Self {
            group,
            machine,
            used: used.filter(|_| version == Version::V2),
            ..Self::default()
        }
    }

    /// What other programs did since `before`.
    pub fn disturbed_since(&self, before: &Self) -> Vec<Disturbance> {
        self.watch.since(&before.watch)
    }

    /// What has come since `before`, by the lab's names; and which of the names are the machine's.
    pub fn since(&self, before: &Self) -> (BTreeMap<String, u64>, Vec<String>) {
        let grown = |(name, n): (&String, &u64), old: &BTreeMap<String, u64>| {
            let was = old.get(name).copied().unwrap_or(0);
            (name.clone(), n.saturating_sub(was))
        };
        let of = |now: &BTreeMap<String, u64>, old| -> BTreeMap<String, u64> {
            now.iter().map(|each| grown(each, old)).collect()
        };
        let machine = of(&self.machine, &before.machine);
        let marked = machine.keys().cloned().collect();
        let mut all = machine;
        all.extend(of(&self.group, &before.group));
        for (sum, parts) in [("pgscan", "pgscan_"), ("pgsteal", "pgsteal_")] {
            let by = ["kswapd", "direct", "khugepaged", "proactive"];
            let parts = by.iter().filter_map(|by| all.get(&format!("{parts}{by}")));
            if let Some(total) = parts.copied().reduce(|a, b| a + b) {
                all.entry(sum.into()).or_insert(total);
            }
        }
        let worker = self.worker_read.zip(before.worker_read);
        if let Some((now, old)) = worker {
            let read = (now - old) / 4096;
            let swapped = all.get("pswpin").copied().unwrap_or(0);
            // What comes from swap is among it.
            all.insert("misses".into(), read);
            all.insert("disk_read_pages".into(), read.saturating_sub(swapped));
        }
        all.insert("current_pages".into(), self.usage / 4096);
        all.extend(self.used.map(|bytes| ("used_pages".into(), bytes / 4096)));
        (all, marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "nr_free_pages 7\npgscan_kswapd 100\npgscan_direct 10\npgpgin 4\npgrefill 0\npswpin 3\nworkingset_nodes 5\n";

    #[test]
    fn version_1_takes_what_it_lacks_from_the_machine() {
        let stat = "cache 1\npgpgin 9\nworkingset_refault_file 1\ntotal_workingset_refault_file 12\ntotal_pgpgin 99\ntotal_pgfault 5\n";
        let old = Counters::default();
        let now = Counters::parse(Version::V1, stat, VMSTAT);
        let (all, marked) = now.since(&old);
        assert_eq!(all["workingset_refault_file"], 12);
        assert_eq!((all["pgpgin"], all["pgfault"]), (4, 5));
        for none in [
            "workingset_nodes",
            "misses",
            "pgscan",
            "pgscan_direct",
            "pgrefill",
        ] {
            assert!(!all.contains_key(none), "{none}");
        }
        assert_eq!(marked, ["pgpgin", "pswpin"]);
    }

    #[test]
    fn pressure_devices_and_faults_have_the_names_of_the_kernel() {
        let named = |list: &[(String, u64)], name: &str| {
            let found = list.iter().find(|(n, _)| n == name);
            found.map(|(_, n)| *n)
        };
        let text = "some avg10=0.00 avg60=1.25 avg300=0.00 total=145391687\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";
        let read = pressure(text);
        assert_eq!(named(&read, "pressure_some_us"), Some(145_391_687));
        assert_eq!(named(&read, "pressure_full_us"), Some(12));
        let read = block("  101 2 303 4 505 6 707 8 9 10 11 12 13 14 15 16 17\n");
        assert_eq!(read.len(), 10);
        for (name, n) in [
            ("read_ios", 101),
            ("read_sectors", 303),
            ("write_ios", 505),
            ("io_ticks", 10),
        ] {
            assert_eq!(named(&read, &format!("block_{name}")), Some(n), "{name}");
        }
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1234 99 56 98 1 2 3";
        let read = faults(stat).unwrap();
        assert_eq!(named(&read, "worker_minflt"), Some(1234));
        assert_eq!(named(&read, "worker_majflt"), Some(56));
        assert!(pressure("").is_empty() && block("").is_empty() && faults("").is_none());
    }

    #[test]
    fn version_2_has_its_own_and_differences_count() {
        let stat = |n: u64| format!("anon 4096\npgscan {n}\npgscan_direct {n}\npswpin 1\n");
        let mut old = Counters::parse(Version::V2, &stat(5), VMSTAT);
        let mut now = Counters::parse(Version::V2, &stat(25), VMSTAT);
        now.group.insert("pswpin".into(), 3);
        (old.worker_read, now.worker_read) = (Some(4096), Some(4096 * 9));
        now.usage = 8192;
        let (all, marked) = now.since(&old);
        assert_eq!((all["pgscan"], all["pswpin"], all["misses"]), (20, 2, 8));
        assert_eq!(all["disk_read_pages"], 6);
        assert_eq!(all["current_pages"], 2);
        assert!(!all.contains_key("anon"));
        assert_eq!(all["used_pages"], 1);
        assert_eq!(marked, ["pgpgin", "pgrefill", "pgscan_kswapd"]);
    }
}

//! What is measured while a workload runs.

use super::formula::Formula;
use super::tasks::{End, Group};
use crate::rig::{Counts, Failure, Rig};
use crate::stats::LatencyHistogram;
use coldset_engine::{Counter, MemcgId};
use coldset_machine::sim::{TimeClass, WaitQueue};
use coldset_machine::{Ctx, Machine};
use coldset_report::{Number, RunResult};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Of a group.
pub(super) struct GroupMeter {
    name: String,
    count: u64,
    background: bool,
    /// Length of its measured phases, if all of them have one.
    length: Option<u64>,
    /// For each phase: tasks that have got there.
    arrived: Vec<Cell<u64>>,
    gate: Vec<WaitQueue>,
    /// Tasks that will get nowhere any more.
    gone: Cell<u64>,
    ops: Cell<u64>,
    pages: Cell<u64>,
    finished: Cell<u64>,
    killed: Cell<u64>,
    latency: RefCell<LatencyHistogram>,
}

impl GroupMeter {
    pub fn new(machine: &Machine, group: &Group) -> Self {
        let measured = group.phases.iter().filter(|p| p.measured);
        let lengths: Option<Vec<u64>> = measured
            .map(|p| match p.end {
                End::Time(ns) => Some(ns),
                End::Count(_) | End::Through => None,
            })
            .collect();
        Self {
            name: group.name.clone(),
            count: group.count,
            background: group.background,
            length: lengths.map(|all| all.iter().sum()),
            arrived: group.phases.iter().map(|_| Cell::new(0)).collect(),
            gate: group
                .phases
                .iter()
                .map(|_| WaitQueue::new(&machine.sim))
                .collect(),
            gone: Cell::new(0),
            ops: Cell::new(0),
            pages: Cell::new(0),
            finished: Cell::new(0),
            killed: Cell::new(0),
            latency: RefCell::default(),
        }
    }

    fn is_open(&self, phase: usize) -> bool {
        self.arrived[phase].get() + self.gone.get() >= self.count
    }

    /// Waits until all tasks of the group that are left have got to a phase.
    pub async fn together(&self, phase: usize) {
        add(&self.arrived[phase], 1);
        if self.is_open(phase) {
            self.gate[phase].wake_all();
            return;
        }
        let mut here = Here(Some(&self.arrived[phase]));
        while !self.is_open(phase) {
            self.gate[phase].wait_as(TimeClass::Idle).await;
        }
        here.0 = None;
    }

    /// An operation of a measured phase is over.
    pub fn operation(&self, ns: u64, pages: u64) {
        add(&self.ops, 1);
        add(&self.pages, pages);
        self.latency.borrow_mut().record(ns);
    }

    /// A task has done all of its work.
    pub fn finished(&self) {
        add(&self.finished, 1);
    }

    /// A task has failed: nobody must wait for it.
    pub fn failed(&self, killed: bool) {
        add(&self.killed, u64::from(killed));
        add(&self.gone, 1);
        for phase in 0..self.gate.len() {
            if self.is_open(phase) {
                self.gate[phase].wake_all();
            }
        }
    }
}

/// A task waits at a gate. If it is killed there it is gone, and has not arrived.
struct Here<'a>(Option<&'a Cell<u64>>);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        if let Some(arrived) = self.0 {
            arrived.set(arrived.get() - 1);
        }
    }
}

fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get() + n);
}

/// Of a machine.
pub(super) struct Meter {
    pub groups: Vec<GroupMeter>,
    cgroups: Vec<(String, MemcgId)>,
    pub failure: Failure,
    /// When measuring began, with the counters.
    start: OnceCell<(u64, AllCounts)>,
    /// Tasks that the run waits for.
    left: Cell<u64>,
    /// When the first task started.
    begin: Cell<u64>,
    stuck: RefCell<Option<String>>,
}

/// The machine's counters and those of each cgroup.
struct AllCounts {
    machine: Counts,
    cgroups: Vec<Counts>,
}

impl AllCounts {
    fn of(machine: &Machine, cgroups: &[(String, MemcgId)]) -> Self {
        let of = |(_, id): &(String, MemcgId)| Counts::of_memcg(machine, *id);
        Self {
            machine: Counts::of_machine(machine),
            cgroups: cgroups.iter().map(of).collect(),
        }
    }

    fn since(&self, start: &Self) -> Self {
        let cgroups = self.cgroups.iter().zip(&start.cgroups);
        Self {
            machine: self.machine.since(&start.machine),
            cgroups: cgroups.map(|(now, start)| now.since(start)).collect(),
        }
    }
}

impl Meter {
    pub fn new(rig: &Rig, groups: Vec<GroupMeter>, cgroups: Vec<(String, MemcgId)>) -> Self {
        let waited = groups.iter().filter(|g| !g.background);
        Self {
            left: Cell::new(waited.map(|g| g.count).sum()),
            groups,
            cgroups,
            failure: rig.failure(),
            start: OnceCell::new(),
            begin: Cell::new(u64::MAX),
            stuck: RefCell::default(),
        }
    }

    /// A task starts.
    pub fn begin(&self, now: u64) {
        self.begin.set(self.begin.get().min(now));
    }

    /// A task is in a measured phase; `first`: nothing is before it.
    pub fn measure(&self, m: &Machine, ctx: &Ctx, first: bool) {
        self.start.get_or_init(|| {
            if !first {
                m.phase(ctx, 1);
            }
            (ctx.now(), AllCounts::of(m, &self.cgroups))
        });
    }

    /// A task has ended; true if it was the last that the run waits for.
    pub fn ended(&self, group: usize) -> bool {
        if self.groups[group].background {
            return false;
        }
        self.left.set(self.left.get() - 1);
        self.left.get() == 0
    }

    /// A task cannot go on, and it is the workload's fault.
    pub fn stick(&self, why: String) {
        self.stuck.borrow_mut().get_or_insert(why);
    }

    /// Why one could not.
    pub fn stuck(&self) -> Option<String> {
        self.stuck.borrow().clone()
    }

    /// What has been measured.
    pub fn quantities(&self, rig: &Rig) -> Quantities {
        let now = rig.now();
        let counts = AllCounts::of(rig.machine(), &self.cgroups);
        let (start, counts) = match self.start.get() {
            Some((at, before)) => (*at, counts.since(before)),
            None => (now, counts),
        };
        let waited = || self.groups.iter().filter(|g| !g.background);
        let measured = || waited().filter(|g| g.length != Some(0));
        let lengths: Option<Vec<u64>> = measured().map(|g| g.length).collect();
        let length = lengths.and_then(|all| all.into_iter().max());
        let seconds = length.unwrap_or(now.saturating_sub(start)) as f64 / 1e9;
        let mut all = Quantities {
            numbers: BTreeMap::new(),
            latencies: Vec::new(),
        };
        let groups = self.groups.iter().filter(|g| !g.background);
        all.group("", &groups.collect::<Vec<_>>());
        for group in &self.groups {
            all.group(&format!("{}.", group.name), &[group]);
        }
        let per = |n: f64| Number::Real(if seconds > 0.0 { n / seconds } else { 0.0 });
        let (ops, pages) = (all.get("ops").as_f64(), all.get("pages").as_f64());
        all.put("", "seconds", Number::Real(seconds));
        all.put("", "ops_per_s", per(ops));
        all.put("", "mib_per_s", per(pages / 256.0));
        all.put(
            "",
            "elapsed_ns",
            now.saturating_sub(self.begin.get()).into(),
        );
        all.put("", "tasks", waited().map(|g| g.count).sum::<u64>().into());
        // Those of the one cgroup; of the machine if there are none or several.
        match counts.cgroups.as_slice() {
            [one] => all.counters("", one),
            _ => all.counters("", &counts.machine),
        }
        for ((name, _), counts) in self.cgroups.iter().zip(&counts.cgroups) {
            all.counters(&format!("{name}."), counts);
        }
        all
    }
}

/// Numbers by name, and distributions of times.
pub(super) struct Quantities {
    numbers: BTreeMap<String, Number>,
    latencies: Vec<(String, LatencyHistogram)>,
}

impl Quantities {
    fn put(&mut self, prefix: &str, name: &str, value: Number) {
        self.numbers.insert(format!("{prefix}{name}"), value);
    }

    fn get(&self, name: &str) -> Number {
        self.numbers.get(name).copied().unwrap_or(Number::Int(0))
    }

    fn group(&mut self, prefix: &str, groups: &[&GroupMeter]) {
        let sum = |of: fn(&GroupMeter) -> &Cell<u64>| -> Number {
            groups.iter().map(|g| of(g).get()).sum::<u64>().into()
        };
        self.put(prefix, "ops", sum(|g| &g.ops));
        self.put(prefix, "pages", sum(|g| &g.pages));
        self.put(prefix, "finished", sum(|g| &g.finished));
        self.put(prefix, "killed", sum(|g| &g.killed));
        let mut latency = LatencyHistogram::new();
        for group in groups {
            latency.merge(&group.latency.borrow());
        }
        let us = |ns: f64| Number::Real(ns / 1000.0);
        self.put(prefix, "mean_us", us(latency.mean_ns().unwrap_or(0.0)));
        for (name, per_mille) in [
            ("p50_us", 500),
            ("p90_us", 900),
            ("p95_us", 950),
            ("p99_us", 990),
            ("p999_us", 999),
            ("max_us", 1000),
        ] {
            let ns = latency.percentile_ns(per_mille).unwrap_or(0);
            self.put(prefix, name, us(ns as f64));
        }
        self.latencies.push((format!("{prefix}operation"), latency));
    }

    fn counters(&mut self, prefix: &str, counts: &Counts) {
        for c in Counter::without_huge_pages() {
            self.put(prefix, c.name(), counts.get(c).into());
        }
        self.put(prefix, "pgscan", counts.scanned().into());
        self.put(prefix, "pgsteal", counts.stolen().into());
    }

    /// The value of a formula; a whole number stays one.
    pub fn value(&self, formula: &Formula) -> Number {
        let number = |name: &str| Ok::<f64, Infallible>(self.get(name).as_f64());
        let value = || match formula.value(&number) {
            Ok(value) => value,
            Err(never) => match never {},
        };
        match formula {
            Formula::Name(name) => self.get(name),
            Formula::Floor(_) if value() >= 0.0 => Number::Int(value() as u64),
            _ => Number::Real(value()),
        }
    }

    /// Distributions of the times of operations; of single groups where there are several.
    pub fn histograms(&self, prefix: &str, r: &mut RunResult) {
        let of_groups = self.latencies.len() > 2;
        let shown = if of_groups {
            &self.latencies[1..]
        } else {
            &self.latencies[..1]
        };
        for (name, latency) in shown {
            r.histogram(format!("{prefix}{name}"), latency);
        }
    }
}

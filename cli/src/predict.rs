//! What the lab predicts of a run that was measured: the same settings, as far as it has them.

use crate::args::TaskArgs;
use crate::error::Failure;
use coldset_lab::experiment::DirtySettings;
use coldset_lab::replay::{Clock, FileDevice, ReplaySettings, READ_AHEAD_KB};
use coldset_lab::report::{CounterSummary, ReplayResult};
use coldset_lab::runner::{
    killed_after, replay_all, show_pages, Low, Memory, Progress, ReplayPlan, ReplayTable, Size,
    SwapSpec, Variant,
};
use coldset_lab::traces::{Order, Trace};
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use coldset_machine::{FileSystem, OpError, ReadAhead, SwapConfig};
use coldset_play::machine::Description;
use coldset_play::Tasks;
use indexmap::IndexMap;
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::sync::Arc;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Most pages of a swap area of the lab.
const SWAP_MAX: u64 = (1 << 30) - 1;
/// Most pages that the lab maps round a fault.
const FAULT_AROUND_MAX: u64 = 512;
/// What kernels map round a fault unless they are told otherwise, bytes.
const FAULT_AROUND_USUAL: u64 = 64 << 10;

/// What a kernel with its monitor on does, and the lab does not.
pub const MONITOR: &str = "the kernel's monitor of accesses (DAMON)";

/// The settings of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    memory: Size,
    swap: SwapSpec,
    swappiness: u16,
    /// Pages.
    fault_around: u32,
    /// It could not be read.
    assumed: bool,
    dirty: DirtySettings,
    device: FileDevice,
    /// Protection of tasks.
    low: Vec<Low>,
    /// All tasks are in one group.
    together: bool,
    /// Tasks take the time that the trace has.
    pace: bool,
    /// Who of the tasks comes first.
    order: Order,
    /// Of the machine.
    cpus: u64,
    /// What the files are on.
    file_system: FileSystem,
    /// What the device reads ahead where the trace advises nothing else, KiB.
    read_ahead_kb: u32,
    /// When the accesses of the run were, if that is known and does not follow from what they wait for.
    clock: Option<Clock>,
    /// What the run had and the lab has not.
    without: Vec<String>,
}

impl Setting {
    /// What is as usual, of a run with this limit: no swap.
    fn usual(memory: Size) -> Self {
        Self {
            memory,
            swap: SwapSpec::None,
            swappiness: 60,
            fault_around: pages_around(FAULT_AROUND_USUAL),
            assumed: false,
            dirty: DirtySettings::default(),
            device: FileDevice::default(),
            low: Vec::new(),
            together: false,
            pace: false,
            order: Order::Strict,
            cpus: 1,
            file_system: FileSystem::default(),
            read_ahead_kb: READ_AHEAD_KB,
            clock: None,
            without: Vec::new(),
        }
    }

    /// Of a run in a guest: with `zram` pages of swap, and so many bytes mapped round a fault.
    pub fn of_guest(memory: Size, zram: u64, swappiness: u16, fault_around: u64) -> Self {
        Self {
            swap: zram_of(zram),
            swappiness,
            fault_around: pages_around(fault_around),
            ..Self::usual(memory)
        }
    }

    /// With these dirty limits, and a device whose requests take so long, ns; none: an NVMe drive.
    #[must_use]
    pub fn with_device(self, dirty: DirtySettings, ns: Option<u64>) -> Self {
        let device = ns.map_or(self.device, |ns| FileDevice {
            kind: DeviceKind::Delayed,
            delay_write_ns: Some(ns),
        });
        Self {
            dirty,
            device,
            ..self
        }
    }

    /// Of a run on the machine that is described, with at most `swap_max` bytes of its swap.
    pub fn of_machine(memory: Size, machine: &Description, swap_max: Option<u64>) -> Self {
        let areas = &machine.swap;
        let kib: u64 = areas.iter().map(|(_, kib)| kib).sum();
        let pages = swap_max.map_or(kib / 4, |most| (kib / 4).min(most / PAGE));
        let zram = |(name, _): &&(String, u64)| name.starts_with("/dev/zram");
        let of_zram = areas.iter().filter(zram).count();
        let swap = match (pages, of_zram) {
            (0, _) => SwapSpec::None,
            (_, 0) => SwapSpec::Disk(Size::Pages(pages.min(SWAP_MAX)), DeviceKind::Nvme),
            _ => zram_of(pages),
        };
        let usual = Self::usual(memory);
        let around = machine.fault_around.map(pages_around);
        let device = machine.device.as_ref();
        let read_ahead_kb = device.map(|(_, kib)| (*kib).min(1 << 16) as u32);
        let mut setting = Self {
            swap,
            swappiness: machine.swappiness.unwrap_or(usual.swappiness),
            fault_around: around.unwrap_or(usual.fault_around),
            assumed: around.is_none(),
            read_ahead_kb: read_ahead_kb.unwrap_or(usual.read_ahead_kb),
            ..usual
        };
        if of_zram > 0 && of_zram < areas.len() {
            setting.leave_out("swap on another device beside zram");
        }
        setting
    }

    /// With this read-ahead of the device, KiB.
    #[must_use]
    pub fn with_read_ahead(self, kb: u32) -> Self {
        Self {
            read_ahead_kb: kb,
            ..self
        }
    }

    /// With files on this.
    #[must_use]
    pub fn with_file_system(self, file_system: FileSystem) -> Self {
        Self {
            file_system,
            ..self
        }
    }

    /// On so many CPUs.
    #[must_use]
    pub fn with_cpus(self, cpus: u64) -> Self {
        Self { cpus, ..self }
    }

    /// With tasks that are played as these arguments say.
    ///
    /// # Errors
    /// A protection that is none.
    pub fn with_tasks(mut self, args: &TaskArgs) -> Result<Self, Failure> {
        let protection = args.protection()?;
        self.low = protection.tasks;
        if protection.whole.is_some() {
            self.leave_out("memory.low of the whole");
        }
        self.pace = args.pace();
        self.together = args.tasks() != Tasks::Processes;
        self.order = args.order;
        Ok(self)
    }

    /// At the times of the runs that were measured, the mean of them: what the kernel does by time (flushers, the fold of
    /// statistics) comes between the same accesses. Not where the order, or a slow device, makes the times.
    #[must_use]
    pub fn at_times_of(self, played: &Value) -> Self {
        let given = self.order.is_at_once() || self.pace || self.device != FileDevice::default();
        let clock = if given { None } else { times(played) };
        Self { clock, ..self }
    }

    /// The run had this, and the prediction has not.
    pub fn leave_out(&mut self, what: impl Into<String>) {
        self.without.push(what.into());
    }

    fn plan(&self, trace: &Trace, variants: Vec<Variant>) -> ReplayPlan {
        ReplayPlan {
            settings: ReplaySettings {
                pace: self.pace,
                order: self.order,
                cpus: self.cpus,
                read_ahead: match trace.has_advice() {
                    true => ReadAhead::Windows {
                        kb: self.read_ahead_kb,
                    },
                    false => ReadAhead::default(),
                },
                swappiness: self.swappiness,
                fault_around: self.fault_around,
                dirty: self.dirty,
                device: self.device,
                file_system: self.file_system,
                clock: self.clock.clone(),
                ..ReplaySettings::default()
            },
            swap: Some(self.swap.clone()),
            low: self.low.clone(),
            ..ReplayPlan::new(variants, self.memory)
        }
    }

    /// A table for each limit of the plan.
    fn replays(&self, trace: &Trace, plan: &ReplayPlan) -> Result<Vec<ReplayTable>, Failure> {
        let joined = (self.together && trace.tasks > 1).then(|| match self.order.is_at_once() {
            true => trace.of_one_process(),
            false => trace.of_one_task(),
        });
        let trace = joined.as_ref().unwrap_or(trace);
        Ok(replay_all(trace, plan, |_| Progress::silent())?)
    }

    fn table(&self, trace: &Trace) -> ReplayTable {
        ReplayTable {
            memory: Memory {
                size: self.memory,
                pages: self.memory.pages_of(trace.unique_pages),
            },
            // An area that the lab cannot have is none that it shows.
            swap: self
                .swap
                .config(trace.unique_pages)
                .unwrap_or(SwapConfig::None),
            result: ReplayResult::default(),
            series: IndexMap::new(),
            curves: Arc::default(),
            alone: IndexMap::new(),
        }
    }
}

/// Time by access, the mean of runs that came to the same points; none of others.
fn times(played: &Value) -> Option<Clock> {
    let points = |run: &Value| -> Option<Vec<(u64, u64)>> {
        let all = run["points"].as_array()?.iter();
        all.map(|p| Some((p["access"].as_u64()?, p["time_ms"].as_u64()?)))
            .collect()
    };
    let runs = played["runs"].as_array()?.iter().map(points);
    let runs: Vec<Vec<(u64, u64)>> = runs.collect::<Option<_>>()?;
    let (first, ns) = (runs.first()?, 1_000_000 / runs.len() as u64);
    let mut clock = vec![(0, 0)];
    for (n, &(access, _)) in first.iter().enumerate() {
        let at = |run: &Vec<(u64, u64)>| {
            (run.len() == first.len() && run[n].0 == access).then(|| run[n].1)
        };
        let sum = runs.iter().map(at).sum::<Option<u64>>()?;
        clock.push((access, sum * ns));
    }
    // Where a phase begins is read twice.
    clock.dedup_by_key(|point| point.0);
    Clock::new(clock).ok()
}

fn zram_of(pages: u64) -> SwapSpec {
    match pages.min(SWAP_MAX) {
        0 => SwapSpec::None,
        pages => SwapSpec::Zram(Size::Pages(pages), ZramAlgorithm::Lz4),
    }
}

/// As the kernel takes it: the power of two below, a page at least.
fn pages_around(bytes: u64) -> u32 {
    let pages = (bytes / PAGE).clamp(1, FAULT_AROUND_MAX);
    1 << pages.ilog2()
}

/// What was measured, column by column, and what the lab predicts of it.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Measured columns, then predicted ones. The series are those of predictions.
    pub table: ReplayTable,
    /// What was predicted with.
    pub variants: Vec<Variant>,
    setting: Setting,
    /// The trace has advice, and the device's read-ahead comes on top.
    read_ahead: bool,
    /// Variants whose replay did not come to the end of the trace, and why.
    ended: Vec<(String, String)>,
}

/// Replays `trace` under the settings of the run that was measured, with samples at so many points of its course.
///
/// # Errors
/// A variant that does not exist, a limit that is too small for the lab.
pub fn beside(
    trace: &Trace,
    variants: &[String],
    setting: Setting,
    measured: IndexMap<String, IndexMap<String, CounterSummary>>,
    sample_points: usize,
) -> Result<Beside, Failure> {
    let mut plan = setting.plan(trace, Variant::parse_all(variants, &[])?);
    plan.sample_points = sample_points;
    let mut table = match plan.variants.is_empty() {
        true => setting.table(trace),
        false => setting.replays(trace, &plan)?.remove(0),
    };
    let ReplayResult {
        variants: predicted,
        phases,
        ..
    } = std::mem::take(&mut table.result);
    let killed = predicted.iter().filter_map(|(variant, counters)| {
        let access = killed_after(counters)?;
        Some((
            variant.clone(),
            format!("{} at access {access}", OpError::NoMemory),
        ))
    });
    let ended = killed.collect();
    let mut all = measured;
    all.extend(predicted);
    table.result = ReplayResult {
        variants: all,
        bounds: IndexMap::new(),
        phases,
    };
    Ok(Beside {
        table,
        variants: plan.variants,
        setting,
        read_ahead: trace.has_advice(),
        ended,
    })
}

/// Limits about the one that was asked for, as shares of it: what a policy does may depend on a few pages more or less.
const NEAR: [f64; 8] = [0.996, 0.997, 0.998, 0.999, 1.001, 1.002, 1.003, 1.004];

/// What a variant comes to under limits near that of `setting`, a column each.
///
/// # Errors
/// As [`beside`].
pub fn nearby(
    trace: &Trace,
    variant: &str,
    setting: &Setting,
) -> Result<Vec<IndexMap<String, CounterSummary>>, Failure> {
    let pages = setting.memory.pages_of(trace.unique_pages) as f64;
    let near = |share: &f64| Size::Pages((pages * share).round() as u64);
    let plan = ReplayPlan {
        memory: NEAR.iter().map(near).collect(),
        ..setting.plan(trace, Variant::parse_all(&[variant], &[])?)
    };
    let tables = setting.replays(trace, &plan)?;
    let columns = tables.into_iter().map(|t| t.result.variants);
    Ok(columns.flat_map(IndexMap::into_values).collect())
}

impl Beside {
    /// Nothing was predicted.
    fn is_none(&self) -> bool {
        self.variants.is_empty()
    }

    /// What the prediction is of, a line each; none without a prediction.
    pub fn lines(&self) -> Vec<String> {
        if self.is_none() {
            return Vec::new();
        }
        let s = &self.setting;
        let swap = match &s.swap {
            SwapSpec::None => "no swap".to_owned(),
            SwapSpec::Zram(size, _) => format!("zram of {}", show_pages(size.pages_of(0))),
            SwapSpec::Disk(size, _) => {
                format!("swap on a disk of {}", show_pages(size.pages_of(0)))
            }
        };
        let around = u64::from(s.fault_around) * PAGE / 1024;
        let assumed = if s.assumed { " (assumed)" } else { "" };
        let mut with = vec![
            swap,
            format!("swappiness {}", s.swappiness),
            format!("{around} KiB mapped round a fault{assumed}"),
        ];
        if s.file_system != FileSystem::default() {
            with.push(s.file_system.to_string());
        }
        if self.read_ahead {
            with.push(format!("read-ahead of {} KiB", s.read_ahead_kb));
        }
        for (name, ratio) in [
            ("dirty_ratio", s.dirty.ratio),
            ("dirty_background_ratio", s.dirty.background_ratio),
        ] {
            with.extend(ratio.map(|percent| format!("{name} {percent}")));
        }
        if let Some(ns) = s.device.delay_write_ns {
            with.push(format!("{} ms a write of the device", ns as f64 / 1e6));
        }
        let low = |l: &Low| format!("memory.low of task {}", l.task);
        with.extend(s.low.iter().map(low));
        with.extend(s.clock.as_ref().map(|_| "the times of the run".to_owned()));
        let mut lines = vec![format!("predicted with {}", with.join(", "))];
        let said = self.ended.iter();
        lines.extend(said.map(|(variant, why)| format!("{variant}: {why}")));
        if let [first @ .., last] = s.without.as_slice() {
            let mut list = first.join(", ");
            let are = match first {
                [] => "is",
                _ => {
                    list.push_str(" and ");
                    "are"
                }
            };
            lines.push(format!("{list}{last} {are} not in the prediction"));
        }
        lines
    }

    /// The same under a table.
    pub fn text(&self) -> String {
        self.lines()
            .into_iter()
            .fold(String::new(), |mut out, line| {
                let _ = writeln!(out, "{line}");
                out
            })
    }

    /// The same as JSON; null without a prediction.
    pub fn json(&self) -> Value {
        if self.is_none() {
            return Value::Null;
        }
        let s = &self.setting;
        let (kind, pages) = match &s.swap {
            SwapSpec::None => ("none", 0),
            SwapSpec::Zram(size, _) => ("zram", size.pages_of(0)),
            SwapSpec::Disk(size, _) => ("disk", size.pages_of(0)),
        };
        json!({
            "swap": kind,
            "swap_pages": pages,
            "swappiness": s.swappiness,
            "fault_around_bytes": u64::from(s.fault_around) * PAGE,
            "fault_around_assumed": s.assumed,
            "read_ahead_kb": self.read_ahead.then_some(s.read_ahead_kb),
            "file_system": s.file_system.name(),
            "dirty_ratio": s.dirty.ratio,
            "dirty_background_ratio": s.dirty.background_ratio,
            "write_delay_ns": s.device.delay_write_ns,
            "low_tasks": s.low.iter().map(|l| l.task).collect::<Vec<_>>(),
            "pace": s.pace,
            "times_of_the_run": s.clock.is_some(),
            "order": s.order.to_string(),
            "cpus": s.cpus,
            "dirty_limits": if s.dirty.of_host { "host" } else { "memcg" },
            "not_in_it": s.without,
            "ended": self.ended.iter().cloned().collect::<IndexMap<_, _>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_lab::traces::{Op, OpKind};
    use std::path::Path;

    const HALF: Size = Size::Percent(50.0);

    /// Anonymous memory and a file, in turn and several times round.
    fn trace() -> Trace {
        let op = |kind, object, page| Op {
            kind,
            object,
            task: 0,
            page,
        };
        let round = |_| {
            (0..1000)
                .flat_map(move |page| [op(OpKind::AnonWrite, 0, page), op(OpKind::Pread, 1, page)])
        };
        Trace::from_ops((0..4).flat_map(round).collect())
    }

    fn predicted(setting: Setting) -> Beside {
        beside(&trace(), &["v618".into()], setting, IndexMap::new(), 0).unwrap()
    }

    fn counter(b: &Beside, name: &str) -> f64 {
        b.table.result.variants["v618"][name].mean.as_f64()
    }

    fn machine(swap: &[(&str, u64)]) -> Description {
        let mut here = Description::here(Path::new("/"));
        here.swap = swap.iter().map(|(n, kib)| ((*n).into(), *kib)).collect();
        here.swappiness = Some(60);
        here.fault_around = Some(4096);
        here
    }

    #[test]
    fn a_prediction_follows_the_swap_of_the_run() {
        let with = predicted(Setting::of_guest(HALF, 1000, 60, 4096));
        assert!(counter(&with, "pswpout") > 100.0 && with.lines().len() == 1);
        // A thousand pages of anonymous memory fit into a limit of as many only without the kernel's own.
        let without = predicted(Setting::of_guest(HALF, 0, 60, 4096));
        assert_eq!(counter(&without, "events_oom_kill"), 1.0);
        let lines = without.lines();
        assert!(
            lines[0].contains("no swap") && lines[1].starts_with("v618: out of memory at access "),
            "{lines:?}"
        );
        assert!(without.json()["ended"]["v618"].is_string());
    }

    #[test]
    fn limits_nearby_are_predictions_of_their_own() {
        let setting = Setting::of_guest(HALF, 1000, 60, 4096);
        let near = nearby(&trace(), "v618", &setting).unwrap();
        assert_eq!(near.len(), NEAR.len());
        for (share, column) in NEAR.iter().zip(&near) {
            let alone = Setting {
                memory: Size::Pages((1000.0 * share).round() as u64),
                ..setting.clone()
            };
            assert_eq!(&predicted(alone).table.result.variants["v618"], column);
        }
    }

    #[test]
    fn a_prediction_follows_swappiness() {
        let swapped = |n| {
            let setting = Setting::of_guest(HALF, 1000, n, 4096);
            counter(&predicted(setting), "pswpout")
        };
        let (much, little) = (swapped(200), swapped(10));
        assert!(much > little + 50.0, "{much} and {little}");
    }

    #[test]
    fn a_prediction_is_of_the_machine() {
        let of = |swap: &[(&str, u64)], most| Setting::of_machine(HALF, &machine(swap), most).swap;
        assert_eq!(of(&[], None), SwapSpec::None);
        assert_eq!(of(&[("/dev/zram0", 4000)], None), zram_of(1000));
        assert_eq!(of(&[("/dev/zram0", 4000)], Some(40 * PAGE)), zram_of(40));
        assert_eq!(of(&[("/dev/zram0", 4000)], Some(0)), SwapSpec::None);
        let disk = SwapSpec::Disk(Size::Pages(1500), DeviceKind::Nvme);
        assert_eq!(of(&[("/dev/sda2", 4000), ("/swap", 2000)], None), disk);
        let mixed = Setting::of_machine(HALF, &machine(&[("/dev/zram0", 40), ("/swap", 20)]), None);
        assert_eq!((mixed.swap, mixed.without.len()), (zram_of(15), 1));
    }

    #[test]
    fn settings_that_are_not_read_are_the_usual_ones() {
        let mut here = machine(&[]);
        (here.swappiness, here.fault_around) = (Some(150), Some(16 << 10));
        let plan = Setting::of_machine(HALF, &here, None).plan(&trace(), Vec::new());
        assert_eq!(
            (plan.settings.swappiness, plan.settings.fault_around),
            (150, 4)
        );
        (here.swappiness, here.fault_around) = (None, None);
        let setting = Setting::of_machine(HALF, &here, None);
        let plan = setting.plan(&trace(), Vec::new());
        assert_eq!(
            (plan.settings.swappiness, plan.settings.fault_around),
            (60, 16)
        );
        assert!(setting.assumed);
    }

    #[test]
    fn what_the_lab_cannot_take_is_said() {
        let mut setting = Setting::of_guest(HALF, 1000, 60, 4096);
        setting.leave_out("memory.high");
        let one = predicted(setting.clone());
        assert!(
            one.text()
                .ends_with("\nmemory.high is not in the prediction\n"),
            "{}",
            one.text()
        );
        setting.leave_out("memory.low");
        let two = predicted(setting);
        assert!(two
            .text()
            .ends_with("\nmemory.high and memory.low are not in the prediction\n"));
        assert_eq!(two.json()["not_in_it"][1], "memory.low");
    }

    #[test]
    fn times_are_those_of_runs_that_came_as_far() {
        let run = |points: &[(u64, u64)]| {
            let point = |&(access, ms): &(u64, u64)| json!({"access": access, "time_ms": ms});
            json!({"points": points.iter().map(point).collect::<Vec<_>>()})
        };
        let first = run(&[(50, 100), (80, 130), (80, 130), (100, 400)]);
        let second = run(&[(50, 300), (80, 330), (80, 330), (100, 500)]);
        let both = json!({"runs": [first, second]});
        let clock = times(&both).unwrap();
        assert_eq!(clock, Clock::parse("0:0,50:0.2,80:0.23,100:0.45").unwrap());
        let killed = json!({"runs": [first, run(&[(50, 300)])]});
        assert_eq!(times(&killed), None);
        assert_eq!(times(&json!({"runs": []})), None);
        let setting = Setting::of_guest(HALF, 1000, 60, 4096);
        let timed = predicted(setting.clone().at_times_of(&both));
        assert!(timed.text().contains("the times of the run"));
        assert_eq!(timed.json()["times_of_the_run"], true);
        // A slow device makes the times itself.
        let slow = setting.with_device(DirtySettings::default(), Some(1));
        assert_eq!(slow.at_times_of(&both).clock, None);
    }

    #[test]
    fn pages_round_a_fault_are_a_power_of_two() {
        for (bytes, pages) in [(0, 1), (4096, 1), (12_288, 2), (65_536, 16), (1 << 30, 512)] {
            assert_eq!(pages_around(bytes), pages, "{bytes}");
        }
    }
}

//! A trace over variants and limits.

use super::evictable::Evictable;
use super::replay_plan::{Memory, ReplayPlan};
use super::{RunnerError, Variant};
use crate::charts::CurveLine;
use crate::replay::{replay, Command, LruvecDump, Replay, ReplayError, SeriesPoint};
use crate::runner::Progress;
use crate::traces::{About, Playable};
use coldset_engine::scans::ScanEvent;
use coldset_machine::samples::SAMPLED;
use coldset_machine::{OpError, SwapConfig};
use coldset_report::{CounterSummary, Number, PhaseStart, ReplayResult};
use indexmap::IndexMap;
use rayon::prelude::*;
use std::sync::Arc;

/// All variants under one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayTable {
    /// The limit.
    pub memory: Memory,
    /// Swap that was used.
    pub swap: SwapConfig,
    /// Counters and bounds.
    pub result: ReplayResult,
    /// Samples by variant and name: (accesses done, value); of the first phase. May be empty.
    pub series: IndexMap<String, IndexMap<String, Vec<(u64, Number)>>>,
    /// Miss ratios of exact policies over the memory, for all tables of the trace. May be empty.
    pub curves: Arc<Vec<CurveLine>>,
    /// Of list policies: misses as caches of pages alone, as `lab mrc` has them.
    pub alone: IndexMap<String, u64>,
    /// What tasks have scanned, by variant; of the first phase. Empty unless asked for.
    pub scans: IndexMap<String, Vec<ScanEvent>>,
}

/// The counter that only a replay has that was killed for lack of memory: accesses until then.
pub const KILLED_AFTER: &str = "killed_after";

/// Steps that [`replay_all`] counts.
fn steps(plan: &ReplayPlan, limits: usize) -> u64 {
    (plan.variants.len() * limits) as u64 * plan.fold_phases
}

/// What the lists hold after a replay of `trace` and the debug `commands`, for each variant of the
/// plan under its first limit.
///
/// # Errors
/// As [`replay_all`], or a command that is refused.
pub fn inspect_all(
    playable: &dyn Playable,
    plan: &ReplayPlan,
    commands: &[Command],
) -> Result<Vec<Inspection>, RunnerError> {
    let trace = playable.about();
    let limits = plan.limits(trace)?;
    let swap = plan.swap_config(trace)?;
    let one = |variant: &Variant| {
        let mut options = plan.options(&limits, 0, &swap, variant, 0);
        options.commands = commands.to_vec();
        options.inspect = true;
        let done = replay(playable, &variant.preset, &options);
        let failed = |error| RunnerError::Replay {
            variant: variant.label.clone(),
            error,
        };
        let done = done.map_err(failed)?;
        if let Some(access) = done.killed {
            return Err(failed(no_memory(access, limits[0].pages, (trace, &swap))));
        }
        Ok(Inspection {
            variant: variant.label.clone(),
            accesses: trace.accesses,
            limit_pages: limits[0].pages,
            time_ms: done.time / 1_000_000,
            lruvecs: done.lruvecs,
        })
    };
    plan.variants.par_iter().map(one).collect()
}

/// What [`inspect_all`] found for a variant.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Inspection {
    /// As it was named.
    pub variant: String,
    /// Accesses replayed.
    pub accesses: u64,
    /// Limit, pages.
    pub limit_pages: u64,
    /// Virtual time, ms.
    pub time_ms: u64,
    /// The lists.
    pub lruvecs: Vec<LruvecDump>,
}

/// Replays a trace under all limits, variants and phases, in parallel. The result does not
/// depend on the number of threads. A replay whose task is killed for lack of memory is a result, too.
///
/// # Errors
/// Limits that are too small, or the first replay that fails, in the order of the tables.
pub fn replay_all(
    playable: &dyn Playable,
    plan: &ReplayPlan,
    progress: impl FnOnce(u64) -> Progress,
) -> Result<Vec<ReplayTable>, RunnerError> {
    let trace = playable.about();
    let limits = plan.limits(trace)?;
    let swap = plan.swap_config(trace)?;
    let progress = progress(steps(plan, limits.len()));
    let phases = plan.fold_phases;
    let jobs: Vec<(usize, &Variant, u64)> = (0..limits.len())
        .flat_map(|m| plan.variants.iter().map(move |v| (m, v)))
        .flat_map(|(m, v)| (0..phases).map(move |p| (m, v, p)))
        .collect();
    let one = |&(number, variant, phase): &(usize, &Variant, u64)| {
        if progress.is_stopped() {
            return Err(RunnerError::Stopped);
        }
        let options = plan.options(&limits, number, &swap, variant, phase);
        let done = replay(playable, &variant.preset, &options);
        progress.step();
        done.map(|r| Ran::of(trace, r))
            .map_err(|error| RunnerError::Replay {
                variant: variant.label.clone(),
                error,
            })
    };
    let evictable = Evictable::of(trace, &swap);
    // They are of the trace's order, which tasks at once do not keep to, and take all of it.
    let exact = playable
        .held()
        .filter(|_| plan.bounds && !plan.settings.order.is_at_once());
    let (done, sequence) = rayon::join(
        || jobs.par_iter().map(one).collect::<Vec<_>>(),
        || exact.map(|trace| evictable.sequence(trace)).transpose(),
    );
    let mut done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sequence = sequence?;
    let curves = match &sequence {
        Some(sequence) if plan.sample_points > 0 || plan.curves => {
            evictable.curves(trace, sequence, plan.settings.own_pages)
        }
        _ => Vec::new(),
    };
    let curves = Arc::new(curves);
    // Without variants there is no table.
    let per_limit = (plan.variants.len() as u64 * phases).max(1) as usize;
    let tables = limits
        .par_iter()
        .zip(done.par_chunks_mut(per_limit))
        .map(|(&memory, runs)| {
            let label = |v: &Variant| v.label.clone();
            let mut result = ReplayResult::default();
            let (mut series, mut scans) = (IndexMap::new(), IndexMap::new());
            for (v, runs) in plan.variants.iter().zip(runs.chunks_mut(phases as usize)) {
                result.variants.insert(label(v), told_killed(summary(runs)));
                // Of the first phase.
                let first = std::mem::take(&mut runs[0]);
                result.phases.insert(label(v), first.phases);
                if !first.series.is_empty() {
                    series.insert(label(v), first.series);
                }
                if plan.scans {
                    scans.insert(label(v), first.scans);
                }
            }
            result.bounds = evictable.bounds(
                trace,
                sequence.as_ref(),
                memory.pages,
                plan.settings.own_pages,
            );
            let alone = sequence.as_ref().map_or_else(IndexMap::new, |sequence| {
                let alone = |v| evictable.alone(sequence, v, memory.pages, plan.settings.own_pages);
                let all = plan.variants.iter();
                all.filter_map(|v| Some((label(v), alone(v)?))).collect()
            });
            ReplayTable {
                memory,
                swap: swap.clone(),
                series,
                curves: curves.clone(),
                alone,
                scans,
                result,
            }
        });
    Ok(tables.collect())
}

/// That somebody has come to the end of the trace: a policy that fails where another does not is worth a table, a limit
/// that nobody can live with is not.
///
/// # Errors
/// How the first replay was killed, if all were.
pub fn check_survivors(trace: &About, tables: &[ReplayTable]) -> Result<(), RunnerError> {
    let mut first = None;
    for table in tables {
        for (variant, counters) in &table.result.variants {
            match killed_after(counters) {
                None => return Ok(()),
                Some(access) => {
                    first.get_or_insert((variant, access, table));
                }
            }
        }
    }
    first.map_or(Ok(()), |(variant, access, table)| {
        Err(RunnerError::Replay {
            variant: variant.clone(),
            error: no_memory(access as usize, table.memory.pages, (trace, &table.swap)),
        })
    })
}

/// The access at which a replay or a run was killed for lack of memory; none: it was not.
#[must_use]
pub fn killed_after(counters: &IndexMap<String, CounterSummary>) -> Option<u64> {
    let mean = |name: &str| counters.get(name).map_or(0.0, |c| c.mean.as_f64());
    (mean("events_oom_kill") > 0.0).then(|| mean("accesses") as u64)
}

/// The counters of a replay that was killed say so, and have no ratio: they are those of a part of the trace.
fn told_killed(mut all: IndexMap<String, CounterSummary>) -> IndexMap<String, CounterSummary> {
    if killed_after(&all).is_some() {
        all.shift_remove("miss_ratio");
        let after = all["accesses"].clone();
        all.insert(KILLED_AFTER.to_owned(), after);
    }
    all
}

/// The end of a replay under this limit, as an error.
fn no_memory(access: usize, memory: u64, (trace, swap): (&About, &SwapConfig)) -> ReplayError {
    ReplayError::Op {
        access,
        error: OpError::NoMemory,
        memory,
        remedy: format!("; {}", room(trace, swap)),
    }
}

/// What would help a replay that is killed for lack of memory.
#[must_use]
pub fn room(trace: &About, swap: &SwapConfig) -> String {
    let anon = trace.objects.iter().any(|o| o.is_anon);
    let swap = match (anon, swap) {
        (false, _) => "",
        (true, SwapConfig::None) => " or give --swap",
        (true, _) => ", or give more --swap or a higher --swappiness",
    };
    let tasks = match trace.acting() {
        0 | 1 => "",
        _ => "; if its tasks are threads of one program, --one-task",
    };
    format!("raise --memory{swap}{tasks}")
}

fn number(value: i64) -> Number {
    u64::try_from(value).map_or(Number::Real(value as f64), Number::Int)
}

/// Counters by name: those of the trace, of the limited memcg, and of each task's.
fn counters(trace: &About, replay: &Replay) -> IndexMap<String, Number> {
    let accesses = replay.killed.map_or(trace.accesses, |access| access as u64);
    let mut out = IndexMap::new();
    out.insert("accesses".to_owned(), Number::Int(accesses));

    out.insert("misses".to_owned(), number(replay.get("misses")));
    let ratio = replay.get("misses") as f64 / accesses.max(1) as f64;
    out.insert("miss_ratio".to_owned(), Number::Real(ratio));
    for &(name, value) in &replay.counters {
        out.insert(name.to_owned(), number(value));
    }
    // An inline task is not killed, it just gets no memory.
    let killed = u64::from(replay.killed.is_some());
    out.insert("events_oom_kill".to_owned(), Number::Int(killed));
    out.insert("time_ns".to_owned(), Number::Int(replay.time));
    if let Some(worked) = replay.worked {
        out.insert("cpu_ns".to_owned(), Number::Int(worked));
    }
    if let Some(stopped) = replay.stopped {
        out.insert("throttle_dirty_ns".to_owned(), Number::Int(stopped));
    }
    for (task, counters) in &replay.tasks {
        for &(name, value) in counters {
            out.insert(format!("task{task}.{name}"), number(value));
        }
    }
    out
}

/// Values over the accesses, by name.
type Series = IndexMap<String, Vec<(u64, Number)>>;

/// The samples of a replay; those that are 0 all the time are left out.
fn series(replay: &Replay) -> Series {
    let samples = &replay.samples;
    let names = SAMPLED.iter().enumerate();
    names
        .filter(|(i, _)| samples.iter().any(|(_, row)| row[*i] != 0))
        .map(|(i, (name, _))| {
            let points = samples.iter().map(|(at, row)| (*at, Number::Int(row[i])));
            ((*name).to_owned(), points.collect())
        })
        .collect()
}

/// What is kept of a replay.
#[derive(Default)]
struct Ran {
    counters: IndexMap<String, Number>,
    series: Series,
    phases: Vec<PhaseStart>,
    scans: Vec<ScanEvent>,
}

impl Ran {
    fn of(trace: &About, replay: Replay) -> Self {
        let phase = |(phase, point): &(u32, SeriesPoint)| {
            let counters = point.counters.iter();
            PhaseStart {
                phase: *phase,
                access: point.access,
                counters: counters
                    .map(|&(name, value)| (name.to_owned(), number(value)))
                    .collect(),
            }
        };
        Self {
            counters: counters(trace, &replay),
            series: series(&replay),
            phases: replay.phases.iter().map(phase).collect(),
            scans: replay.scans,
        }
    }
}

/// Mean and spread over the phases.
fn summary(runs: &[Ran]) -> IndexMap<String, CounterSummary> {
    let Some(first) = runs.first() else {
        return IndexMap::new();
    };
    first
        .counters
        .keys()
        .filter_map(|name| {
            let per_seed: Vec<Number> = runs
                .iter()
                .filter_map(|r| r.counters.get(name).copied())
                .collect();
            Some((name.clone(), CounterSummary::of(per_seed)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Size, SwapSpec};
    use super::*;
    use crate::replay::{Clock, Limit};
    use crate::traces::{Op, OpKind, Order, Trace};

    /// `pages` pages in a circle, `rounds` times, of a file or of anonymous memory.
    fn circle(kind: OpKind, pages: u32, rounds: u32) -> Trace {
        let op = |page| Op {
            kind,
            object: 0,
            task: 0,
            page,
        };
        Trace::from_ops((0..rounds).flat_map(|_| (0..pages).map(op)).collect())
    }

    fn plan(variants: &[&str], memory: &[Size]) -> ReplayPlan {
        let variants = Variant::parse_all(variants, &[]).unwrap();
        let mut plan = ReplayPlan::new(variants, Size::Percent(50.0));
        plan.memory = memory.to_vec();
        plan.settings.kernel_memory = false;
        plan.bounds = true;
        plan
    }

    fn tables(trace: &Trace, plan: &ReplayPlan) -> Result<Vec<ReplayTable>, RunnerError> {
        replay_all(trace, plan, |_| Progress::silent())
    }

    #[test]
    fn no_policy_beats_opt_and_fifo_is_no_better_than_lru_on_a_circle() {
        let trace = circle(OpKind::Pread, 1000, 5);
        let p = plan(&["fifo", "classic", "base", "v5"], &[Size::Percent(50.0)]);
        let table = &tables(&trace, &p).unwrap()[0];
        let bound = |n: &str| table.result.bounds[n].as_f64();
        assert_eq!(bound("capacity_pages"), 500.0);
        assert_eq!(bound("lru_misses"), 5000.0);
        assert!(bound("opt_misses") < 5000.0);
        for counters in table.result.variants.values() {
            assert!(counters["misses"].mean.as_f64() >= bound("opt_misses"));
        }
        assert_eq!(
            table.result.variants["fifo"]["misses"].mean.as_f64(),
            5000.0
        );
        assert_eq!(table.swap, SwapConfig::None);
    }

    #[test]
    fn default_limits_leave_out_what_is_too_small() {
        let trace = circle(OpKind::Pread, 1000, 2);
        let limits = plan(&["base"], &[]).limits(&trace).unwrap();
        assert_eq!(
            limits.iter().map(|m| m.pages).collect::<Vec<_>>(),
            [250, 500]
        );
        let error = plan(&["base"], &[Size::Percent(10.0)])
            .limits(&trace)
            .unwrap_err();
        assert!(
            error.to_string().contains(
                "'10%' cannot be used: write 128 pages (512 KiB) or more; it is 100 pages, and"
            ),
            "{error}"
        );
        let tiny = circle(OpKind::Pread, 100, 2);
        let error = plan(&["base"], &[]).limits(&tiny).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--memory is needed: 50%, the largest that is tried without it, is 50 pages, and 128 pages (512 KiB) are \
             the least"
        );
    }

    #[test]
    fn anonymous_traces_get_swap_of_their_size() {
        let trace = circle(OpKind::AnonWrite, 600, 3);
        let p = plan(&["base"], &[Size::Pages(300)]);
        let table = &tables(&trace, &p).unwrap()[0];
        assert_eq!(
            table.swap,
            SwapConfig::Zram {
                pages: 600,
                algorithm: "lz4".into()
            }
        );
        assert!(table.result.variants["base"]["pswpin"].mean.as_f64() > 0.0);
        assert_eq!(table.result.bounds["evictable_accesses"], Number::Int(1800));

        let none = ReplayPlan {
            swap: Some(SwapSpec::None),
            ..p
        };
        let killed = tables(&trace, &none).unwrap();
        let counters = &killed[0].result.variants["base"];
        // It has what the limit holds, less the batch that an allocation asks for.
        let after = killed_after(counters).unwrap();
        assert!((200..=300).contains(&after), "{after}");
        let error = check_survivors(trace.about(), &killed)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("out of memory") && error.contains("--swap"),
            "{error}"
        );
        let with_swap = ReplayPlan { swap: None, ..none };
        assert!(check_survivors(trace.about(), &tables(&trace, &with_swap).unwrap()).is_ok());
    }

    #[test]
    fn a_task_that_another_has_killed_ends_the_replay() {
        let anon = |task: u8, page| Op {
            kind: OpKind::AnonWrite,
            object: task,
            task: task.into(),
            page,
        };
        // The second task takes the last page, and the first, which is to come again, has most.
        let first = (0..600).map(|page| anon(0, page));
        let second = (0..500).map(|page| anon(1, page));
        let trace = Trace::from_ops(first.chain(second).chain([anon(0, 0)]).collect());
        let machine = Limit::Machine { zones: Vec::new() };
        for (limit, order) in [
            (machine, Order::Strict),
            (Limit::Cgroup, Order::Within(100)),
        ] {
            let mut p = plan(&["v618"], &[Size::Pages(1000)]);
            (p.settings.limit, p.settings.order) = (limit, order);
            p.swap = Some(SwapSpec::None);
            let table = &tables(&trace, &p).unwrap()[0];
            let after = killed_after(&table.result.variants["v618"]).unwrap();
            assert!((600..1100).contains(&after), "{after}");
            let victim = &table.result.variants["v618"]["task0.events_oom_kill"];
            assert_eq!(victim.mean.as_f64(), 1.0);
        }
    }

    #[test]
    fn without_swap_anonymous_pages_take_frames_from_the_bounds() {
        let trace = circle(OpKind::Pread, 400, 3);
        let anon = |page| Op {
            kind: OpKind::AnonWrite,
            object: 1,
            task: 0,
            page,
        };
        let then = (0..100).chain(0..100).map(anon);
        let trace = Trace::from_ops(trace.ops().iter().copied().chain(then).collect());
        let mut p = plan(&["v5"], &[Size::Pages(300)]);
        p.swap = Some(SwapSpec::None);
        p.settings.own_pages = 3;
        let table = &tables(&trace, &p).unwrap()[0];
        assert_eq!(table.result.bounds["capacity_pages"], Number::Int(197));
        assert_eq!(table.result.bounds["evictable_accesses"], Number::Int(1200));
    }

    #[test]
    fn phases_are_listed() {
        let trace = circle(OpKind::Pread, 600, 3);
        let p = ReplayPlan {
            fold_phases: 4,
            ..plan(&["classic"], &[Size::Pages(300)])
        };
        let table = &tables(&trace, &p).unwrap()[0];
        assert_eq!(table.result.variants["classic"]["pgscan"].per_seed.len(), 4);
        let limits = p.limits(&trace).unwrap();
        let late = |plan: &ReplayPlan, number, phase| {
            let o = plan.options(&limits, number, &SwapConfig::None, &p.variants[0], phase);
            (o.fold_phase, o.settings.clock)
        };
        assert_eq!(late(&p, 0, 0), (500_000_000, None));
    }

    #[test]
    fn limits_have_phases_and_clocks_of_their_own() {
        let trace = circle(OpKind::Pread, 600, 3);
        let clock = |text: &str| Clock::parse(text).unwrap();
        let machine = Limit::Machine { zones: Vec::new() };
        let p = ReplayPlan {
            spread_limits: true,
            clocks: vec![clock("0:0,9:1"), clock("0:0,9:2")],
            limits_of: vec![Limit::Cgroup, machine.clone()],
            ..plan(&["v618"], &[Size::Pages(300), Size::Pages(301)])
        };
        let limits = p.limits(&trace).unwrap();
        let of = |number| {
            let o = p.options(&limits, number, &SwapConfig::None, &p.variants[0], 0);
            let on = o.settings;
            (o.memory, o.fold_phase, on.clock.unwrap(), on.limit)
        };
        assert_eq!(of(0), (300, 1_000_000_000, clock("0:0,9:1"), Limit::Cgroup));
        assert_eq!(of(1), (301, 2_000_000_000, clock("0:0,9:2"), machine));
    }

    #[test]
    fn a_fold_that_is_known_is_not_spread() {
        let trace = circle(OpKind::Pread, 600, 3);
        let phase = |fold: &str, fold_phases| {
            let mut p = ReplayPlan {
                fold_phases,
                ..plan(&["classic"], &[Size::Pages(300)])
            };
            p.settings.clock = Some(Clock::parse(&format!("0:0,9:1{fold}")).unwrap());
            let limits = p.limits(&trace).unwrap();
            let o = p.options(&limits, 0, &SwapConfig::None, &p.variants[0], 0);
            o.fold_phase
        };
        assert_eq!(phase("", 1), 2_000_000_000);
        assert_eq!(phase(",fold:0.7", 1), 700_000_000);
        // Timers are late.
        assert_eq!(phase(",fold:2.016", 1), 2_000_000_000);
        assert_eq!(phase(",fold:0.7", 4), 500_000_000, "asked for");
    }

    /// Where nothing but dirty pages can go, some have to be written before others can.
    #[test]
    fn every_list_policy_lives_with_a_program_that_only_writes() {
        let mut x = 7u64;
        let mut page = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) as u32 % 900
        };
        let op = |page| Op {
            kind: OpKind::WholeWrite,
            object: 0,
            task: 0,
            page,
        };
        let trace = Trace::from_ops((0..4000).map(|_| op(page())).collect());
        let names = [
            "fifo",
            "clock",
            "lru",
            "arc",
            "2q",
            "slru",
            "lirs",
            "clock-pro",
            "s3fifo",
            "w-tinylfu",
            "lhd",
            "sieve",
        ];
        let tables = tables(&trace, &plan(&names, &[Size::Pages(300), Size::Pages(450)])).unwrap();
        for (table, name) in tables
            .iter()
            .flat_map(|t| names.iter().map(move |n| (t, n)))
        {
            let after = killed_after(&table.result.variants[*name]);
            assert_eq!(after, None, "{name}, {} pages", table.memory.pages);
        }
    }
}

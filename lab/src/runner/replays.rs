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
#[path = "replays_tests.rs"]
mod tests;

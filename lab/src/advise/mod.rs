//! What less memory costs a trace: reads, swap traffic and time under some kernels and limits, against today's.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the plan, and its replays with limits nearby |
//! | `knee.rs` | the memory from which on more of it saves little |
//! | `paying.rs` | which tasks, files and regions read more |
//! | `text.rs` | table and sentences |
//!
//! Everything comes of [`replay_all`]. How far a figure can be trusted is asked of limits nearby: what a policy does may
//! depend on a few pages more or less, and a difference that does not stand out from that is called none.

mod knee;
mod paying;
mod text;

pub use knee::knee;
pub use paying::paying;
pub(crate) use text::NOTE;
pub use text::{advice_json, advice_table, render_advice, sentences};

use crate::bounds::Sequence;
use crate::charts::CurveLine;
use crate::replay::MEMORY_MIN;
use crate::runner::{
    killed_after, replay_all, Progress, ReplayPlan, ReplayTable, RunnerError, Size, Variant,
};
use crate::traces::Trace;
use coldset_report::stats::{paired_ratio, Spread};
use serde::Serialize;
use std::sync::Arc;

/// Steps of the limits nearby, below and above: each a five-hundredth of the limit, or a page.
const STEPS: [i64; 5] = [0, -2, -1, 1, 2];
const STEP_SHARE: f64 = 0.002;
/// Fewest pages: those nearby below it can still be replayed.
pub const LEAST_PAGES: u64 = MEMORY_MIN + STEPS.len() as u64;
/// Sizes where none are given, shares of today's.
pub const MEMORY_DEFAULT: [Size; 3] = [
    Size::Percent(70.0),
    Size::Percent(50.0),
    Size::Percent(30.0),
];
/// Differences below this share are not worth a word, however certain.
const LEAST: f64 = 0.005;
/// Nor is a batch of reclaim more or less, pages.
const LEAST_READS: f64 = 32.0;

/// What percentages are shares of, and what everything is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Today {
    /// All pages of the trace.
    Pages,
    /// The most pages that the trace has in memory at a time.
    Peak,
    /// So much memory.
    Size(Size),
}

impl Today {
    /// Reads `pages`, `peak` or a size.
    ///
    /// # Errors
    /// [`RunnerError::Value`].
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        match text {
            "pages" => Ok(Self::Pages),
            "peak" => Ok(Self::Peak),
            _ => Size::parse("today", text).map(Self::Size),
        }
    }

    fn pages(self, trace: &Trace) -> Result<u64, RunnerError> {
        Ok(match self {
            Self::Pages => trace.unique_pages,
            Self::Peak => Sequence::peak(trace)?,
            Self::Size(size) => size.pages_of(trace.unique_pages),
        })
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct AdvicePlan {
    /// Kernels and policies; the first is what the sentences are about.
    pub variants: Vec<Variant>,
    /// Sizes beside today's; shares are of today's. None: those of [`MEMORY_DEFAULT`] that are large enough.
    pub memory: Vec<Size>,
    /// Today's memory.
    pub today: Today,
    /// How the trace is replayed; variants, limits and bounds are set here.
    pub replays: ReplayPlan,
}

/// What a replay costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Pages read from files and from swap.
    pub reads: f64,
    /// Of these, pages read from swap.
    pub swapped_in: f64,
    /// Pages written to swap.
    pub swapped_out: f64,
    /// Virtual time, ns.
    pub time_ns: f64,
    /// Of it, waiting for devices and sleeping, ns; the rest is CPU.
    pub wait_ns: f64,
    /// Of that, how long writers were stopped at dirty limits, ns.
    pub stopped_ns: f64,
}

impl Cost {
    /// Most of the time is stops of writers: how long those are depends on when statistics are folded, which a trace
    /// does not tell.
    pub(crate) fn is_stops(&self) -> bool {
        2.0 * self.stopped_ns > self.time_ns
    }
}

/// A figure against another of the same limits nearby.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Against {
    /// This one divided by the other, under the limit itself; none: the other is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio over the limits nearby; none: there is no such ratio.
    pub interval: Option<(f64, f64)>,
    /// The difference stands out from what limits nearby do.
    pub clear: bool,
}

/// A variant under one size of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Name of the variant.
    pub variant: String,
    /// None: its task was killed for lack of memory.
    pub cost: Option<Cost>,
    /// Reads under limits nearby: least and most.
    pub reads_nearby: Option<(f64, f64)>,
    /// Time under limits nearby, ns: shortest and longest.
    pub time_nearby: Option<(f64, f64)>,
    /// Its reads against those of today.
    pub reads_today: Option<Against>,
    /// Its time against that of today.
    pub time_today: Option<Against>,
    /// Its reads against those of the first variant under this size; none: it is the first.
    pub reads_first: Option<Against>,
    /// Its time likewise.
    pub time_first: Option<Against>,
}

/// A size of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Pages.
    pub pages: u64,
    /// Of today's memory.
    pub share: f64,
    /// Reads of OPT: no policy has fewer.
    pub opt_reads: Option<f64>,
    /// By variant.
    pub cases: Vec<Case>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Accesses of the trace.
    pub accesses: u64,
    /// Different pages of the trace.
    pub unique_pages: u64,
    /// Today's memory, pages.
    pub today_pages: u64,
    /// The memory from which on more of it saves little, pages, by exact LRU.
    pub knee_pages: Option<u64>,
    /// Sizes: today's first, then as asked for.
    pub levels: Vec<Level>,
    /// Memory of the kernel counts against the limits.
    #[serde(skip)]
    pub kernel_memory: bool,
    /// Writers are under the dirty limits of the whole machine, not of the cgroup.
    #[serde(skip)]
    pub limits_of_host: bool,
    /// Miss ratios of exact policies over the memory.
    #[serde(skip)]
    pub curves: Arc<Vec<CurveLine>>,
    /// The replays under the sizes themselves.
    #[serde(skip)]
    pub tables: Vec<ReplayTable>,
}

/// One variant under one size and under those nearby, the size itself first.
pub(crate) struct Runs {
    costs: Vec<Option<Cost>>,
}

impl Runs {
    fn of(tables: &[ReplayTable], variant: &str) -> Self {
        let cost = |table: &ReplayTable| {
            let counters = &table.result.variants[variant];
            let value = |name: &str| counters.get(name).map_or(0.0, |c| c.mean.as_f64());
            killed_after(counters).is_none().then(|| Cost {
                reads: value("misses"),
                swapped_in: value("pswpin"),
                swapped_out: value("pswpout"),
                time_ns: value("time_ns"),
                wait_ns: (value("time_ns") - value("cpu_ns")).max(0.0),
                stopped_ns: value("throttle_dirty_ns"),
            })
        };
        Self {
            costs: tables.iter().map(cost).collect(),
        }
    }

    pub(crate) fn here(&self) -> Option<Cost> {
        self.costs[0]
    }

    fn all(&self, of: fn(&Cost) -> f64) -> Option<Vec<f64>> {
        self.costs.iter().map(|c| c.as_ref().map(of)).collect()
    }

    fn range(&self, of: fn(&Cost) -> f64) -> Option<(f64, f64)> {
        let all = self.all(of)?;
        let least = all.iter().copied().reduce(f64::min)?;
        Some((least, all.into_iter().reduce(f64::max)?))
    }

    pub(crate) fn reads_against(&self, other: &Runs) -> Option<Against> {
        self.against(other, |cost| cost.reads, LEAST_READS)
    }

    pub(crate) fn time_against(&self, other: &Runs) -> Option<Against> {
        self.against(other, |cost| cost.time_ns, 0.0)
    }

    /// Against `other`, limit by limit.
    fn against(&self, other: &Runs, of: fn(&Cost) -> f64, least: f64) -> Option<Against> {
        let (mine, theirs) = (self.all(of)?, other.all(of)?);
        let spread: Option<Spread> = paired_ratio(&theirs, &mine).ok();
        let interval = spread
            .and_then(|s| s.ci95)
            .map(|interval| (interval.lo, interval.hi));
        let ratio = (theirs[0] > 0.0).then(|| mine[0] / theirs[0]);
        let same = (mine[0] - theirs[0]).abs() <= least.max(LEAST * theirs[0]);
        let apart = match interval {
            Some((lo, hi)) => lo > 1.0 || hi < 1.0,
            // Nothing after something, or the other way round: under all limits or not.
            None => {
                let sign = |(a, b): (&f64, &f64)| a.total_cmp(b);
                let mut signs = mine.iter().zip(&theirs).map(sign);
                let first = signs.next();
                signs.all(|s| Some(s) == first)
            }
        };
        Some(Against {
            ratio,
            interval,
            clear: !same && apart,
        })
    }
}

/// The limits of a size: itself, then those nearby.
fn near(pages: u64) -> impl Iterator<Item = u64> {
    let step = ((pages as f64 * STEP_SHARE).round() as i64).max(1);
    STEPS
        .iter()
        .map(move |steps| pages.saturating_add_signed(steps * step).max(MEMORY_MIN))
}

impl AdvicePlan {
    /// Today's memory and the others, pages.
    ///
    /// # Errors
    /// A size that is too small.
    pub fn sizes(&self, trace: &Trace) -> Result<Vec<u64>, RunnerError> {
        let today = self.today.pages(trace)?;
        if today < LEAST_PAGES {
            let given = match self.today {
                Today::Pages => "pages".to_owned(),
                Today::Peak => "peak".to_owned(),
                Today::Size(size) => size.to_string(),
            };
            let given = (&*given, today);
            return Err(RunnerError::too_small("today", given, LEAST_PAGES, trace));
        }
        let given = !self.memory.is_empty();
        let asked = if given {
            &self.memory
        } else {
            &MEMORY_DEFAULT[..]
        };
        let mut sizes = vec![today];
        for size in asked {
            match large_enough(*size, today, trace) {
                Err(error) if given => return Err(error),
                Ok(pages) if !sizes.contains(&pages) => sizes.push(pages),
                _ => {}
            }
        }
        match sizes.len() {
            1 if !given => {
                let most = MEMORY_DEFAULT[0];
                Err(RunnerError::NoDefault {
                    most,
                    pages: most.pages_of(today),
                    least: LEAST_PAGES,
                })
            }
            _ => Ok(sizes),
        }
    }
}

/// The pages of a size, a share of `whole`, if there can be replays under it and those nearby.
pub(crate) fn large_enough(size: Size, whole: u64, trace: &Trace) -> Result<u64, RunnerError> {
    size.at_least(LEAST_PAGES, whole, trace)
}

/// Variants under one size of memory and those nearby.
///
/// # Errors
/// As [`replay_all`].
pub(crate) fn measure(
    trace: &Trace,
    replays: &ReplayPlan,
    variants: &[Variant],
    pages: u64,
    progress: impl FnOnce(u64) -> Progress,
) -> Result<Vec<Runs>, RunnerError> {
    let plan = ReplayPlan {
        variants: variants.to_vec(),
        memory: near(pages).map(Size::Pages).collect(),
        bounds: false,
        ..replays.clone()
    };
    let tables = replay_all(trace, &plan.of_trace(trace), progress)?;
    let all = variants.iter();
    Ok(all.map(|v| Runs::of(&tables, &v.label)).collect())
}

/// Replays the trace under all sizes and variants. The result does not depend on the number of threads.
///
/// # Errors
/// As [`replay_all`], and a size that is too small.
pub fn advise(
    trace: &Trace,
    plan: &AdvicePlan,
    progress: impl FnOnce(u64) -> Progress,
) -> Result<Advice, RunnerError> {
    let sizes = plan.sizes(trace)?;
    let limits = |pages: Vec<u64>, replays: ReplayPlan| ReplayPlan {
        variants: plan.variants.clone(),
        memory: pages.into_iter().map(Size::Pages).collect(),
        ..replays
    };
    let nearby: Vec<u64> = sizes.iter().flat_map(|&s| near(s).skip(1)).collect();
    let progress = progress((plan.variants.len() * STEPS.len() * sizes.len()) as u64);
    let exact = ReplayPlan {
        bounds: true,
        curves: true,
        ..plan.replays.clone()
    };
    let exact = limits(sizes.clone(), exact.of_trace(trace));
    let tables = replay_all(trace, &exact, |_| progress.clone())?;
    let plain = ReplayPlan {
        bounds: false,
        sample_points: 0,
        ..plan.replays.clone()
    };
    let plain = limits(nearby, plain.of_trace(trace));
    let around = replay_all(trace, &plain, |_| progress.clone())?;
    let runs: Vec<Vec<Runs>> = tables
        .iter()
        .zip(around.chunks(STEPS.len() - 1))
        .map(|(here, around)| {
            let all: Vec<ReplayTable> = [std::slice::from_ref(here), around].concat();
            let of = |v: &Variant| Runs::of(&all, &v.label);
            plan.variants.iter().map(of).collect()
        })
        .collect();
    let case = |level: usize, v: usize| {
        let (mine, today, first) = (&runs[level][v], &runs[0][v], &runs[level][0]);
        let (today, first) = (
            Some(today).filter(|_| level > 0),
            Some(first).filter(|_| v > 0),
        );
        Case {
            variant: plan.variants[v].label.clone(),
            cost: mine.here(),
            reads_nearby: mine.range(|cost| cost.reads),
            time_nearby: mine.range(|cost| cost.time_ns),
            reads_today: today.and_then(|t| mine.reads_against(t)),
            time_today: today.and_then(|t| mine.time_against(t)),
            reads_first: first.and_then(|f| mine.reads_against(f)),
            time_first: first.and_then(|f| mine.time_against(f)),
        }
    };
    let level = |(i, &pages): (usize, &u64)| Level {
        pages,
        share: pages as f64 / sizes[0] as f64,
        opt_reads: tables[i]
            .result
            .bounds
            .get("opt_misses")
            .map(|n| n.as_f64()),
        cases: (0..plan.variants.len()).map(|v| case(i, v)).collect(),
    };
    let curves = tables[0].curves.clone();
    Ok(Advice {
        accesses: trace.ops().len() as u64,
        unique_pages: trace.unique_pages,
        today_pages: sizes[0],
        knee_pages: curves.first().and_then(|lru| knee(&lru.points)),
        levels: sizes.iter().enumerate().map(level).collect(),
        kernel_memory: plan.replays.settings.kernel_memory,
        limits_of_host: plan.replays.settings.dirty.of_host,
        curves,
        tables,
    })
}

#[cfg(test)]
mod tests;

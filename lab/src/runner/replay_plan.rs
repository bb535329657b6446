//! What to replay a trace under.

use super::quantity::{Low, Size, SwapSpec};
use super::{RunnerError, Variant};
use crate::replay::{Clock, Limit, ReplayOptions, ReplaySettings, MEMORY_MIN, READ_AHEAD_KB};
use crate::traces::About;
use coldset_machine::device::ZramAlgorithm;
use coldset_machine::{ReadAhead, SwapConfig};

/// Limits of a replay that names none.
pub const MEMORY_DEFAULT: [Size; 3] = [
    Size::Percent(10.0),
    Size::Percent(25.0),
    Size::Percent(50.0),
];
/// Interval of the fold of memcg statistics, ns.
const FOLD_INTERVAL: u64 = 2_000_000_000;

/// What to replay a trace under.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// What it is replayed on.
    pub settings: ReplaySettings,
    /// What the trace is replayed over.
    pub variants: Vec<Variant>,
    /// Limits; none: [`MEMORY_DEFAULT`], without those that are too small.
    pub memory: Vec<Size>,
    /// Swap; none: zram of the size of the trace if it has anonymous memory.
    pub swap: Option<SwapSpec>,
    /// Replays with phases of the statistics fold spread over its interval.
    pub fold_phases: u64,
    /// Limits have phases of the fold instead, that of the n-th of N comes n/N of its interval late.
    pub spread_limits: bool,
    /// The clock of each limit; none: that of the settings.
    pub clocks: Vec<Clock>,
    /// What each limit is a limit of; none: what the settings say.
    pub limits_of: Vec<Limit>,
    /// Without a clock: misses from fold to fold, a share is one of the limit; none: limit/8.
    pub fold_every: Option<Size>,
    /// Compute exact LRU and OPT.
    pub bounds: bool,
    /// Protections.
    pub low: Vec<Low>,
    /// Limits of single tasks.
    pub max: Vec<Low>,
    /// Samples over the accesses, and the miss-ratio curves of the bounds, if not 0.
    pub sample_points: usize,
    /// The miss-ratio curves of the bounds in any case.
    pub curves: bool,
    /// What tasks scan, of the first phase.
    pub scans: bool,
}

/// A limit as asked for, in pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// As asked for.
    pub size: Size,
    /// What that comes to for the trace.
    pub pages: u64,
}

impl ReplayPlan {
    /// These variants under one limit, kernel memory counted, everything else as little as can be: no
    /// clock, no read-ahead, no bounds, no samples.
    #[must_use]
    pub fn new(variants: Vec<Variant>, memory: Size) -> Self {
        Self {
            settings: ReplaySettings::default(),
            variants,
            memory: vec![memory],
            swap: None,
            fold_phases: 1,
            spread_limits: false,
            clocks: Vec::new(),
            limits_of: Vec::new(),
            fold_every: None,
            bounds: false,
            low: Vec::new(),
            max: Vec::new(),
            sample_points: 0,
            curves: false,
            scans: false,
        }
    }

    /// With the read-ahead that a trace is replayed with unless the plan has one: if it has advice, it says what
    /// programs asked for, and the kernel's comes on top; others contain it.
    #[must_use]
    pub fn of_trace(mut self, trace: &About) -> Self {
        if trace.has_advice() && self.settings.read_ahead == ReadAhead::default() {
            self.settings.read_ahead = ReadAhead::Windows { kb: READ_AHEAD_KB };
        }
        self
    }

    /// Limits in pages.
    ///
    /// # Errors
    /// A limit that leaves less than [`MEMORY_MIN`] beside the program's own pages.
    pub fn limits(&self, trace: &About) -> Result<Vec<Memory>, RunnerError> {
        let given = !self.memory.is_empty();
        let sizes: &[Size] = if given { &self.memory } else { &MEMORY_DEFAULT };
        let least = MEMORY_MIN + u64::from(self.settings.own_pages);
        let mut limits = Vec::new();
        for &size in sizes {
            match size.at_least(least, trace.unique_pages, trace) {
                Ok(pages) => limits.push(Memory { size, pages }),
                Err(error) if given => return Err(error),
                Err(_) => {}
            }
        }
        if limits.is_empty() {
            let most = MEMORY_DEFAULT[MEMORY_DEFAULT.len() - 1];
            let pages = most.pages_of(trace.unique_pages);
            return Err(RunnerError::NoDefault { most, pages, least });
        }
        Ok(limits)
    }

    pub(super) fn swap_config(&self, trace: &About) -> Result<SwapConfig, RunnerError> {
        match &self.swap {
            Some(spec) => spec.config(trace.unique_pages),
            None if trace.objects.iter().any(|o| o.is_anon) => {
                SwapSpec::Zram(Size::Percent(100.0), ZramAlgorithm::Lz4).config(trace.unique_pages)
            }
            None => Ok(SwapConfig::None),
        }
    }

    /// Under the limit with this number of `limits`, with this phase.
    pub(super) fn options(
        &self,
        limits: &[Memory],
        number: usize,
        swap: &SwapConfig,
        variant: &Variant,
        phase: u64,
    ) -> ReplayOptions {
        let memory = limits[number].pages;
        let (nth, of) = match self.spread_limits {
            true => (number as u64, limits.len() as u64),
            false => (phase, self.fold_phases),
        };
        let late = |interval| (u128::from(interval) * u128::from(nth + 1) / u128::from(of)) as u64;
        let mut o = ReplayOptions::new(memory);
        o.settings.clone_from(&self.settings);
        if let Some(clock) = self.clocks.get(number) {
            o.settings.clock = Some(clock.clone());
        }
        if let Some(limit) = self.limits_of.get(number) {
            o.settings.limit = limit.clone();
        }
        o.swap = swap.clone();
        if o.settings.limit != Limit::Cgroup {
            // Where memcgs are in the memcg LRU is drawn.
            o.seed += nth;
        }
        let clock = o.settings.clock.as_ref();
        let known = clock.and_then(Clock::first_fold_ns);
        o.fold_phase = match known {
            // It is known when it was: nothing to spread.
            Some(ns) if self.fold_phases == 1 => ns.min(FOLD_INTERVAL),
            _ => late(FOLD_INTERVAL),
        };
        // Without a clock the same phases, in misses.
        o.fold_every = self
            .fold_every
            .map_or(o.fold_every, |size| size.pages_of(memory))
            .max(1);
        o.fold_first = late(o.fold_every);
        let pages = |l: &Low| (l.task, l.size.pages_of(memory));
        o.low = self.low.iter().map(pages).collect();
        o.max = self.max.iter().map(pages).collect();
        o.set.clone_from(&variant.set);
        o.outside.clone_from(&variant.outside);
        // The first phase is as good as any.
        o.sample_points = if phase == 0 { self.sample_points } else { 0 };
        o.scans = self.scans && phase == 0;
        o
    }
}

/// The limit under which a trace is played, pages.
///
/// # Errors
/// It is below [`MEMORY_MIN`], under which no replay is.
pub fn limit(memory: Size, trace: &About) -> Result<u64, RunnerError> {
    memory.at_least(MEMORY_MIN, trace.unique_pages, trace)
}

//! Runs and what they add up to.

use indexmap::IndexMap;

use super::claim::Claim;
use super::judge::{judge, ClaimResult, Skipped};
use super::{Number, ReportError};
use crate::stats::{Interval, LatencyHistogram, Spread};
use coldset_nearest::did_you_mean;

/// Series as a machine hands them over: name and (virtual ns, value).
pub type Samples = Vec<(&'static str, Vec<(u64, u64)>)>;

/// Counters of one variant under one seed, in the order they should be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Name of the policy variant.
    pub variant: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Counters by name.
    pub counters: IndexMap<String, Number>,
    /// Values over virtual time, by name: (nanoseconds, value). May be empty.
    pub series: IndexMap<String, Vec<(u64, Number)>>,
    /// Distributions of times, by name: (upper end of a cell in nanoseconds, how many are in it),
    /// ascending. May be empty.
    pub histograms: IndexMap<String, Vec<(u64, u64)>>,
}

impl RunResult {
    /// A run without counters yet.
    #[must_use]
    pub fn new(variant: impl Into<String>, seed: u64) -> Self {
        Self {
            variant: variant.into(),
            seed,
            counters: IndexMap::new(),
            series: IndexMap::new(),
            histograms: IndexMap::new(),
        }
    }

    /// Adds a point to a series.
    pub fn point(&mut self, series: impl Into<String>, at_ns: u64, value: impl Into<Number>) {
        let points = self.series.entry(series.into()).or_default();
        points.push((at_ns, value.into()));
    }

    /// Takes over what a machine has sampled over virtual time, each name after `prefix`. A
    /// series that the experiment has recorded itself stays as it is.
    pub fn take_samples(&mut self, prefix: &str, samples: Samples) {
        for (name, points) in samples {
            let points = points.into_iter().map(|(at, v)| (at, Number::Int(v)));
            self.series
                .entry(format!("{prefix}{name}"))
                .or_insert_with(|| points.collect());
        }
    }

    /// Adds a distribution of times; an empty one is left out.
    pub fn histogram(&mut self, name: impl Into<String>, times: &LatencyHistogram) {
        if times.count() > 0 {
            self.histograms.insert(name.into(), times.cells());
        }
    }

    /// Takes over series and distributions of a part, each name after `prefix`.
    pub fn take_shapes(&mut self, prefix: &str, part: Self) {
        let name = |n: String| format!("{prefix}{n}");
        let series = part.series.into_iter().map(|(n, s)| (name(n), s));
        self.series.extend(series);
        let histograms = part.histograms.into_iter().map(|(n, h)| (name(n), h));
        self.histograms.extend(histograms);
    }

    /// Sets a counter.
    pub fn set(&mut self, counter: impl Into<String>, value: impl Into<Number>) {
        self.counters.insert(counter.into(), value.into());
    }
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Header {
    /// Name of the experiment.
    pub experiment: String,
    /// Size factor, e.g. `1/64`.
    pub scale: String,
    /// Operation count factor, e.g. `1` or `1/16`.
    pub effort: String,
    /// What that is of the published duration or amount: `1/8 of the published 600 s`; may be empty.
    pub effort_share: String,
    /// Rows in which the costs that ran differ from the table, with the row's value. Where the machines
    /// of a run differ, the name of the machine stands before the row's: `nodelay.delay_write_ns`.
    pub costs: IndexMap<String, u64>,
    /// Those of them that the experiment declares.
    pub deviations: Vec<Deviation>,
    /// Parameters that differ from the defaults or should be on record.
    pub parameters: IndexMap<String, String>,
}

impl Header {
    /// What the effort is of the published amount, in brackets; nothing if that is not known.
    #[must_use]
    pub fn share(&self) -> String {
        match self.effort_share.as_str() {
            "" => String::new(),
            share => format!(" ({share})"),
        }
    }
}

/// A row of the table of costs that an experiment changes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Deviation {
    /// The row; the only machine that has it, if there are several, stands before it.
    pub name: String,
    /// Its value in the experiment.
    pub value: u64,
    /// Its value in the table.
    pub table: u64,
    /// Why the table does not do.
    pub why: String,
    /// Where the value comes from.
    pub source: String,
}

/// One counter of one variant over the seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterSummary {
    /// Arithmetic mean.
    pub mean: Number,
    /// 95 % confidence interval of the mean (Student's t); `None` for one seed.
    pub ci95: Option<Interval>,
    /// Values in the order of the seeds.
    pub per_seed: Vec<Number>,
}

impl CounterSummary {
    /// Of these values, in the order of the seeds; `None` for no values.
    pub fn of(per_seed: Vec<Number>) -> Option<Self> {
        let reals = per_seed.iter().map(|v| v.as_f64()).collect();
        Some(Self {
            mean: Number::mean(&per_seed)?,
            ci95: Spread::of(reals)?.ci95,
            per_seed,
        })
    }
}

/// All variants of one experiment over the same seeds, and the verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentResult {
    /// What was run.
    pub header: Header,
    /// Seeds in the order they were run.
    pub seeds: Vec<u64>,
    /// Variant, then counter, both in the order of the runs.
    pub variants: IndexMap<String, IndexMap<String, CounterSummary>>,
    /// Judged claims, in the order given.
    pub claims: Vec<ClaimResult>,
    /// Claims whose figure is a parameter that comes back, judged likewise. No total counts them.
    pub restated: Vec<ClaimResult>,
    /// Claims that are out, and of which it is shown that they cannot be in. No total counts them.
    pub cannot: Vec<ClaimResult>,
    /// Claims about variants that were not run.
    pub skipped: Vec<Skipped>,
}

impl ExperimentResult {
    /// Collects runs (any number of variants, each under the same seeds) and judges
    /// the claims.
    ///
    /// # Errors
    /// Missing or duplicate runs, counters missing under some seed or not finite,
    /// claims about unknown counters or without what their class needs.
    pub fn collect(
        header: Header,
        runs: &[RunResult],
        claims: &[Claim],
    ) -> Result<Self, ReportError> {
        if runs.is_empty() {
            return Err(ReportError::NoRuns(header.experiment));
        }
        let mut seeds: Vec<u64> = Vec::new();
        let mut by_variant: IndexMap<&str, IndexMap<u64, &RunResult>> = IndexMap::new();
        for run in runs {
            if !seeds.contains(&run.seed) {
                seeds.push(run.seed);
            }
            let of_variant = by_variant.entry(run.variant.as_str()).or_default();
            if of_variant.insert(run.seed, run).is_some() {
                return Err(ReportError::DuplicateRun {
                    variant: run.variant.clone(),
                    seed: run.seed,
                });
            }
        }
        let mut variants = IndexMap::new();
        for (variant, of_variant) in by_variant {
            let mut in_order = Vec::with_capacity(seeds.len());
            for &seed in &seeds {
                let run = of_variant.get(&seed).ok_or(ReportError::MissingRun {
                    variant: variant.to_owned(),
                    seed,
                })?;
                in_order.push(*run);
            }
            variants.insert(variant.to_owned(), summarise(&in_order)?);
        }
        let mut result = Self {
            header,
            seeds,
            variants,
            claims: Vec::new(),
            restated: Vec::new(),
            cannot: Vec::new(),
            skipped: Vec::new(),
        };
        for claim in claims {
            match judge(claim, &result) {
                Ok(verdict) if !verdict.restates.is_empty() => result.restated.push(verdict),
                Ok(verdict) if !verdict.pass && !verdict.cannot.is_empty() => {
                    result.cannot.push(verdict)
                }
                Ok(verdict) => result.claims.push(verdict),
                Err(missing @ (ReportError::NoVariant(_) | ReportError::NoCell(_))) => {
                    result.skipped.push(Skipped {
                        name: claim.name.clone(),
                        reason: missing.to_string(),
                    })
                }
                Err(error) => return Err(error),
            }
        }
        Ok(result)
    }

    /// A counter of a variant.
    ///
    /// # Errors
    /// The variant was not run, or it has no such counter (with a guess which was meant).
    pub fn counter(&self, variant: &str, counter: &str) -> Result<&CounterSummary, ReportError> {
        let counters = self
            .variants
            .get(variant)
            .ok_or_else(|| ReportError::NoVariant(variant.to_owned()))?;
        counters.get(counter).ok_or_else(|| ReportError::NoCounter {
            variant: variant.to_owned(),
            counter: counter.to_owned(),
            hint: did_you_mean(counter, counters.keys().map(String::as_str)),
        })
    }

    /// True if a variant has counters of a part of the experiment (`part.counter`).
    pub(super) fn ran(&self, part: &str) -> bool {
        let of_part = |name: &String| name.split_once('.').is_some_and(|(of, _)| of == part);
        self.variants.values().any(|c| c.keys().any(of_part))
    }

    /// The counters under each seed, in order.
    pub fn by_seed(&self) -> impl Iterator<Item = SeedView<'_>> {
        (0..self.seeds.len()).map(|index| SeedView {
            result: self,
            index,
        })
    }

    /// True if no judged claim is out of band.
    #[must_use]
    pub fn all_pass(&self) -> bool {
        self.claims.iter().all(|claim| claim.pass)
    }
}

/// All variants under one seed.
#[derive(Debug, Clone, Copy)]
pub struct SeedView<'a> {
    result: &'a ExperimentResult,
    index: usize,
}

impl SeedView<'_> {
    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.result.seeds[self.index]
    }

    /// A counter of a variant under this seed.
    ///
    /// # Errors
    /// As [`ExperimentResult::counter`].
    pub fn get(&self, variant: &str, counter: &str) -> Result<f64, ReportError> {
        let summary = self.result.counter(variant, counter)?;
        Ok(summary.per_seed[self.index].as_f64())
    }

    /// True if a variant has a counter.
    ///
    /// # Errors
    /// The variant was not run.
    pub fn has(&self, variant: &str, counter: &str) -> Result<bool, ReportError> {
        match self.result.counter(variant, counter) {
            Ok(_) => Ok(true),
            Err(ReportError::NoCounter { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Names of the counters of a variant, in order.
    ///
    /// # Errors
    /// The variant was not run.
    pub fn names(&self, variant: &str) -> Result<impl Iterator<Item = &str>, ReportError> {
        let counters = self.result.variants.get(variant);
        let counters = counters.ok_or_else(|| ReportError::NoVariant(variant.to_owned()))?;
        Ok(counters.keys().map(String::as_str))
    }
}

/// Runs of one variant in seed order, at least one.
fn summarise(runs: &[&RunResult]) -> Result<IndexMap<String, CounterSummary>, ReportError> {
    let mut names: IndexMap<&str, ()> = IndexMap::new();
    for run in runs {
        names.extend(run.counters.keys().map(|name| (name.as_str(), ())));
    }
    let mut summaries = IndexMap::new();
    for &name in names.keys() {
        let mut per_seed = Vec::with_capacity(runs.len());
        for run in runs {
            let (variant, seed, counter) = (run.variant.clone(), run.seed, name.to_owned());
            match run.counters.get(name) {
                Some(value) if value.as_f64().is_finite() => per_seed.push(*value),
                Some(_) => {
                    return Err(ReportError::NotFinite {
                        variant,
                        seed,
                        counter,
                    })
                }
                None => {
                    return Err(ReportError::MissingCounter {
                        variant,
                        seed,
                        counter,
                    })
                }
            }
        }
        if let Some(summary) = CounterSummary::of(per_seed) {
            summaries.insert(name.to_owned(), summary);
        }
    }
    Ok(summaries)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Variants with one counter list each: (variant, counter, values by seed 1..).
    pub(crate) fn runs(columns: &[(&str, &str, &[f64])]) -> Vec<RunResult> {
        let mut runs: IndexMap<(String, u64), RunResult> = IndexMap::new();
        for (variant, counter, values) in columns {
            for (seed, value) in (1u64..).zip(*values) {
                runs.entry(((*variant).to_owned(), seed))
                    .or_insert_with(|| RunResult::new(*variant, seed))
                    .set(*counter, *value);
            }
        }
        runs.into_values().collect()
    }

    pub(crate) fn header() -> Header {
        Header {
            experiment: "mongodb".into(),
            scale: "1/64".into(),
            effort: "1".into(),
            effort_share: String::new(),
            costs: IndexMap::new(),
            deviations: Vec::new(),
            parameters: IndexMap::new(),
        }
    }

    #[test]
    fn collects_in_order() {
        let runs = runs(&[
            ("b", "z", &[1.0, 3.0]),
            ("b", "a", &[5.0, 5.0]),
            ("a", "z", &[2.0, 2.5]),
        ]);
        let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
        assert_eq!(result.seeds, [1, 2]);
        assert_eq!(result.variants.keys().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(result.variants["b"].keys().collect::<Vec<_>>(), ["z", "a"]);
        let z = result.counter("b", "z").unwrap();
        assert_eq!(z.mean.as_f64(), 2.0);
        assert!((z.ci95.unwrap().half_width() - 12.706).abs() < 1e-3);
        let second = result.by_seed().nth(1).unwrap();
        assert_eq!((second.seed(), second.get("a", "z").unwrap()), (2, 2.5));
    }

    #[test]
    fn bad_runs_are_named() {
        let good = runs(&[("a", "pgscan", &[1.0, 2.0])]);
        let fails = |runs: &[RunResult]| {
            ExperimentResult::collect(header(), runs, &[])
                .unwrap_err()
                .to_string()
        };
        assert!(fails(&[]).contains("mongodb: no runs"));
        let twice = [good.clone(), good.clone()].concat();
        assert!(fails(&twice).contains("variant a, seed 1: two results"));
        let mut odd = good.clone();
        odd.push(RunResult::new("b", 1));
        assert!(fails(&odd).contains("variant b: no result for seed 2"));
        let mut partial = good.clone();
        partial[0].set("extra", 1u64);
        assert!(fails(&partial).contains("seed 2: counter extra is missing"));
        let mut nan = good.clone();
        nan[1].set("pgscan", f64::NAN);
        assert!(fails(&nan).contains("seed 2: counter pgscan is not a finite"));

        let result = ExperimentResult::collect(header(), &good, &[]).unwrap();
        let typo = result.counter("a", "pgsacn").unwrap_err().to_string();
        assert!(typo.ends_with("did you mean 'pgscan'?"), "{typo}");
        let other = result.counter("a", "throughput").unwrap_err().to_string();
        assert!(other.ends_with("no counter 'throughput'"), "{other}");
    }
}

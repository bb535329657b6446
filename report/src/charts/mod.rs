//! Charts of results as Vega-Lite (version 5) specifications with their data inside, made once here
//! for the page of `--report` and for notebooks (mime type `application/vnd.vegalite.v5+json`).
//!
//! Colours of text and axes are left to whoever shows them. Every axis has a title with its unit, and
//! equal results give equal bytes.

mod curves;
mod frame;
mod heat;
mod latency;
mod lists;
mod measures;
mod over_time;
pub mod spec;
mod topics;

use crate::{ExperimentResult, Number, RunResult};
use frame::{Frame, Lines};
use indexmap::IndexMap;

pub use curves::{curves, CurveLine};
pub use heat::heat_map;
pub use spec::{id, Chart};

/// Charts of an experiment: what the claims measure, generations over time, rates and levels over
/// virtual time, distributions of latency. Without samples in the runs (or without runs), those that
/// need none. `mechanism` names the counters that explain the result.
#[must_use]
pub fn experiment(result: &ExperimentResult, runs: &[RunResult], mechanism: &[&str]) -> Vec<Chart> {
    let variants: Vec<String> = result.variants.keys().cloned().collect();
    let mut charts = measures::measures(result);
    let lines = Lines::of_runs(runs, &variants, mechanism);
    let frame = Frame::virtual_time(&lines);
    charts.extend(lists::lists(&lines, &frame));
    charts.extend(over_time::over_time(&lines, &frame));
    charts.extend(latency::latency(runs, &variants));
    charts
}

/// Series by variant, then by name.
pub type SeriesByVariant = IndexMap<String, IndexMap<String, Vec<(u64, Number)>>>;

/// Generations, rates and levels over the accesses of a trace. Each part has a name (a limit; empty if
/// there is one part only).
#[must_use]
pub fn over_accesses(variants: &[String], parts: &[(String, &SeriesByVariant)]) -> Vec<Chart> {
    let mut lines = Lines::none(variants);
    for (part, series) in parts {
        for (variant, by_name) in *series {
            for (name, points) in by_name {
                lines.add_to(part, name, variant, points);
            }
        }
    }
    let frame = Frame::accesses(&lines);
    let mut charts = lists::lists(&lines, &frame);
    charts.extend(over_time::over_time(&lines, &frame));
    charts
}

#[cfg(test)]
mod tests;

//! Charts of results as Vega-Lite (version 5) specifications with their data inside, made once here
//! for the page of `--report` and for notebooks (mime type `application/vnd.vegalite.v5+json`).
//!
//! Colours of text and axes are left to whoever shows them. Every axis has a title with its unit, and
//! equal results give equal bytes.

mod ablation;
mod curves;
mod frame;
mod latency;
mod lists;
mod measures;
mod over_time;
mod replay;
mod spec;
mod topics;

use crate::report::{ExperimentResult, RunResult};
use frame::{Frame, Lines};
use serde::Serialize;
use serde_json::Value;

pub use ablation::ablation;
pub use curves::curves;
pub use replay::replay;
pub use spec::id;

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Short name, unique in its list; letters, digits, `-` and `_` only.
    pub id: String,
    /// Heading.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub about: String,
    /// The Vega-Lite specification.
    pub spec: Value,
}

/// One line of a miss-ratio curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveLine {
    /// Policy.
    pub name: String,
    /// (memory in pages, misses / accesses), ascending. A single point is drawn as a mark.
    pub points: Vec<(u64, f64)>,
    /// Greatest absolute error of a ratio, where it was sampled.
    pub error: Option<f64>,
}

/// Charts of an experiment: what the claims measure, generations over time, rates and levels over
/// virtual time, distributions of latency. Without samples in the runs (or without runs), those that
/// need none.
#[must_use]
pub fn experiment(result: &ExperimentResult, runs: &[RunResult]) -> Vec<Chart> {
    let variants: Vec<String> = result.variants.keys().cloned().collect();
    let mut charts = measures::measures(result);
    let name = result.header.experiment.as_str();
    let known = crate::experiments::EXPERIMENTS.iter();
    let mechanism = known.clone().find(|e| e.name == name);
    let lines = Lines::of_runs(runs, &variants, mechanism.map_or(&[], |e| e.mechanism));
    let frame = Frame::virtual_time(&lines);
    charts.extend(lists::lists(&lines, &frame));
    charts.extend(over_time::over_time(&lines, &frame));
    charts.extend(latency::latency(runs, &variants));
    charts
}

#[cfg(test)]
mod tests;

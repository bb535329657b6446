//! What came of a run or a replay, as columns and JSON.

use coldset_lab::charts::{self, Chart};
use coldset_lab::experiment::Experiment;
use coldset_lab::mrc::{mrc_json, render_mrc, Curve, Curves, Point};
use coldset_lab::pages;
use coldset_lab::report::{experiment_json, render_text, Style};
use coldset_lab::runner::{
    render_replay, replays_json, until_killed, Outcome as Runs, Plan, ReplayTable, Variant,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// One of them.
pub enum Outcome {
    Experiment {
        experiment: &'static Experiment,
        plan: Box<Plan>,
        runs: Box<Runs>,
    },
    Replay {
        heading: String,
        lead: String,
        /// Name of the file, if it was one.
        trace: Option<String>,
        /// What it was made with.
        settings: serde_json::Value,
        variants: Vec<Variant>,
        tables: Vec<ReplayTable>,
    },
    Curves(Curves),
}

/// The JSON of a replay with the name of its file and its settings, as the command writes it.
fn named(tables: &[ReplayTable], trace: Option<&str>, settings: &serde_json::Value) -> String {
    let text = replays_json(tables);
    let mut all: serde_json::Value = serde_json::from_str(&text).expect("our own JSON");
    if let Some(name) = trace {
        all["trace"] = name.into();
    }
    all["settings"] = settings.clone();
    format!("{all:#}\n")
}

/// A finished run or replay, or miss-ratio curves.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct LabResult {
    outcome: Outcome,
}

impl LabResult {
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome }
    }
}

/// Columns for a data frame.
struct Columns<'py>(Bound<'py, PyDict>);

impl<'py> Columns<'py> {
    fn new(py: Python<'py>) -> Self {
        Self(PyDict::new(py))
    }

    fn put<T: IntoPyObject<'py>>(&self, name: &str, values: Vec<T>) -> PyResult<()> {
        self.0.set_item(name, values)
    }
}

#[pymethods]
impl LabResult {
    /// "experiment", "replay" or "curves".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.outcome {
            Outcome::Experiment { .. } => "experiment",
            Outcome::Replay { .. } => "replay",
            Outcome::Curves(_) => "curves",
        }
    }

    /// As `--json` of the command writes it.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| match &self.outcome {
            Outcome::Experiment { runs, .. } => experiment_json(&runs.result),
            Outcome::Replay {
                tables,
                trace,
                settings,
                ..
            } => named(tables, trace.as_deref(), settings),
            Outcome::Curves(curves) => mrc_json(curves),
        })
    }

    /// The tables of the command.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| match &self.outcome {
            Outcome::Experiment { runs, .. } => render_text(&runs.result, Style::Plain),
            Outcome::Curves(curves) => render_mrc(curves, Style::Plain),
            Outcome::Replay { tables, .. } => tables
                .iter()
                .map(|t| render_replay(t, Style::Plain))
                .collect::<Vec<_>>()
                .join("\n"),
        })
    }

    /// One self-contained page; none for curves. `command` makes it again.
    fn html(&self, py: Python<'_>, command: &str) -> Option<String> {
        py.detach(|| match &self.outcome {
            Outcome::Experiment {
                experiment,
                plan,
                runs,
            } => Some(pages::experiment(experiment, plan, runs, command)),
            Outcome::Replay {
                heading,
                lead,
                trace,
                settings,
                variants,
                tables,
            } => {
                let json = named(tables, trace.as_deref(), settings);
                Some(pages::replay(
                    heading, lead, variants, tables, json, command,
                ))
            }
            Outcome::Curves(_) => None,
        })
    }

    /// Points of the curves.
    fn curves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = Columns::new(py);
        let (mut policy, mut pages, mut misses) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ratio, mut error) = (Vec::new(), Vec::new());
        if let Outcome::Curves(curves) = &self.outcome {
            for curve in &curves.curves {
                for p in &curve.points {
                    policy.push(curve.policy.as_str());
                    pages.push(p.pages);
                    misses.push(p.misses);
                    ratio.push(p.miss_ratio);
                    error.push(p.error);
                }
            }
        }
        columns.put("policy", policy)?;
        columns.put("pages", pages)?;
        columns.put("misses", misses)?;
        columns.put("miss_ratio", ratio)?;
        columns.put("error", error)?;
        Ok(columns.0)
    }

    /// The curves with another one, of a policy that counted its misses for each size itself.
    fn with_curve(&self, policy: String, misses: Vec<u64>) -> PyResult<Self> {
        let Outcome::Curves(curves) = &self.outcome else {
            return Err(PyValueError::new_err("it has no curves"));
        };
        let mut curves = curves.clone();
        let references = curves.references.max(1) as f64;
        let point = |(&pages, misses): (&u64, u64)| Point {
            pages,
            misses,
            miss_ratio: misses as f64 / references,
            error: None,
        };
        let points = curves.sizes.iter().zip(misses).map(point).collect();
        curves.curves.push(Curve { policy, points });
        Ok(Self::new(Outcome::Curves(curves)))
    }

    /// The sizes of curves, pages.
    fn sizes(&self) -> Vec<u64> {
        match &self.outcome {
            Outcome::Curves(curves) => curves.sizes.clone(),
            _ => Vec::new(),
        }
    }

    /// Every value of every run, in long form.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = Columns::new(py);
        let (mut memory, mut variant, mut seed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut counter, mut value) = (Vec::new(), Vec::new());
        match &self.outcome {
            Outcome::Curves(_) => {}
            Outcome::Experiment { runs, .. } => {
                for run in &runs.runs {
                    for (name, number) in &run.counters {
                        variant.push(run.variant.as_str());
                        seed.push(run.seed);
                        counter.push(name.clone());
                        value.push(number.as_f64());
                    }
                }
            }
            Outcome::Replay { tables, .. } => {
                for table in tables {
                    for (name, counters) in &table.result.variants {
                        for (what, summary) in until_killed(counters) {
                            memory.push(table.memory.pages);
                            variant.push(name.as_str());
                            counter.push(what);
                            value.push(summary.mean.as_f64());
                        }
                    }
                    for (what, number) in &table.result.bounds {
                        memory.push(table.memory.pages);
                        variant.push("(bounds)");
                        counter.push(what.clone());
                        value.push(number.as_f64());
                    }
                }
                columns.put("memory_pages", memory)?;
            }
        }
        columns.put("variant", variant)?;
        if matches!(self.outcome, Outcome::Experiment { .. }) {
            columns.put("seed", seed)?;
        }
        columns.put("counter", counter)?;
        columns.put("value", value)?;
        Ok(columns.0)
    }

    /// Means of an experiment with their 95 % confidence intervals.
    fn means<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = Columns::new(py);
        let (mut variant, mut counter, mut mean) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lo, mut hi) = (Vec::new(), Vec::new());
        if let Outcome::Experiment { runs, .. } = &self.outcome {
            for (name, counters) in &runs.result.variants {
                for (what, summary) in counters {
                    variant.push(name.as_str());
                    counter.push(what.as_str());
                    mean.push(summary.mean.as_f64());
                    lo.push(summary.ci95.map(|i| i.lo));
                    hi.push(summary.ci95.map(|i| i.hi));
                }
            }
        }
        columns.put("variant", variant)?;
        columns.put("counter", counter)?;
        columns.put("mean", mean)?;
        columns.put("lo", lo)?;
        columns.put("hi", hi)?;
        Ok(columns.0)
    }

    /// Values over virtual time (experiments) or over the accesses (replays).
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = Columns::new(py);
        let (mut memory, mut variant, mut seed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut series, mut at, mut value) = (Vec::new(), Vec::new(), Vec::new());
        match &self.outcome {
            Outcome::Curves(_) => {}
            Outcome::Experiment { runs, .. } => {
                for run in &runs.runs {
                    for (name, points) in &run.series {
                        for (when, number) in points {
                            variant.push(run.variant.as_str());
                            seed.push(run.seed);
                            series.push(name.as_str());
                            at.push(*when);
                            value.push(number.as_f64());
                        }
                    }
                }
            }
            Outcome::Replay { tables, .. } => {
                for table in tables {
                    for (label, all) in &table.series {
                        for (name, points) in all {
                            for (when, number) in points {
                                memory.push(table.memory.pages);
                                variant.push(label.as_str());
                                series.push(name.as_str());
                                at.push(*when);
                                value.push(number.as_f64());
                            }
                        }
                    }
                }
                columns.put("memory_pages", memory)?;
            }
        }
        let experiment = matches!(self.outcome, Outcome::Experiment { .. });
        columns.put("variant", variant)?;
        if experiment {
            columns.put("seed", seed)?;
        }
        columns.put("series", series)?;
        columns.put(if experiment { "at_ns" } else { "access" }, at)?;
        columns.put("value", value)?;
        Ok(columns.0)
    }

    /// Distributions of times.
    fn histograms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = Columns::new(py);
        let (mut variant, mut seed, mut name) = (Vec::new(), Vec::new(), Vec::new());
        let (mut upper, mut count) = (Vec::new(), Vec::new());
        if let Outcome::Experiment { runs, .. } = &self.outcome {
            for run in &runs.runs {
                for (what, cells) in &run.histograms {
                    for (end, n) in cells {
                        variant.push(run.variant.as_str());
                        seed.push(run.seed);
                        name.push(what.as_str());
                        upper.push(*end);
                        count.push(*n);
                    }
                }
            }
        }
        columns.put("variant", variant)?;
        columns.put("seed", seed)?;
        columns.put("histogram", name)?;
        columns.put("upper_ns", upper)?;
        columns.put("count", count)?;
        Ok(columns.0)
    }

    /// Charts: id, title, how to read it, Vega-Lite specification as JSON.
    fn charts(&self, py: Python<'_>) -> Vec<(String, String, String, String)> {
        let text = |c: Chart| (c.id, c.title, c.about, c.spec.to_string());
        py.detach(|| {
            let charts = match &self.outcome {
                Outcome::Experiment {
                    experiment, runs, ..
                } => charts::experiment(&runs.result, &runs.runs, experiment.mechanism),
                Outcome::Replay { tables, .. } => charts::replay(tables),
                Outcome::Curves(curves) => vec![charts::curves(&curves.lines())],
            };
            charts.into_iter().map(text).collect()
        })
    }
}

//! Starting runs and replays.

use super::errors;
use super::job::LabJob;
use super::policies::Variants;
use super::result::Outcome;
use crate::errors::named;
use coldset_lab::bounds::Count;
use coldset_lab::experiment::Costs;
use coldset_lab::mrc::{curves, MrcPlan, Sample};
use coldset_lab::replay::ReplaySettings;
use coldset_lab::report::human;
use coldset_lab::runner::{
    experiment, parse_effort, parse_scale, replay_all, run, show_pages, Plan, ReplayPlan,
    RunnerError, Size, SwapSpec, Variant, SAMPLE_POINTS,
};
use coldset_lab::traces::{load, Format, Op, Trace, TraceOptions};
use coldset_lab::workload::of_json;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

fn costs(given: Vec<(String, u64)>) -> Result<Costs, RunnerError> {
    let mut costs = Costs::default();
    for (name, value) in given {
        costs.set(&name, value)?;
    }
    Ok(costs)
}

/// Starts an experiment, or a workload in a file or in JSON, over variants and seeds 1 to `seeds`.
#[pyfunction]
#[pyo3(signature = (name, workload, *, variants, seeds, scale, effort, switches, costs, params, jobs))]
#[allow(clippy::too_many_arguments, reason = "named in Python")]
pub fn lab_run(
    py: Python<'_>,
    name: &str,
    workload: Option<&str>,
    variants: Option<Vec<String>>,
    seeds: u64,
    scale: Option<&str>,
    effort: &str,
    switches: Vec<String>,
    costs: Vec<(String, u64)>,
    params: Vec<(String, String)>,
    jobs: Option<usize>,
) -> PyResult<LabJob> {
    let plan = || -> Result<_, RunnerError> {
        let experiment = match workload {
            Some(json) => of_json("the workload", name, json)?,
            None => experiment(name)?,
        };
        for (name, _) in &params {
            if !experiment.params.iter().any(|p| p.name == name) {
                let names = experiment.params.iter().map(|p| p.name);
                let list = "see: coldset.lab.params(EXPERIMENT)";
                return Err(RunnerError::name("experiment parameter", name, names, list));
            }
        }
        let variants = match &variants {
            Some(names) => Variant::parse_all(names, &switches)?,
            None => Variant::parse_all(&experiment.default_variants(), &switches)?,
        };
        let set = switches.iter().map(|s| {
            let (name, value) = s.split_once('=').unwrap_or((s, ""));
            (format!("set {name}"), value.to_owned())
        });
        let cost = costs
            .iter()
            .map(|(n, v)| (format!("cost {n}"), v.to_string()));
        let record = set.chain(cost).collect();
        let plan = Plan {
            variants,
            seeds,
            scale: scale.map_or(Ok(experiment.scale), parse_scale)?,
            effort_permille: parse_effort(effort)?,
            costs: self::costs(costs.clone())?,
            params: params.clone(),
            record,
            sample_points: SAMPLE_POINTS,
        };
        plan.check_costs(experiment)?;
        Ok((experiment, plan))
    };
    let (experiment, plan) = plan().map_err(|e| errors::runner(py, &e))?;
    LabJob::start(jobs, move |progress, total| {
        let steps = plan.variants.len() as u64 * plan.seeds;
        total.store(steps, Ordering::Relaxed);
        let runs = Box::new(run(experiment, &plan, progress)?);
        Ok(Outcome::Experiment {
            experiment,
            plan: Box::new(plan),
            runs,
        })
    })
}

/// Where a trace comes from.
pub(super) enum Source {
    File(PathBuf, Option<Format>),
    Ops(Vec<Op>),
}

impl Source {
    pub(super) fn of(
        py: Python<'_>,
        path: Option<PathBuf>,
        records: Option<&[u8]>,
        format: Option<Format>,
    ) -> PyResult<Self> {
        let Some(bytes) = records else {
            return Ok(Self::File(path.unwrap_or_default(), format));
        };
        let record = |b: &[u8]| Op::from_bytes(b.try_into().ok()?);
        let ops: Option<Vec<Op>> = bytes.chunks(Op::BYTES).map(record).collect();
        let text = "a reference that no trace can hold";
        ops.map(Self::Ops)
            .ok_or_else(|| named(py, "SettingError", &text))
    }

    /// Its name and its references.
    pub(super) fn load(self) -> Result<(String, Trace), RunnerError> {
        match self {
            Self::Ops(ops) => Ok(("array of pages".into(), Trace::from_ops(ops))),
            Self::File(path, format) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let trace = load(&path, format, &TraceOptions::default())?;
                Ok((name.into_owned(), trace))
            }
        }
    }
}

/// True for a journal of the pager, recognised by its beginning. A file that cannot be read is none: who reads it says
/// why.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn lab_is_journal(path: PathBuf) -> bool {
    coldset_pager::journal::is_journal(path).unwrap_or(false)
}

/// Starts miss-ratio curves of a trace.
#[pyfunction]
#[pyo3(signature = (path, records, *, policies, sizes, points, sample, count, kernel_memory, format, jobs))]
#[allow(clippy::too_many_arguments, reason = "named in Python")]
pub fn lab_mrc(
    py: Python<'_>,
    path: Option<PathBuf>,
    records: Option<&[u8]>,
    policies: Vec<String>,
    sizes: Vec<String>,
    points: u32,
    sample: Option<&str>,
    count: &str,
    kernel_memory: bool,
    format: Option<&str>,
    jobs: Option<usize>,
) -> PyResult<LabJob> {
    let plan = || -> Result<_, RunnerError> {
        let count: Count = count
            .parse()
            .map_err(|_| RunnerError::value("count", count, "reads or absences"))?;
        let sample = sample.map(Sample::parse).transpose()?;
        let sizes = sizes.iter().map(|t| Size::parse("sizes", t));
        let plan = MrcPlan {
            policies: MrcPlan::policies(&policies, sample.as_ref(), count)?,
            sizes: sizes.collect::<Result<_, _>>()?,
            points,
            sample,
            count,
            kernel_memory,
        };
        Ok((plan, format.map(str::parse).transpose()?))
    };
    let (plan, format) = plan().map_err(|e| errors::runner(py, &e))?;
    let source = Source::of(py, path, records, format)?;
    LabJob::start(jobs, move |progress, total| {
        let (_, trace) = source.load()?;
        let done = curves(&trace, &plan, |steps| {
            total.store(steps, Ordering::Relaxed);
            progress.clone()
        })?;
        Ok(Outcome::Curves(done))
    })
}

/// Starts a replay, of a file or of records of 8 bytes (`pageops`), over variants and limits.
#[pyfunction]
#[pyo3(signature = (path, records, *, variants, memory, switches, swap, swappiness, kernel_memory, bounds, format, jobs))]
#[allow(clippy::too_many_arguments, reason = "named in Python")]
pub fn lab_replay(
    py: Python<'_>,
    path: Option<PathBuf>,
    records: Option<&[u8]>,
    variants: Vec<Bound<'_, PyAny>>,
    memory: Vec<String>,
    switches: Vec<String>,
    swap: Option<&str>,
    swappiness: u16,
    kernel_memory: bool,
    bounds: bool,
    format: Option<&str>,
    jobs: Option<usize>,
) -> PyResult<LabJob> {
    let variants = Variants::of(&variants, &switches)?.map_err(|e| errors::runner(py, &e))?;
    let plan = || -> Result<_, RunnerError> {
        let memory = memory.iter().map(|t| Size::parse("memory", t));
        let plan = ReplayPlan {
            memory: memory.collect::<Result<_, _>>()?,
            settings: ReplaySettings {
                kernel_memory,
                swappiness,
                ..ReplaySettings::default()
            },
            swap: swap.map(SwapSpec::parse).transpose()?,
            bounds,
            sample_points: SAMPLE_POINTS,
            ..ReplayPlan::new(variants.given.clone(), Size::Pages(0))
        };
        let format = format.map(str::parse).transpose()?;
        Ok((plan, format))
    };
    let (plan, format) = plan().map_err(|e| errors::runner(py, &e))?;
    let source = Source::of(py, path, records, format)?;
    LabJob::start(jobs, move |progress, total| {
        variants.watch(progress);
        let in_file = matches!(source, Source::File(..));
        let (heading, trace) = source.load()?;
        let tables = replay_all(&trace, &plan, |steps| {
            total.store(steps, Ordering::Relaxed);
            progress.clone()
        })?;
        let lead = format!(
            "{} accesses to {}, {} writes. Replayed on Coldset's simulated machine; the first variant is \
             \u{201c}before\u{201d}, the last one \u{201c}after\u{201d}.",
            human(trace.ops().len() as f64),
            show_pages(trace.unique_pages),
            human(trace.writes as f64),
        );
        Ok(Outcome::Replay {
            trace: in_file.then(|| heading.clone()),
            settings: plan.made_with(&trace, &switches)?,
            heading,
            lead,
            variants: plan.variants,
            tables,
        })
    })
}

//! Computing a cell.

use super::cell::{content, What};
use super::store::{Row, Store};
use super::{Cell, SweepError};
use crate::experiment::RunInput;
use crate::replay::ReplaySettings;
use crate::runner::{
    check_asked, replay_all, show_effort, show_scale, until_killed, Progress, ReplayPlan,
    RunnerError, Size, SwapSpec, Variant,
};
use crate::traces::{load, Trace, TraceOptions};
use coldset_engine::presets;
use coldset_report::Number;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Computes cells one after the other, keeping the trace of the last one.
#[derive(Default)]
pub struct Runner {
    trace: Option<(PathBuf, String, Trace)>,
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Computed and stored.
    Computed,
    /// It was there already.
    Found,
    /// Another process is computing it now.
    Busy,
    /// It cannot be computed, for this reason.
    Failed(String),
}

/// Reads a cell as it was sent, computes it if it is neither there nor under way elsewhere, and
/// stores it. On return the result is on disk.
///
/// # Errors
/// A cell of another version, or a folder that cannot be written.
pub fn work(store: &Store, runner: &mut Runner, cell: &Cell) -> Result<Done, SweepError> {
    let Some(claim) = store.claim(&cell.key)? else {
        return Ok(Done::Busy);
    };
    if store.has(&cell.key)? {
        return Ok(Done::Found);
    }
    match runner.run(cell) {
        Ok(row) => {
            store.append(&claim, row)?;
            Ok(Done::Computed)
        }
        Err(SweepError::Lab(error)) => Ok(Done::Failed(error.to_string())),
        Err(error) => Err(error),
    }
}

impl Runner {
    /// A runner without a trace yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Computes a cell. A replay that is killed for lack of memory is a result, whose counters say so.
    ///
    /// # Errors
    /// The run fails; a trace that has changed; a cell of another version of this program.
    pub fn run(&mut self, cell: &Cell) -> Result<Row, SweepError> {
        let mut again = cell.clone();
        again.seal()?;
        if again.key != cell.key {
            let text = "its key is another one here";
            return Err(SweepError::Cell(text.into()));
        }
        let variant = cell.read_variant()?;
        let counters = match &cell.what {
            What::Experiment { .. } => run_experiment(cell, &variant)?,
            What::Replay { .. } => self.replay(cell, &variant)?,
        };
        Ok(row(cell, &variant, counters))
    }

    fn trace(&mut self, path: &Path, expected: &str) -> Result<&Trace, SweepError> {
        let kept = matches!(&self.trace, Some((p, c, _)) if p == path && c == expected);
        if !kept {
            let trace = load(path, None, &TraceOptions::default()).map_err(RunnerError::Trace)?;
            let found = content(&trace);
            if found != expected {
                return Err(RunnerError::value(
                    "trace",
                    &path.display().to_string(),
                    "a file that does not change during a sweep; start it again",
                )
                .into());
            }
            self.trace = Some((path.to_owned(), found, trace));
        }
        Ok(&self.trace.as_ref().expect("just kept").2)
    }

    fn replay(&mut self, cell: &Cell, variant: &Variant) -> Result<Counters, SweepError> {
        let What::Replay {
            path,
            content,
            memory,
            swap,
            swappiness,
            kernel_memory,
            ..
        } = &cell.what
        else {
            return Ok(Vec::new());
        };
        let plan = ReplayPlan {
            settings: ReplaySettings {
                kernel_memory: *kernel_memory,
                swappiness: *swappiness,
                costs: cell.costs()?,
                ..ReplaySettings::default()
            },
            swap: swap.as_deref().map(SwapSpec::parse).transpose()?,
            ..ReplayPlan::new(vec![variant.clone()], Size::Pages(memory.pages))
        };
        let trace = self.trace(path, content)?;
        let tables = replay_all(trace, &plan, |_| Progress::silent())?;
        let counters = tables.first().and_then(|t| t.result.variants.first());
        Ok(counters.map_or_else(Vec::new, |(_, counters)| {
            until_killed(counters)
                .map(|(name, c)| (name, c.mean.as_f64()))
                .collect()
        }))
    }
}

type Counters = Vec<(String, f64)>;

fn run_experiment(cell: &Cell, variant: &Variant) -> Result<Counters, SweepError> {
    let What::Experiment {
        scale,
        effort_permille,
        params,
        ..
    } = &cell.what
    else {
        return Ok(Vec::new());
    };
    let Some(experiment) = cell.what.experiment()? else {
        return Ok(Vec::new());
    };
    let input = RunInput {
        seed: cell.seed,
        scale: *scale,
        effort_permille: *effort_permille,
        costs: cell.costs()?,
        params: params.clone(),
        ..experiment.input(&cell.variant, variant.switches.clone())
    };
    let done = experiment
        .run_once(&input)
        .map_err(|error| RunnerError::Experiment {
            experiment: experiment.name,
            variant: cell.variant.clone(),
            seed: cell.seed,
            error,
        })?;
    check_asked(&input.asked, params)?;
    let value = |(name, value): (String, Number)| (name, value.as_f64());
    Ok(done.counters.into_iter().map(value).collect())
}

/// The cell with everything that belongs into its columns.
fn row(cell: &Cell, variant: &Variant, counters: Counters) -> Row {
    let mut row = Row {
        key: cell.key.clone(),
        version: super::version().into(),
        experiment: cell.experiment().into(),
        variant: cell.variant.clone(),
        seed: cell.seed,
        scale: "1".into(),
        effort: 1.0,
        switches: differences(variant),
        counters,
        ..Row::default()
    };
    match &cell.what {
        What::Experiment {
            scale,
            effort_permille,
            params,
            costs,
            ..
        } => {
            row.scale = show_scale(*scale);
            row.effort = show_effort(*effort_permille).parse().unwrap_or(1.0);
            row.params = json(params.iter().map(|(n, v)| (n.clone(), v.as_str().into())));
            row.costs = json(costs.iter().map(|(n, v)| (n.clone(), (*v).into())));
        }
        What::Replay {
            trace,
            memory,
            swap,
            swappiness,
            kernel_memory,
            costs,
            ..
        } => {
            row.trace.clone_from(trace);
            row.memory_pages = memory.pages;
            let params: [(&str, Value); 3] = [
                ("swap", swap.clone().into()),
                ("swappiness", (*swappiness).into()),
                ("kernel_memory", (*kernel_memory).into()),
            ];
            row.params = json(params.map(|(n, v)| (n.to_owned(), v)));
            row.costs = json(costs.iter().map(|(n, v)| (n.clone(), (*v).into())));
        }
    }
    row
}

fn json(pairs: impl IntoIterator<Item = (String, Value)>) -> String {
    Value::Object(pairs.into_iter().collect::<Map<_, _>>()).to_string()
}

/// The switches in which a variant differs from its preset.
fn differences(variant: &Variant) -> String {
    let preset = presets::preset(&variant.preset).map(|p| p.describe());
    let preset = preset.unwrap_or_default();
    let own = variant.switches.describe();
    let differ = own.into_iter().filter(|s| {
        !preset
            .iter()
            .any(|p| p.name == s.name && p.value == s.value)
    });
    json(differ.map(|s| (s.name.to_owned(), s.value.into())))
}

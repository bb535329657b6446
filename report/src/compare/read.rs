//! Reading what `--json` has written.

use super::replays::ReadReplays;
use crate::{ExperimentResult, Header, Number, ReportError, RunResult};
use serde_json::{Map, Value};

/// Why two files cannot be compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Not JSON at all.
    #[error("{name}: not JSON ({problem}); give a file that lab run, lab replay, play or kernel play has written with --json")]
    NotJson {
        /// File.
        name: String,
        /// What the parser says.
        problem: String,
    },
    /// JSON of another kind.
    #[error("{name}: {problem}; give a file that lab run, lab replay, play or kernel play has written with --json")]
    Form {
        /// File.
        name: String,
        /// What is missing.
        problem: String,
    },
    /// A result of an experiment and one of a trace.
    #[error("{experiment} is a result of lab run, and {replay} of a trace; compare two of the same kind")]
    Kinds {
        /// The file of an experiment.
        experiment: String,
        /// The other.
        replay: String,
    },
    /// Nothing in common.
    #[error(
        "the files have no counter in common; compare replays, or runs on kernels, of one trace"
    )]
    NoCounter,
    /// Two experiments.
    #[error("the files are of two experiments, {before} and {after}; compare results of one")]
    Experiments {
        /// That of the first file.
        before: String,
        /// That of the second one.
        after: String,
    },
    /// Nothing in common.
    #[error("the files have no variant in common ({before}; {after}); run both with the same --variants")]
    NoVariant {
        /// Those of the first file.
        before: String,
        /// Those of the second one.
        after: String,
    },
    /// Nothing in common.
    #[error("the files have no seed in common; run both with the same --seeds")]
    NoSeed,
    /// Figures that make no table.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// A result and the file it came from.
#[derive(Clone, Debug)]
pub struct ReadResult {
    /// Name of the file.
    pub name: String,
    /// Counters, without claims.
    pub result: ExperimentResult,
}

/// What can be compared.
#[derive(Clone, Debug)]
pub enum ReadFile {
    /// Of `lab run`.
    Experiment(Box<ReadResult>),
    /// Of `lab replay`, `play` or `kernel play`.
    Replays(ReadReplays),
}

/// Reads a result from the text of the file called `name`.
///
/// # Errors
/// [`CompareError::NotJson`], [`CompareError::Form`].
pub fn read(name: &str, text: &str) -> Result<ReadFile, CompareError> {
    let value: Value = serde_json::from_str(text).map_err(|e| CompareError::NotJson {
        name: name.into(),
        problem: e.to_string(),
    })?;
    let read = match ReadReplays::is_one(&value) {
        true => ReadReplays::parse(name, &value).map(ReadFile::Replays),
        false => parse(&value).map(|result| {
            ReadFile::Experiment(Box::new(ReadResult {
                name: name.into(),
                result,
            }))
        }),
    };
    read.map_err(|problem| CompareError::Form {
        name: name.into(),
        problem,
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value, String> {
    value
        .get(name)
        .ok_or_else(|| format!("no \"{name}\" in it"))
}

fn text(value: &Value, name: &str) -> Result<String, String> {
    let found = field(value, name)?.as_str();
    Ok(found
        .ok_or_else(|| format!("\"{name}\" is no text"))?
        .to_owned())
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, String> {
    let found = field(value, name)?.as_object();
    found.ok_or_else(|| format!("\"{name}\" is no object"))
}

pub(super) fn number(value: &Value) -> Option<Number> {
    value
        .as_u64()
        .map(Number::Int)
        .or_else(|| value.as_f64().map(Number::Real))
}

fn parse(value: &Value) -> Result<ExperimentResult, String> {
    if value.get("experiments").is_some() {
        return Err("a result of lab verify".into());
    }
    let parameters = object(value, "parameters")?.iter();
    let header = Header {
        experiment: text(value, "experiment")?,
        scale: text(value, "scale")?,
        effort: text(value, "effort")?,
        parameters: parameters
            .map(|(n, v)| (n.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect(),
        ..Header::default()
    };
    let seeds = field(value, "seeds")?.as_array();
    let seeds: Option<Vec<u64>> = seeds.and_then(|s| s.iter().map(Value::as_u64).collect());
    let seeds = seeds.ok_or("\"seeds\" is no list of numbers")?;
    let mut runs = Vec::new();
    for (variant, counters) in object(value, "variants")? {
        let counters = counters.as_object();
        let counters = counters.ok_or_else(|| format!("variant {variant} is no object"))?;
        for (i, &seed) in seeds.iter().enumerate() {
            let mut run = RunResult::new(variant, seed);
            for (counter, summary) in counters {
                let of_seed = summary.get("per_seed").and_then(|s| s.get(i));
                let value = of_seed.and_then(number).ok_or_else(|| {
                    format!("counter {counter} of variant {variant} has no number for seed {seed}")
                })?;
                run.set(counter, value);
            }
            runs.push(run);
        }
    }
    ExperimentResult::collect(header, &runs, &[]).map_err(|e| e.to_string())
}

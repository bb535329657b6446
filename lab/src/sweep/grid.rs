//! What to sweep over.

use super::cell::{Cell, Memory, What, WorkloadFile};
use super::settings::{normal, products, seeds, texts, Place, KEYS, TABLES};
use super::SweepError;
use crate::experiment::{Experiment, RunInput};
use crate::replay::MEMORY_MIN;
use crate::runner::{
    check_costs, check_params, experiment, is_workload, parse_effort, parse_scale, show_effort,
    show_scale, Size, SwapSpec, Variant, MEMORY_DEFAULT,
};
use crate::traces::{load, Trace, TraceOptions};
use crate::workload;
use coldset_machine::Params;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Variants of a replay that names none.
const REPLAY_VARIANTS: [&str; 3] = ["classic", "base", "v5"];
/// Most cells of a grid.
const CELLS_MAX: usize = 1_000_000;

/// A grid as it was written: tables that are multiplied out and added together.
#[derive(Clone, Debug)]
pub struct Grid {
    name: String,
    /// Traces are looked for from here.
    base: PathBuf,
    parts: Vec<Map<String, Value>>,
}

impl Grid {
    /// Reads a file in TOML. Traces in it are named relative to its folder.
    ///
    /// # Errors
    /// A file that cannot be read, or as [`Self::from_toml`].
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| SweepError::Grid {
            grid: name.clone(),
            problem: format!("cannot read the grid: {e}; name a file in TOML"),
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::from_toml(&name, &text, base)
    }

    /// Reads a text in TOML; `name` is for messages, traces are looked for from `base`.
    ///
    /// # Errors
    /// Text that is no TOML, or as [`Self::from_json`].
    pub fn from_toml(name: &str, text: &str, base: &Path) -> Result<Self, SweepError> {
        let mut value = toml::from_str(text).map_err(|e| SweepError::Grid {
            grid: name.into(),
            problem: one_line(&e, text),
        })?;
        dates_to_texts(&mut value);
        Self::from_value(name, &value, base)
    }

    /// The same in JSON.
    ///
    /// # Errors
    /// Text that is no JSON, unknown keys (with the nearest one), or nothing to run.
    pub fn from_json(name: &str, text: &str, base: &Path) -> Result<Self, SweepError> {
        let value = serde_json::from_str(text).map_err(|e| SweepError::Grid {
            grid: name.into(),
            problem: e.to_string(),
        })?;
        Self::from_value(name, &value, base)
    }

    fn from_value(name: &str, value: &Value, base: &Path) -> Result<Self, SweepError> {
        let fail = |problem: String| SweepError::Grid {
            grid: name.into(),
            problem,
        };
        let Value::Object(top) = value else {
            return Err(fail("a grid is a table of keys and values".into()));
        };
        let mut top = top.clone();
        let tables = top.shift_remove(TABLES);
        let common = normal(&top).map_err(fail)?;
        let tables: Vec<Value> = match tables {
            None => vec![Value::Object(Map::new())],
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(one @ Value::Object(_)) => vec![one],
            Some(_) => return Err(fail("'grid' is a list of tables: write [[grid]]".into())),
        };
        let several = tables.len() > 1;
        let mut parts = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let at = |problem: String| match several {
                true => fail(format!("[[grid]] {}: {problem}", index + 1)),
                false => fail(problem),
            };
            let Value::Object(table) = table else {
                return Err(at("a table of keys and values is needed".into()));
            };
            let own = normal(table).map_err(at)?;
            parts.push(merged(&common, own).map_err(at)?);
        }
        // A key of none of the tables would have no effect.
        let idle = |key: &&String| !parts.iter().any(|part| part.contains_key(*key));
        if let Some(key) = common.keys().find(idle) {
            let what = match KEYS.iter().find(|(name, ..)| name == key) {
                Some((.., Place::Traces)) => "experiments",
                _ => "traces",
            };
            return Err(fail(format!("'{key}' does not go with {what}")));
        }
        Ok(Self {
            name: name.into(),
            base: base.to_owned(),
            parts,
        })
    }

    /// Everything multiplied out, in the order of the tables, and in each in the order: experiment,
    /// parameters, costs, scale, effort (or: trace, memory, swap, swappiness, costs), switches, variant,
    /// seed. Configurations that come up twice are listed once,
    /// but for equal traces under two names: both are listed, and one is computed.
    ///
    /// # Errors
    /// Unknown names and unusable values, traces that cannot be read.
    pub fn cells(&self) -> Result<Vec<Cell>, SweepError> {
        let mut cells: Vec<Cell> = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let at = |problem: String| SweepError::Grid {
                grid: self.name.clone(),
                problem: match self.parts.len() {
                    1 => problem,
                    _ => format!("[[grid]] {}: {problem}", index + 1),
                },
            };
            let count = cells.len();
            if part.contains_key("experiments") {
                experiments(part, &self.base, &mut cells).map_err(at)?;
            } else {
                replays(part, &self.base, &mut cells).map_err(at)?;
            }
            for cell in &mut cells[count..] {
                cell.seal().map_err(|e| at(e.to_string()))?;
            }
        }
        let mut seen = std::collections::HashSet::new();
        cells.retain(|c| {
            seen.insert((
                c.key.clone(),
                c.variant.clone(),
                c.file().map(Path::to_owned),
            ))
        });
        Ok(cells)
    }
}

/// TOML has dates, which the reader hands over as a table with one key; here they are texts.
fn dates_to_texts(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(dates_to_texts),
        Value::Object(table) => match table.get("$__toml_private_datetime") {
            Some(date) => *value = date.clone(),
            None => table.values_mut().for_each(dates_to_texts),
        },
        _ => {}
    }
}

/// The message of TOML's reader with its line.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let what = error.message().replace('\n', "; ");
    match error.span() {
        Some(span) => {
            let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
            format!("line {line}: {what}")
        }
        None => what,
    }
}

/// The keys of a table over the common ones.
fn merged(
    common: &Map<String, Value>,
    own: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let has = |key: &str| own.contains_key(key);
    let traces = match (has("experiments"), has("traces")) {
        (true, true) => return Err("experiments and traces are in one table; write two".into()),
        (true, false) => false,
        (false, true) => true,
        (false, false) => match (common.get("experiments"), common.get("traces")) {
            (Some(_), Some(_)) => {
                return Err("experiments and traces are in one table; write two".into())
            }
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => {
                return Err(
                    "nothing to run: write experiments = [\"mongodb\"], or traces = [\"FILE\"]"
                        .into(),
                )
            }
        },
    };
    let (right, wrong) = match traces {
        true => (Place::Traces, "traces"),
        false => (Place::Experiments, "experiments"),
    };
    let mut out = Map::new();
    for (key, _, place) in KEYS {
        let fits = *place == Place::Both || *place == right;
        match (own.get(*key), common.get(*key)) {
            (Some(_), _) if !fits => return Err(format!("'{key}' does not go with {wrong}")),
            (Some(value), _) | (None, Some(value)) if fits => {
                out.insert((*key).to_owned(), value.clone());
            }
            _ => {}
        }
    }
    Ok(out)
}

fn list(part: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    part.get(key).map(|value| texts(key, value)).transpose()
}

fn tables(part: &Map<String, Value>, key: &str) -> Result<Vec<Vec<(String, String)>>, String> {
    part.get(key)
        .map_or(Ok(vec![Vec::new()]), |value| products(key, value))
}

/// Switches as `NAME=VALUE`.
fn switches(part: &Map<String, Value>) -> Result<Vec<Vec<String>>, String> {
    let one = |(name, value): (String, String)| format!("{name}={value}");
    let all = tables(part, "set")?;
    Ok(all
        .into_iter()
        .map(|set| set.into_iter().map(one).collect())
        .collect())
}

fn said(e: impl ToString) -> String {
    e.to_string()
}

fn push(cells: &mut Vec<Cell>, cell: Cell) -> Result<(), String> {
    if cells.len() == CELLS_MAX {
        return Err(format!(
            "more than {CELLS_MAX} cells; sweep over less at a time"
        ));
    }
    cells.push(cell);
    Ok(())
}

/// The file of a workload, from the folder of the grid.
fn workload_file(name: &str, base: &Path) -> Result<Option<WorkloadFile>, String> {
    if !is_workload(name) {
        return Ok(None);
    }
    let path = std::path::absolute(base.join(name)).map_err(said)?;
    let content = workload::fingerprint(&path).map_err(said)?;
    Ok(Some(WorkloadFile { path, content }))
}

fn experiments(
    part: &Map<String, Value>,
    base: &Path,
    cells: &mut Vec<Cell>,
) -> Result<(), String> {
    let names = list(part, "experiments")?.unwrap_or_default();
    let sets = switches(part)?;
    let efforts = list(part, "effort")?.unwrap_or_else(|| vec![show_effort(1000)]);
    let efforts: Vec<u64> = efforts
        .iter()
        .map(|t| parse_effort(t).map_err(said))
        .collect::<Result<_, _>>()?;
    let costs: Vec<_> = tables(part, "costs")?
        .iter()
        .map(|c| costs_of(c))
        .collect::<Result<_, _>>()?;
    let seeds = part.get("seeds").map_or(Ok(vec![1]), seeds)?;
    for name in &names {
        let file = workload_file(name, base)?;
        let experiment = match &file {
            Some(file) => workload::read(&file.path).map_err(said)?,
            None => experiment(name).map_err(said)?,
        };
        let scales = list(part, "scales")?.unwrap_or_else(|| vec![show_scale(experiment.scale)]);
        let scales: Vec<u64> = scales
            .iter()
            .map(|t| parse_scale(t).map_err(said))
            .collect::<Result<_, _>>()?;
        let defaults = experiment.default_variants();
        let variants = list(part, "variants")?
            .unwrap_or_else(|| defaults.iter().map(|&v| v.to_owned()).collect());
        for params in tables(part, "params")? {
            check_params(experiment, &params).map_err(|e| format!("{}: {e}", experiment.name))?;
            for costs in &costs {
                for &scale in &scales {
                    usable(experiment, scale, &params, costs)?;
                    for &effort_permille in &efforts {
                        let what = What::Experiment {
                            name: name.clone(),
                            workload: file.clone(),
                            scale,
                            effort_permille,
                            params: params.clone(),
                            costs: costs.clone(),
                        };
                        for set in &sets {
                            for variant in &variants {
                                for &seed in &seeds {
                                    push(cells, Cell::new(&what, variant, set, seed))?;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// That the experiment takes the parameters, and that every cost has an effect on it with them.
fn usable(
    experiment: &'static Experiment,
    scale: u64,
    params: &[(String, String)],
    costs: &[(String, u64)],
) -> Result<(), String> {
    let before = Variant::parse(experiment.before, &[]).map_err(said)?;
    let mut input = RunInput {
        scale,
        params: params.to_vec(),
        ..experiment.input(&before.label, before.switches)
    };
    for (name, value) in costs {
        input.costs.set(name, *value).map_err(said)?;
    }
    experiment
        .check(&input)
        .map_err(|e| format!("{}: {e}", experiment.name))?;
    check_costs(&[(experiment, input)]).map_err(said)
}

fn costs_of(costs: &[(String, String)]) -> Result<Vec<(String, u64)>, String> {
    let mut known = Params::default();
    let mut out = Vec::new();
    for (name, text) in costs {
        known.get(name).map_err(said)?;
        let value = text
            .replace('_', "")
            .parse()
            .map_err(|_| format!("cost '{name}' takes a whole number, not '{text}'"))?;
        known.set(name, value).map_err(said)?;
        out.push((name.clone(), value));
    }
    Ok(out)
}

/// The values of a list, or the one default.
fn each<T: Clone>(
    part: &Map<String, Value>,
    key: &str,
    default: T,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    match list(part, key)? {
        None => Ok(vec![default]),
        Some(texts) => texts.iter().map(|t| read(t)).collect(),
    }
}

fn replays(part: &Map<String, Value>, base: &Path, cells: &mut Vec<Cell>) -> Result<(), String> {
    let sets = switches(part)?;
    let variants =
        list(part, "variants")?.unwrap_or_else(|| REPLAY_VARIANTS.map(String::from).to_vec());
    let swaps = each(part, "swap", None, |t| {
        SwapSpec::parse(t).map_err(said)?;
        Ok(Some(t.to_owned()))
    })?;
    let swappinesses = each(part, "swappiness", 60, |t| match t.parse() {
        Ok(n @ 0..=200) => Ok(n),
        _ => Err(format!("'swappiness' is 0 to 200, not '{t}'")),
    })?;
    let kernel_memory = each(part, "kernel_memory", true, |t| match t {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'kernel_memory' is true or false, not '{t}'")),
    })?;
    let costs: Vec<_> = tables(part, "costs")?
        .iter()
        .map(|c| costs_of(c))
        .collect::<Result<_, _>>()?;
    let named = list(part, "traces")?.unwrap_or_default();
    let mut files = Vec::new();
    for name in &named {
        files.extend(files_of(base, name)?);
    }
    for file in files {
        let path = std::path::absolute(base.join(&file)).map_err(said)?;
        let trace = load(&path, None, &TraceOptions::default()).map_err(said)?;
        let content = super::cell::content(&trace);
        for memory in limits(part, &trace)? {
            for swap in &swaps {
                for &swappiness in &swappinesses {
                    for &kernel_memory in &kernel_memory {
                        for costs in &costs {
                            let what = What::Replay {
                                trace: file.clone(),
                                path: path.clone(),
                                content: content.clone(),
                                memory: memory.clone(),
                                swap: swap.clone(),
                                swappiness,
                                kernel_memory,
                                costs: costs.clone(),
                            };
                            for set in &sets {
                                for variant in &variants {
                                    push(cells, Cell::new(&what, variant, set, 0))?;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// The files that a name in `traces` stands for: itself or, of a folder, all in it in the order of their names.
fn files_of(base: &Path, name: &str) -> Result<Vec<String>, String> {
    let folder = base.join(name);
    if !folder.is_dir() {
        return Ok(vec![name.into()]);
    }
    let failed = |e: std::io::Error| format!("cannot read the folder {}: {e}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && !file.starts_with('.') {
            files.push(Path::new(name).join(file).to_string_lossy().into_owned());
        }
    }
    if files.is_empty() {
        return Err(format!(
            "there is no trace in the folder {}",
            folder.display()
        ));
    }
    files.sort();
    Ok(files)
}

fn limits(part: &Map<String, Value>, trace: &Trace) -> Result<Vec<Memory>, String> {
    let given = list(part, "memory")?;
    let all = match &given {
        Some(texts) => texts
            .iter()
            .map(|t| Ok((t.clone(), Size::parse("memory", t).map_err(said)?)))
            .collect::<Result<Vec<_>, String>>()?,
        None => MEMORY_DEFAULT
            .iter()
            .map(|&size| match size {
                Size::Percent(p) => (format!("{p}%"), size),
                Size::Pages(n) => (format!("{n}pages"), size),
            })
            .collect(),
    };
    let mut out = Vec::new();
    for (text, size) in all {
        let pages = size.pages_of(trace.unique_pages);
        if pages >= MEMORY_MIN {
            out.push(Memory { text, pages });
        } else if given.is_some() {
            return Err(format!(
                "memory '{text}' is {pages} pages of the {} of the trace; give at least {MEMORY_MIN} pages",
                trace.unique_pages
            ));
        }
    }
    if out.is_empty() {
        return Err(format!(
            "the trace has {} different pages; give memory of at least {MEMORY_MIN} pages",
            trace.unique_pages
        ));
    }
    Ok(out)
}

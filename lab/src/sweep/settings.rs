//! Values of a grid as they are written: one, or a list of which each is taken.

use crate::runner::RunnerError;
use serde_json::{Map, Value};

/// Where a key may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// With experiments and with traces.
    Both,
    /// With experiments.
    Experiments,
    /// With traces.
    Traces,
}

/// Keys of a grid: the name, the form in the singular, and where it may stand.
pub(super) const KEYS: &[(&str, &str, Place)] = &[
    ("experiments", "experiment", Place::Experiments),
    ("traces", "trace", Place::Traces),
    ("variants", "variant", Place::Both),
    ("set", "set", Place::Both),
    ("scales", "scale", Place::Experiments),
    ("effort", "efforts", Place::Experiments),
    ("costs", "cost", Place::Both),
    ("params", "param", Place::Experiments),
    ("seeds", "seed", Place::Experiments),
    ("memory", "memories", Place::Traces),
    ("swap", "swaps", Place::Traces),
    ("swappiness", "swappinesses", Place::Traces),
    ("kernel_memory", "kernel_memory", Place::Traces),
];

/// The tables that are added together.
pub(super) const TABLES: &str = "grid";

/// One table with the names of its keys in the plural.
pub(super) fn normal(table: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for (key, value) in table {
        let known = KEYS.iter().find(|(many, one, _)| key == many || key == one);
        let Some((name, ..)) = known else {
            let names = KEYS.iter().map(|(many, ..)| *many).chain([TABLES]);
            let list = "keys are experiments or traces, variants, set, scales, effort, costs, params, \
                        seeds, memory, swap, swappiness, kernel_memory, and [[grid]] for more tables";
            return Err(RunnerError::name("key", key, names, list).to_string());
        };
        if out.insert((*name).to_owned(), value.clone()).is_some() {
            return Err(format!("'{name}' is given twice; write it once"));
        }
    }
    Ok(out)
}

/// A single value as text.
fn text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(s) => Ok(s.trim().to_owned()),
        Value::Bool(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        Value::Number(n) => Ok(n.to_string()),
        _ => Err(format!(
            "'{key}' takes a text, a number, true or false, or a list of them"
        )),
    }
}

/// A value or a list of values.
pub(super) fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(list) if list.is_empty() => {
            Err(format!("'{key}' is an empty list: nothing would be run"))
        }
        Value::Array(list) => list.iter().map(|v| text(key, v)).collect(),
        one => Ok(vec![text(key, one)?]),
    }
}

/// All combinations of a table of values or lists, the last key changing fastest.
pub(super) fn products(key: &str, value: &Value) -> Result<Vec<Vec<(String, String)>>, String> {
    let Value::Object(table) = value else {
        return Err(format!(
            "'{key}' is a table of names and values: [grid.{key}] in TOML, then NAME = VALUE or NAME = [VALUE, ...]"
        ));
    };
    let mut all = vec![Vec::new()];
    for (name, value) in table {
        let values = texts(&format!("{key}.{name}"), value)?;
        all = all
            .into_iter()
            .flat_map(|before: Vec<(String, String)>| {
                values.iter().map(move |value| {
                    let mut with = before.clone();
                    with.push((name.clone(), value.clone()));
                    with
                })
            })
            .collect();
    }
    Ok(all)
}

/// Seeds: a number stands for 1 to that number, a list for itself.
pub(super) fn seeds(value: &Value) -> Result<Vec<u64>, String> {
    let wrong = || {
        "'seeds' is a number N for seeds 1 to N (N up to 10000), or a list of seeds such as [1, 2, 7]"
            .to_owned()
    };
    match value {
        Value::Array(list) if !list.is_empty() => {
            list.iter().map(|v| v.as_u64().ok_or_else(wrong)).collect()
        }
        one => match one.as_u64() {
            Some(n @ 1..=10_000) => Ok((1..=n).collect()),
            _ => Err(wrong()),
        },
    }
}

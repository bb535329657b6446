//! What there is.

use super::errors;
use coldset_engine::presets::{PRESETS, SUFFIXES};
use coldset_lab::experiment::Experiment;
use coldset_lab::experiments::EXPERIMENTS;
use coldset_lab::runner::{deviations, show_scale, Variant};
use coldset_machine::Params;
use pyo3::prelude::*;
use serde_json::{json, Value};

fn experiment(e: &Experiment) -> Value {
    let deviations = e.deviations.iter().map(|d| d.shown());
    let deviations: Vec<String> = deviations
        .map(|d| format!("{}={}", d.name, d.value))
        .collect();
    json!({"experiment": e.name, "what": e.doc, "before": e.before, "after": e.after,
           "scale": show_scale(e.scale), "source": e.source, "deviations": deviations.join(", ")})
}

/// Tables as JSON lists of objects: experiments, params, variants, switches (of a variant), costs,
/// deviations from them.
#[pyfunction]
#[pyo3(signature = (variant, /))]
pub fn lab_lists(py: Python<'_>, variant: &str) -> PyResult<String> {
    let switches = Variant::parse(variant, &[]).map_err(|e| errors::runner(py, &e))?;
    let of_experiment = |e: &'static Experiment| {
        e.params.iter().map(move |p| {
            json!({"experiment": e.name, "param": p.name, "default": p.default, "what": p.doc})
        })
    };
    let presets = PRESETS.iter().map(|p| {
        json!({"variant": p.names[0], "kind": "variant", "aliases": p.names[1..].join(", "),
               "what": p.doc})
    });
    let suffixes = SUFFIXES.iter().map(|s| {
        json!({"variant": format!("+{}", s.name), "kind": "suffix", "aliases": "", "what": s.doc})
    });
    let switches =
        switches.switches.describe().into_iter().map(
            |s| json!({"switch": s.name, "value": s.value, "accepts": s.accepts, "what": s.doc}),
        );
    let costs = Params::default().describe().into_iter().map(|c| {
        json!({"cost": c.name, "value": c.value, "unit": c.unit,
               "mark": c.mark.letter().to_string(), "what": c.what, "source": c.source})
    });
    let deviations = deviations().into_iter().map(|(of, d)| {
        json!({"of": of, "cost": d.name, "here": d.value, "table": d.table,
               "why": d.why, "source": d.source})
    });
    let all = json!({
        "experiments": EXPERIMENTS.iter().map(experiment).collect::<Vec<_>>(),
        "params": EXPERIMENTS.iter().flat_map(of_experiment).collect::<Vec<_>>(),
        "variants": presets.chain(suffixes).collect::<Vec<_>>(),
        "switches": switches.collect::<Vec<_>>(),
        "costs": costs.collect::<Vec<_>>(),
        "deviations": deviations.collect::<Vec<_>>(),
    });
    Ok(all.to_string())
}

//! `coldset lab sweep`.

mod dask;
mod local;

pub use local::work;

use super::style;
use crate::args::SweepArgs;
use crate::error::{Failure, Verdict};
use crate::output::{one_line, tell, Outputs};
use coldset_lab::report::Number;
use coldset_lab::runner::{RunnerError, UNTIL_KILLED};
use coldset_lab::sweep::{means, render_means, version, Cell, Grid, Group, Store, Tally};
use serde_json::{json, Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// A grid that cannot be used, a folder that cannot be written, workers that are killed.
pub fn run(args: &SweepArgs) -> Result<Verdict, Failure> {
    if args.dask.is_some() {
        return Err(dask::replace(args));
    }
    let cells = Grid::read(&args.grid)?.cells()?;
    let Some(dir) = &args.out else {
        return list(args, &cells, &BTreeSet::new());
    };
    if args.dry_run {
        return list(args, &cells, &Store::look(dir).keys()?);
    }
    let outputs = outputs(args, &cells)?;
    let store = Store::open(dir)?;
    let tally = local::run(&store, &cells, args.jobs)?;
    store.merge()?;
    let rows = store.read(&cells.iter().map(|c| c.key.clone()).collect())?;
    let groups = means(&cells, &rows);
    for name in &args.counters {
        let mut known = groups.iter().flat_map(|g| g.counters.keys());
        let has = |k: &String| k.strip_prefix(UNTIL_KILLED).unwrap_or(k) == name;
        if !known.any(has) && !groups.is_empty() {
            let known = groups
                .iter()
                .flat_map(|g| g.counters.keys().map(String::as_str));
            let list = "--json lists them all";
            return Err(RunnerError::name("counter", name, known, list).into());
        }
    }
    outputs.write_text_or_json(
        || text(args, dir, &groups, &tally),
        || pretty(&result_json(dir, &groups, &tally)),
    )?;
    report(&tally, dir)
}

/// The file of `--json`, which is neither the grid nor a file that is read for it.
fn outputs(args: &SweepArgs, cells: &[Cell]) -> Result<Outputs, Failure> {
    let files: BTreeSet<&Path> = cells.iter().filter_map(Cell::file).collect();
    let files = files.into_iter().map(|file| ("a file of the grid", file));
    let besides = [("the grid", &*args.grid)].into_iter().chain(files);
    Outputs::open_json(args.json.as_deref(), besides)
}

/// One line for each cell that failed, and how the command ends.
fn report(tally: &Tally, dir: &Path) -> Result<Verdict, Failure> {
    for failed in &tally.failed {
        let what = format!("{}: {}", failed.cell, failed.why);
        tell(&format!("coldset: FAILED {}", one_line(&what)));
    }
    if tally.failed.iter().any(|f| f.killed) {
        return Err(Failure::Surroundings(format!(
            "workers were killed; {} of {} cells are in {}, the same command tries the others again",
            tally.finished(),
            tally.cells,
            dir.display()
        )));
    }
    Ok(Verdict::of(tally.failed.is_empty()))
}

fn text(args: &SweepArgs, dir: &Path, groups: &[Group], tally: &Tally) -> String {
    let mut out = render_means(groups, &args.counters, style(args.markdown));
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&format!(
        "{} of {} cells: {} computed now, {} found. Means over the seeds, \u{b1} 95 % confidence.\n{}\n",
        tally.finished(),
        tally.cells,
        tally.computed,
        tally.found,
        dir.display()
    ));
    out
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn result_json(dir: &Path, groups: &[Group], tally: &Tally) -> Value {
    let real = |x: f64| Number::Real(x).to_json();
    let group = |g: &Group| {
        let counters: Map<String, Value> = g
            .counters
            .iter()
            .map(|(name, (mean, ci))| {
                let ci = ci.map_or(Value::Null, |i| json!([real(i.lo), real(i.hi)]));
                (name.clone(), json!({"mean": real(*mean), "ci95": ci}))
            })
            .collect();
        json!({"experiment": g.experiment, "settings": g.settings, "seeds": g.seeds,
               "counters": counters})
    };
    let failed: Vec<Value> = tally
        .failed
        .iter()
        .map(|f| json!({"cell": f.cell, "key": f.key, "reason": f.why}))
        .collect();
    json!({
        "version": version(),
        "dir": dir.display().to_string(),
        "cells": tally.cells,
        "computed": tally.computed,
        "found": tally.found,
        "failed": failed,
        "groups": groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn list(args: &SweepArgs, cells: &[Cell], there: &BTreeSet<String>) -> Result<Verdict, Failure> {
    let outputs = outputs(args, cells)?;
    let finished = |c: &Cell| there.contains(&c.key);
    let text = || {
        let mut out = String::new();
        for cell in cells {
            let state = if finished(cell) { "finished" } else { "to do" };
            out.push_str(&format!("{state:8}  {}\n", cell.describe()));
        }
        let done = cells.iter().filter(|c| finished(c)).count();
        out + &format!("{} cells, {done} finished\n", cells.len())
    };
    let json = || {
        let one = |c: &Cell| {
            json!({"key": c.key, "experiment": c.experiment(), "settings": c.settings(),
                   "finished": finished(c)})
        };
        let all: Vec<Value> = cells.iter().map(one).collect();
        pretty(&json!({"version": version(), "cells": all}))
    };
    outputs.write_text_or_json(text, json)?;
    Ok(Verdict::Good)
}

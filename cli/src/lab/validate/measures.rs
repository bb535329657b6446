//! What a kernel did, a figure a row: measured now, or read from what this command has written before.

use super::origin::Origin;
use super::pair::ROWS;
use crate::error::Failure;
use crate::kernel::Measured;
use crate::predict::Room;
use coldset_lab::replay::Clock;
use coldset_lab::report::CounterSummary;
use indexmap::IndexMap;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Counters by name.
pub type Counters = IndexMap<String, CounterSummary>;

/// A row of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Mean of the runs in which nobody was killed, if there are any.
    pub mean: f64,
    /// Half the distance of the least and the greatest of the runs, as a share of the mean; none of one run.
    pub spread: Option<f64>,
}

/// What a kernel did.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Kernel and policy.
    pub label: String,
    /// What it ran on.
    pub machine: Value,
    /// What disturbed each run.
    pub disturbed: Value,
    /// What befell the runs, a line each.
    pub remarks: Vec<String>,
    /// Share of the runs that were killed for lack of memory.
    pub killed: f64,
    rows: IndexMap<String, Figure>,
}

impl Measures {
    /// Of runs that were just measured.
    pub fn of(m: &Measured) -> Self {
        let runs = m.played["runs"].as_array().into_iter().flatten();
        let rows = ROWS.iter().filter_map(|&(name, counters)| {
            let figure = figure(&m.counters, counters)?;
            Some((name.to_owned(), figure))
        });
        Self {
            label: m.label.clone(),
            machine: m.played["machine"].clone(),
            disturbed: runs.map(|run| run["disturbed"].clone()).collect(),
            remarks: m.remarks().collect(),
            killed: share_killed(&m.counters),
            rows: rows.collect(),
        }
    }

    /// One of those in a file.
    fn from_json(kernel: &Value) -> Option<Self> {
        let figure = |f: &Value| {
            Some(Figure {
                mean: f["measured"].as_f64()?,
                spread: f["spread"].as_f64(),
            })
        };
        let rows = kernel["counters"].as_object()?.iter();
        let rows = rows.map(|(name, f)| Some((name.clone(), figure(f)?)));
        Some(Self {
            label: kernel["kernel"].as_str()?.to_owned(),
            machine: kernel["machine"].clone(),
            disturbed: kernel["disturbed"].clone(),
            remarks: Vec::new(),
            killed: kernel["killed"]["measured"].as_f64().unwrap_or(0.0),
            rows: rows.collect::<Option<_>>()?,
        })
    }

    /// The row with this heading.
    pub fn row(&self, name: &str) -> Option<Figure> {
        self.rows.get(name).copied()
    }
}

/// Share of runs that were killed.
pub fn share_killed(counters: &Counters) -> f64 {
    let counter = counters.get("events_oom_kill");
    counter.map_or(0.0, |c| c.mean.as_f64().min(1.0))
}

/// Those of some runs, by whether each was killed, in which nobody was; all, if there is none: what was counted in
/// others ends with the kill.
pub fn lived(killed: &[f64]) -> impl Iterator<Item = usize> + '_ {
    let any = killed.contains(&0.0);
    let counts = move |n: &usize| !any || killed[*n] == 0.0;
    (0..killed.len()).filter(counts)
}

/// The sum of these counters over the runs; none that were counted: none.
fn figure(measured: &Counters, counters: &[&str]) -> Option<Figure> {
    let all: Vec<_> = counters.iter().filter_map(|c| measured.get(*c)).collect();
    let count = all.first()?.per_seed.len();
    let kills = measured.get("events_oom_kill");
    let was_killed = |run: usize| kills.map_or(0.0, |c| c.per_seed[run].as_f64());
    let killed: Vec<f64> = (0..count).map(was_killed).collect();
    let sum_of = |run: usize| all.iter().map(|c| c.per_seed[run].as_f64()).sum::<f64>();
    let sums: Vec<f64> = lived(&killed).map(sum_of).collect();
    let count = sums.len();
    let mean = sums.iter().sum::<f64>() / count as f64;
    let ends = |(a, b): (f64, f64), &v: &f64| (a.min(v), b.max(v));
    let (least, most) = sums.iter().fold((f64::INFINITY, 0.0), ends);
    let spread = (count > 1 && mean > 0.0).then(|| (most - least) / 2.0 / mean);
    Some(Figure { mean, spread })
}

/// A kernel in a file that this command has written.
pub struct Recorded {
    /// What it did.
    pub measures: Measures,
    /// What predicts it.
    pub variant: String,
    /// The times of the runs, if they were predicted with.
    pub clock: Option<Clock>,
    /// Those of each run, if they were.
    pub clocks: Vec<Clock>,
    /// The memory of the machine on average, if that limited the runs.
    pub room: Option<Room>,
    /// That of each run.
    pub rooms: Vec<Room>,
}

impl Recorded {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not of this command, is of another trace or limit than `origin`, or lacks the times that its
    /// predictions were made with.
    pub fn read(path: &Path, origin: &Origin) -> Result<Vec<Self>, Failure> {
        let wrong = |what: &str| Failure::Usage(format!("--recorded {}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|e| wrong(&e.to_string()))?;
        let none = "not what coldset lab validate --json writes";
        let all: Value = serde_json::from_str(&text).map_err(|_| wrong(none))?;
        let kernels = all["kernels"].as_array().ok_or_else(|| wrong(none))?;
        origin.check(&all).map_err(|what| wrong(&what))?;
        let one = |kernel: &Value| {
            let measures = Measures::from_json(kernel).ok_or_else(|| wrong(none))?;
            let variant = kernel["variant"].as_str().ok_or_else(|| wrong(none))?;
            let clock = kernel["prediction"]["clock"].as_str();
            if clock.is_none() && kernel["prediction"]["times_of_the_run"] == true {
                let what = "its predictions were made with the times of the run, which it does not have; play it again";
                return Err(wrong(what));
            }
            let parse = |text: &str| Clock::parse(text).map_err(|e| wrong(&e.to_string()));
            let all = kernel["prediction"]["clocks"]
                .as_array()
                .into_iter()
                .flatten();
            let clocks = all.filter_map(Value::as_str).map(parse);
            let clocks = clocks.collect::<Result<_, _>>()?;
            let clock = clock.map(parse).transpose()?;
            let rooms = kernel["prediction"]["rooms"]
                .as_array()
                .into_iter()
                .flatten();
            Ok(Self {
                measures,
                variant: variant.to_owned(),
                clock,
                clocks,
                room: Room::from_json(&kernel["prediction"]["room"]),
                rooms: rooms.filter_map(Room::from_json).collect(),
            })
        };
        kernels.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_lab::report::Number;

    #[test]
    fn what_was_cut_short_by_a_kill_counts_only_if_all_was() {
        let measured = |kills: [u64; 3]| {
            let counter = |name: &str, runs: [u64; 3]| {
                let runs = runs.map(Number::Int).to_vec();
                (name.to_owned(), CounterSummary::of(runs).unwrap())
            };
            let scanned = counter("pgscan", [5, 90, 110]);
            Counters::from([counter("events_oom_kill", kills), scanned])
        };
        let scanned = |kills| figure(&measured(kills), &["pgscan"]).unwrap();
        let of = |mean, spread| Figure {
            mean,
            spread: Some(spread),
        };
        assert_eq!(scanned([1, 0, 0]), of(100.0, 0.1));
        assert_eq!(scanned([0, 0, 1]), of(47.5, 42.5 / 47.5));
        assert_eq!(scanned([1, 1, 1]).mean, 205.0 / 3.0);
        assert_eq!(figure(&measured([0, 0, 0]), &["pgsteal"]), None);
        let one = Figure {
            mean: 5.0,
            spread: None,
        };
        assert_eq!(scanned([0, 1, 1]), one);
    }
}

//! Means over the seeds, and their table.

use super::{Cell, Rows};
use crate::experiment::Experiment;
use crate::runner::{KILLED_AFTER, UNTIL_KILLED};
use crate::stats::{Interval, Spread};
use coldset_report::{human, Align, Measure, Style, Table};
use indexmap::{IndexMap, IndexSet};
use std::collections::HashMap;

/// Counters shown of an experiment if none are named.
const SHOWN: usize = 4;

/// A configuration over its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Experiment, or `replay`.
    pub experiment: String,
    /// Settings as they were written, without the seed.
    pub settings: IndexMap<String, String>,
    /// Finished seeds.
    pub seeds: usize,
    /// Mean and, of two seeds or more, its 95 % confidence interval.
    pub counters: IndexMap<String, (f64, Option<Interval>)>,
    /// Counters worth a look first.
    pub headline: Vec<String>,
}

/// Counters that the claims of an experiment are about, then those of its mechanism.
pub(super) fn headline(experiment: &Experiment) -> Vec<String> {
    let mut names: IndexSet<String> = IndexSet::new();
    for claim in (experiment.claims)("before", "after") {
        match claim.what {
            Measure::Ratio { after, .. } | Measure::Difference { after, .. } => {
                names.insert(after.counter);
            }
            Measure::Value(term) => {
                names.insert(term.counter);
            }
            Measure::Derived(_) | Measure::Predicate(_) => {}
        }
    }
    names.extend(experiment.mechanism.iter().map(|&m| m.to_owned()));
    names.into_iter().collect()
}

/// Means of the finished cells, in the order of `cells`.
#[must_use]
pub fn means(cells: &[Cell], rows: &Rows) -> Vec<Group> {
    let by_key: HashMap<&str, _> = rows.0.iter().map(|r| (r.key.as_str(), r)).collect();
    let mut groups: IndexMap<String, (Group, IndexMap<String, Vec<f64>>)> = IndexMap::new();
    for cell in cells {
        let Some(row) = by_key.get(cell.key.as_str()) else {
            continue;
        };
        let mut settings = cell.settings();
        settings.shift_remove("seed");
        let id = format!("{} {settings:?}", cell.experiment());
        let (group, values) = groups.entry(id).or_insert_with(|| {
            let group = Group {
                experiment: cell.experiment().to_owned(),
                settings,
                seeds: 0,
                counters: IndexMap::new(),
                headline: cell.headline(),
            };
            (group, IndexMap::new())
        });
        group.seeds += 1;
        for (name, value) in &row.counters {
            values.entry(name.clone()).or_default().push(*value);
        }
    }
    let finish = |(mut group, values): (Group, IndexMap<String, Vec<f64>>)| {
        for (name, values) in values {
            let mean = crate::stats::mean(&values).unwrap_or(f64::NAN);
            let interval = Spread::of(values).and_then(|s| s.ci95);
            group.counters.insert(name, (mean, interval));
        }
        group
    };
    groups.into_values().map(finish).collect()
}

/// A table for each experiment: the settings that differ, and means of some counters (of those
/// `named`, or of those that the experiment is about).
#[must_use]
pub fn render_means(groups: &[Group], named: &[String], style: Style) -> String {
    let experiments: IndexSet<&str> = groups.iter().map(|g| g.experiment.as_str()).collect();
    let mut out = String::new();
    for experiment in experiments {
        let mine: Vec<&Group> = groups
            .iter()
            .filter(|g| g.experiment == experiment)
            .collect();
        let mut values: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
        for group in &mine {
            for (name, value) in &group.settings {
                values.entry(name).or_default().insert(value);
            }
        }
        let differing = |name: &&str| {
            let everywhere = mine.iter().all(|g| g.settings.contains_key(*name));
            *name == "variant" || values[*name].len() > 1 || !everywhere
        };
        let settings: Vec<&str> = values.keys().copied().filter(differing).collect();
        let there = |name: &&String| {
            let partial = format!("{UNTIL_KILLED}{name}");
            let has = |counters: &IndexMap<String, _>| {
                counters.contains_key(*name) || counters.contains_key(&partial)
            };
            mine.iter().any(|g| has(&g.counters))
        };
        let counters: Vec<&String> = if named.is_empty() {
            mine[0].headline.iter().filter(there).take(SHOWN).collect()
        } else {
            named.iter().filter(there).collect()
        };
        let mut columns: Vec<(&str, Align)> = settings.iter().map(|s| (*s, Align::Left)).collect();
        columns.push(("seeds", Align::Right));
        columns.extend(counters.iter().map(|c| (c.as_str(), Align::Right)));
        let mut table = Table::new(columns);
        for group in &mine {
            let setting = |s: &&str| group.settings.get(*s).cloned().unwrap_or_default();
            let mut cells: Vec<String> = settings.iter().map(setting).collect();
            cells.push(group.seeds.to_string());
            cells.extend(counters.iter().map(|c| match group.counters.get(*c) {
                None if group.counters.contains_key(KILLED_AFTER) => "killed".to_owned(),
                value => show(value),
            }));
            table.row(cells);
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(experiment);
        out.push_str("\n\n");
        out.push_str(&table.text(style));
    }
    out
}

fn show(value: Option<&(f64, Option<Interval>)>) -> String {
    match value {
        None => "-".into(),
        Some((mean, None)) => human(*mean),
        Some((mean, Some(interval))) => {
            format!("{} \u{b1}{}", human(*mean), human(interval.half_width()))
        }
    }
}

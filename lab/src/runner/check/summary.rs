//! How close a kernel is met as a whole: the median and the largest error over its cases.

use super::{Checked, SLACK_PAGES};
use coldset_report::{Align, Number, Style, Table};
use serde_json::{json, Value};

/// A figure of the summary: its name, and the counters it adds up.
pub struct Figure {
    /// Name in the table.
    pub name: &'static str,
    counters: &'static [&'static str],
}

/// What a summary says something about.
pub const FIGURES: [Figure; 6] = [
    Figure {
        name: "refaults",
        counters: &["workingset_refault_file", "workingset_refault_anon"],
    },
    Figure {
        name: "misses",
        counters: &["misses"],
    },
    Figure {
        name: "pgscan",
        counters: &["pgscan"],
    },
    Figure {
        name: "pgsteal",
        counters: &["pgsteal"],
    },
    Figure {
        name: "activations",
        counters: &["workingset_activate_file", "workingset_activate_anon"],
    },
    Figure {
        name: "restores",
        counters: &["workingset_restore_file", "workingset_restore_anon"],
    },
];

/// Median and largest of the absolute errors of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Cases in which the kernel counted more than a batch of reclaim.
    pub cases: usize,
    /// Median of the absolute relative errors.
    pub median: f64,
    /// The largest of them.
    pub worst: f64,
    /// The case of the largest.
    pub worst_case: &'static str,
}

/// A line a kernel, classic lists apart: its name, and a summary of each of [`FIGURES`]. A case that a kernel ran
/// with and without its monitor of accesses counts as it ran without: a replay has no monitor.
#[must_use]
pub fn summaries(checked: &[Checked]) -> Vec<(&'static str, [Option<Summary>; FIGURES.len()])> {
    let line = |c: &Checked| match c.policy.recorded {
        "classic" => "classic",
        _ => c.kernel.name,
    };
    let mut lines: Vec<&'static str> = Vec::new();
    for name in checked.iter().map(line) {
        if !lines.contains(&name) {
            lines.push(name);
        }
    }
    // Classic last, whichever kernel ran it first.
    lines.sort_by_key(|&name| name == "classic");
    let of = |name| {
        let again = |c: &Checked| {
            let unmonitored = c.policy.unmonitored();
            let same = |o: &&Checked| o.kernel.name == c.kernel.name && o.case == c.case;
            unmonitored.is_some_and(|p| checked.iter().filter(same).any(|o| o.policy.recorded == p))
        };
        let counts = |c: &&Checked| line(c) == name && !again(c);
        let cases: Vec<&Checked> = checked.iter().filter(counts).collect();
        (name, FIGURES.each_ref().map(|figure| figure.over(&cases)))
    };
    lines.into_iter().map(of).collect()
}

impl Figure {
    /// Relative error in a case; none if the kernel counted no more than a batch of reclaim, of which any
    /// share says nothing.
    fn error(&self, case: &Checked) -> Option<f64> {
        let mut sums = (0.0, 0.0);
        for counter in self.counters.iter().filter_map(|name| case.counter(name)) {
            sums.0 += counter.ours;
            sums.1 += counter.kernel;
        }
        (sums.1 > SLACK_PAGES).then(|| sums.0 / sums.1 - 1.0)
    }

    fn over(&self, cases: &[&Checked]) -> Option<Summary> {
        let mut errors: Vec<(f64, &'static str)> = cases
            .iter()
            .filter_map(|c| Some((self.error(c)?.abs(), c.case.name())))
            .collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let &(worst, worst_case) = errors.last()?;
        let half = errors.len() / 2;
        let median = (errors[half].0 + errors[(errors.len() - 1) / 2].0) / 2.0;
        Some(Summary {
            cases: errors.len(),
            median,
            worst,
            worst_case,
        })
    }
}

/// The summary as a table.
pub(super) fn render(checked: &[Checked], style: Style) -> String {
    let mut columns = vec![("kernel", Align::Left)];
    columns.extend(FIGURES.iter().map(|f| (f.name, Align::Right)));
    let mut table = Table::new(columns);
    for (kernel, summaries) in summaries(checked) {
        let cell = |s: &Option<Summary>| match s {
            Some(s) => format!("{:.2} %, {:.1} %", s.median * 100.0, s.worst * 100.0),
            None => "-".into(),
        };
        let row = std::iter::once(kernel.to_owned()).chain(summaries.iter().map(cell));
        table.row(row.collect::<Vec<_>>());
    }
    table.text(style)
}

/// `{KERNEL: {FIGURE: {"cases", "median", "worst", "worst_case"}}}`.
pub(super) fn json(checked: &[Checked]) -> Value {
    let figures = |of: [Option<Summary>; FIGURES.len()]| -> Value {
        let named = FIGURES.iter().zip(of);
        let with = named.filter_map(|(figure, s)| {
            let s = s?;
            let value = json!({
                "cases": s.cases,
                "median": Number::Real(s.median).to_json(),
                "worst": Number::Real(s.worst).to_json(),
                "worst_case": s.worst_case,
            });
            Some((figure.name.to_owned(), value))
        });
        Value::Object(with.collect())
    };
    let lines = summaries(checked).into_iter();
    Value::Object(
        lines
            .map(|(kernel, of)| (kernel.to_owned(), figures(of)))
            .collect(),
    )
}

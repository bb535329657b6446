//! Tables and JSON of compared replays.

use super::replays::{spread, ComparedColumns, ReplayComparison, ReplayRow};
use super::text::side;
use crate::tables::pointer_key;
use crate::{human, Align, Cell, CounterSummary, Number, Style, Table};
use serde_json::{json, Map, Value};
use std::fmt::Write;
use Align::{Left, Right};

/// Names of counters in a note, at most.
const NAMED: usize = 6;

impl ReplayComparison {
    /// What is to be known of it beside the tables.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut out = self.made();
        out.extend(self.left_out());
        out
    }

    /// What differs in how the two were made, and if need be which columns are compared.
    pub(crate) fn made(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (name, before, after) in &self.differing {
            out.push(format!("{name}: {before} before, {after} after"));
        }
        if let Some([before, after]) = &self.by_place {
            out.push(format!(
                "{before} and {after} are compared as the first of each file"
            ));
        }
        out
    }

    /// Columns that are not compared.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let alone = self.alone.iter();
        alone
            .map(|(column, file)| format!("{column} is in {file} only"))
            .collect()
    }
}

/// Which is which, then one table a pair.
#[must_use]
pub fn render_replay_comparison(c: &ReplayComparison, style: Style) -> String {
    let mut out = format!("before {}, after {}\n", c.files[0], c.files[1]);
    // Writing to a string cannot fail.
    for remark in c.remarks() {
        let _ = writeln!(out, "  {remark}");
    }
    for (i, columns) in c.columns.iter().enumerate() {
        let [before, after] = &columns.what;
        let table = columns.table(i, |_| true).text(style);
        let _ = write!(out, "\nbefore: {before}\nafter:  {after}\n\n{table}");
        for note in columns.notes() {
            let _ = writeln!(out, "{note}");
        }
    }
    out.push_str(&format!("\n{HOW}\n"));
    out
}

/// How to read a table.
pub(crate) const HOW: &str =
    "means of the runs; spread: half the distance of the least and the greatest run, of the mean; \
     noise: the runs of the two overlap.";

fn percent(x: f64) -> String {
    match x * 100.0 {
        x if x.abs() < 0.05 => "0.0 %".into(),
        x => format!("{x:+.1} %"),
    }
}

impl ComparedColumns {
    /// The rows that are wanted and not 0 on both sides; it is the column with this number of the comparison.
    pub(crate) fn table(&self, number: usize, wanted: impl Fn(&ReplayRow) -> bool) -> Table {
        let several = |s: &CounterSummary| s.per_seed.len() > 1;
        let with = self
            .rows
            .iter()
            .any(|r| several(&r.before) || several(&r.after));
        let mut columns = vec![("counter", Left)];
        for name in ["before", "after"] {
            columns.push((name, Right));
            columns.extend(with.then_some(("spread", Right)));
        }
        columns.extend([("change", Right), ("verdict", Left)]);
        let mut table = Table::new(columns);
        let something =
            |r: &&ReplayRow| r.before.mean.as_f64() != 0.0 || r.after.mean.as_f64() != 0.0;
        for row in self.rows.iter().filter(something).filter(|r| wanted(r)) {
            let at = format!("/columns/{number}/counters/{}", pointer_key(&row.counter));
            let mut cells = vec![Cell::code(&row.counter)];
            for (name, summary) in [("before", &row.before), ("after", &row.after)] {
                cells.push(Cell::mean(Some(summary), false, &format!("{at}/{name}")));
                let spread = spread(summary)
                    .map_or_else(String::new, |s| format!("\u{b1}{:.1} %", s * 100.0));
                cells.extend(with.then(|| spread.into()));
            }
            cells.push(row.change.map_or_else(|| "n/a".to_owned(), percent).into());
            cells.push(row.verdict.name().into());
            table.row(cells);
        }
        table
    }

    /// Who was killed, and what follows from it.
    pub(crate) fn killings(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (side, killed) in ["before", "after"].iter().zip(self.killed) {
            if let Some(after) = killed {
                notes.push(format!(
                    "{side} was killed for lack of memory, after {} accesses",
                    human(after as f64)
                ));
            }
        }
        if self.killed[0] != self.killed[1] {
            notes
                .push("its counters are those of a part of the trace, and are not compared".into());
        }
        notes
    }

    /// Who was killed, what is not in the table, and what is not of the group.
    pub(crate) fn notes(&self) -> Vec<String> {
        let list = |names: &[String]| match names.len() {
            n if n > NAMED => format!("{} and {} more", names[..NAMED].join(", "), n - NAMED),
            _ => names.join(", "),
        };
        let mut notes = self.killings();
        if !self.machine_wide.is_empty() {
            notes.push(format!(
                "of the whole machine: {}",
                list(&self.machine_wide)
            ));
        }
        for (side, names) in ["before", "after"].iter().zip(&self.alone) {
            if !names.is_empty() {
                notes.push(format!("counted {side} only: {}", list(names)));
            }
        }
        notes
    }
}

/// `{"before", "after", "differing", "by_place", "columns": [{"before": {"column", "what", "killed_after"}, "after", "counters":
/// {COUNTER: {"before", "after", "change", "spread", "verdict"}}, "machine_wide", "before_only", "after_only"}],
/// "not_compared"}`; changes and spreads are shares.
#[must_use]
pub fn replay_comparison_json(c: &ReplayComparison) -> String {
    let column = |columns: &ComparedColumns| {
        let rows = columns.rows.iter().map(|row| {
            let real = |x: Option<f64>| x.map(|x| Number::Real(x).to_json());
            let value = json!({
                "before": side(&row.before),
                "after": side(&row.after),
                "change": real(row.change),
                "spread": [real(spread(&row.before)), real(spread(&row.after))],
                "verdict": row.verdict.name(),
            });
            (row.counter.clone(), value)
        });
        let which = |i: usize| {
            json!({"column": columns.names[i], "what": columns.what[i],
                                     "killed_after": columns.killed[i]})
        };
        json!({
            "before": which(0),
            "after": which(1),
            "counters": rows.collect::<Map<_, _>>(),
            "machine_wide": columns.machine_wide,
            "before_only": columns.alone[0],
            "after_only": columns.alone[1],
        })
    };
    let differing = c.differing.iter();
    let differing: Map<String, Value> = differing
        .map(|(n, b, a)| (n.clone(), json!({"before": b, "after": a})))
        .collect();
    let alone = c.alone.iter();
    let alone: Vec<Value> = alone
        .map(|(column, file)| json!({"column": column, "file": file}))
        .collect();
    let value = json!({
        "before": c.files[0],
        "after": c.files[1],
        "differing": differing,
        "by_place": c.by_place,
        "columns": c.columns.iter().map(column).collect::<Vec<_>>(),
        "not_compared": alone,
    });
    format!("{value:#}\n")
}

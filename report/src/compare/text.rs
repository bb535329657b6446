//! Tables and JSON of a comparison.

use super::{Compared, Comparison, Row};
use crate::shown::{better, seeds};
use crate::tables::pointer;
use crate::{Align, Cell, CounterSummary, Number, Style, Table};
use serde_json::{json, Map, Value};
use std::fmt::Write;
use Align::{Left, Right};

/// What differs, then one table a variant.
#[must_use]
pub fn render_comparison(c: &Comparison, style: Style) -> String {
    let mut out = format!(
        "{}: before {}, after {}; seeds {}\n",
        c.experiment,
        c.files[0],
        c.files[1],
        seeds(&c.seeds)
    );
    // Writing to a string cannot fail.
    for (name, before, after) in &c.differing {
        let _ = writeln!(out, "  {name}: {before} before, {after} after");
    }
    if c.differing.is_empty() {
        out.push_str("  the headers of both are the same\n");
    }
    for (variant, file) in &c.alone {
        let _ = writeln!(out, "  {variant} is in {file} only");
    }
    for compared in &c.variants {
        let table = compared.table(|_| true).text(style);
        let _ = write!(out, "\n{}\n\n{table}", compared.variant);
    }
    out.push_str(
        "\nmeans over the seeds \u{b1} half the 95 % confidence interval (Student's t); ratio: median over the seeds.\n\
         noise: the interval of the ratio contains 1.\n",
    );
    out
}

impl Compared {
    /// The rows that are wanted and not 0 on both sides.
    #[must_use]
    pub fn table(&self, wanted: impl Fn(&Row) -> bool) -> Table {
        let mut table = Table::new([
            ("measure".to_owned(), Left),
            ("unit".into(), Left),
            (format!("before:{}", self.variant), Right),
            (format!("after:{}", self.variant), Right),
            ("ratio".into(), Right),
            ("better".into(), Left),
            ("verdict".into(), Left),
        ]);
        let rows = self.rows.iter().filter(|r| r.is_something());
        for row in rows.filter(|r| wanted(r)) {
            let at = pointer("", &self.variant, &row.counter);
            let name = Cell::from(&row.name);
            table.row([
                if row.claimed {
                    name
                } else {
                    Cell::code(&row.name)
                },
                (&row.unit).into(),
                Cell::mean(Some(&row.before), true, &format!("{at}/before")),
                Cell::mean(Some(&row.after), true, &format!("{at}/after")),
                row.ratio_cell(&at),
                better(row.direction).into(),
                Cell::judged(row.verdict.name(), row.verdict.good()),
            ]);
        }
        table
    }
}

impl Row {
    /// Not 0 on both sides.
    fn is_something(&self) -> bool {
        self.before.mean.as_f64() != 0.0 || self.after.mean.as_f64() != 0.0
    }

    /// Median with half the interval.
    fn ratio_cell(&self, pointer: &str) -> Cell {
        let Some(ratio) = &self.ratio else {
            return "n/a".into();
        };
        let shown = match ratio.ci95 {
            Some(ci) if ci.half_width() > 0.0 => {
                format!("{:.3} \u{b1}{:.3}", ratio.median, ci.half_width())
            }
            _ => format!("{:.3}", ratio.median),
        };
        Cell::number(
            shown,
            Number::Real(ratio.median),
            format!("{pointer}/ratio"),
        )
    }
}

pub(super) fn side(summary: &CounterSummary) -> Value {
    let seeds: Vec<Value> = summary.per_seed.iter().map(|v| v.to_json()).collect();
    let real = |x: f64| Number::Real(x).to_json();
    json!({
        "mean": summary.mean.to_json(),
        "ci95": summary.ci95.map(|i| [real(i.lo), real(i.hi)]),
        "per_seed": seeds,
    })
}

/// `{"experiment", "before", "after", "differing", "seeds", "variants": {NAME: {COUNTER: {"before",
/// "after", "ratio", "ci95", "verdict"}}}, "not_compared"}`.
#[must_use]
pub fn comparison_json(c: &Comparison) -> String {
    let variants: Map<String, Value> = c
        .variants
        .iter()
        .map(|compared| {
            let rows: Map<String, Value> = compared
                .rows
                .iter()
                .map(|row| {
                    let ci = row.ratio.as_ref().and_then(|r| r.ci95);
                    let value = json!({
                        "before": side(&row.before),
                        "after": side(&row.after),
                        "ratio": row.ratio.as_ref().map(|r| r.median),
                        "ci95": ci.map(|i| [i.lo, i.hi]),
                        "verdict": row.verdict.name(),
                    });
                    (row.counter.clone(), value)
                })
                .collect();
            (compared.variant.clone(), Value::Object(rows))
        })
        .collect();
    let differing: Map<String, Value> = c
        .differing
        .iter()
        .map(|(n, b, a)| (n.clone(), json!({"before": b, "after": a})))
        .collect();
    let alone: Vec<Value> = c
        .alone
        .iter()
        .map(|(variant, file)| json!({"variant": variant, "file": file}))
        .collect();
    let value = json!({
        "experiment": c.experiment,
        "before": c.files[0],
        "after": c.files[1],
        "differing": differing,
        "seeds": c.seeds,
        "variants": variants,
        "not_compared": alone,
    });
    format!("{value:#}\n")
}

//! Tables and JSON of an ablation.

use super::{Ablation, Effect, Metric, Part};
use coldset_report::shown::seeds;
use coldset_report::{experiment_value, human, Align, Cell, Number, Style, Table};
use serde_json::{json, Value};
use std::fmt::Write;
use Align::{Left, Right};

/// One table a metric, and which patch carries most of it.
#[must_use]
pub fn render_ablation(a: &Ablation, style: Style) -> String {
    let header = &a.result.header;
    let mut out = format!(
        "{}: which change carries the gain from {} to {}; scale {}, effort {}, seeds {}\n",
        header.experiment,
        a.before,
        a.after,
        header.scale,
        header.effort,
        seeds(&a.result.seeds)
    );
    for (i, metric) in a.metrics.iter().enumerate() {
        let whole = if metric.before == 0.0 {
            "n/a".into()
        } else {
            ratio(metric.after / metric.before)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n{}, ratio {whole}\n", a.heading(metric));
        out.push_str(&a.table(i).text(style));
        let _ = writeln!(out, "{}", carrier(a, metric));
    }
    out.push_str(
        "\nalone: before with only this change; without: after with this change taken away. Ratios are medians over\n\
         the seeds; share: of the whole change from before to after.\n",
    );
    out
}

fn ratio(x: f64) -> String {
    format!("{x:.3}")
}

impl Part {
    /// Name and subject, as in tables.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.starts_with("patch") {
            format!("{}: {}", self.name, self.subject)
        } else {
            self.subject.clone()
        }
    }
}

impl Effect {
    /// Mean, ratio, share; `pointer` leads to the effect in the JSON.
    fn cells(&self, pointer: &str) -> [Cell; 3] {
        let mean = Number::Real(self.mean);
        let number =
            |x: f64, shown| Cell::number(shown, Number::Real(x), format!("{pointer}/ratio"));
        let ratio = match (self.ratio, self.ci95) {
            (Some(r), Some(ci)) if ci.half_width() > 0.0 => {
                number(r, format!("{} \u{b1}{}", ratio(r), ratio(ci.half_width())))
            }
            (Some(r), _) => number(r, ratio(r)),
            (None, _) => "n/a".into(),
        };
        // Adding zero makes minus zero plain.
        let share = |s: f64| format!("{:.0} %", (s * 100.0).round() + 0.0);
        [
            Cell::number(human(self.mean), mean, format!("{pointer}/mean")),
            ratio,
            self.share.map_or_else(String::new, share).into(),
        ]
    }
}

impl Ablation {
    /// What a metric was before and after.
    #[must_use]
    pub fn heading(&self, metric: &Metric) -> String {
        let unit = if metric.unit.is_empty() {
            String::new()
        } else {
            format!(", {}", metric.unit)
        };
        format!(
            "{}{unit}: {} {}, {} {}",
            metric.name,
            self.before,
            human(metric.before),
            self.after,
            human(metric.after)
        )
    }

    /// A metric over the changes: each added alone, each taken away.
    #[must_use]
    pub fn table(&self, metric: usize) -> Table {
        let mut table = Table::new([
            ("change", Left),
            ("alone", Right),
            ("ratio to before", Right),
            ("share", Right),
            ("without", Right),
            ("ratio to after", Right),
            ("share lost", Right),
        ]);
        let effects = &self.metrics[metric].effects;
        for (i, (part, (added, taken))) in self.parts.iter().zip(effects).enumerate() {
            let at = format!("/ablation/metrics/{metric}/changes/{i}");
            let mut row = vec![Cell::from(part.label())];
            row.extend(added.cells(&format!("{at}/alone")));
            row.extend(taken.cells(&format!("{at}/without")));
            table.row(row);
        }
        table
    }
}

/// One sentence: the changes with the largest share, both ways.
#[must_use]
pub fn carrier(a: &Ablation, metric: &Metric) -> String {
    if !metric.changes {
        return "No change carries it: the difference is within the noise.".into();
    }
    let alone = largest(a, metric, |p| &p.0);
    let taken = largest(a, metric, |p| &p.1);
    let (Some((alone, gained)), Some((taken, lost))) = (alone, taken) else {
        return String::new();
    };
    if let ([p], [q]) = (&alone[..], &taken[..]) {
        // What costs nothing when it is taken away carries nothing.
        if p == q && gained > 0.0 && lost > 0.0 {
            return format!(
                "Carried by {}: alone it makes {gained} % of the change, without it {lost} % is lost.",
                p.label()
            );
        }
    }
    let gained = match &alone[..] {
        _ if gained <= 0.0 => "Alone, no change makes any of it".into(),
        [p] if gained > 50.0 => {
            format!("Alone, {} makes most of it ({gained} %)", p.label())
        }
        [p] => format!("Alone, {} makes the largest part ({gained} %)", p.label()),
        several => format!("Alone, {} make {gained} % each", names(several)),
    };
    let lost = match &taken[..] {
        _ if lost <= 0.0 => "taken away, none costs any of it".into(),
        [q] => format!("taken away, {} costs most ({lost} %)", q.label()),
        several => format!("without any one of {}, {lost} % is lost", names(several)),
    };
    format!("{gained}; {lost}.")
}

/// The largest share in whole percent, and which changes have it.
fn largest<'a>(
    a: &'a Ablation,
    metric: &Metric,
    of: fn(&(Effect, Effect)) -> &Effect,
) -> Option<(Vec<&'a Part>, f64)> {
    let shares = a.parts.iter().zip(&metric.effects);
    // Adding zero makes minus zero plain.
    let shares = shares
        .filter_map(|(part, pair)| Some((part, (of(pair).share? * 100.0).round() + 0.0)))
        .collect::<Vec<_>>();
    let most = shares.iter().map(|s| s.1).max_by(f64::total_cmp)?;
    let parts = shares.iter().filter(|s| s.1 == most).map(|s| s.0);
    Some((parts.collect(), most))
}

/// `patch 9, patch 10 and patch 14`.
fn names(parts: &[&Part]) -> String {
    let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The result as `lab run` prints it, with `ablation`: for each metric and change the two effects.
#[must_use]
pub fn ablation_json(a: &Ablation) -> String {
    let mut value = experiment_value(&a.result);
    let effect = |e: &Effect| {
        json!({
            "mean": e.mean,
            "ratio": e.ratio,
            "ci95": e.ci95.map(|i| [i.lo, i.hi]),
            "share": e.share,
        })
    };
    let metrics: Vec<Value> = a
        .metrics
        .iter()
        .map(|m| {
            let changes: Vec<Value> = a
                .parts
                .iter()
                .zip(&m.effects)
                .map(|(p, (added, taken))| {
                    json!({
                        "change": p.name,
                        "subject": p.subject,
                        "switches": p.switches,
                        "alone": effect(added),
                        "without": effect(taken),
                    })
                })
                .collect();
            json!({
                "metric": m.name,
                "counter": m.counter,
                "before": m.before,
                "after": m.after,
                "changes": changes,
            })
        })
        .collect();
    value["ablation"] = json!({"before": a.before, "after": a.after, "metrics": metrics});
    format!("{value:#}\n")
}

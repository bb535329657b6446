//! Which change carries the gain, as bars.

use super::spec::{chart, short, Table, WIDTH};
use super::Chart;
use crate::ablate::{Ablation, Effect, Metric};
use serde_json::json;

/// Most charts.
const CHARTS_MAX: usize = 6;

/// One chart for each metric that changes at all.
#[must_use]
pub fn ablation(a: &Ablation) -> Vec<Chart> {
    let changing = a.metrics.iter().filter(|m| m.changes);
    let charts = changing.enumerate().take(CHARTS_MAX);
    charts.map(|(i, metric)| one(a, i, metric)).collect()
}

fn one(a: &Ablation, index: usize, metric: &Metric) -> Chart {
    let columns = ["change", "how", "value", "lo", "hi"];
    let mut table = Table::new(&columns, &["value", "lo", "hi"]);
    let alone = format!("added alone to {}", a.before);
    let without = format!("taken from {}", a.after);
    let mut order = Vec::new();
    for (part, (added, taken)) in a.parts.iter().zip(&metric.effects) {
        let name = part.label();
        for (how, effect) in [(&alone, added), (&without, taken)] {
            if let Some((value, lo, hi)) = change(effect) {
                table.row(&[name.as_str(), how, &short(value), &short(lo), &short(hi)]);
            }
        }
        order.push(name);
    }
    let title = format!("change of {}, %", metric.counter);
    let x = json!({"field": "value", "type": "quantitative", "title": title});
    let spec = json!({
        "data": table.data(),
        "width": WIDTH - 260,
        "height": {"step": 12},
        "encoding": {
            "y": {
                "field": "change", "type": "nominal", "sort": order, "title": "patch or switch",
                "axis": {"labelLimit": 270, "titlePadding": 14},
            },
            "yOffset": {"field": "how", "sort": [alone, without]},
        },
        "layer": [
            {
                "mark": {"type": "bar", "cornerRadiusEnd": 2},
                "encoding": {
                    "x": x,
                    "color": {
                        "field": "how", "type": "nominal", "title": null,
                        "scale": {"domain": [alone, without], "range": ["#3288bd", "#e08214"]},
                        "legend": {"orient": "top"},
                    },
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "x": {"field": "lo", "type": "quantitative", "title": title},
                    "x2": {"field": "hi"},
                },
            },
        ],
    });
    let whole = 100.0 * (metric.after / metric.before - 1.0);
    let about = format!(
        "From {} to {} it changes by {} %. A patch that carries this does the same when added alone, and \
         undoes it when taken away; thin lines are 95 % confidence intervals.",
        a.before,
        a.after,
        short(whole)
    );
    chart(
        format!("ablation-{}", index + 1),
        &format!("Which change carries it: {}", metric.name),
        &about,
        spec,
    )
}

/// Change in per cent with its interval.
fn change(effect: &Effect) -> Option<(f64, f64, f64)> {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let value = percent(effect.ratio?);
    let ci = effect
        .ci95
        .map_or((value, value), |ci| (percent(ci.lo), percent(ci.hi)));
    Some((value, ci.0, ci.1))
}

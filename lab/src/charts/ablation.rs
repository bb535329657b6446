//! Which change carries the gain, as bars.

use super::Chart;
use crate::ablate::{Ablation, Effect, Metric};
use coldset_report::charts::spec::{chart, short, Data, WIDTH};
use serde_json::json;

/// Most charts.
const CHARTS_MAX: usize = 6;

/// Beyond this ratio, or its inverse, the axis is logarithmic.
const MANYFOLD: f64 = 4.0;

/// One chart for each metric that changes at all.
#[must_use]
pub fn ablation(a: &Ablation) -> Vec<Chart> {
    let changing = a.metrics.iter().filter(|m| m.changes);
    let charts = changing.enumerate().take(CHARTS_MAX);
    charts.map(|(i, metric)| one(a, i, metric)).collect()
}

fn one(a: &Ablation, index: usize, metric: &Metric) -> Chart {
    // Where a change is manyfold, it would flatten all others: then on a logarithmic axis.
    let ratios = || metric.effects.iter().flat_map(|(a, t)| [a.ratio, t.ratio]);
    let log = ratios()
        .flatten()
        .any(|r| !(1.0 / MANYFOLD..=MANYFOLD).contains(&r))
        && ratios().flatten().all(|r| r > 0.0);
    let columns = ["change", "how", "value", "lo", "hi"];
    let mut table = Data::new(&columns, &["value", "lo", "hi"]);
    let alone = format!("added alone to {}", a.before);
    let without = format!("taken from {}", a.after);
    let mut order = Vec::new();
    for (part, (added, taken)) in a.parts.iter().zip(&metric.effects) {
        let name = part.label();
        for (how, effect) in [(&alone, added), (&without, taken)] {
            if let Some((value, lo, hi)) = change(effect, log) {
                table.row(&[name.as_str(), how, &short(value), &short(lo), &short(hi)]);
            }
        }
        order.push(name);
    }
    let title = if log {
        format!(
            "{} relative to {} or {}, % (logarithmic)",
            metric.counter, a.before, a.after
        )
    } else {
        format!("change of {}, %", metric.counter)
    };
    let mut x = json!({"field": "value", "type": "quantitative", "title": title});
    if log {
        x["scale"] = json!({"type": "log"});
    }
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
    let mut spec = spec;
    if log {
        spec["layer"][0]["encoding"]["x2"] = json!({"datum": 100});
    }
    let whole = match metric.before {
        0.0 => format!("from 0 to {}", short(metric.after)),
        before => format!(
            "to {} % of what it was",
            short(100.0 * metric.after / before)
        ),
    };
    let intervals = match a.result.seeds.len() {
        1 => "of one seed, so there are no intervals",
        _ => "thin lines are 95 % confidence intervals",
    };
    let about = format!(
        "From {} to {} it changes {whole}. A patch that carries this does the same when added alone, and \
         undoes it when taken away; {intervals}.",
        a.before, a.after
    );
    chart(
        format!("ablation-{}", index + 1),
        &format!("Which change carries it: {}", metric.name),
        &about,
        spec,
    )
}

/// Change in per cent with its interval; on a logarithmic axis what is left of 100 %.
fn change(effect: &Effect, log: bool) -> Option<(f64, f64, f64)> {
    let percent = |ratio: f64| 100.0 * if log { ratio } else { ratio - 1.0 };
    let ratio = effect.ratio?;
    let (lo, hi) = effect.ci95.map_or((ratio, ratio), |ci| (ci.lo, ci.hi));
    let lo = if log { lo.max(ratio / 100.0) } else { lo };
    Some((percent(ratio), percent(lo), percent(hi)))
}

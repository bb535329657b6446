//! What the claims measure, as bars with intervals beside the variant that stands for before.

use super::spec::{chart, colour, drawn, not_drawn, short, Chart, Data, WIDTH};
use crate::{Direction, ExperimentResult, Published, Subject};
use serde_json::json;

/// Beyond this, per cent, a bar would flatten all others: it goes to a chart of its own.
const LARGE: f64 = 400.0;
/// Most measures of a chart.
const MEASURES_MAX: usize = 14;
/// Counters shown of an experiment without claims.
const UNCLAIMED: usize = 6;

/// One measure: a counter, its name, and the published ratio.
struct Measure {
    name: String,
    counter: String,
    published: Option<f64>,
}

/// Counters that claims compare or name, in the order of the claims.
fn list(result: &ExperimentResult, base: &str) -> Vec<Measure> {
    let mut list: Vec<Measure> = Vec::new();
    let mut add = |name: String, counter: &str, published| {
        if !list.iter().any(|m| m.counter == counter) {
            list.push(Measure {
                name,
                counter: counter.into(),
                published,
            });
        }
    };
    for claim in &result.claims {
        match &claim.subject {
            Subject::Ratio { before, after } if before.counter == after.counter => {
                let published = match claim.published {
                    Some(Published::Number(x)) => Some(x),
                    Some(Published::Pair { before, after }) => Some(after / before),
                    _ => None,
                };
                // A ratio against another variant says nothing about this one.
                let published = published.filter(|_| before.variant == base);
                let better = match claim.direction {
                    Direction::HigherIsBetter => " \u{2191}",
                    Direction::LowerIsBetter => " \u{2193}",
                    Direction::Neutral => "",
                };
                let name = if before.variant == base {
                    format!("{}{better}", claim.name)
                } else {
                    after.counter.clone()
                };
                add(name, &after.counter, published);
            }
            Subject::Ratio { after, .. } | Subject::Difference { after, .. } => {
                add(after.counter.clone(), &after.counter, None);
            }
            Subject::Value(term) => add(term.counter.clone(), &term.counter, None),
            Subject::Derived | Subject::Predicate => {}
        }
    }
    if list.is_empty() {
        let counters = result.variants.values().next().into_iter().flatten();
        let some = counters.filter(|(_, s)| s.mean.as_f64() != 0.0);
        list.extend(some.take(UNCLAIMED).map(|(counter, _)| Measure {
            name: counter.clone(),
            counter: counter.clone(),
            published: None,
        }));
    }
    list
}

/// One chart, and a second one with a logarithmic axis for what changes manyfold.
pub fn measures(result: &ExperimentResult) -> Vec<Chart> {
    let all: Vec<String> = result.variants.keys().cloned().collect();
    let variants = drawn(&all);
    let Some(base) = variants.first() else {
        return Vec::new();
    };
    if variants.len() < 2 {
        return Vec::new();
    }
    let columns = ["measure", "variant", "value", "lo", "hi", "published"];
    let numbers = ["value", "lo", "hi", "published"];
    let mut small = (Data::new(&columns, &numbers), 0, false);
    let mut large = (Data::new(&columns, &numbers), 0, false);
    let mut of_nothing: Vec<String> = Vec::new();
    for measure in list(result, base) {
        let of = |v: &String| result.variants[v].get(&measure.counter);
        let whole = of(base).map_or(0.0, |s| s.mean.as_f64());
        if whole <= 0.0 {
            of_nothing.push(measure.name);
            continue;
        }
        let percent = |x: f64| 100.0 * x / whole;
        let summaries: Vec<_> = variants.iter().filter_map(|v| Some((v, of(v)?))).collect();
        let most = summaries.iter().map(|(_, s)| percent(s.mean.as_f64()));
        let most = most.fold(measure.published.unwrap_or(0.0) * 100.0, f64::max);
        // A logarithmic axis has no zero.
        let positive = summaries.iter().all(|(_, s)| s.mean.as_f64() > 0.0);
        let least = summaries.iter().map(|(_, s)| percent(s.mean.as_f64()));
        let least = least.fold(f64::INFINITY, f64::min);
        let manyfold = (most > LARGE || least < 1e4 / LARGE) && positive;
        let to = if manyfold { &mut large } else { &mut small };
        if to.1 >= MEASURES_MAX {
            continue;
        }
        to.1 += 1;
        for (variant, summary) in summaries {
            let mean = summary.mean.as_f64();
            let (lo, hi) = summary.ci95.map_or((mean, mean), |ci| (ci.lo, ci.hi));
            let floor = if manyfold { mean / 100.0 } else { 0.0 };
            let last = variants.last() == Some(variant);
            let published = measure.published.filter(|_| last);
            to.2 |= published.is_some();
            to.0.row(&[
                measure.name.clone(),
                variant.clone(),
                short(percent(mean)),
                short(percent(lo.max(floor))),
                short(percent(hi)),
                published.map_or_else(String::new, |x| short(x * 100.0)),
            ]);
        }
    }
    let mut charts = Vec::new();
    let tables = [("measures", small, false), ("measures-large", large, true)];
    for (id, (table, rows, published), log) in tables {
        if rows > 0 {
            let seeds = result.seeds.len();
            let mut chart = bars(id, table, published, log, &variants, seeds);
            chart.about += &not_drawn(&all, &variants);
            charts.push(chart);
        }
    }
    if let (Some(first), false) = (charts.first_mut(), of_nothing.is_empty()) {
        let names = of_nothing.join(", ");
        first.about +=
            &format!(" Without a bar, for nothing is relative to 0 with {base}: {names}.");
    }
    charts
}

fn bars(
    id: &str,
    table: Data,
    published: bool,
    log: bool,
    variants: &[String],
    seeds: usize,
) -> Chart {
    let base = &variants[0];
    let title = format!("relative to the mean of {base}, %");
    let scale = if log {
        json!({"type": "log"})
    } else {
        json!({"zero": true})
    };
    let y = json!({
        "field": "measure", "type": "nominal", "sort": null, "title": "measure",
        "axis": {"labelLimit": 230, "titlePadding": 14},
    });
    let offset = json!({"field": "variant", "sort": variants});
    let mut layers = vec![
        json!({
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "x": {"field": "value", "type": "quantitative", "title": title, "scale": scale},
                "color": colour(variants),
                "tooltip": [
                    {"field": "measure"}, {"field": "variant"},
                    {"field": "value", "title": "%"},
                    {"field": "lo", "title": "95 % from"}, {"field": "hi", "title": "to"},
                ],
            },
        }),
        json!({
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"x": {"field": "lo", "type": "quantitative", "title": title}, "x2": {"field": "hi"}},
        }),
    ];
    if log {
        layers[0]["encoding"]["x2"] = json!({"datum": 100});
    }
    if published {
        layers.push(json!({
            "transform": [{"filter": "isValid(datum.published) && datum.published > 0"}],
            "mark": {"type": "point", "shape": "diamond", "size": 70, "filled": false, "strokeWidth": 1.8},
            "encoding": {
                "x": {"field": "published", "type": "quantitative", "title": title},
                "tooltip": [{"field": "measure"}, {"field": "published", "title": "published, %"}],
            },
        }));
    }
    let figures = match seeds {
        1 => format!("{base} is 100 %; of one seed, so there is no interval."),
        _ => format!(
            "Means over the seeds, {base} being 100 %; the thin line through the end of a bar is the 95 % \
             confidence interval."
        ),
    };
    let mut about = figures + " \u{2191}: more is better, \u{2193}: less is better.";
    if published {
        about += " A diamond, at the last variant, is the change that was published, from before to after.";
    }
    if log {
        about += " Logarithmic axis: these change manyfold.";
    }
    let spec = json!({
        "data": table.data(),
        "width": WIDTH - 220,
        "height": {"step": 13},
        "encoding": {"y": y, "yOffset": offset},
        "layer": layers,
    });
    let title = if log {
        "What changes manyfold"
    } else {
        "What the claims measure"
    };
    chart(id, title, &about, spec)
}

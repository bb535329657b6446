//! Distributions of latency: how many operations took longer than a time.

use super::spec::{axis, chart, colour, drawn, not_drawn, short, Chart, Data, WIDTH};
use crate::RunResult;
use indexmap::IndexMap;
use serde_json::json;
use std::collections::BTreeMap;

/// Most charts.
const CHARTS_MAX: usize = 4;

/// Units for times, by what half of the operations stay below.
const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("\u{b5}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// One chart for each distribution, all seeds together.
pub fn latency(runs: &[RunResult], variants: &[String]) -> Vec<Chart> {
    let mut names: IndexMap<&str, IndexMap<&str, BTreeMap<u64, u64>>> = IndexMap::new();
    for run in runs {
        for (name, cells) in &run.histograms {
            let all = names
                .entry(name)
                .or_default()
                .entry(&run.variant)
                .or_default();
            for &(end, count) in cells {
                *all.entry(end).or_default() += count;
            }
        }
    }
    names
        .iter()
        .take(CHARTS_MAX)
        .map(|(name, by_variant)| one(name, by_variant, variants))
        .collect()
}

fn one(name: &str, by_variant: &IndexMap<&str, BTreeMap<u64, u64>>, variants: &[String]) -> Chart {
    let middle = by_variant.values().next().and_then(median).unwrap_or(1);
    let (unit, ns) = UNITS
        .iter()
        .rev()
        .find(|u| middle >= u.1)
        .unwrap_or(&UNITS[0]);
    let mut table = Data::new(&["t", "share", "variant"], &["t", "share"]);
    let shown = drawn(variants);
    for variant in &shown {
        let Some(cells) = by_variant.get(variant.as_str()) else {
            continue;
        };
        let total: u64 = cells.values().sum();
        let mut slower = total;
        for (&end, count) in cells {
            slower -= count;
            // The slowest have nothing above them, and a logarithmic axis no zero.
            if slower > 0 && end > 0 {
                let share = 100.0 * slower as f64 / total as f64;
                let at = end as f64 / *ns as f64;
                table.row(&[&short(at), &short(share), variant]);
            }
        }
    }
    let mut x = axis("t", &format!("{name}, {unit} (logarithmic)"));
    x["scale"] = json!({"type": "log"});
    let mut y = axis("share", "slower than that, % of all (logarithmic)");
    y["scale"] = json!({"type": "log"});
    let spec = json!({
        "data": table.data(),
        "width": WIDTH,
        "height": 220,
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6},
        "encoding": {"x": x, "y": y, "color": colour(&shown)},
    });
    let about =
        "How many operations took longer than a time: 1 % is the 99th percentile, 0.1 % the \
        99.9th. The further left a line, the faster; the tail is at the bottom right."
            .to_owned()
            + &not_drawn(variants, &shown);
    chart(
        format!("latency-{name}"),
        &format!("Distribution of times: {name}"),
        &about,
        spec,
    )
}

fn median(cells: &BTreeMap<u64, u64>) -> Option<u64> {
    let total: u64 = cells.values().sum();
    let mut seen = 0;
    cells
        .iter()
        .find(|(_, &count)| {
            seen += count;
            2 * seen >= total
        })
        .map(|(&end, _)| end)
}

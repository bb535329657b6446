//! Charts of replays.

use super::{curves, Chart, CurveLine};
use crate::runner::{show_pages, ReplayTable};
use coldset_report::charts::over_accesses;

/// Charts of a trace over variants and limits: miss ratios beside the exact curves, generations and
/// rates over the accesses.
#[must_use]
pub fn replay(tables: &[ReplayTable]) -> Vec<Chart> {
    let Some(first) = tables.first() else {
        return Vec::new();
    };
    let variants: Vec<String> = first.result.variants.keys().cloned().collect();
    let mut all: Vec<CurveLine> = first.curves.as_ref().clone();
    for table in tables {
        for (variant, counters) in &table.result.variants {
            // Whoever was killed has none.
            if let Some(ratio) = counters.get("miss_ratio") {
                all.push(CurveLine {
                    name: variant.clone(),
                    points: vec![(table.memory.pages, ratio.mean.as_f64())],
                    error: None,
                });
            }
        }
    }
    let mut chart = curves(&all);
    chart.about +=
        " The curves of exact LRU and OPT are computed from the trace; a mark is a variant \
                    under a limit that was replayed.";
    let mut charts = vec![chart];
    let part = |table: &ReplayTable| match tables.len() {
        1 => String::new(),
        _ => format!("memory {}", show_pages(table.memory.pages)),
    };
    // A limit that was given twice is one part.
    let is_first = |(i, table): &(usize, &ReplayTable)| {
        let earlier = &tables[..*i];
        earlier.iter().all(|t| t.memory.pages != table.memory.pages)
    };
    let distinct = tables.iter().enumerate().filter(is_first);
    let parts: Vec<_> = distinct.map(|(_, t)| (part(t), &t.series)).collect();
    charts.extend(over_accesses(&variants, &parts));
    charts
}

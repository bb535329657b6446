//! Generations over time as a heat map, variants side by side on one scale.

use super::frame::{Frame, Lines};
use super::over_time::about;
use super::spec::{chart, short, Table, WIDTH};
use super::topics::{LISTS, PLAIN_LISTS};
use super::Chart;
use serde_json::json;

/// Columns of the map.
const BINS: usize = 60;
/// Variants side by side.
const ABREAST: usize = 4;
/// Height of a list, pixels.
const ROW: usize = 22;

const ABOUT: &str = "Pages in each generation of all memcgs together (active and inactive list where \
    there are no generations); the oldest generation, at the bottom of each type, is evicted from. \
    Bright cells hold most of the memory: a bright youngest generation is memory that reclaim takes \
    for hot.";

/// One map for each part.
pub fn lists(lines: &Lines<'_>, frame: &Frame) -> Vec<Chart> {
    let one = |part: &String| map(part, lines, frame);
    lines.parts.keys().filter_map(one).collect()
}

fn map(part: &str, lines: &Lines<'_>, frame: &Frame) -> Option<Chart> {
    let names = &lines.parts[part];
    let mut table = Table::new(
        &["from", "to", "pages", "variant", "list"],
        &["from", "to", "pages"],
    );
    let mut rows: Vec<&str> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    // Before and after must be among them.
    let all = lines.variants.len();
    let chosen = (0..all).filter(|&i| i + 1 < ABREAST || i + 1 == all);
    for variant in chosen.map(|i| lines.variants[i].as_str()) {
        let has =
            |(name, _): &&(&str, &str)| names.get(name).is_some_and(|v| v.contains_key(variant));
        let generations: Vec<_> = LISTS.iter().filter(has).collect();
        let lists = if generations.is_empty() {
            PLAIN_LISTS.iter().filter(has).collect()
        } else {
            generations
        };
        for &&(name, label) in &lists {
            let binned = frame.bin(part, BINS, &names[name][variant], false);
            for (k, pages) in binned.values.iter().enumerate() {
                let (from, to) = (frame.shown(part, BINS, k), frame.shown(part, BINS, k + 1));
                table.row(&[
                    &short(from),
                    &short(to),
                    &format!("{pages:.0}"),
                    variant,
                    label,
                ]);
            }
            if !rows.contains(&label) {
                rows.push(label);
            }
        }
        if !lists.is_empty() {
            columns.push(variant);
        }
    }
    if table.is_empty() {
        return None;
    }
    let order = LISTS.iter().chain(PLAIN_LISTS).map(|l| l.1);
    let order: Vec<&str> = order.filter(|l| rows.contains(l)).collect();
    let spec = json!({
        "data": table.data(),
        "facet": {"column": {
            "field": "variant",
            "type": "nominal",
            "title": null,
            "sort": columns,
            "header": {"labelFontWeight": "bold"},
        }},
        "spec": {
            "width": (WIDTH - 60) / columns.len() as u64,
            "height": order.len() * ROW,
            "mark": {"type": "rect", "strokeWidth": 0},
            "encoding": {
                "x": {
                    "field": "from", "type": "quantitative", "bin": "binned",
                    "title": frame.title, "axis": {"grid": false, "tickCount": 5},
                },
                "x2": {"field": "to"},
                "y": {
                    "field": "list", "type": "nominal", "sort": order,
                    "scale": {"domain": order}, "title": "list (pages of a type, by age)",
                },
                "color": {
                    "field": "pages", "type": "quantitative", "title": "pages",
                    "scale": {"scheme": "viridis", "domainMin": 0},
                    "legend": {"orient": "bottom", "direction": "horizontal", "gradientLength": 240},
                },
            },
        },
    });
    let (id, title) = if part.is_empty() {
        ("generations".to_owned(), "Generations over time".to_owned())
    } else {
        (
            format!("generations-{part}"),
            format!("Generations over time, {part}"),
        )
    };
    Some(chart(id, &title, &about(ABOUT, lines), spec))
}

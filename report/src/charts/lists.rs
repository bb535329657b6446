//! Generations over time as a heat map, variants side by side on one scale.

use super::frame::{Frame, Lines};
use super::over_time::about;
use super::spec::{chart, ends, short, Chart, Data, WIDTH};
use super::topics::{LISTS, PLAIN_LISTS};
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

/// The type of pages of a list: `gen0_file` holds `file`.
fn kind(name: &str) -> &str {
    name.rsplit_once('_').map_or(name, |(_, kind)| kind)
}

fn map(part: &str, lines: &Lines<'_>, frame: &Frame) -> Option<Chart> {
    let names = &lines.parts[part];
    let mut table = Data::new(
        &["from", "to", "pages", "variant", "list"],
        &["from", "to", "pages"],
    );
    let mut rows: Vec<&str> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    let types: Vec<&str> = LISTS
        .iter()
        .chain(PLAIN_LISTS)
        .filter(|l| names.contains_key(l.0))
        .map(|l| kind(l.0))
        .collect();
    let chosen = ends(&lines.variants, ABREAST);
    for variant in chosen.iter().map(String::as_str) {
        let has = |name: &str| names.get(name).is_some_and(|v| v.contains_key(variant));
        let generations = LISTS.iter().any(|l| has(l.0));
        let all = if generations { LISTS } else { PLAIN_LISTS };
        if !all.iter().any(|l| has(l.0)) {
            continue;
        }
        // All lists of a type that any variant has pages of: an empty one is shown as empty.
        for &(name, label) in all.iter().filter(|l| types.contains(&kind(l.0))) {
            let own = names.get(name).and_then(|v| v.get(variant));
            let any = all.iter().find_map(|l| names.get(l.0)?.get(variant));
            let Some(runs) = own.or(any) else { continue };
            let binned = frame.bin(part, BINS, runs, false);
            for (k, pages) in binned.values.iter().enumerate() {
                let pages = if own.is_some() { *pages } else { 0.0 };
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
        columns.push(variant);
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
                    "title": frame.title, "axis": {"grid": false, "tickCount": 5, "labelOverlap": "greedy", "labelSeparation": 8},
                },
                "x2": {"field": "to"},
                "y": {
                    "field": "list", "type": "nominal", "sort": order,
                    "scale": {"domain": order}, "title": "list (by age)",
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
    Some(chart(id, &title, &about(ABOUT, lines, &chosen), spec))
}

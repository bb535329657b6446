//! Miss-ratio curves.

use super::spec::{axis, chart, short, Chart, Data, WIDTH};
use serde_json::json;

/// One line of a miss-ratio curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveLine {
    /// Policy.
    pub name: String,
    /// (memory in pages, misses / accesses), ascending. A single point is drawn as a mark.
    pub points: Vec<(u64, f64)>,
    /// Greatest absolute error of a ratio, where it was sampled.
    pub error: Option<f64>,
}

/// Most points of a line; further ones are thinned out.
const POINTS_MAX: usize = 200;

/// Marks, so that those of equal ratios can be told apart.
const SHAPES: [&str; 6] = [
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
];

/// Miss ratio over memory: a line for each policy, a mark where a line has one point only, a band
/// where it has an error.
#[must_use]
pub fn curves(lines: &[CurveLine]) -> Chart {
    let columns = ["memory", "ratio", "lo", "hi", "policy", "kind"];
    let mut table = Data::new(&columns, &["memory", "ratio", "lo", "hi"]);
    let mut names: Vec<&str> = Vec::new();
    let mut without: Vec<String> = Vec::new();
    for line in lines {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
        let kind = if line.points.len() > 1 {
            "line"
        } else {
            "mark"
        };
        if let ([(pages, ratio)], "mark") = (line.points.as_slice(), kind) {
            if *ratio <= 0.0 {
                let mib = short(*pages as f64 / 256.0);
                without.push(format!("{} with {mib} MiB", line.name));
            }
        }
        let step = line.points.len().div_ceil(POINTS_MAX).max(1);
        let last = line.points.len().saturating_sub(1);
        for (i, &(pages, ratio)) in line.points.iter().enumerate() {
            // A logarithmic axis has no zero.
            if (i % step != 0 && i != last) || ratio <= 0.0 {
                continue;
            }
            let error = line.error.unwrap_or(0.0);
            // With read-ahead more pages are read than there are accesses. An estimate of a ratio ends at 1.
            let most = ratio.max(1.0);
            let percent = |x: f64| short(100.0 * x.clamp(0.0, most));
            // 256 pages are a MiB.
            table.row(&[
                &short(pages as f64 / 256.0),
                &percent(ratio),
                &percent((ratio - error).max(ratio / 100.0)),
                &percent(ratio + error),
                &line.name,
                kind,
            ]);
        }
    }
    let colour = json!({
        "field": "policy", "type": "nominal", "title": "policy", "sort": names,
        "scale": {"domain": names, "scheme": "tableau10"},
        "legend": {"orient": "right"},
    });
    let shapes: Vec<&str> = SHAPES.iter().cycle().take(names.len()).copied().collect();
    let shape = json!({
        "field": "policy", "type": "nominal", "title": "policy", "sort": names,
        "scale": {"domain": names, "range": shapes},
        "legend": {"orient": "right"},
    });
    let x = axis("memory", "memory, MiB");
    let log = |field: &str| {
        let mut y = axis(field, "misses, % of all accesses (logarithmic)");
        y["scale"] = json!({"type": "log"});
        y
    };
    let y = log("ratio");
    let mut layers = Vec::new();
    if lines.iter().any(|l| l.error.is_some_and(|e| e > 0.0)) {
        layers.push(json!({
            "transform": [{"filter": "datum.hi > datum.lo"}],
            "mark": {"type": "area", "opacity": 0.2},
            "encoding": {
                "x": x, "y": log("lo"), "y2": {"field": "hi"}, "color": colour,
            },
        }));
    }
    let tooltip = json!([
        {"field": "policy"},
        {"field": "memory", "title": "memory, MiB"},
        {"field": "ratio", "title": "misses, %"},
    ]);
    layers.push(json!({
        "transform": [{"filter": "datum.kind == 'line'"}],
        "mark": {"type": "line", "strokeWidth": 1.8},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
    }));
    layers.push(json!({
        "transform": [{"filter": "datum.kind == 'mark'"}],
        "mark": {"type": "point", "filled": false, "size": 70, "strokeWidth": 2, "opacity": 1},
        "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tooltip},
    }));
    let spec = json!({
        "data": table.data(),
        "width": WIDTH - 120,
        "height": 280,
        "layer": layers,
    });
    let mut about =
        "Share of the accesses that miss, over the size of the memory. Lower is better; no policy \
        can be below OPT, which knows the future."
            .to_owned();
    if !without.is_empty() {
        let names = without.join(", ");
        about += &format!(" Without a mark, for they miss nothing: {names}.");
    }
    chart("miss-ratio", "Miss-ratio curves", &about, spec)
}

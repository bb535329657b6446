//! Rates and levels over time, all variants on one axis.

use super::frame::{Frame, Lines, BINS};
use super::spec::{axis, chart, colour, not_drawn, short, Chart, Data, WIDTH};
use super::topics::{Kind, Topic, TOPICS};
use serde_json::{json, Value};

/// The run that the others are compared with.
const MAIN: &str = "main run";

/// One chart a topic that has values.
pub fn over_time(lines: &Lines<'_>, frame: &Frame) -> Vec<Chart> {
    TOPICS
        .iter()
        .filter_map(|topic| one(topic, lines, frame))
        .collect()
}

fn one(topic: &Topic, lines: &Lines<'_>, frame: &Frame) -> Option<Chart> {
    let mut table = Data::new(&["t", "v", "variant", "series", "part"], &["t", "v"]);
    let mut shown: Vec<&str> = Vec::new();
    let mut parts: Vec<&str> = Vec::new();
    for (part, names) in &lines.parts {
        // The part without a name, where there are others.
        let label_of_part = if part.is_empty() { MAIN } else { part };
        for &(name, label) in topic.series {
            let Some(by_variant) = names.get(name) else {
                continue;
            };
            for variant in &lines.variants {
                let Some(runs) = by_variant.get(variant.as_str()) else {
                    continue;
                };
                let binned = frame.bin(part, BINS, runs, topic.kind != Kind::Level);
                for (at, v) in binned.at.iter().zip(&binned.values) {
                    let v = match topic.kind {
                        // The rate is in ns for each `per`.
                        Kind::Share => v / 1e9 * topic.factor,
                        _ => v * topic.factor,
                    };
                    table.row(&[&short(*at), &short(v), variant, label, label_of_part]);
                }
            }
            if !shown.contains(&label) {
                shown.push(label);
            }
            if !parts.contains(&label_of_part) {
                parts.push(label_of_part);
            }
        }
    }
    if table.is_empty() {
        return None;
    }
    let unit = match topic.kind {
        Kind::Level => topic.unit.to_owned(),
        _ => format!("{} {}", topic.unit, frame.per_title),
    };
    let mut encoding = json!({
        "x": axis("t", frame.title),
        "y": axis("v", &unit),
        "color": colour(&lines.variants),
    });
    if shown.len() > 1 {
        encoding["strokeDash"] = json!({
            "field": "series",
            "type": "nominal",
            "title": null,
            "scale": {"domain": shown, "range": dashes(shown.len())},
            "legend": {"orient": "top"},
        });
    }
    let mark = json!({"type": "line", "interpolate": "monotone", "strokeWidth": 1.6, "clip": true});
    let height = if parts.len() > 1 { 130 } else { 200 };
    let plain = json!({"width": WIDTH, "height": height, "mark": mark, "encoding": encoding});
    let spec = by_part(table.data(), plain, &parts);
    Some(chart(
        topic.id,
        topic.title,
        &about(topic.about, lines, &lines.variants),
        spec,
    ))
}

fn dashes(n: usize) -> Vec<Value> {
    [
        json!([1, 0]),
        json!([5, 3]),
        json!([1.5, 2.5]),
        json!([8, 2, 1.5, 2]),
        json!([3, 1]),
    ]
    .into_iter()
    .take(n)
    .collect()
}

/// One chart below the other for each part, or the only one.
pub fn by_part(data: Value, plain: Value, parts: &[&str]) -> Value {
    if parts.len() < 2 {
        let mut spec = json!({"data": data});
        if let (Some(to), Value::Object(mut from)) = (spec.as_object_mut(), plain) {
            to.append(&mut from);
        }
        return spec;
    }
    json!({
        "data": data,
        "facet": {"row": {
            "field": "part",
            "type": "nominal",
            "title": null,
            "sort": parts,
            "header": {"labelOrient": "top", "labelAnchor": "start", "labelFontWeight": "bold"},
        }},
        "spec": plain,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    })
}

/// The sentence with what was averaged and left out.
pub fn about(text: &str, lines: &Lines<'_>, drawn: &[String]) -> String {
    let mut out = text.to_owned();
    if lines.seeds() > 1 {
        out += &format!(" Mean over {} seeds.", lines.seeds());
    }
    if lines.hidden > 0 {
        out += &format!(" {} further parts are not drawn.", lines.hidden);
    }
    out + &not_drawn(lines.all, drawn)
}

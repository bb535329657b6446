//! Heat of pages over accesses.

use super::spec::{axis, chart, short, Chart, Data, WIDTH};
use serde_json::json;

/// Rectangles coloured by a count: from and to on both axes (accesses, of so many in `all`; pages), and the count.
#[must_use]
pub fn heat_map(all: u64, cells: impl Iterator<Item = ([u64; 2], [u64; 2], u64)>) -> Chart {
    let columns = ["from", "to", "low", "high", "uses"];
    let mut table = Data::new(&columns, &columns);
    for ([from, to], [low, high], uses) in cells {
        let percent = |at: u64| short(100.0 * at as f64 / all.max(1) as f64);
        let mib = |pages: u64| short(pages as f64 / 256.0);
        table.row(&[
            &percent(from),
            &percent(to),
            &mib(low),
            &mib(high),
            &uses.to_string(),
        ]);
    }
    let mut y = axis("low", "pages of the trace, MiB");
    y["scale"] = json!({"nice": false, "zero": true});
    let mut x = axis("from", "accesses, %");
    x["scale"] = json!({"nice": false});
    let spec = json!({
        "data": table.data(),
        "width": WIDTH - 120,
        "height": 280,
        "mark": {"type": "rect"},
        "encoding": {
            "x": x, "x2": {"field": "to"},
            "y": y, "y2": {"field": "high"},
            "color": {
                "field": "uses", "type": "quantitative", "title": "uses",
                "scale": {"type": "log", "scheme": "viridis"},
            },
            "tooltip": [
                {"field": "from", "title": "from, % of the accesses"},
                {"field": "low", "title": "from, MiB"},
                {"field": "uses"},
            ],
        },
    });
    let about = "How often pages are used (colour, logarithmic), by address and time. A line across is memory in use all \
        the time; what is empty is not used then; a slope is a scan.";
    chart("heat", "Uses of pages", about, spec)
}

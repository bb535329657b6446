//! Parts of specifications: data, axes, colours.

use serde::Serialize;
use serde_json::{json, Value};

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Short name, unique in its list; letters, digits, `-` and `_` only.
    pub id: String,
    /// Heading.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub about: String,
    /// The Vega-Lite specification.
    pub spec: Value,
}

/// The version of the language.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v5.json";
/// Width of a chart that stands alone, pixels.
pub const WIDTH: u64 = 640;
/// Before, after, and what stands between them, readable on light and dark ground.
const FIRST: &str = "#e08214";
const LAST: &str = "#3288bd";
const BETWEEN: [&str; 6] = [
    "#4dac6a", "#9970ab", "#8c8c8c", "#c05a78", "#b0a030", "#40a0a0",
];
/// Variants that a chart can tell apart.
const VARIANTS_MAX: usize = BETWEEN.len() + 2;

/// Of many variants those that charts show: as many as can be told apart, the first ones and the last, which is "after".
pub fn drawn(variants: &[String]) -> Vec<String> {
    ends(variants, VARIANTS_MAX)
}

/// At most `most` variants: the first ones and the last.
pub fn ends(variants: &[String], most: usize) -> Vec<String> {
    let all = variants.len();
    let chosen = (0..all).filter(|&i| i + 1 < most || i + 1 == all);
    chosen.map(|i| variants[i].clone()).collect()
}

/// The sentence about those of the variants that are not among the `drawn`; empty if all are.
pub fn not_drawn(all: &[String], drawn: &[String]) -> String {
    let left: Vec<&str> = all
        .iter()
        .filter(|v| !drawn.contains(v))
        .map(String::as_str)
        .collect();
    match left.is_empty() {
        true => String::new(),
        false => format!(" Not drawn: {}.", left.join(", ")),
    }
}

/// Rows of comma-separated values: a third of the size of the same data as objects.
pub struct Data {
    out: csv::Writer<Vec<u8>>,
    numbers: Vec<&'static str>,
    rows: usize,
}

impl Data {
    /// With these columns; `numbers` are those that hold numbers.
    pub fn new(columns: &[&'static str], numbers: &[&'static str]) -> Self {
        let mut out = csv::Writer::from_writer(Vec::new());
        out.write_record(columns).expect("writing to memory");
        Self {
            out,
            numbers: numbers.to_vec(),
            rows: 0,
        }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let cells = cells.iter().map(AsRef::as_ref);
        self.out.write_record(cells).expect("writing to memory");
        self.rows += 1;
    }

    /// True if it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The `data` of a specification.
    pub fn data(self) -> Value {
        let bytes = self.out.into_inner().expect("writing to memory");
        let text = String::from_utf8(bytes).expect("made of text");
        let parse: serde_json::Map<String, Value> = self
            .numbers
            .iter()
            .map(|&n| (n.to_owned(), "number".into()))
            .collect();
        json!({"values": text, "format": {"type": "csv", "parse": parse}})
    }
}

/// Four significant digits.
pub fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0".into();
    }
    let digits = 3 - x.abs().log10().floor() as i32;
    if digits <= 0 {
        return format!("{x:.0}");
    }
    let text = format!("{x:.*}", digits.min(12) as usize);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-" {
        "0".into()
    } else {
        text.into()
    }
}

/// The colour encoding of variants, the same in all charts of a result.
pub fn colour(variants: &[String]) -> Value {
    json!({
        "field": "variant",
        "type": "nominal",
        "title": "variant",
        "scale": {"domain": variants, "range": palette(variants.len())},
        "legend": {"orient": "top"},
    })
}

/// Colours of so many variants in the order of the runs.
pub fn palette(variants: usize) -> Vec<&'static str> {
    let between = BETWEEN.iter().cycle().take(variants.saturating_sub(2));
    let mut colours = vec![FIRST];
    colours.extend(between);
    if variants > 1 {
        colours.push(LAST);
    }
    colours
}

/// A number on an axis.
pub fn axis(field: &str, title: &str) -> Value {
    json!({"field": field, "type": "quantitative", "title": title})
}

/// `name` as a part of the id of a chart.
#[must_use]
pub fn id(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(safe).collect()
}

/// A chart of a specification without schema.
pub fn chart(id: impl Into<String>, title: &str, about: &str, mut spec: Value) -> Chart {
    let id = self::id(&id.into());
    let mut whole = json!({"$schema": SCHEMA});
    if let (Some(to), Some(from)) = (whole.as_object_mut(), spec.as_object_mut()) {
        to.append(from);
    }
    Chart {
        id,
        title: title.into(),
        about: about.into(),
        spec: whole,
    }
}

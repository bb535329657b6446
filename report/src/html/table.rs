//! Tables of a page.

use crate::human::human;
use crate::{CounterSummary, Number};
use maud::{html, Markup};

/// A cell. Numbers know their exact value and where it is in the JSON of the page.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    class: &'static str,
    value: Option<Number>,
    pointer: String,
}

impl Cell {
    /// Words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A name as one writes it in commands.
    #[must_use]
    pub fn code(text: impl Into<String>) -> Self {
        Self {
            class: "code",
            ..Self::text(text)
        }
    }

    /// A figure as it should be shown, without a value of its own.
    #[must_use]
    pub fn figure(text: impl Into<String>) -> Self {
        Self {
            class: "number",
            ..Self::text(text)
        }
    }

    /// A number that stands at `pointer` (RFC 6901) in the JSON of the page, followed by `more`.
    #[must_use]
    pub fn number(shown: String, value: Number, pointer: String, more: &str) -> Self {
        Self {
            text: shown + more,
            class: "number",
            value: Some(value),
            pointer,
        }
    }

    /// A mean with its 95 % interval; `pointer` leads to the counter.
    #[must_use]
    pub fn mean(summary: Option<&CounterSummary>, pointer: &str) -> Self {
        let Some(summary) = summary else {
            return Self::figure("\u{2013}");
        };
        let mean = human(summary.mean.as_f64());
        let half = summary.ci95.map_or(0.0, |ci| ci.half_width());
        let more = if half > 0.0 {
            // As many digits as the mean has are enough, unless nothing would be left.
            let decimals = mean.split_once('.').map_or(0, |(_, digits)| digits.len());
            let step = 10f64.powi(decimals.min(9) as i32);
            let rounded = (half * step).round() / step;
            if rounded == 0.0 || rounded >= 1000.0 {
                format!(" \u{b1}{}", human(half.max(rounded)))
            } else {
                format!(" \u{b1}{rounded:.decimals$}")
            }
        } else {
            String::new()
        };
        Self::number(mean, summary.mean, format!("{pointer}/mean"), &more)
    }

    /// Coloured as good, bad or neither.
    #[must_use]
    pub fn judged(text: impl Into<String>, good: Option<bool>) -> Self {
        Self {
            class: match good {
                Some(true) => "good",
                Some(false) => "bad",
                None => "",
            },
            ..Self::text(text)
        }
    }

    /// Whether it may need several lines.
    fn is_long(&self) -> bool {
        self.text.chars().count() > 24
    }

    fn markup(&self) -> Markup {
        let value = self.value.map(|v| v.to_string());
        let pointer = (!self.pointer.is_empty()).then_some(&self.pointer);
        let class = match (self.class, self.is_long()) {
            ("", true) => "long",
            (class, _) => class,
        };
        html! {
            td class=[(!class.is_empty()).then_some(class)]
                data-value=[value] data-json=[pointer] { (self.text) }
        }
    }
}

/// Cells of a row.
pub type Row = Vec<Cell>;

/// A table; numbers stand right.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Row>,
    caption: String,
}

impl Table {
    /// Without rows yet.
    #[must_use]
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// With a heading of its own.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// True if it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn markup(&self) -> Markup {
        // A column is one of numbers if its first cell is.
        let right = |i: usize| self.rows.iter().any(|r| r[i].class == "number");
        html! {
            div class="wide" {
                table {
                    @if !self.caption.is_empty() { caption { (self.caption) } }
                    thead { tr {
                        @for (i, name) in self.columns.iter().enumerate() {
                            th scope="col" class=[right(i).then_some("number")] { (name) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr { @for cell in row { (cell.markup()) } }
                        }
                    }
                }
            }
        }
    }
}

/// A part of a JSON pointer.
pub(super) fn key(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

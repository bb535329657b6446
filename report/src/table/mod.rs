//! The one table: columns, rows of cells, and a renderer for each form it is printed in.
//!
//! | form | where |
//! |---|---|
//! | text, Markdown | [`Table::text`], `plain.rs` |
//! | CSV, JSON | [`Table::csv`], [`Table::json`], `data.rs` |
//! | HTML | `html.rs`, by the page it stands on |

mod data;
mod html;
mod plain;

pub use plain::Style;

use crate::shown::{human, SPREAD_FROM};
use crate::{CounterSummary, Number};

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a cell looks where there is more than text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Look {
    #[default]
    Words,
    Code,
    Good,
    Bad,
    /// There is no figure.
    Missing,
}

/// A cell: what is shown, and the exact value behind it if there is one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    text: String,
    /// Half the confidence interval of a mean, if it is shown.
    half: Option<f64>,
    look: Look,
    value: Option<Number>,
    pointer: String,
}

impl Cell {
    /// A name as one writes it in commands.
    #[must_use]
    pub fn code(name: impl Into<String>) -> Self {
        let look = Look::Code;
        Self {
            look,
            ..Self::from(name.into())
        }
    }

    /// Nothing was measured.
    #[must_use]
    pub fn missing() -> Self {
        let look = Look::Missing;
        Self {
            look,
            ..Self::from("-")
        }
    }

    /// Good, bad or neither.
    #[must_use]
    pub fn judged(text: impl Into<String>, good: Option<bool>) -> Self {
        let look = match good {
            Some(true) => Look::Good,
            Some(false) => Look::Bad,
            None => Look::Words,
        };
        Self {
            look,
            ..Self::from(text.into())
        }
    }

    /// A number as it is shown. It stands at `pointer` (RFC 6901) in the JSON of its page.
    #[must_use]
    pub fn number(shown: impl Into<String>, value: Number, pointer: String) -> Self {
        Self {
            value: Some(value),
            pointer,
            ..Self::from(shown.into())
        }
    }

    /// A mean, with half its 95 % confidence interval or without, which two runs do not have; `pointer` leads to the counter.
    #[must_use]
    pub fn mean(summary: Option<&CounterSummary>, interval: bool, pointer: &str) -> Self {
        let Some(summary) = summary else {
            return Self::missing();
        };
        let shown = human(summary.mean.as_f64());
        let half = match summary.per_seed.len() {
            runs if runs >= SPREAD_FROM => summary.ci95.map(|ci| ci.half_width()),
            _ => None,
        };
        Self {
            half: half.filter(|half| interval && *half > 0.0),
            ..Self::number(shown, summary.mean, format!("{pointer}/mean"))
        }
    }

    /// What is shown, with the interval as `half` writes it beside the mean.
    fn shown(&self, half: impl Fn(&str, f64) -> String) -> String {
        match self.half {
            Some(x) => format!("{} \u{b1}{}", self.text, half(&self.text, x)),
            None => self.text.clone(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// An exact value, shown as it is.
impl From<Number> for Cell {
    fn from(value: Number) -> Self {
        Self::number(value.to_string(), value, String::new())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Number::Int(value).into()
    }
}

/// A column: its heading and where its cells stand.
type Column = (String, Align);

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    caption: String,
}

impl Table {
    /// Without rows yet.
    #[must_use]
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        let columns = columns
            .into_iter()
            .map(|(name, align)| (name.into(), align));
        Self {
            columns: columns.collect(),
            ..Self::default()
        }
    }

    /// With words in all columns.
    #[must_use]
    pub fn of_words<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self::new(columns.into_iter().map(|name| (name, Align::Left)))
    }

    /// With a heading of its own.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// True if it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

//! Tables of results that text and pages share.

use crate::shown::ratio;
use crate::table::{Align, Cell, Table};
use crate::{ClaimResult, CounterSummary, ExperimentResult, Number, Subject};
use indexmap::{IndexMap, IndexSet};
use Align::{Left, Right};

/// Counters by variant, then by name.
pub type Variants = IndexMap<String, IndexMap<String, CounterSummary>>;

/// Most variants side by side in one table.
pub const ABREAST: usize = 6;

/// What a table of counters shows.
#[derive(Debug, Clone)]
pub struct Counters<'a> {
    /// Counters, a row each.
    pub names: Vec<&'a str>,
    /// Variants, a column each.
    pub variants: Vec<&'a str>,
    /// Means carry half their confidence interval.
    pub intervals: bool,
    /// A last column with this heading: the second variant's mean over the first one's.
    pub ratio: Option<(String, &'a str, &'a str)>,
    /// Where the result stands in the JSON of the page; empty for the top.
    pub pointer: &'a str,
}

impl<'a> Counters<'a> {
    /// As a page shows them: the first variants with their intervals, the ratio of the last to the first,
    /// without counters that are 0 everywhere.
    pub fn on_page(
        all: &'a Variants,
        names: impl IntoIterator<Item = &'a str>,
        pointer: &'a str,
    ) -> Self {
        let variants: Vec<&str> = all.keys().map(String::as_str).collect();
        let ratio = match variants.as_slice() {
            [before, .., after] => Some((format!("{after} / {before}"), *before, *after)),
            _ => None,
        };
        let counted = |name: &&str| {
            let mut found = all.values().filter_map(|counters| counters.get(*name));
            found.any(|summary| summary.mean.as_f64() != 0.0)
        };
        Self {
            names: names.into_iter().filter(counted).collect(),
            variants: variants.into_iter().take(ABREAST).collect(),
            intervals: true,
            ratio,
            pointer,
        }
    }

    /// The table.
    #[must_use]
    pub fn table(&self, all: &Variants) -> Table {
        let mut columns = vec![("counter", Left)];
        columns.extend(self.variants.iter().map(|name| (*name, Right)));
        columns.extend(self.ratio.iter().map(|(name, ..)| (name.as_str(), Right)));
        let mut table = Table::new(columns);
        for &name in &self.names {
            let of = |variant: &str| all[variant].get(name);
            let mut row = vec![Cell::code(name)];
            row.extend(self.variants.iter().map(|variant| {
                let pointer = pointer(self.pointer, variant, name);
                Cell::mean(of(variant), self.intervals, &pointer)
            }));
            row.extend(self.ratio.iter().map(|(_, before, after)| {
                match (of(before), of(after)) {
                    (Some(b), Some(a)) if b.mean.as_f64() != 0.0 => {
                        ratio(a.mean.as_f64() / b.mean.as_f64())
                    }
                    _ => String::new(),
                }
                .into()
            }));
            table.row(row);
        }
        table
    }
}

/// Pointer (RFC 6901) to a counter in the JSON of a page; `place` leads to the result.
#[must_use]
pub fn pointer(place: &str, variant: &str, counter: &str) -> String {
    let (variant, counter) = (pointer_key(variant), pointer_key(counter));
    format!("{place}/variants/{variant}/{counter}")
}

/// A name as a part of such a pointer.
pub(crate) fn pointer_key(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Names of all counters, in the order in which they first appear.
#[must_use]
pub fn counter_names(variants: &Variants) -> Vec<&str> {
    let names = variants.values().flat_map(|counters| counters.keys());
    let names: IndexSet<&str> = names.map(String::as_str).collect();
    names.into_iter().collect()
}

/// The counter a claim is about.
fn counter(subject: &Subject) -> Option<&str> {
    match subject {
        Subject::Ratio { after, .. } | Subject::Difference { after, .. } => Some(&after.counter),
        Subject::Value(term) => Some(&term.counter),
        Subject::Derived | Subject::Predicate => None,
    }
}

/// The figure of a claim that stands at `place` in the JSON of the page.
fn figure(claim: &ClaimResult, shown: String, place: &str) -> Cell {
    match claim.value.filter(|_| !claim.is_condition()) {
        Some(value) => Cell::number(shown, Number::Real(value), format!("{place}/value")),
        None => shown.into(),
    }
}

/// Claims with the means of each variant, the figure and its verdict. `place` leads to the claims in the
/// JSON of the page, `of` to their result.
#[must_use]
pub fn claims(result: &ExperimentResult, claims: &[ClaimResult], place: &str, of: &str) -> Table {
    let variants: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    let variants = &variants[..variants.len().min(ABREAST)];
    let mut columns = vec![("measure", Left), ("unit", Left)];
    columns.extend(variants.iter().map(|name| (*name, Right)));
    columns.extend([
        ("figure", Right),
        ("of", Left),
        ("better", Left),
        ("published", Right),
        ("class", Left),
        ("band", Left),
        ("verdict", Left),
    ]);
    let mut table = Table::new(columns);
    for (i, claim) in claims.iter().enumerate() {
        let shown = claim.shown();
        let mut row: Vec<Cell> = vec![(&claim.name).into(), (&claim.unit).into()];
        row.extend(
            variants
                .iter()
                .map(|variant| match counter(&claim.subject) {
                    Some(counter) => {
                        let summary = result.variants[*variant].get(counter);
                        Cell::mean(summary, true, &pointer(of, variant, counter))
                    }
                    None => "".into(),
                }),
        );
        row.extend([
            figure(claim, shown.ours, &format!("{place}/{i}")),
            shown.of.into(),
            shown.better.into(),
            shown.published.into(),
            claim.class.to_string().into(),
            shown.band.into(),
            judged(claim, shown.verdict),
        ]);
        table.row(row);
    }
    table
}

/// What an experiment changes in the table of costs.
#[must_use]
pub fn deviations(result: &ExperimentResult) -> Table {
    let mut table = Table::new([
        ("cost", Left),
        ("here", Right),
        ("table", Right),
        ("why", Left),
        ("source", Left),
    ]);
    for d in &result.header.deviations {
        table.row([
            Cell::code(&d.name),
            d.value.to_string().into(),
            d.table.to_string().into(),
            d.why.as_str().into(),
            d.source.as_str().into(),
        ]);
    }
    table
}

/// The verdict; a claim that restates a parameter has none, and neither has one that cannot be in.
fn judged(claim: &ClaimResult, verdict: &str) -> Cell {
    match claim.restates.as_str() {
        "" => {
            let judged = claim.pass || claim.cannot.is_empty();
            Cell::judged(verdict, judged.then_some(claim.pass))
        }
        parameter => format!("restates {parameter}").into(),
    }
}

/// The columns of [`accepted`].
pub const ACCEPTANCE: [(&str, Align); 6] = [
    ("claim", Left),
    ("class", Left),
    ("published", Right),
    ("ours", Right),
    ("band", Left),
    ("verdict", Left),
];

/// A claim in the acceptance table; `place` leads to it in the JSON of the page.
#[must_use]
pub fn accepted(claim: &ClaimResult, place: &str) -> [Cell; 6] {
    let shown = claim.shown();
    [
        (&claim.name).into(),
        claim.class.to_string().into(),
        shown.published.into(),
        figure(claim, shown.ours, place),
        shown.band.into(),
        judged(claim, shown.verdict),
    ]
}

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
    /// As a page shows them: all variants with their intervals, many of them in several tables; in the last one the
    /// ratio of the last to the first. Without counters that are 0 everywhere.
    pub fn on_page(
        all: &'a Variants,
        names: impl IntoIterator<Item = &'a str>,
        pointer: &'a str,
    ) -> Vec<Table> {
        let variants: Vec<&str> = all.keys().map(String::as_str).collect();
        let ratio = match variants.as_slice() {
            [before, .., after] => Some((format!("{after} / {before}"), *before, *after)),
            _ => None,
        };
        let counted = |name: &&str| {
            let mut found = all.values().filter_map(|counters| counters.get(*name));
            found.any(|summary| summary.mean.as_f64() != 0.0)
        };
        let names: Vec<&str> = names.into_iter().filter(counted).collect();
        let last = variants.len().div_ceil(ABREAST);
        let some = (1..).zip(variants.chunks(ABREAST));
        let table = |(number, variants): (usize, &[&'a str])| {
            let shown = Self {
                names: names.clone(),
                variants: variants.to_vec(),
                intervals: true,
                ratio: ratio.clone().filter(|_| number == last),
                pointer,
            };
            shown.table(all)
        };
        some.map(table).collect()
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

/// Variants that stand beside the figures of claims: of many the first ones and the last. Then all others.
fn beside_claims(result: &ExperimentResult) -> (Vec<&str>, Vec<&str>) {
    let last = result.variants.len().saturating_sub(1);
    let (mut beside, mut others) = (Vec::new(), Vec::new());
    for (i, name) in result.variants.keys().enumerate() {
        match i + 1 < ABREAST || i == last {
            true => beside.push(name.as_str()),
            false => others.push(name.as_str()),
        }
    }
    (beside, others)
}

/// What a claim measures, of each of the variants.
fn means<'a>(
    result: &'a ExperimentResult,
    claim: &'a ClaimResult,
    variants: &'a [&str],
    of: &'a str,
) -> impl Iterator<Item = Cell> + 'a {
    variants
        .iter()
        .map(move |variant| match counter(&claim.subject) {
            Some(counter) => {
                let summary = result.variants[*variant].get(counter);
                Cell::mean(summary, true, &pointer(of, variant, counter))
            }
            None => "".into(),
        })
}

/// The means of the variants that [`claims`] has no room for; empty if it has all. `of` leads to the result in the JSON
/// of the page.
#[must_use]
pub fn other_means(result: &ExperimentResult, claims: &[ClaimResult], of: &str) -> Vec<Table> {
    let (_, others) = beside_claims(result);
    let table = |variants: &[&str]| {
        let columns = [("measure", Left), ("unit", Left)].into_iter();
        let mut table = Table::new(columns.chain(variants.iter().map(|name| (*name, Right))));
        for claim in claims.iter().filter(|c| counter(&c.subject).is_some()) {
            let name: [Cell; 2] = [(&claim.name).into(), (&claim.unit).into()];
            table.row(name.into_iter().chain(means(result, claim, variants, of)));
        }
        table.caption("The other variants")
    };
    others.chunks(ABREAST).map(table).collect()
}

/// Claims with the means of the variants, the figure and its verdict. `place` leads to the claims in the
/// JSON of the page, `of` to their result. Of more than six variants the means of some are in [`other_means`].
#[must_use]
pub fn claims(result: &ExperimentResult, claims: &[ClaimResult], place: &str, of: &str) -> Table {
    let (variants, _) = beside_claims(result);
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
        row.extend(means(result, claim, &variants, of));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Header, RunResult};

    /// Of twelve variants every one is in a table, with the ratio of the last to the first beside the last.
    #[test]
    fn no_variant_is_left_out() {
        let names: Vec<String> = (1..=12).map(|i| format!("variant{i}")).collect();
        let mut runs = Vec::new();
        for (value, name) in (1001u64..).zip(&names) {
            let mut run = RunResult::new(name, 1);
            run.set("ops", value);
            runs.push(run);
        }
        let judged = [Claim::ratio("throughput", "ops", "variant1", "variant12").within(0.5, 3.0)];
        let result = ExperimentResult::collect(Header::default(), &runs, &judged).unwrap();
        let counters = Counters::on_page(&result.variants, ["ops"], "");
        let mut of_claims = vec![claims(&result, &result.claims, "/claims", "")];
        of_claims.extend(other_means(&result, &result.claims, ""));
        for tables in [&counters, &of_claims] {
            let text: String = tables.iter().map(|t| t.markup().into_string()).collect();
            for (value, name) in (1001..).zip(&names) {
                let cell = format!(
                    "data-json=\"/variants/{name}/ops/mean\">1,{:03}</td>",
                    value - 1000
                );
                assert_eq!(text.matches(&cell).count(), 1, "{name}: {text}");
            }
        }
        let last = counters.last().unwrap().markup().into_string();
        assert!(
            last.contains("variant12 / variant1") && last.contains("1.011"),
            "{last}"
        );
        let judged = of_claims[0].markup().into_string();
        assert!(
            judged.contains(">variant1<") && judged.contains(">variant12<"),
            "{judged}"
        );
    }
}

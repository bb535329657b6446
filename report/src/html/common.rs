//! Sections that several kinds of pages have.

use super::page::Page;
use super::table::{key, Cell, Table};
use crate::human::ratio;
use crate::text::{band, figure, is_ratio, published, verdict};
use crate::{ClaimResult, CounterSummary, Direction, ExperimentResult, Number, Subject, Term};
use indexmap::IndexMap;

/// Variants side by side in a table.
pub const ABREAST: usize = 6;

/// The arrow of a direction.
pub fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::HigherIsBetter => "\u{2191} more",
        Direction::LowerIsBetter => "\u{2193} less",
        Direction::Neutral => "",
    }
}

/// The counter a claim is about.
fn counter(subject: &Subject) -> Option<&str> {
    let term: &Term = match subject {
        Subject::Ratio { after, .. } | Subject::Difference { after, .. } => after,
        Subject::Value(term) => term,
        Subject::Derived | Subject::Predicate => return None,
    };
    Some(&term.counter)
}

/// What a claim's figure is of.
fn of(subject: &Subject) -> String {
    match subject {
        Subject::Ratio { before, after } => format!("{} / {}", after.variant, before.variant),
        Subject::Difference { before, after } => {
            format!("{} \u{2212} {}", after.variant, before.variant)
        }
        Subject::Value(term) => term.variant.clone(),
        Subject::Derived => "computed".into(),
        Subject::Predicate => "condition".into(),
    }
}

/// The figure of a claim, with where it stands in the JSON.
pub fn claim_figure(claim: &ClaimResult, pointer: &str) -> Cell {
    if claim.subject == Subject::Predicate {
        let seeds = claim.per_seed.len();
        let holds = seeds - claim.failing_seeds.len();
        return Cell::figure(format!("holds for {holds}/{seeds}"));
    }
    let Some(value) = claim.value else {
        return Cell::figure("n/a");
    };
    let whole = figure(claim);
    let (shown, more) = match whole.split_once(' ') {
        Some((shown, more)) => (shown.to_owned(), format!(" {more}")),
        None => (whole, String::new()),
    };
    Cell::number(
        shown,
        Number::Real(value),
        format!("{pointer}/value"),
        &more,
    )
}

/// The verdict of a claim, coloured.
pub fn claim_verdict(claim: &ClaimResult) -> Cell {
    Cell::judged(verdict(claim.pass), Some(claim.pass))
}

/// Before and after: the means of each variant, and the figure with its verdict. `pointer` leads to
/// the experiment in the JSON.
pub fn claims(result: &ExperimentResult, pointer: &str) -> Table {
    claim_table(
        result,
        &result.claims,
        &format!("{pointer}/claims"),
        pointer,
    )
}

/// Claims whose figure was put in, likewise; none if there are none.
pub fn restated(result: &ExperimentResult, pointer: &str) -> Option<Table> {
    let place = format!("{pointer}/restated");
    let table = || claim_table(result, &result.restated, &place, pointer);
    let caption = "What was put in and comes back: counted in no total";
    (!result.restated.is_empty()).then(|| table().caption(caption))
}

fn claim_table(
    result: &ExperimentResult,
    claims: &[ClaimResult],
    place: &str,
    pointer: &str,
) -> Table {
    let names: Vec<&String> = result.variants.keys().take(ABREAST).collect();
    let mut columns = vec!["measure".to_owned(), "unit".into()];
    columns.extend(names.iter().map(|n| (*n).clone()));
    let rest = [
        "figure",
        "of",
        "better",
        "published",
        "class",
        "band",
        "verdict",
    ];
    columns.extend(rest.map(str::to_owned));
    let mut table = Table::new(columns);
    for (i, claim) in claims.iter().enumerate() {
        let mut row = vec![Cell::text(&claim.name), Cell::text(&claim.unit)];
        for &name in &names {
            row.push(match counter(&claim.subject) {
                Some(counter) => {
                    let summary = result.variants[name].get(counter);
                    Cell::mean(summary, &path(pointer, name, counter))
                }
                None => Cell::figure(""),
            });
        }
        row.extend([
            claim_figure(claim, &format!("{place}/{i}")),
            Cell::text(of(&claim.subject)),
            Cell::text(arrow(claim.direction)),
            Cell::figure(published(claim.published.as_ref(), is_ratio(claim))),
            Cell::text(claim.class.to_string()),
            Cell::text(band(claim)),
            claim_verdict(claim),
        ]);
        table.row(row);
    }
    table
}

/// Reasons of claims that are out, remarks, and what was not judged.
pub fn remarks(result: &ExperimentResult) -> Vec<String> {
    // "Outside the band" is to be seen in the table.
    let out = result
        .claims
        .iter()
        .filter(|c| !c.pass && !c.reason.ends_with("the band"));
    let mut list: Vec<String> = out
        .map(|c| format!("Out: {}: {}.", c.name, c.reason))
        .collect();
    let notes = result.claims.iter().filter(|c| !c.note.is_empty());
    list.extend(notes.map(|c| format!("{}: {}.", c.name, c.note)));
    let restated = result.restated.iter();
    list.extend(restated.map(|c| format!("{} restates the parameter {}.", c.name, c.restates)));
    let skipped = result.skipped.iter();
    list.extend(skipped.map(|s| format!("Not judged: {}: {}.", s.name, s.reason)));
    list
}

/// Pointer to a counter.
pub fn path(pointer: &str, variant: &str, counter: &str) -> String {
    format!("{pointer}/variants/{}/{}", key(variant), key(counter))
}

/// Counters of all variants; of two, with the ratio.
pub fn counters<'a>(
    variants: &IndexMap<String, IndexMap<String, CounterSummary>>,
    wanted: impl Iterator<Item = &'a str>,
    pointer: &str,
) -> Table {
    let names: Vec<&String> = variants.keys().take(ABREAST).collect();
    let pair = match variants.keys().collect::<Vec<_>>().as_slice() {
        [before, .., after] => Some((*before, *after)),
        _ => None,
    };
    let mut columns = vec!["counter".to_owned()];
    columns.extend(names.iter().map(|n| (*n).clone()));
    columns.extend(pair.map(|(b, a)| format!("{a} / {b}")));
    let mut table = Table::new(columns);
    for counter in wanted {
        let of = |v: &String| variants[v].get(counter);
        if !variants
            .keys()
            .any(|v| of(v).is_some_and(|s| s.mean.as_f64() != 0.0))
        {
            continue;
        }
        let mut row = vec![Cell::code(counter)];
        row.extend(
            names
                .iter()
                .map(|n| Cell::mean(of(n), &path(pointer, n, counter))),
        );
        if let Some((b, a)) = pair {
            let quotient = match (of(b), of(a)) {
                (Some(b), Some(a)) if b.mean.as_f64() != 0.0 => {
                    ratio(a.mean.as_f64() / b.mean.as_f64())
                }
                _ => String::new(),
            };
            row.push(Cell::figure(quotient));
        }
        table.row(row);
    }
    table
}

/// Names of all counters, in the order in which they first appear.
pub fn all_counters(variants: &IndexMap<String, IndexMap<String, CounterSummary>>) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in variants.values().flat_map(|c| c.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Seeds as text.
pub fn seeds(seeds: &[u64]) -> String {
    let list: Vec<String> = seeds.iter().map(u64::to_string).collect();
    list.join(" ")
}

/// Facts of an experiment's header.
pub fn facts(page: Page, result: &ExperimentResult) -> Page {
    let mut page = page
        .fact("seeds", seeds(&result.seeds))
        .fact("scale", &result.header.scale)
        .fact(
            "effort",
            result.header.effort.clone() + &result.header.share(),
        );
    for (name, value) in &result.header.parameters {
        page = page.fact(name, value);
    }
    page
}

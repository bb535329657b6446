//! The tables of a cover letter: claims, published figures, checks, mechanism.

use std::fmt::Write;

use crate::html::telling;
use crate::shown::{human, ratio, seeds};
use crate::table::{Align, Style, Table};
use crate::tables::{counter_names, Counters, ABREAST};
use crate::{ClaimResult, ExperimentResult, Published, Subject, Term};
use Align::{Left, Right};

/// Up to so many variants, means carry their confidence interval.
const INTERVALS_UP_TO: usize = 3;

/// Heading of the claims that cannot be in.
const CANNOT: &str = "What the workload cannot give: counted in no total";

/// As [`render_text`], with the counters that claims and the summary of a page are about in place of all.
#[must_use]
pub fn render_short(result: &ExperimentResult, style: Style) -> String {
    render(result, style, false)
}

/// All tables of a result.
///
/// Two variants stand side by side as before and after; with another number, every
/// variant is a column and each ratio says what it compares.
#[must_use]
pub fn render_text(result: &ExperimentResult, style: Style) -> String {
    render(result, style, true)
}

fn render(result: &ExperimentResult, style: Style, every: bool) -> String {
    let mut out = String::new();
    title(&mut out, result);
    let pair = pair(result);
    let mut section = |heading: &str, table: Table| {
        if !table.is_empty() {
            out += &format!("\n{heading}\n\n{}", table.text(style));
        }
    };
    section("Claims", claims(result, &result.claims, pair));
    let heading = "What was put in and comes back: counted in no total";
    section(heading, claims(result, &result.restated, pair));
    section(CANNOT, claims(result, &result.cannot, pair));
    if pair.is_none() {
        for table in counters(result, claimed(result)) {
            section("Counters the claims are about (mean)", table);
        }
    }
    section("Published figures", published_pairs(result));
    section("Conditions", conditions(result));
    let all = counter_names(&result.variants);
    let shown = if every {
        all.clone()
    } else {
        telling_ones(result, &all)
    };
    let left = all.len() - shown.len();
    let mechanism = match pair {
        Some(pair) => vec![side_by_side(result, shown, pair)],
        None => counters(result, shown),
    };
    let heading = match every {
        true => "Mechanism: all counters (mean over the seeds)",
        false => "Mechanism (mean over the seeds)",
    };
    for table in mechanism {
        section(heading, table);
    }
    if left > 0 {
        line(&mut out, &format!("{left} more counters: --all"));
    }
    verdicts(&mut out, result);
    out
}

fn title(out: &mut String, result: &ExperimentResult) {
    let header = &result.header;
    line(
        out,
        &format!(
            "{}: scale {}, effort {}{}, seeds {}",
            header.experiment,
            header.scale,
            header.effort,
            header.share(),
            seeds(&result.seeds)
        ),
    );
    for (name, value) in &header.parameters {
        line(out, &format!("  {name} = {value}"));
    }
    for d in &header.deviations {
        let (value, table) = (d.value, d.table);
        line(
            out,
            &format!("  {} = {value} here, {table} elsewhere: {}", d.name, d.why),
        );
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Names of before and after if there are exactly two variants.
///
/// The claims say which is which; without any, the order of the runs does.
fn pair(result: &ExperimentResult) -> Option<(&str, &str)> {
    let mut names = result.variants.keys().map(String::as_str);
    let (Some(first), Some(second), None) = (names.next(), names.next(), names.next()) else {
        return None;
    };
    let reversed = result.claims.iter().find_map(|claim| {
        let (before, after) = sides(&claim.subject)?;
        (before.variant != after.variant).then(|| before.variant == second)
    });
    Some(if reversed == Some(true) {
        (second, first)
    } else {
        (first, second)
    })
}

fn sides(subject: &Subject) -> Option<(&Term, &Term)> {
    match subject {
        Subject::Ratio { before, after } | Subject::Difference { before, after } => {
            Some((before, after))
        }
        _ => None,
    }
}

/// Everything measured in numbers.
fn claims(result: &ExperimentResult, of: &[ClaimResult], pair: Option<(&str, &str)>) -> Table {
    let mut columns = vec![("metric", Left), ("unit", Left)];
    match pair {
        Some((before, after)) => columns.extend([(before, Right), (after, Right)]),
        None => columns.push(("of", Left)),
    }
    columns.extend([
        ("ratio/value", Right),
        ("published", Right),
        ("class", Left),
        ("band", Left),
        ("verdict", Left),
        ("better", Left),
    ]);
    let mut table = Table::new(columns);
    for claim in of.iter().filter(|claim| !claim.is_condition()) {
        let shown = claim.shown();
        let mut row = vec![claim.name.clone(), claim.unit.clone()];
        match pair {
            Some(names) => row.extend(side_cells(result, claim, &shown.figure, names)),
            None => row.push(shown.of),
        }
        row.extend([
            if pair.is_some() && matches!(claim.subject, Subject::Value(_)) {
                String::new()
            } else {
                shown.figure
            },
            shown.published,
            claim.class.to_string(),
            shown.band,
            shown.verdict.into(),
            shown.better.into(),
        ]);
        table.row(row);
    }
    table
}

/// The means before and after; a value claim's figure stands in its variant's column.
fn side_cells(
    result: &ExperimentResult,
    claim: &ClaimResult,
    figure: &str,
    (before_name, after_name): (&str, &str),
) -> [String; 2] {
    let mean = |term: &Term| {
        result
            .counter(&term.variant, &term.counter)
            .map_or_else(|_| String::new(), |summary| human(summary.mean.as_f64()))
    };
    match &claim.subject {
        Subject::Ratio { before, after } | Subject::Difference { before, after } => {
            [mean(before), mean(after)]
        }
        Subject::Value(term) if term.variant == before_name => [figure.into(), String::new()],
        Subject::Value(term) if term.variant == after_name => [String::new(), figure.into()],
        _ => [String::new(), String::new()],
    }
}

/// Absolute figures of the original report, where it gave both sides.
fn published_pairs(result: &ExperimentResult) -> Table {
    let mut table = Table::new([
        ("metric", Left),
        ("unit", Left),
        ("published before", Right),
        ("published after", Right),
        ("published ratio", Right),
        ("our ratio", Right),
    ]);
    for claim in result.claims.iter().filter(|claim| claim.is_ratio()) {
        if let Some(Published::Pair { before, after }) = claim.published {
            table.row([
                claim.name.clone(),
                claim.unit.clone(),
                human(before),
                human(after),
                ratio(after / before),
                claim.value.map_or_else(|| "n/a".into(), ratio),
            ]);
        }
    }
    table
}

fn conditions(result: &ExperimentResult) -> Table {
    let mut table = Table::new([
        ("condition", Left),
        ("class", Left),
        ("holds for", Right),
        ("published", Left),
        ("verdict", Left),
        ("note", Left),
    ]);
    for claim in result.claims.iter().filter(|claim| claim.is_condition()) {
        let shown = claim.shown();
        table.row([
            claim.name.clone(),
            claim.class.to_string(),
            shown.ours,
            shown.published,
            shown.verdict.into(),
            claim.note.clone(),
        ]);
    }
    table
}

/// One row a counter, one column a variant; many variants go into several tables.
fn counters(result: &ExperimentResult, names: Vec<&str>) -> Vec<Table> {
    let variants: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    let table = |variants: &[&str]| {
        let shown = Counters {
            names: names.clone(),
            variants: variants.to_vec(),
            intervals: result.variants.len() <= INTERVALS_UP_TO,
            ratio: None,
            pointer: "",
        };
        shown.table(&result.variants)
    };
    variants.chunks(ABREAST).map(table).collect()
}

/// Two variants and the ratio of their counters.
fn side_by_side(result: &ExperimentResult, names: Vec<&str>, (b, a): (&str, &str)) -> Table {
    let shown = Counters {
        names,
        variants: vec![b, a],
        intervals: true,
        ratio: Some(("after/before".into(), b, a)),
        pointer: "",
    };
    shown.table(&result.variants)
}

/// Counters that claims name, in the order of the claims.
fn claimed(result: &ExperimentResult) -> Vec<&str> {
    let mut counters: Vec<&str> = Vec::new();
    for claim in &result.claims {
        let terms = match &claim.subject {
            Subject::Ratio { before, after } | Subject::Difference { before, after } => {
                vec![before, after]
            }
            Subject::Value(term) => vec![term],
            Subject::Derived | Subject::Predicate => Vec::new(),
        };
        for term in terms {
            if !counters.contains(&term.counter.as_str()) {
                counters.push(&term.counter);
            }
        }
    }
    counters
}

/// Counters of claims first, then those that the summary of a page knows; without those that are 0.
fn telling_ones<'a>(result: &'a ExperimentResult, all: &[&'a str]) -> Vec<&'a str> {
    let counted = |name: &&str| {
        let mut of = result
            .variants
            .values()
            .filter_map(|counters| counters.get(*name));
        of.any(|summary| summary.mean.as_f64() != 0.0)
    };
    let mut shown = claimed(result);
    shown.retain(|name| all.contains(name));
    let more = telling(all);
    shown.extend(
        more.into_iter()
            .filter(counted)
            .filter(|n| !claimed(result).contains(n)),
    );
    shown
}

/// What the columns mean, and every claim that is out with the reason.
fn verdicts(out: &mut String, result: &ExperimentResult) {
    line(out, "");
    if result.claims.iter().any(|claim| !claim.is_condition()) {
        line(
            out,
            "ratio/value: median over the seeds; \u{b1} half the 95 % confidence interval of the mean (Student's t).",
        );
        line(
            out,
            "class: A every seed, B median in band, N noise (median and every seed near 1), D direction only.",
        );
    }
    for claim in result.claims.iter().filter(|claim| !claim.pass) {
        line(out, &out_of_band(claim));
    }
    for claim in &result.cannot {
        let text = format!("cannot: {}: see {}", claim.name, claim.cannot);
        line(out, &text);
    }
    for skipped in &result.skipped {
        line(
            out,
            &format!("not judged: {}: {}", skipped.name, skipped.reason),
        );
    }
    for claim in result.claims.iter().filter(|claim| !claim.note.is_empty()) {
        if !claim.is_condition() {
            line(out, &format!("note on {}: {}", claim.name, claim.note));
        }
    }
    let good = result.claims.iter().filter(|claim| claim.pass).count();
    if result.claims.is_empty() && result.variants.len() < 2 {
        return line(out, "No claim was judged: claims compare two variants.");
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{good} of {} claims in.", result.claims.len());
}

/// Why a claim is out, with its figure and band.
fn out_of_band(claim: &ClaimResult) -> String {
    let mut text = format!("OUT {}: {}", claim.name, claim.reason);
    if claim.value.is_some() && !claim.is_condition() {
        let shown = claim.shown();
        text += &format!(" ({}; band {})", shown.figure, shown.band);
    }
    text
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;

//! The tables of a cover letter: claims, published figures, checks, mechanism.

use std::fmt::Write;

use super::claim::{Band, Direction, Published};
use super::grid::{Align, Grid, Style};
use super::human::{edge, human, ratio};
use super::judge::{ClaimResult, Side, Subject};
use super::{CounterSummary, ExperimentResult, Term};
use Align::{Left, Right};

/// Most variants side by side in one table; more go into further tables.
const VARIANTS_ABREAST: usize = 6;
/// Up to so many variants, means carry their confidence interval.
const INTERVALS_UP_TO: usize = 3;

/// All tables of a result.
///
/// Two variants stand side by side as before and after; with another number, every
/// variant is a column and each ratio says what it compares.
#[must_use]
pub fn render_text(result: &ExperimentResult, style: Style) -> String {
    let mut out = String::new();
    title(&mut out, result);
    let pair = pair(result);
    let table = |of: &[ClaimResult]| claims(result, of, style, pair);
    section(&mut out, "Claims", &table(&result.claims));
    let heading = "What was put in and comes back: counted in no total";
    section(&mut out, heading, &table(&result.restated));
    for claim in &result.restated {
        line(
            &mut out,
            &format!("{} restates {}", claim.name, claim.restates),
        );
    }
    if pair.is_none() {
        for grid in claimed_counters(result, style) {
            section(&mut out, "Counters the claims are about (mean)", &grid);
        }
    }
    section(
        &mut out,
        "Published figures",
        &published_pairs(result, style),
    );
    section(&mut out, "Conditions", &conditions(result, style));
    for grid in mechanism(result, style, pair) {
        section(
            &mut out,
            "Mechanism: all counters (mean over the seeds)",
            &grid,
        );
    }
    verdicts(&mut out, result);
    out
}

fn title(out: &mut String, result: &ExperimentResult) {
    let header = &result.header;
    let seeds: Vec<String> = result.seeds.iter().map(u64::to_string).collect();
    line(
        out,
        &format!(
            "{}: scale {}, effort {}{}, seeds {}",
            header.experiment,
            header.scale,
            header.effort,
            header.share(),
            seeds.join(" ")
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

fn section(out: &mut String, heading: &str, grid: &Grid) {
    if !grid.is_empty() {
        line(out, "");
        line(out, heading);
        line(out, "");
        out.push_str(&grid.render());
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
fn claims(
    result: &ExperimentResult,
    claims: &[ClaimResult],
    style: Style,
    pair: Option<(&str, &str)>,
) -> Grid {
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
    let mut grid = Grid::new(style, &columns);
    let numeric = |claim: &&ClaimResult| claim.subject != Subject::Predicate;
    for claim in claims.iter().filter(numeric) {
        let mut row = vec![claim.name.clone(), claim.unit.clone()];
        match pair {
            Some(names) => row.extend(side_cells(result, claim, names)),
            None => row.push(subject(&claim.subject)),
        }
        row.extend([
            if pair.is_some() && matches!(claim.subject, Subject::Value(_)) {
                String::new()
            } else {
                figure(claim)
            },
            published(claim.published.as_ref(), is_ratio(claim)),
            claim.class.to_string(),
            band(claim),
            verdict(claim.pass).into(),
            better(claim.direction).into(),
        ]);
        grid.row(row);
    }
    grid
}

/// The means before and after; a value claim's figure stands in its variant's column.
fn side_cells(
    result: &ExperimentResult,
    claim: &ClaimResult,
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
        Subject::Value(term) if term.variant == before_name => [figure(claim), String::new()],
        Subject::Value(term) if term.variant == after_name => [String::new(), figure(claim)],
        _ => [String::new(), String::new()],
    }
}

/// What a figure is of, for tables without before and after columns.
fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Ratio { before, after } => format!("{} / {}", after.variant, before.variant),
        Subject::Difference { before, after } => {
            format!("{} - {}", after.variant, before.variant)
        }
        Subject::Value(term) => term.variant.clone(),
        Subject::Derived | Subject::Predicate => String::new(),
    }
}

/// Whether the figure of a claim is a quotient.
#[must_use]
pub fn is_ratio(claim: &ClaimResult) -> bool {
    matches!(claim.subject, Subject::Ratio { .. })
}

/// Median and half the width of the interval: `0.567 +-0.012`.
pub fn figure(claim: &ClaimResult) -> String {
    let Some(value) = claim.value else {
        return "n/a".into();
    };
    let show = if is_ratio(claim) { ratio } else { human };
    match claim.ci95 {
        Some(interval) if interval.half_width() > 0.0 => {
            format!("{} \u{b1}{}", show(value), show(interval.half_width()))
        }
        _ => show(value),
    }
}

/// What the original report gave: a figure, or the change between two; a ratio if `as_ratio`.
#[must_use]
pub fn published(published: Option<&Published>, as_ratio: bool) -> String {
    match published {
        None => String::new(),
        Some(Published::Number(x)) if as_ratio => ratio(*x),
        Some(Published::Number(x)) => human(*x),
        Some(Published::Pair { before, after }) if as_ratio => ratio(after / before),
        Some(Published::Pair { before, after }) => human(after - before),
        Some(Published::Text(text)) => text.clone(),
    }
}

/// Where the figure must lie: `1.15..1.25`, `>= 1.2`, `> 1`.
#[must_use]
pub fn band(claim: &ClaimResult) -> String {
    match (claim.band, claim.side) {
        (Some(Band { lo, hi }), _) => {
            if lo == hi {
                edge(lo)
            } else if lo == f64::NEG_INFINITY {
                format!("<= {}", edge(hi))
            } else if hi == f64::INFINITY {
                format!(">= {}", edge(lo))
            } else {
                format!("{}..{}", edge(lo), edge(hi))
            }
        }
        (None, Some(Side::Above(neutral))) => format!("> {}", edge(neutral)),
        (None, Some(Side::Below(neutral))) => format!("< {}", edge(neutral)),
        (None, None) => String::new(),
    }
}

/// `in` or `OUT`.
#[must_use]
pub const fn verdict(pass: bool) -> &'static str {
    if pass {
        "in"
    } else {
        "OUT"
    }
}

fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::HigherIsBetter => "higher",
        Direction::LowerIsBetter => "lower",
        Direction::Neutral => "",
    }
}

/// Absolute figures of the original report, where it gave both sides.
fn published_pairs(result: &ExperimentResult, style: Style) -> Grid {
    let columns = [
        ("metric", Left),
        ("unit", Left),
        ("published before", Right),
        ("published after", Right),
        ("published ratio", Right),
        ("our ratio", Right),
    ];
    let mut grid = Grid::new(style, &columns);
    for claim in result.claims.iter().filter(|claim| is_ratio(claim)) {
        if let Some(Published::Pair { before, after }) = claim.published {
            grid.row(vec![
                claim.name.clone(),
                claim.unit.clone(),
                human(before),
                human(after),
                ratio(after / before),
                claim.value.map_or_else(|| "n/a".into(), ratio),
            ]);
        }
    }
    grid
}

fn conditions(result: &ExperimentResult, style: Style) -> Grid {
    let columns = [
        ("condition", Left),
        ("class", Left),
        ("holds for", Right),
        ("published", Left),
        ("verdict", Left),
        ("note", Left),
    ];
    let mut grid = Grid::new(style, &columns);
    let condition = |claim: &&ClaimResult| claim.subject == Subject::Predicate;
    for claim in result.claims.iter().filter(condition) {
        let seeds = claim.per_seed.len();
        let holds = seeds - claim.failing_seeds.len();
        grid.row(vec![
            claim.name.clone(),
            claim.class.to_string(),
            format!("{holds}/{seeds} seeds"),
            published(claim.published.as_ref(), false),
            verdict(claim.pass).into(),
            claim.note.clone(),
        ]);
    }
    grid
}

/// Names of the variants, as many as fit side by side.
fn abreast(result: &ExperimentResult) -> Vec<Vec<&str>> {
    let names: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    names
        .chunks(VARIANTS_ABREAST)
        .map(<[&str]>::to_vec)
        .collect()
}

/// One row a counter, one column a variant.
fn counter_grids(result: &ExperimentResult, style: Style, counters: &[&str]) -> Vec<Grid> {
    abreast(result)
        .into_iter()
        .map(|variants| {
            let mut columns = vec![("counter", Left)];
            columns.extend(variants.iter().map(|name| (*name, Right)));
            let mut grid = Grid::new(style, &columns);
            let intervals = result.variants.len() <= INTERVALS_UP_TO;
            for &counter in counters {
                let cells = variants.iter().map(|variant| {
                    let summary = result.variants[*variant].get(counter);
                    summary.map_or_else(|| "-".into(), |summary| mean(summary, intervals))
                });
                let mut row = vec![counter.to_owned()];
                row.extend(cells);
                grid.row(row);
            }
            grid
        })
        .collect()
}

fn mean(summary: &CounterSummary, interval: bool) -> String {
    let mean = human(summary.mean.as_f64());
    match summary.ci95 {
        Some(ci) if interval && ci.half_width() > 0.0 => {
            // As many digits as the mean shows are enough for its uncertainty.
            let half = ci.half_width();
            let half = if half >= 10.0 { half.round() } else { half };
            format!("{mean} \u{b1}{}", human(half))
        }
        _ => mean,
    }
}

/// Counters that claims name, in the order of the claims.
fn claimed_counters(result: &ExperimentResult, style: Style) -> Vec<Grid> {
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
    counter_grids(result, style, &counters)
}

fn mechanism(result: &ExperimentResult, style: Style, pair: Option<(&str, &str)>) -> Vec<Grid> {
    let mut counters: Vec<&str> = Vec::new();
    for name in result.variants.values().flat_map(|c| c.keys()) {
        if !counters.contains(&name.as_str()) {
            counters.push(name);
        }
    }
    let Some((before, after)) = pair else {
        return counter_grids(result, style, &counters);
    };
    let columns = [
        ("counter", Left),
        (before, Right),
        (after, Right),
        ("after/before", Right),
    ];
    let mut grid = Grid::new(style, &columns);
    for counter in counters {
        let of = |variant: &str| result.variants[variant].get(counter);
        let cell = |summary: Option<&CounterSummary>| {
            summary.map_or_else(|| "-".into(), |summary| mean(summary, true))
        };
        let quotient = match (of(before), of(after)) {
            (Some(b), Some(a)) if b.mean.as_f64() != 0.0 => {
                ratio(a.mean.as_f64() / b.mean.as_f64())
            }
            _ => String::new(),
        };
        grid.row(vec![
            counter.to_owned(),
            cell(of(before)),
            cell(of(after)),
            quotient,
        ]);
    }
    vec![grid]
}

/// What the columns mean, and every claim that is out with the reason.
fn verdicts(out: &mut String, result: &ExperimentResult) {
    line(out, "");
    if result
        .claims
        .iter()
        .any(|claim| claim.subject != Subject::Predicate)
    {
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
    for skipped in &result.skipped {
        line(
            out,
            &format!("not judged: {}: {}", skipped.name, skipped.reason),
        );
    }
    for claim in result.claims.iter().filter(|claim| !claim.note.is_empty()) {
        if claim.subject != Subject::Predicate {
            line(out, &format!("note on {}: {}", claim.name, claim.note));
        }
    }
    let good = result.claims.iter().filter(|claim| claim.pass).count();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{good} of {} claims in.", result.claims.len());
}

/// Why a claim is out, with its figure and band.
fn out_of_band(claim: &ClaimResult) -> String {
    let mut text = format!("OUT {}: {}", claim.name, claim.reason);
    if claim.value.is_some() && claim.subject != Subject::Predicate {
        text += &format!(" ({}; band {})", figure(claim), band(claim));
    }
    text
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;

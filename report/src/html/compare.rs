//! The page of `lab compare`.

use super::causes::{causes, change, reasons};
use super::common::{arrow, seeds};
use super::page::{Page, Section};
use super::summary::capital;
use super::table::{key, Cell, Table};
use crate::charts;
use crate::compare::{comparison_json, Compared, Comparison, Row, Verdict};
use crate::Number;

/// Sentences about counters, at most.
const CAUSES_MAX: usize = 6;

fn table<'a>(compared: &Compared, rows: impl Iterator<Item = &'a Row>) -> Table {
    let mut table = Table::new([
        "measure".to_owned(),
        "unit".into(),
        format!("before:{}", compared.variant),
        format!("after:{}", compared.variant),
        "ratio".into(),
        "better".into(),
        "verdict".into(),
    ]);
    for row in rows.filter(|r| r.is_something()) {
        let at = format!("/variants/{}/{}", key(&compared.variant), key(&row.counter));
        let ratio = row.ratio_text();
        let ratio = match &row.ratio {
            Some(spread) => {
                let (shown, more) = ratio.split_once(' ').unwrap_or((&ratio, ""));
                let more = if more.is_empty() {
                    String::new()
                } else {
                    format!(" {more}")
                };
                let value = Number::Real(spread.median);
                Cell::number(shown.to_owned(), value, format!("{at}/ratio"), &more)
            }
            None => Cell::figure(ratio),
        };
        table.row(vec![
            if row.claimed {
                Cell::text(&row.name)
            } else {
                Cell::code(&row.name)
            },
            Cell::text(&row.unit),
            Cell::mean(Some(&row.before), &format!("{at}/before")),
            Cell::mean(Some(&row.after), &format!("{at}/after")),
            ratio,
            Cell::text(arrow(row.direction)),
            Cell::judged(row.verdict.name(), row.verdict.good()),
        ]);
    }
    table
}

/// The most important measure of a variant.
fn sentence(compared: &Compared) -> Option<String> {
    let row = compared.rows.iter().find(|r| r.claimed)?;
    let what = match row.verdict {
        Verdict::Better => "better after",
        Verdict::Worse => "worse after",
        Verdict::Changed => "different after",
        Verdict::Noise => "no clear difference",
        Verdict::Equal => "the same",
    };
    let ratio = row
        .ratio
        .as_ref()
        .map_or_else(String::new, |r| format!(" ({})", change(r.median)));
    Some(format!(
        "{}, {}: {what}{ratio}.",
        compared.variant, row.name
    ))
}

/// Without folders; they are among the facts.
fn file_name(path: &str) -> &str {
    let name = std::path::Path::new(path).file_name();
    name.and_then(|n| n.to_str()).unwrap_or(path)
}

/// The page of a comparison.
#[must_use]
pub fn compare(c: &Comparison, command: &str) -> String {
    let mut page = Page::new(
        format!(
            "{}: {} against {}",
            c.experiment,
            file_name(&c.files[0]),
            file_name(&c.files[1])
        ),
        "Two results side by side, seed by seed: before is the first file, after the second.",
        command,
    )
    .fact("before", &c.files[0])
    .fact("after", &c.files[1])
    .fact("seeds", seeds(&c.seeds));
    let mut said = c.variants.iter().filter_map(sentence);
    page = page.headline(said.next().unwrap_or_else(|| {
        let differ = c.variants.iter().flat_map(|v| &v.rows);
        let differ = differ.filter(|r| !matches!(r.verdict, Verdict::Equal | Verdict::Noise));
        format!("{} counters differ beyond the noise.", differ.count())
    }));
    page = page.explain("", said.collect());
    let differing: Vec<String> = c
        .differing
        .iter()
        .map(|(name, b, a)| format!("{name}: {b} before, {a} after."))
        .collect();
    page = if differing.is_empty() {
        page.explain(
            "The headers of both files are the same: what differs is the program that ran.",
            Vec::new(),
        )
    } else {
        page.explain("What differs in the headers of the files:", differing)
    };
    for compared in &c.variants {
        let sides: Vec<_> = compared.result.variants.values().collect();
        let moved = causes(sides[0], sides[1]);
        let good = compared.rows.iter().find_map(|r| r.verdict.good());
        let why = good
            .and_then(|good| reasons(&moved, good))
            .map_or_else(String::new, |r| format!("Why: {r}. "));
        if !moved.is_empty() {
            page = page.explain(
                format!("{}: {why}The counters that moved most:", compared.variant),
                moved
                    .iter()
                    .take(CAUSES_MAX)
                    .map(|m| capital(&m.sentence))
                    .collect(),
            );
        }
    }
    let alone: Vec<String> = c
        .alone
        .iter()
        .map(|(variant, file)| format!("{variant} is in {file} only and not compared."))
        .collect();
    let mut claimed = Section::new(
        "measures",
        "Before and after",
        "Means over the seeds with half their 95 % confidence interval; the ratio is the median over the \
         seeds. Noise: the interval of the ratio contains 1.",
    )
    .points(alone);
    let mut all = Section::new(
        "counters",
        "All counters",
        "What is 0 on both sides is left out.",
    );
    for compared in &c.variants {
        let own = table(compared, compared.rows.iter().filter(|r| r.claimed));
        claimed = claimed.table(own.caption(&compared.variant));
        let rest = table(compared, compared.rows.iter().filter(|r| !r.claimed));
        all = all.table(rest.caption(&compared.variant));
        let mut pictures = charts::experiment(&compared.result, &[], &[]);
        for chart in &mut pictures {
            chart.id = format!("{}-{}", charts::id(&compared.variant), chart.id);
            chart.title = format!("{}: {}", compared.variant, chart.title.to_lowercase());
        }
        claimed = claimed.charts(pictures);
    }
    page.section(claimed)
        .section(all)
        .json(comparison_json(c))
        .render()
}

//! The page of `lab mrc`.

use crate::charts;
use crate::mrc::{Curve, Curves};
use crate::report::html::{Cell, Page, Section, Table};
use crate::report::{human, Number};
use crate::runner::show_pages;

fn percent(x: f64) -> String {
    format!("{:.3} %", 100.0 * x)
}

/// Mean ratio over the sizes that all curves have, so that none is compared on sizes of its own.
fn means(curves: &Curves) -> Vec<(&str, f64)> {
    let has = |curve: &Curve, pages: u64| curve.points.iter().any(|p| p.pages == pages);
    let shared: Vec<u64> = curves
        .sizes
        .iter()
        .copied()
        .filter(|&pages| curves.curves.iter().all(|c| has(c, pages)))
        .collect();
    let mean = |curve: &Curve| {
        let some = curve.points.iter().filter(|p| shared.contains(&p.pages));
        some.map(|p| p.miss_ratio).sum::<f64>() / shared.len().max(1) as f64
    };
    let mut all: Vec<_> = curves
        .curves
        .iter()
        .map(|c| (c.policy.as_str(), mean(c)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    if shared.is_empty() {
        all.clear();
    }
    all
}

/// What knows the future, or is a policy of the list already.
fn is_bound(policy: &str) -> bool {
    matches!(policy, "opt" | "lru-stack")
}

fn ratios(curves: &Curves) -> Table {
    let columns = ["memory".to_owned(), "of the pages".to_owned()];
    let policies = curves.curves.iter().map(|c| c.policy.clone());
    let mut table = Table::new(columns.into_iter().chain(policies));
    for &pages in &curves.sizes {
        let share = pages as f64 / curves.unique_pages.max(1) as f64;
        let mut row = vec![
            Cell::text(show_pages(pages)),
            Cell::figure(format!("{:.1} %", 100.0 * share)),
        ];
        for (i, curve) in curves.curves.iter().enumerate() {
            let point = curve.points.iter().position(|p| p.pages == pages);
            row.push(match point {
                None => Cell::figure("\u{2013}"),
                Some(j) => {
                    let p = &curve.points[j];
                    let error = p
                        .error
                        .map_or_else(String::new, |e| format!(" \u{b1}{}", percent(e)));
                    let pointer = format!("/curves/{i}/points/{j}/miss_ratio");
                    let value = Number::Real(p.miss_ratio);
                    Cell::number(percent(p.miss_ratio), value, pointer, &error)
                }
            });
        }
        table.row(row);
    }
    table
}

/// The page of miss-ratio curves. `heading` says of which trace; `json` is what `--json` writes.
#[must_use]
pub fn mrc(heading: &str, curves: &Curves, json: String, command: &str) -> String {
    let lead = format!(
        "{} references to {}. Each hits or brings its page in, for which another page leaves when memory is full. \
         Nothing else is simulated: no dirty pages, no read-ahead, no time.",
        human(curves.references as f64),
        show_pages(curves.unique_pages),
    );
    let mut page = Page::new(heading, lead, command);
    if let Some(s) = &curves.sampled {
        page = page.fact(
            "estimated from",
            format!(
                "{} samples of {:.2} % of the pages each, {} references; error at most {}",
                s.samples,
                100.0 * s.rate,
                human(s.references as f64),
                percent(s.largest_error)
            ),
        );
    }
    let means = means(curves);
    let mut policies = means.iter().filter(|(name, _)| !is_bound(name));
    if let (Some((best, ratio)), Some((worst, most))) = (policies.next(), policies.next_back()) {
        page = page.headline(format!(
            "{best} misses least of the policies: {} of all references, mean over the sizes; {worst} most: {}.",
            percent(*ratio),
            percent(*most)
        ));
    }
    let list = means.iter().map(|(name, ratio)| {
        let remark = match *name {
            "opt" => " (Belady: it knows the future, no policy can miss less)",
            "lru-stack" => " (exact LRU by stack distances)",
            _ => "",
        };
        format!("{name}: {}{remark}", percent(*ratio))
    });
    page.explain(
        "Mean miss ratio over the sizes, least first:",
        list.collect(),
    )
    .section(
        Section::new("curves", "Miss ratio over memory", "")
            .charts(vec![charts::curves(&curves.lines())]),
    )
    .section(
        Section::new(
            "ratios",
            "Figures",
            "Share of the references that miss, first touches included.",
        )
        .table(ratios(curves)),
    )
    .json(json)
    .render()
}

//! The page of `lab mrc`.

use crate::charts;
use crate::mrc::{Curve, Curves, Sampled};
use crate::runner::show_pages;
use coldset_report::html::{Page, Section, Summary};
use coldset_report::human;

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

/// The curves in words.
fn summary(curves: &Curves) -> Summary {
    let means = means(curves);
    let mut policies = means.iter().filter(|(name, _)| !is_bound(name));
    let headline = match (policies.next(), policies.next_back()) {
        (Some((best, ratio)), Some((worst, most))) => format!(
            "{best} misses least of the policies: {} of all references, mean over the sizes; {worst} most: {}.",
            percent(*ratio),
            percent(*most)
        ),
        _ => String::new(),
    };
    let list = means.iter().map(|(name, ratio)| {
        let remark = match *name {
            "opt" => " (Belady: it knows the future, no policy can miss less)",
            "lru-stack" => " (exact LRU by stack distances)",
            _ => "",
        };
        format!("{name}: {}{remark}", percent(*ratio))
    });
    let heading = "Mean miss ratio over the sizes, least first:".to_owned();
    Summary {
        headline,
        paragraphs: vec![(heading, list.collect())],
    }
}

fn estimate(s: &Sampled) -> (String, String) {
    let text = format!(
        "{} samples of {:.2} % of the pages each, {} references; error at most {}",
        s.samples,
        100.0 * s.rate,
        human(s.references as f64),
        percent(s.largest_error)
    );
    ("estimated from".into(), text)
}

/// The page of miss-ratio curves. `heading` says of which trace; `json` is what `--json` writes.
#[must_use]
pub fn mrc(heading: &str, curves: &Curves, json: String, command: &str) -> String {
    let page = Page {
        title: heading.into(),
        lead: format!(
            "{} references to {}. List policies, LRU and OPT are caches of pages alone: a reference hits or brings its \
             page in, for which another leaves when memory is full. {}",
            human(curves.references as f64),
            show_pages(curves.unique_pages),
            curves.remark().unwrap_or_default(),
        ),
        facts: curves.sampled.iter().map(estimate).collect(),
        summary: summary(curves),
        sections: vec![
            Section::new("curves", "Miss ratio over memory")
                .charts(vec![charts::curves(&curves.lines())]),
            Section::new("ratios", "Figures")
                .intro(match curves.count.as_str() {
                    "reads" => "Share of the references that have to read their page from a file or from swap.",
                    _ => "Share of the references whose page is absent, first touches included.",
                })
                .tables(vec![curves.table(0..curves.curves.len())]),
        ],
        command: command.into(),
        json,
    };
    page.render()
}

//! The page of `lab mrc`.

use crate::charts;
use crate::mrc::{Curve, Curves, Sampled};
use crate::runner::show_pages;
use coldset_report::html::{Page, Section, Summary};
use coldset_report::{human, listed};

fn percent(x: f64) -> String {
    format!("{:.3} %", 100.0 * x)
}

/// Mean ratio over the sizes that all curves have, so that none is compared on sizes of its own, and which these are.
fn means(curves: &Curves) -> (Vec<(&str, f64)>, String) {
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
    let sizes = match (shared.as_slice(), curves.sizes.len()) {
        ([least, .., most], all) if shared.len() < all => format!(
            "the {} of {all} sizes that all curves have, {} to {}",
            shared.len(),
            show_pages(*least),
            show_pages(*most)
        ),
        ([one], all) if all > 1 => {
            format!("the one size that all curves have, {}", show_pages(*one))
        }
        _ => "the sizes".into(),
    };
    (all, sizes)
}

/// Which policies miss least and most, as far as the figures that are shown tell them apart.
fn headline(means: &[(&str, f64)], sizes: &str) -> String {
    let policies: Vec<_> = means.iter().filter(|(name, _)| !is_bound(name)).collect();
    let [(_, least), .., (_, most)] = policies.as_slice() else {
        return String::new();
    };
    let with = |ratio: f64| -> Vec<&str> {
        let shown = percent(ratio);
        let equal = policies.iter().filter(|(_, r)| percent(*r) == shown);
        equal.map(|(name, _)| *name).collect()
    };
    let (best, worst) = (with(*least), with(*most));
    let least = percent(*least);
    let misses = |names: &[&str]| if names.len() == 1 { "misses" } else { "miss" };
    if best == worst {
        return format!(
            "All policies miss as often: {least} of all references, mean over {sizes}."
        );
    }
    format!(
        "{} {} least of the policies: {least} of all references, mean over {sizes}; {} {} most: {}.",
        listed(&best),
        misses(&best),
        listed(&worst),
        misses(&worst),
        percent(*most)
    )
}

/// What knows the future, or is a policy of the list already.
fn is_bound(policy: &str) -> bool {
    matches!(policy, "opt" | "lru-stack")
}

/// The curves in words.
fn summary(curves: &Curves) -> Summary {
    let (means, sizes) = means(curves);
    let list = means.iter().map(|(name, ratio)| {
        let remark = match *name {
            "opt" => " (Belady: it knows the future, no policy can miss less)",
            "lru-stack" => " (exact LRU by stack distances)",
            _ => "",
        };
        format!("{name}: {}{remark}", percent(*ratio))
    });
    let heading = format!("Mean miss ratio over {sizes}, least first:");
    let mut paragraphs = vec![(heading, list.collect::<Vec<String>>())];
    paragraphs.retain(|(_, list)| !list.is_empty());
    Summary {
        headline: headline(&means, &sizes),
        paragraphs,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_miss_as_often_are_not_set_apart() {
        let equal = [("opt", 0.5), ("lru", 0.94444), ("fifo", 0.944441)];
        assert_eq!(
            headline(&equal, "the sizes"),
            "All policies miss as often: 94.444 % of all references, mean over the sizes."
        );
        let two = [("arc", 0.2), ("sieve", 0.2), ("lru", 0.3)];
        assert_eq!(
            headline(&two, "the sizes"),
            "arc and sieve miss least of the policies: 20.000 % of all references, mean over the sizes; lru misses \
             most: 30.000 %."
        );
        assert_eq!(headline(&[("opt", 0.1), ("lru", 0.2)], "the sizes"), "");
    }

    #[test]
    fn the_mean_names_the_sizes_that_it_is_of() {
        let point = |pages, miss_ratio| crate::mrc::Point {
            pages,
            misses: 1,
            miss_ratio,
            error: None,
        };
        let lru = [point(1, 0.9), point(256, 0.5), point(512, 0.3)];
        let curve = |policy: &str, points: &[crate::mrc::Point]| Curve {
            policy: policy.into(),
            points: points.to_vec(),
        };
        let mut curves = Curves {
            references: 10,
            unique_pages: 512,
            count: "reads".into(),
            kernels: Vec::new(),
            kernel_pages: None,
            sampled: None,
            sizes: vec![1, 256, 512],
            curves: vec![curve("lru", &lru), curve("v5", &lru[1..])],
        };
        let said = summary(&curves);
        let heading = "Mean miss ratio over the 2 of 3 sizes that all curves have, 256 pages (1 MiB) to 512 pages (2 MiB), least \
                       first:";
        assert_eq!(said.paragraphs[0].0, heading);
        assert_eq!(said.paragraphs[0].1[0], "lru: 40.000 %");
        curves.curves.truncate(1);
        let heading = "Mean miss ratio over the sizes, least first:";
        assert_eq!(summary(&curves).paragraphs[0].0, heading);
    }
}

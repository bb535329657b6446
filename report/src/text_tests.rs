//! Whole tables, as they are printed.

use super::*;
use crate::model::tests::{header, runs};
use crate::{Band, Claim};

fn two_variants() -> ExperimentResult {
    let runs = runs(&[
        ("mglru-7.0", "ops_per_s", &[62_000.0, 62_500.5, 63_000.0]),
        (
            "mglru-7.0",
            "refault_file",
            &[34_522_071.0, 34_000_000.0, 35_000_000.0],
        ),
        ("mglru-7.0", "oom", &[0.0, 0.0, 0.0]),
        ("series-v5", "ops_per_s", &[79_000.0, 80_000.0, 79_500.0]),
        (
            "series-v5",
            "refault_file",
            &[19_566_366.0, 19_000_000.0, 20_000_000.0],
        ),
        ("series-v5", "oom", &[0.0, 0.0, 0.0]),
    ]);
    let (before, after) = ("mglru-7.0", "series-v5");
    let claims = [
        Claim::ratio("throughput", "ops_per_s", before, after)
            .within(1.15, 1.25)
            .published_pair(62_485.03, 79_760.72)
            .unit("ops/s")
            .higher_is_better(),
        Claim::ratio("file refaults", "refault_file", before, after)
            .within(0.42, 0.75)
            .published(0.567)
            .unit("pages")
            .lower_is_better(),
        Claim::value("OOM kills", "oom", after).always(Band::exactly(0.0)),
        Claim::predicate("no OOM", |seed| Ok(seed.get("series-v5", "oom")? == 0.0))
            .note("the run must finish"),
        Claim::ratio("against classic", "ops_per_s", "classic", after).noise(),
    ];
    ExperimentResult::collect(header(), &runs, &claims).unwrap()
}

#[test]
fn cover_letter() {
    let text = render_text(&two_variants(), Style::Plain);
    assert_eq!(text, include_str!("../data/expected/cover_letter.txt"));
    assert_eq!(text, render_text(&two_variants(), Style::Plain));
}

#[test]
fn plain_tables_fit_and_have_no_colour() {
    let text = render_text(&two_variants(), Style::Plain);
    for line in text.lines() {
        assert!(line.chars().count() <= 118, "{line}");
        assert_eq!(line, line.trim_end());
    }
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn many_variants_are_columns() {
    let names: Vec<String> = (0..8).map(|i| format!("variant-{i}")).collect();
    let columns: Vec<(&str, &str, &[f64])> = names
        .iter()
        .map(|name| {
            (
                name.as_str(),
                "pgscan",
                [1_234_567.0, 1_234_569.0].as_slice(),
            )
        })
        .collect();
    let claims = [Claim::ratio("scan", "pgscan", "variant-0", "variant-7")
        .noise()
        .unit("pages")];
    let result = ExperimentResult::collect(header(), &runs(&columns), &claims).unwrap();
    let text = render_text(&result, Style::Plain);
    assert!(text.contains("variant-7 / variant-0"), "{text}");
    assert!(text.contains("0.97..1.03"), "{text}");
    let rows = text
        .lines()
        .filter(|l| l.trim_start().starts_with("pgscan"));
    // Claimed and mechanism, each in a table of six and one of two variants.
    let counts: Vec<usize> = rows.map(|l| l.matches("1,234,568").count()).collect();
    assert_eq!(counts, [6, 2, 6, 2]);
    assert!(text.lines().all(|l| l.chars().count() <= 118), "{text}");
}

#[test]
fn markdown_has_rules_and_escapes() {
    let runs = runs(&[("a", "x|y", &[1.0]), ("b", "x|y", &[2.0])]);
    let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
    let text = render_text(&result, Style::Markdown);
    assert!(text.contains("x\\|y"), "{text}");
    assert!(
        text.contains("|---") || text.contains("|:--") || text.contains("| ---"),
        "{text}"
    );
    assert!(text.ends_with("0 of 0 claims in.\n"), "{text}");
    let alone = ExperimentResult::collect(header(), &runs[..1], &[]).unwrap();
    let text = render_text(&alone, Style::Markdown);
    assert!(text.contains("No claim was judged"), "{text}");
}

/// The claims decide which variant is "before", whatever the order of the runs.
#[test]
fn before_is_what_the_claims_say() {
    let runs = runs(&[("new", "x", &[5.0]), ("old", "x", &[10.0])]);
    let claims = [Claim::ratio("x", "x", "old", "new").within(0.4, 0.6)];
    let result = ExperimentResult::collect(header(), &runs, &claims).unwrap();
    assert_eq!(pair(&result), Some(("old", "new")));
}

use super::*;
use crate::charts::{curves, CurveLine};
use crate::model::tests::{header, runs};
use crate::{Align, Cell, Claim, ExperimentResult, Number, Table};
use serde_json::Value;

/// The text of the element with this id.
fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    rest.split_once("</script>").unwrap().0
}

#[test]
fn a_page_is_whole_and_everything_in_it_is_escaped() {
    let mut table = Table::new([("<b>", Align::Left), ("n", Align::Right)]);
    let number = Number::Real(1234.5);
    table.row([
        Cell::from("a & \"b\" <script>"),
        Cell::number("1,234 \u{b1}2", number, "/x/mean".into()),
    ]);
    let line = CurveLine {
        name: "</script><b>".into(),
        points: vec![(1, 0.5), (2, 0.25)],
        error: None,
    };
    let empty = Section {
        id: "empty",
        intro: "nothing follows".into(),
        ..Section::default()
    };
    let full = Section {
        id: "s",
        title: "S",
        tables: vec![table],
        charts: vec![curves(&[line])],
        ..Section::default()
    };
    let page = Page {
        title: "<title>".into(),
        lead: "lead".into(),
        facts: vec![("seeds".into(), "1 2".into())],
        summary: Summary {
            headline: "better & faster".into(),
            paragraphs: vec![("because".into(), vec!["1 < 2".into()])],
        },
        sections: vec![full, empty],
        command: "coldset lab run 'a b' > \"x\"".into(),
        json: "{\"a\": \"</script>\"}\n".into(),
    };
    let page = page.render();
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(page.contains("<td>a &amp; &quot;b&quot; &lt;script&gt;</td>"));
    assert!(page.contains("data-value=\"1234.5\" data-json=\"/x/mean\">1,234 \u{b1}2</td>"));
    assert!(page.contains("coldset lab run 'a b' &gt; &quot;x&quot;"));
    assert!(!page.contains("id=\"empty\""));
    let json: Value = serde_json::from_str(element(&page, "result")).unwrap();
    assert_eq!(json["a"], "</script>");
    let charts: Value = serde_json::from_str(element(&page, "charts")).unwrap();
    assert_eq!(charts[0]["id"], "miss-ratio");
    // Three data elements and scripts of ours and of the library, each closed once.
    assert_eq!(
        page.matches("<script").count(),
        page.matches("</script>").count()
    );
    for outside in ["src=\"", "<link", "@import", "url("] {
        let ours = page.replace(include_str!("../../assets/vendor/vega.min.js"), "");
        let ours = ours.replace(include_str!("../../assets/vendor/vega-lite.min.js"), "");
        assert!(!ours.contains(outside), "{outside}");
    }
    assert!(page.len() < 1 << 20);
}

fn told(before: &[f64], after: &[f64], refaults: [f64; 2]) -> Summary {
    let seeds = before.len();
    let runs = runs(&[
        ("base", "ops", before),
        ("base", "workingset_refault_file", &vec![refaults[0]; seeds]),
        ("v5", "ops", after),
        ("v5", "workingset_refault_file", &vec![refaults[1]; seeds]),
    ]);
    let claims = [Claim::ratio("throughput", "ops", "base", "v5")
        .within(1.2, 2.0)
        .unit("ops/s")
        .higher_is_better()];
    let result = ExperimentResult::collect(header(), &runs, &claims).unwrap();
    summary::summary(&result, vec!["Smaller batches.".into()])
}

#[test]
fn the_summary_says_what_is_better_and_why() {
    let s = told(
        &[100.0, 102.0, 101.0],
        &[130.0, 131.0, 132.0],
        [5000.0, 1000.0],
    );
    assert!(
        s.headline.starts_with(
            "v5 is better: throughput is 101 ops/s with base and 131 ops/s with v5, +30\u{a0}%"
        ),
        "{}",
        s.headline
    );
    assert!(s.headline.contains("over 3 seeds"), "{}", s.headline);
    let (why, counters) = &s.paragraphs[1];
    assert!(
        why.starts_with("Why v5 is better: fewer pages are needed again"),
        "{why}"
    );
    assert_eq!(
        counters[0],
        "Refaults (pages): 5,000 \u{2192} 1,000 (\u{2212}80\u{a0}%): fewer pages are needed again after their \
         eviction, so the choice of what to evict is better."
    );
    let (heading, patches) = &s.paragraphs[2];
    assert_eq!(heading, "What v5 changes against base:");
    assert_eq!(patches, &["Smaller batches."]);
}

/// A kernel that forgets what it has evicted counts fewer refaults, and reads as much or more.
#[test]
fn refaults_that_are_not_recognised_are_no_gain() {
    let told = |after: [f64; 2]| {
        let runs = runs(&[
            ("v618", "workingset_refault_file", &[278_448.0; 2]),
            ("v618", "pgpgin", &[1_488_284.0; 2]),
            ("v72", "workingset_refault_file", &[after[0]; 2]),
            ("v72", "pgpgin", &[after[1]; 2]),
        ]);
        let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
        let found = causes::causes(&result.variants["v618"], &result.variants["v72"]);
        let of = found.iter().find(|c| c.sentence.starts_with("refaults"));
        of.expect("refaults moved").clone()
    };
    let forgotten = told([97_891.0, 1_607_604.0]);
    assert!(
        forgotten.sentence.contains("no sign of a better choice"),
        "{}",
        forgotten.sentence
    );
    assert_eq!(forgotten.good, None);
    assert_eq!(causes::reasons(&[forgotten], true), None);
    // Reads fall with them.
    let fewer = told([97_891.0, 1_488_284.0 - 4.0 * 180_000.0]);
    assert_eq!(fewer.good, Some(true), "{}", fewer.sentence);
}

#[test]
fn noise_and_losses_are_called_so() {
    let s = told(
        &[100.0, 140.0, 80.0],
        &[101.0, 90.0, 130.0],
        [5000.0, 5000.0],
    );
    assert!(
        s.headline.starts_with("No clear difference:"),
        "{}",
        s.headline
    );
    assert!(s.paragraphs[1].0.contains("do not differ beyond the noise"));
    let s = told(&[100.0, 101.0], &[50.0, 51.0], [1000.0, 5000.0]);
    assert!(s.headline.starts_with("v5 is worse:"), "{}", s.headline);
    assert!(s.paragraphs[1]
        .0
        .contains("more pages are evicted that are still needed"));
    let s = told(&[100.0], &[150.0], [10.0, 5.0]);
    assert!(
        s.headline.contains("one seed, so there is no interval"),
        "{}",
        s.headline
    );
}

#[test]
fn changes_are_written_for_people() {
    for (ratio, text) in [
        (1.284, "+28\u{a0}%"),
        (0.6, "\u{2212}40\u{a0}%"),
        (1.05, "+5.0\u{a0}%"),
        (12.34, "12.3 times as many"),
        (0.9998, "no change"),
        (0.0, "none left"),
        (f64::INFINITY, "new"),
    ] {
        assert_eq!(causes::change(ratio), text);
    }
}

/// One machine of the experiment says more, the other less: neither is a reason, and the page must not say the one that fits.
#[test]
fn what_goes_both_ways_is_no_reason() {
    let counters = |main: f64, other: f64, refaults: f64| {
        [
            ("direct_reclaim", [main; 3]),
            ("nodelay.direct_reclaim", [other; 3]),
            ("workingset_refault_file", [refaults; 3]),
        ]
    };
    let (before, after) = (counters(18.0, 218.0, 900.0), counters(333.0, 99.0, 300.0));
    let mut all = Vec::new();
    for (name, values) in &before {
        all.push(("base", *name, &values[..]));
    }
    for (name, values) in &after {
        all.push(("v5", *name, &values[..]));
    }
    let result = ExperimentResult::collect(header(), &runs(&all), &[]).unwrap();
    let said = summary::summary(&result, Vec::new());
    let (why, counters) = &said.paragraphs[1];
    assert!(
        why.starts_with("Why v5 is better: fewer pages are needed again"),
        "{why}"
    );
    assert!(!why.contains("reclaim for themselves"), "{why}");
    assert!(
        counters.iter().any(|c| c.contains("more often")),
        "{counters:?}"
    );
    assert!(
        counters.iter().any(|c| c.contains("less often")),
        "{counters:?}"
    );
    // And alone it makes nobody better or worse.
    let entries = |list: &[(&'static str, [f64; 3])]| list[..2].to_vec();
    let (before, after) = (entries(&before), entries(&after));
    let side = |variant, list: &[(&'static str, [f64; 3])]| {
        let each = list
            .iter()
            .map(|(name, values)| (variant, *name, values.to_vec()));
        each.collect::<Vec<_>>()
    };
    let mut all = side("base", &before);
    all.extend(side("v5", &after));
    let all: Vec<_> = all.iter().map(|(v, n, x)| (*v, *n, &x[..])).collect();
    let result = ExperimentResult::collect(header(), &runs(&all), &[]).unwrap();
    let said = summary::summary(&result, Vec::new());
    assert!(
        said.headline.starts_with("v5 behaves differently"),
        "{}",
        said.headline
    );
}

/// A seed without any before has no ratio; that alone makes no difference clear.
#[test]
fn seeds_with_nothing_before_are_judged_by_the_difference() {
    let moved = |before: [f64; 3], after: [f64; 3]| {
        let runs = runs(&[("base", "pswpin", &before), ("v5", "pswpin", &after)]);
        let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
        causes::causes(&result.variants["base"], &result.variants["v5"]).len()
    };
    assert_eq!(moved([0.0, 100.0, 50.0], [90.0, 0.0, 100.0]), 0);
    assert_eq!(moved([0.0, 10.0, 5.0], [190.0, 200.0, 197.0]), 1);
    assert_eq!(moved([0.0; 3], [20.0, 60.0, 200.0]), 1);
}

#[test]
fn misses_are_not_explained_by_the_time_that_reclaim_takes() {
    let runs = runs(&[
        ("classic", "lru_lock_acq", &[14_904.0]),
        ("classic", "pswpin", &[12_396.0]),
        ("arc", "lru_lock_acq", &[9_940.0]),
        ("arc", "pswpin", &[11_000.0]),
    ]);
    let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
    let all = causes::causes(&result.variants["classic"], &result.variants["arc"]);
    assert_eq!(all.len(), 2);
    let why = causes::reasons_of_misses(&all, true).unwrap();
    assert_eq!(why, "less comes back from swap");
}

/// Two tasks of a workload may be called `a_b` and `a-b`: their charts have places of their own.
#[test]
fn charts_of_equal_ids_have_places_of_their_own() {
    let chart = || curves(&[]);
    let section = Section::new("s", "S").charts(vec![chart(), chart(), chart()]);
    let page = Page {
        sections: vec![section],
        ..Page::default()
    };
    let page = page.render();
    for id in ["miss-ratio", "miss-ratio-2", "miss-ratio-3"] {
        assert_eq!(
            page.matches(&format!("data-chart=\"{id}\"")).count(),
            1,
            "{id}"
        );
        assert_eq!(page.matches(&format!("\"id\":\"{id}\"")).count(), 1, "{id}");
    }
}

use super::*;
use crate::{Claim, ExperimentResult, Header};
use serde_json::Value;

/// Two variants, two seeds, with every kind of series.
fn runs() -> Vec<RunResult> {
    let mut runs = Vec::new();
    for (variant, factor) in [("base", 2u64), ("v5", 1)] {
        for seed in 1..=2 {
            let mut run = RunResult::new(variant, seed);
            run.set("ops", 300 - 100 * factor + seed);
            run.set("stalls", 320 / (factor * factor * factor) + seed);
            for part in ["a.", "b."] {
                for i in 0..50u64 {
                    let at = i * 1_000_000_000;
                    run.point(format!("{part}pgscan"), at, i * factor * 100);
                    run.point(format!("{part}pgsteal"), at, i * 50);
                    run.point(format!("{part}throttled_ns"), at, i * factor * 1_000_000);
                    run.point(format!("{part}gen0_file"), at, 1000 + i);
                    run.point(format!("{part}gen3_file"), at, 100 * factor);
                    run.point(format!("{part}no such series"), at, i);
                }
            }
            let cells = vec![(1_000_000, 90), (2_000_000 * factor, 9), (50_000_000, 1)];
            run.histograms.insert("request".into(), cells);
            runs.push(run);
        }
    }
    runs
}

fn charts() -> Vec<Chart> {
    let runs = runs();
    let claims = [
        Claim::ratio("throughput", "ops", "base", "v5")
            .within(1.0, 3.0)
            .published_pair(1.0, 1.9)
            .unit("ops/s")
            .higher_is_better(),
        Claim::ratio("stalls", "stalls", "base", "v5").within(2.0, 9.0),
    ];
    let result = ExperimentResult::collect(Header::default(), &runs, &claims).unwrap();
    experiment(&result, &runs, &[])
}

/// Every axis of a specification, with its channel.
fn axes<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if matches!(key.as_str(), "x" | "y") && inner.get("field").is_some() {
                    found.push((key, inner));
                }
                axes(inner, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| axes(v, found)),
        _ => {}
    }
}

#[test]
fn every_chart_is_there_once_and_every_axis_has_a_title() {
    let charts = charts();
    let ids: Vec<&str> = charts.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "measures",
            "measures-large",
            "generations-a",
            "generations-b",
            "scan",
            "stalls",
            "latency-request"
        ]
    );
    for chart in &charts {
        let mut found = Vec::new();
        axes(&chart.spec, &mut found);
        assert!(found.len() >= 2, "{}", chart.id);
        for (channel, axis) in found {
            let title = axis["title"].as_str().unwrap_or("");
            assert!(!title.is_empty(), "{} {channel}", chart.id);
            let quantity = axis["type"] == "quantitative";
            let has_unit =
                title.contains(',') || title.contains("per s") || title.contains("pages");
            assert!(!quantity || has_unit, "{}: '{title}'", chart.id);
        }
        assert!(!chart.about.is_empty() && !chart.title.is_empty());
    }
    assert_eq!(charts, super::tests::charts(), "equal results, equal bytes");
}

fn rows(chart: &Chart) -> Vec<Vec<String>> {
    let text = chart.spec["data"]["values"].as_str().unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let cells = |r: csv::StringRecord| r.iter().map(str::to_owned).collect();
    reader.records().map(|r| cells(r.unwrap())).collect()
}

#[test]
fn numbers_are_those_of_the_runs() {
    let charts = charts();
    let find = |id: &str| charts.iter().find(|c| c.id == id).unwrap();
    // 101.5 and 201.5 operations; 190 % published, for the last variant only.
    let measures = rows(find("measures"));
    assert_eq!(measures[0][..3], ["throughput \u{2191}", "base", "100"]);
    assert_eq!(measures[1][2], "198.5");
    assert_eq!(
        (measures[0][5].as_str(), measures[1][5].as_str()),
        ("", "190")
    );
    // 41.5 before, 321.5 after.
    let large = rows(find("measures-large"));
    assert_eq!(large[1][..3], ["stalls", "v5", "774.7"]);
    // 200 pages a second scanned before, 100 after, 50 stolen.
    let scan = rows(find("scan"));
    let rate = |variant: &str, series: &str| {
        let row = scan
            .iter()
            .find(|r| r[2] == variant && r[3] == series)
            .unwrap();
        row[1].clone()
    };
    assert_eq!(rate("base", "scanned"), "200");
    assert_eq!(rate("v5", "scanned"), "100");
    assert_eq!(rate("v5", "stolen"), "50");
    // 2 ms in each second.
    let stalls = rows(find("stalls"));
    assert_eq!(stalls[0][1], "2");
    let generations = rows(find("generations-a"));
    assert!(generations
        .iter()
        .any(|r| r[3] == "base" && r[4] == "file, 4th" && r[2] == "200"));
    // One of 100 is slower than 2 ms before, and 10 are slower than 1 ms.
    let latency = rows(find("latency-request"));
    assert_eq!(latency[0], ["1", "10", "base"]);
    assert_eq!(latency[1], ["4", "1", "base"]);
}

#[test]
fn without_runs_there_are_measures_only() {
    let runs = runs();
    let result = ExperimentResult::collect(Header::default(), &runs, &[]).unwrap();
    let ids: Vec<String> = experiment(&result, &[], &[])
        .into_iter()
        .map(|c| c.id)
        .collect();
    assert_eq!(ids, ["measures", "measures-large"]);
}

#[test]
fn curves_have_lines_marks_and_bands() {
    let line = |name: &str, points: &[(u64, f64)], error| CurveLine {
        name: name.into(),
        points: points.to_vec(),
        error,
    };
    let chart = curves(&[
        line("lru", &[(256, 0.5), (512, 0.25)], Some(0.01)),
        line("base", &[(256, 0.6)], None),
    ]);
    let rows = rows(&chart);
    assert_eq!(rows[0], ["1", "50", "49", "51", "lru", "line"]);
    assert_eq!(rows[2][5], "mark");
    assert_eq!(chart.spec["layer"].as_array().unwrap().len(), 3);
    let plain = curves(&[line("lru", &[(1, 1.0), (2, 0.5)], None)]);
    assert_eq!(plain.spec["layer"].as_array().unwrap().len(), 2);
}

#[test]
fn short_numbers() {
    let cases = [
        (0.0, "0"),
        (1234.56, "1235"),
        (0.012345, "0.01235"),
        (99.999, "100"),
        (5.0, "5"),
    ];
    for (x, text) in cases {
        assert_eq!(spec::short(x), text);
    }
}

/// More variants than a chart can tell apart: "after" is drawn, no colour stands for two, and what is left out is named.
#[test]
fn of_many_variants_the_last_is_drawn_and_the_others_are_named() {
    let names: Vec<String> = (1..=12).map(|i| format!("variant{i}")).collect();
    let mut runs = Vec::new();
    for name in &names {
        for run in self::runs().into_iter().filter(|r| r.variant == "base") {
            let variant = name.clone();
            runs.push(RunResult { variant, ..run });
        }
    }
    let claims = [Claim::ratio("throughput", "ops", "variant1", "variant12").within(0.5, 3.0)];
    let result = ExperimentResult::collect(Header::default(), &runs, &claims).unwrap();
    let all = experiment(&result, &runs, &[]);
    assert!(all.len() >= 6, "{}", all.len());
    for chart in &all {
        let text = chart.spec["data"]["values"].as_str().unwrap();
        for name in &names {
            let drawn = text.contains(&format!("{name},")) || text.contains(&format!("{name}\n"));
            let words = chart.about.rsplit(". ").next().unwrap_or("");
            let said = words
                .split([',', ' ', '.'])
                .any(|word| word == name.as_str());
            assert!(
                drawn != said,
                "{}: {name} {drawn} {said}: {}",
                chart.id,
                chart.about
            );
        }
        assert!(text.contains("variant12"), "{}", chart.id);
        let mut colours = Vec::new();
        ranges(&chart.spec, &mut colours);
        let different: std::collections::BTreeSet<&str> = colours.iter().copied().collect();
        assert_eq!(different.len(), colours.len(), "{}: {colours:?}", chart.id);
    }
}

/// The colours of the variants, once.
fn ranges<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    if !found.is_empty() {
        return;
    }
    match value {
        Value::Object(map) => {
            if map.get("field").is_some_and(|f| f == "variant") {
                let range = map.get("scale").and_then(|s| s["range"].as_array());
                found.extend(range.into_iter().flatten().filter_map(Value::as_str));
            }
            map.values().for_each(|v| ranges(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| ranges(v, found)),
        _ => {}
    }
}

#[test]
fn what_is_said_of_bars_is_true_of_one_seed_and_of_zero() {
    let mut runs = Vec::new();
    for (variant, sleeps) in [("base", 0u64), ("v5", 250)] {
        let mut run = RunResult::new(variant, 1);
        run.set("ops", 100u64);
        run.set("sleeps", sleeps);
        runs.push(run);
    }
    let claims = ["ops", "sleeps"]
        .map(|counter| Claim::ratio(counter, counter, "base", "v5").within(0.5, 3.0));
    let result = ExperimentResult::collect(Header::default(), &runs, &claims).unwrap();
    let all = experiment(&result, &runs, &[]);
    let about = &all[0].about;
    assert!(
        about.contains("one seed, so there is no interval"),
        "{about}"
    );
    assert!(!about.contains("confidence"), "{about}");
    assert!(
        about.ends_with("relative to 0 with base: sleeps."),
        "{about}"
    );
}

/// A logarithmic axis has no place for those that miss nothing, which is the best there is.
#[test]
fn marks_without_a_miss_are_named() {
    let mark = |name: &str, ratio| CurveLine {
        name: name.into(),
        points: vec![(512, ratio)],
        error: None,
    };
    let about = curves(&[mark("v5", 0.0), mark("fifo", 0.25)]).about;
    assert!(
        about.ends_with(" Without a mark, for they miss nothing: v5 with 2 MiB."),
        "{about}"
    );
    assert!(!curves(&[mark("fifo", 0.25)])
        .about
        .contains("Without a mark"));
}

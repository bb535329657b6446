use super::*;
use crate::experiment_json;

fn experiment(file: ReadFile) -> ReadResult {
    match file {
        ReadFile::Experiment(result) => *result,
        ReadFile::Replays(r) => panic!("{} is of a trace", r.name),
    }
}

/// A file of these runs.
fn written(name: &str, scale: (&str, &str), runs: &[RunResult]) -> ReadResult {
    let header = Header {
        experiment: "mongodb".into(),
        scale: scale.0.into(),
        effort: scale.1.into(),
        ..Header::default()
    };
    let result = ExperimentResult::collect(header, runs, &[]).unwrap();
    experiment(read(name, &experiment_json(&result)).unwrap())
}

fn file(scale: &str, seeds: u64, variants: &[&str], gain: u64) -> ReadResult {
    let mut runs = Vec::new();
    for variant in variants {
        for seed in 1..=seeds {
            let mut run = RunResult::new(*variant, seed);
            run.set("pgscan", 1000 + seed);
            run.set("throughput", 1000 * gain + seed);
            run.set("odd", 0.5);
            runs.push(run);
        }
    }
    written(scale, (scale, "1"), &runs)
}

/// What the experiment is about.
fn claims(experiment: &str) -> Vec<Claim> {
    assert_eq!(experiment, "mongodb");
    vec![
        Claim::ratio("throughput", "throughput", "before", "after").higher_is_better(),
        Claim::ratio("throughput", "throughput", "before", "after").lower_is_better(),
    ]
}

/// From 1 and 0 to 0 and 0 is down to nothing, not to a half.
#[test]
fn seeds_with_nothing_on_both_sides_are_in_no_ratio() {
    let file = |name: &str, kills: [u64; 2]| {
        let runs = (1..).zip(kills).map(|(seed, kills)| {
            let mut run = RunResult::new("v5", seed);
            run.set("kills", kills);
            run.set("none", 0u64);
            run
        });
        written(name, ("", ""), &runs.collect::<Vec<_>>())
    };
    let c = compare(&file("b", [1, 0]), &file("a", [0, 0]), |_| Vec::new()).unwrap();
    let ratio = |counter: &str| {
        let row = c.variants[0].rows.iter().find(|r| r.counter == counter);
        row.unwrap().ratio.as_ref().map(|r| r.mean)
    };
    assert_eq!(ratio("kills"), Some(0.0));
    assert_eq!(ratio("none"), Some(1.0), "no change");
}

#[test]
fn common_variants_and_seeds_are_compared() {
    let before = file("1/64", 3, &["base", "v5"], 2);
    let after = file("1/32", 2, &["v5", "classic"], 3);
    let c = compare(&before, &after, claims).unwrap();
    assert_eq!(c.seeds, [1, 2]);
    assert_eq!(
        c.differing[0],
        ("scale".into(), "1/64".into(), "1/32".into())
    );
    assert_eq!(c.differing[1].0, "seeds");
    assert_eq!(
        c.alone,
        [
            ("base".into(), "1/64".into()),
            ("classic".into(), "1/32".into())
        ]
    );
    let [v5] = c.variants.as_slice() else {
        panic!("one variant in common")
    };
    assert_eq!(v5.rows[0].counter, "throughput");
    assert_eq!(v5.rows[0].verdict, Verdict::Better);
    assert!((v5.rows[0].ratio.as_ref().unwrap().median - 1.4993).abs() < 1e-3);
    assert_eq!(v5.rows[0].before.mean.as_f64(), 2001.5);
    let scan = v5.rows.iter().find(|r| r.counter == "pgscan").unwrap();
    assert_eq!(scan.verdict, Verdict::Equal);
    let text = render_comparison(&c, crate::Style::Plain);
    for part in [
        "before:v5",
        "after:v5",
        "scale: 1/64 before, 1/32 after",
        "base is in 1/64 only",
        "better",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&comparison_json(&c)).unwrap();
    assert_eq!(json["variants"]["v5"]["throughput"]["verdict"], "better");
    assert_eq!(
        json["variants"]["v5"]["throughput"]["before"]["mean"],
        2001.5
    );
}

#[test]
fn what_cannot_be_compared_is_named() {
    let base = file("1/64", 2, &["base"], 1);
    let other = file("1/64", 2, &["v5"], 1);
    let error = compare(&base, &other, claims).unwrap_err().to_string();
    assert!(error.contains("no variant in common (base; v5)"), "{error}");
    let fails = |text: &str| read("f.json", text).unwrap_err().to_string();
    for (text, part) in [
        ("", "f.json: not JSON"),
        ("{}", "no \"parameters\""),
        (r#"{"experiments": []}"#, "lab verify"),
        (r#"{"variants": {}, "bounds": {}}"#, "no variants in it"),
        (r#"{"bounds": {}}"#, "no \"variants\" in it"),
        (r#"{"replays": 7}"#, "\"replays\" is no list"),
        (
            r#"{"bounds": {}, "variants": {"v5": {"misses": {"per_seed": ["x"]}}}}"#,
            "counter misses of v5 has no numbers",
        ),
        (
            r#"{"bounds": {}, "variants": {"v5": {"misses": {"per_seed": []}}}}"#,
            "counter misses of v5 has no numbers",
        ),
        (
            r#"{"experiment": "x", "scale": "1", "effort": "1", "parameters": {}, "seeds": [1],
                "variants": {"a": {"c": {"per_seed": []}}}}"#,
            "counter c of variant a has no number for seed 1",
        ),
    ] {
        let said = fails(text);
        assert!(said.contains(part) && said.contains("lab run"), "{said}");
    }
}

fn replays(name: &str, text: &str) -> ReadReplays {
    match read(name, text).unwrap() {
        ReadFile::Replays(replays) => replays,
        ReadFile::Experiment(_) => panic!("{name} is of an experiment"),
    }
}

const REPLAYED: &str = r#"{"trace": "zipf.pageops", "bounds": {"memory_pages": 4096}, "variants": {
    "classic": {"pgscan": {"per_seed": [7]}, "misses": {"per_seed": [100]}},
    "v618": {"aging_runs": {"per_seed": [7]}, "pgrefill": {"per_seed": [0]}, "misses": {"per_seed": [200]}}}}"#;
const PLAYED: &str = r#"{"trace": "zipf.pageops", "memory_pages": 4096,
    "played": {"machine": "Linux 6.18.15", "machine_wide": ["pgrefill", "pgfault"]}, "variants": {
    "6.18.15 multi-gen": {"pgrefill": {"per_seed": [9, 9]}, "misses": {"per_seed": [190, 230]}},
    "v618": {"misses": {"per_seed": [100]}}}}"#;

#[test]
fn columns_of_one_name_are_compared() {
    let c = compare_replays(&replays("a.json", REPLAYED), &replays("b.json", PLAYED)).unwrap();
    assert!(c.by_place.is_none() && c.differing.is_empty());
    let [v618] = c.columns.as_slice() else {
        panic!("one name in common")
    };
    let with = "zipf.pageops replayed with v618".to_owned();
    assert_eq!(v618.what, [with.clone(), with]);
    assert_eq!(v618.rows[0].change, Some(-0.5));
    assert_eq!(v618.rows[0].verdict, Verdict::Changed);
    assert_eq!(
        v618.alone,
        [vec!["aging_runs".to_owned(), "pgrefill".into()], vec![]]
    );
    let alone: Vec<&str> = c.alone.iter().map(|(column, _)| column.as_str()).collect();
    assert_eq!(alone, ["classic", "6.18.15 multi-gen"]);
}

#[test]
fn else_the_first_is_compared_with_the_first() {
    let only = REPLAYED
        .replace("\"v618\"", "\"v72\"")
        .replace("4096", "8192");
    let c = compare_replays(&replays("b.json", PLAYED), &replays("a.json", &only)).unwrap();
    assert!(c.by_place.is_some());
    let pair = &c.columns[0];
    assert_eq!(pair.what[0], "zipf.pageops played on 6.18.15 multi-gen");
    assert_eq!(pair.what[1], "zipf.pageops replayed with classic");
    let misses = &pair.rows[0];
    assert_eq!(
        (misses.counter.as_str(), misses.verdict),
        ("misses", Verdict::Changed)
    );
    assert!((misses.change.unwrap() + 110.0 / 210.0).abs() < 1e-9);
    let text = render_replay_comparison(&c, crate::Style::Plain);
    for part in [
        "memory: 4096 pages before, 8192 pages after",
        "6.18.15 multi-gen and classic are compared as the first of each file",
        "\u{b1}9.5 %",
        "-52.4 %",
        "counted after only: pgscan",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&replay_comparison_json(&c)).unwrap();
    assert_eq!(
        json["columns"][0]["counters"]["misses"]["before"]["mean"],
        210
    );
    assert_eq!(
        json["columns"][0]["before_only"],
        serde_json::json!(["pgrefill"])
    );
}

#[test]
fn kernels_are_compared_whatever_their_names() {
    let after = PLAYED.replace("6.18.15 multi-gen", "7.2.12 multi-gen");
    let c = compare_replays(&replays("a", PLAYED), &replays("b", &after)).unwrap();
    let names: Vec<&[String; 2]> = c.columns.iter().map(|c| &c.names).collect();
    let kernels = ["6.18.15 multi-gen".to_owned(), "7.2.12 multi-gen".into()];
    assert_eq!(names, [&kernels, &["v618".to_owned(), "v618".into()]]);
    assert!(c.by_place == Some(kernels) && c.alone.is_empty());
}

#[test]
fn runs_that_overlap_are_noise() {
    let after = PLAYED.replace("[190, 230]", "[225, 300]");
    let c = compare_replays(&replays("a", PLAYED), &replays("b", &after)).unwrap();
    let row = |name: &str| {
        c.columns[0]
            .rows
            .iter()
            .find(|r| r.counter == name)
            .unwrap()
    };
    assert_eq!(row("misses").verdict, Verdict::Noise);
    assert_eq!(row("pgrefill").verdict, Verdict::Equal);
    assert_eq!(c.columns[0].machine_wide, ["pgrefill"]);
}

#[test]
fn kernels_and_several_limits_are_columns() {
    let guests = r#"{"played": {"7.2 multi-gen": {"machine_wide": []}}, "variants": {
        "7.2 multi-gen": {"misses": {"per_seed": [3]}}, "v72": {"misses": {"per_seed": [3]}}}}"#;
    let table = |pages: u32| {
        format!("{{\"bounds\": {{\"memory_pages\": {pages}}}, \"variants\": {{\"v72\": {{\"misses\": {{\"per_seed\": [4]}}}}}}}}")
    };
    let limits = format!("{{\"replays\": [{}, {}]}}", table(10), table(20));
    let c = compare_replays(&replays("a", guests), &replays("b", &limits)).unwrap();
    assert_eq!(c.columns[0].what[0], "a trace played on 7.2 multi-gen");
    assert_eq!(c.columns[0].what[1], "a trace replayed with v72, 10 pages");
    assert_eq!(c.alone[1].0, "v72, 20 pages");
    // One table under one of the limits: that is the column it is compared with.
    let one = table(20);
    for (before, after) in [(&one, &limits), (&limits, &one)] {
        let c = compare_replays(&replays("a", before), &replays("b", after)).unwrap();
        assert_eq!(c.columns.len(), 1);
        assert_eq!(c.columns[0].names, ["v72, 20 pages", "v72, 20 pages"]);
        assert!(c.by_place.is_none());
        assert_eq!(c.alone.len(), 1, "{:?}", c.alone);
    }
    let none = guests.replace("misses", "other");
    let error = compare_replays(&replays("a", &none), &replays("b", &limits)).unwrap_err();
    assert!(
        error.to_string().contains("no counter in common"),
        "{error}"
    );
}

/// Costs and the like have a name each; limits are told apart by their pages; what one of them does not say is its default.
#[test]
fn settings_that_differ_are_named() {
    let with = |settings: &str| {
        let counters = r#"{"misses": {"mean": 1, "ci95": null, "per_seed": [1]}}"#;
        let variants = format!(r#"{{"v5": {counters}}}"#);
        format!(
            r#"{{"variants": {variants}, "bounds": {{"memory_pages": 10}}, "settings": {settings}}}"#
        )
    };
    let one = with(
        r#"{"memory": ["50%"], "swap": "none", "swappiness": 60, "clock": null, "low": {"0": "25%"}, "cost": {}}"#,
    );
    let other = with(
        r#"{"memory": ["10pages"], "swap": "nvme:9pages", "swappiness": 60, "clock": "0:0,1:2", "low": {},
            "cost": {"nvme_read_lat_ns": 5}, "events": ["a", "b"]}"#,
    );
    let c = compare_replays(&replays("a", &one), &replays("b", &other)).unwrap();
    let said: Vec<String> = c
        .differing
        .iter()
        .map(|(n, b, a)| format!("{n}: {b}, {a}"))
        .collect();
    let expected = [
        "swap: none, nvme:9pages",
        "low 0: 25%, default",
        "clock: default, 0:0,1:2",
        "cost nvme_read_lat_ns: default, 5",
        "events: default, a, b",
    ];
    assert_eq!(said, expected);
    // Of an older version of the program nothing is known.
    let old = one.replace("settings", "earlier");
    let c = compare_replays(&replays("a", &old), &replays("b", &other)).unwrap();
    assert!(c.differing.is_empty());
}

/// Counters of a part of the trace say nothing beside those of the whole one.
#[test]
fn what_was_killed_is_not_compared() {
    let replay = |killed: &str, misses: u64, oom: u64| {
        let text = format!(
            r#"{{"trace": "t", "bounds": {{"memory_pages": 256}}, "variants": {{"v5": {{
                "misses": {{"per_seed": [{misses}]}}, "events_oom_kill": {{"per_seed": [{oom}]}}{killed}}}}}}}"#
        );
        replays("a.json", &text)
    };
    let killed = |after: u64, misses| {
        replay(
            &format!(r#", "killed_after": {{"per_seed": [{after}]}}"#),
            misses,
            1,
        )
    };
    let whole = replay("", 7093, 0);
    let c = compare_replays(&killed(256_902, 1584), &whole).unwrap();
    let names: Vec<&str> = c.columns[0]
        .rows
        .iter()
        .map(|r| r.counter.as_str())
        .collect();
    assert_eq!(names, ["events_oom_kill"]);
    let text = render_replay_comparison(&c, crate::Style::Plain);
    assert!(
        text.contains("before was killed for lack of memory, after 256,902 accesses"),
        "{text}"
    );
    assert!(!text.contains("misses"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&replay_comparison_json(&c)).unwrap();
    assert_eq!(json["columns"][0]["before"]["killed_after"], 256_902);
    assert!(json["columns"][0]["after"]["killed_after"].is_null());
    // Killed at the same access, both have done the same.
    let c = compare_replays(&killed(500, 10), &killed(500, 20)).unwrap();
    assert!(c.columns[0].rows.iter().any(|r| r.counter == "misses"));
    let c = compare_replays(&killed(500, 10), &killed(501, 20)).unwrap();
    assert!(c.columns[0].rows.iter().all(|r| r.counter != "misses"));
}

#[test]
fn a_file_of_several_limits_says_them() {
    let one = REPLAYED;
    let several = format!(
        r#"{{"trace": "zipf.pageops", "replays": [{one}, {}]}}"#,
        one.replace("4096", "8192")
    );
    let c = compare_replays(&replays("a.json", one), &replays("b.json", &several)).unwrap();
    let memory = (
        "memory".to_owned(),
        "4096 pages".to_owned(),
        "4096, 8192 pages".to_owned(),
    );
    assert_eq!(c.differing, [memory]);
}

/// The page says at its top what differs in how the two were made, and who was killed.
#[test]
fn the_page_of_two_replays_begins_with_what_differs() {
    let file = |name: &str, settings: &str, killed: &str, misses: u64| {
        let text = format!(
            r#"{{"trace": "t", "bounds": {{"memory_pages": 256}}, "settings": {settings}, "variants": {{"v5": {{
                "misses": {{"per_seed": [{misses}]}}{killed}}}}}}}"#
        );
        replays(name, &text)
    };
    let summary = |before: &ReadReplays, after: &ReadReplays| {
        let page = crate::html::compare_replays(&compare_replays(before, after).unwrap(), "c");
        let (_, rest) = page.split_once("<section id=\"summary\">").unwrap();
        rest.split_once("</section>").unwrap().0.to_owned()
    };
    let (plain, own) = (r#"{"own_pages": 0}"#, r#"{"own_pages": 500}"#);
    let said = summary(&file("b", plain, "", 100), &file("a", own, "", 150));
    assert!(
        said.contains("misses: +50\u{a0}% from before to after, t replayed with v5."),
        "{said}"
    );
    assert!(said.contains("own_pages: 0 before, 500 after."), "{said}");
    // To nothing is a change as well.
    let said = summary(&file("b", plain, "", 100), &file("a", plain, "", 0));
    assert!(said.contains("misses: none left"), "{said}");
    let killed = r#", "killed_after": {"per_seed": [861]}, "events_oom_kill": {"per_seed": [1]}"#;
    let lived = r#", "events_oom_kill": {"per_seed": [0]}"#;
    let said = summary(&file("b", plain, lived, 100), &file("a", plain, killed, 10));
    let headline = "t replayed with v5 against t replayed with v5: after was killed for lack of memory, after 861 accesses; its \
                    counters are those of a part of the trace, and are not compared.";
    assert!(said.contains(headline), "{said}");
}

/// Settings of a replay are not those of a measurement; those of two measurements are named.
#[test]
fn settings_of_measurements_are_named() {
    let played = |settings: &str| {
        let text = format!(
            r#"{{"trace": "t", "memory_pages": 256, "settings": {settings}, "played": {{"machine": "m"}},
                "variants": {{"6.18 classic": {{"misses": {{"per_seed": [4]}}}}}}}}"#
        );
        replays("p", &text)
    };
    let one = played(r#"{"order": "strict", "tasks": "processes", "exact_access": 0, "low": {}}"#);
    let other = played(
        r#"{"order": "per-task", "tasks": "threads", "exact_access": 64, "low": {"0": "4MiB"}, "high": null}"#,
    );
    let c = compare_replays(&one, &other).unwrap();
    let names: Vec<&str> = c.differing.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["order", "tasks", "exact_access", "low 0"]);
    let replayed = REPLAYED.replacen('{', r#"{"settings": {"device": "nvme"}, "#, 1);
    let c = compare_replays(&replays("r", &replayed), &one).unwrap();
    assert!(
        c.differing.iter().all(|(name, ..)| name != "device"),
        "{:?}",
        c.differing
    );
}

#[test]
fn the_page_of_equal_results_names_no_culprit() {
    let one = file("1", 2, &["v5"], 1);
    let page =
        |after: &ReadResult| crate::html::compare(&compare(&one, after, claims).unwrap(), "c");
    let same = page(&one);
    assert!(same.contains("The headers of both files are the same, and so is every counter."));
    let other = page(&file("1", 2, &["v5"], 2));
    assert!(other.contains("what differs is not in them"));
    assert!(!other.contains("so is every counter"));
}

/// A difference of which some seeds have no ratio is noise or not by the difference itself.
#[test]
fn seeds_with_nothing_before_are_no_proof_of_a_change() {
    let file = |values: [u64; 3]| {
        let runs = (1..).zip(values).map(|(seed, value)| {
            let mut run = RunResult::new("v5", seed);
            run.set("pswpin", value);
            run
        });
        written("f", ("", ""), &runs.collect::<Vec<_>>())
    };
    let verdict = |before, after| {
        let c = compare(&file(before), &file(after), |_| Vec::new()).unwrap();
        c.variants[0].rows[0].verdict
    };
    assert_eq!(verdict([0, 100, 50], [90, 0, 100]), Verdict::Noise);
    assert_eq!(verdict([0, 10, 5], [190, 200, 197]), Verdict::Changed);
    assert_eq!(verdict([0, 0, 0], [20, 60, 200]), Verdict::Changed);
}

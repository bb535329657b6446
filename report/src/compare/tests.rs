use super::*;
use crate::experiment_json;

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
    let header = Header {
        experiment: "mongodb".into(),
        scale: scale.into(),
        effort: "1".into(),
        ..Header::default()
    };
    let result = ExperimentResult::collect(header, &runs, &[]).unwrap();
    read(scale, &experiment_json(&result)).unwrap()
}

/// What the experiment is about.
fn claims(experiment: &str) -> Vec<Claim> {
    assert_eq!(experiment, "mongodb");
    vec![
        Claim::ratio("throughput", "throughput", "before", "after").higher_is_better(),
        Claim::ratio("throughput", "throughput", "before", "after").lower_is_better(),
    ]
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
        (r#"{"variants": {}, "bounds": {}}"#, "lab replay"),
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

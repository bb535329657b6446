//! `coldset lab verify` and `coldset lab ablate`.

use crate::common::{json_of, lab, message_of, stdout_of, temporary};
use serde_json::Value;
use std::fs;

/// A class A or B claim of an experiment is out.
fn refused(experiment: &Value) -> bool {
    let claims = experiment["claims"].as_array().expect("claims");
    claims
        .iter()
        .any(|c| c["pass"] == false && (c["class"] == "A" || c["class"] == "B"))
}

/// The quickest of all.
const EXPERIMENT: &str = "throttling-oom";

#[test]
fn the_acceptance_table_and_its_json_agree() {
    let arguments = format!("verify --only {EXPERIMENT} --quick");
    let run = lab(&arguments[..]);
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    let out = lab(&format!("{arguments} --json -")[..]);
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let experiment = &json["experiments"][0];
    assert_eq!(experiment["experiment"], EXPERIMENT);
    assert_eq!(json["failed"].as_array().map(Vec::len), Some(0));
    let code = i32::from(refused(experiment));
    assert_eq!(run.status.code(), Some(code));
    assert_eq!(out.status.code(), Some(code));
    for heading in [
        "experiment",
        "claim",
        "class",
        "published",
        "ours",
        "band",
        "verdict",
    ] {
        assert!(text.contains(heading), "{text}");
    }
    let first_word = |c: &Value| {
        let name = c["name"].as_str().expect("name");
        name.split(' ').next().expect("a word").to_owned()
    };
    for claim in experiment["claims"].as_array().expect("claims") {
        assert!(text.contains(&first_word(claim)), "{claim}: {text}");
    }
    assert!(
        text.contains(&format!("Mechanism of {EXPERIMENT}")),
        "{text}"
    );
    let alone = json_of(&format!("run {EXPERIMENT} --seeds 1 --json -")[..], code);
    assert_eq!(*experiment, alone);
}

#[test]
fn sensitivity_is_part_of_the_result() {
    let arguments = format!("verify --only {EXPERIMENT} --quick --sensitivity --json -");
    let out = lab(&arguments[..]);
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let costings = json["sensitivity"]["costings"]
        .as_array()
        .expect("costings");
    assert_eq!(costings.len(), 2);
    let claims = json["sensitivity"]["claims"].as_array().expect("claims");
    assert_eq!(
        claims.len(),
        json["experiments"][0]["claims"]
            .as_array()
            .map_or(0, Vec::len)
    );
    for claim in claims {
        assert_eq!(claim["sign_kept"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn an_ablation_of_a_trace_has_the_reads_of_replays() {
    let made = json_of("ablate SAMPLE --memory 25% --json -", 0);
    let replay = json_of("replay SAMPLE --memory 25% --variants base,v5 --json -", 0);
    let misses = |name: &str| replay["variants"][name]["misses"]["mean"].as_f64();
    assert_eq!(made["before_cost"]["reads"].as_f64(), misses("base"));
    assert_eq!(made["whole"]["cost"]["reads"].as_f64(), misses("v5"));
    assert_eq!(made["changes"].as_array().expect("list").len(), 8);
    let text = message_of("ablate mongodb --memory 25%", 2);
    assert!(text.contains("goes with a trace"), "{text}");
    let text = message_of("ablate SAMPLE --scale 1/64", 2);
    assert!(text.contains("go with an experiment"), "{text}");
    let text = message_of("ablate nosuch", 2);
    assert!(text.contains("no experiment 'nosuch'"), "{text}");
}

#[test]
fn an_ablation_has_every_patch_both_ways() {
    let path = temporary("ablation.json");
    let to = path.to_str().expect("a path in UTF-8");
    let size = ["--seeds", "1", "--scale", "1/256", "--json", to];
    let text = stdout_of(&[&["ablate", "mongodb"][..], &size].concat(), 0);
    for patch in [4, 5, 6, 7, 8, 9, 10, 14] {
        assert!(text.contains(&format!("patch {patch}:")), "{text}");
    }
    let json: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let changes = &json["ablation"]["metrics"][0]["changes"];
    assert_eq!(changes.as_array().map(Vec::len), Some(8));
    assert!(json["variants"]["v5 without patch 9"]["pgscan"]["mean"].is_number());
    fs::remove_file(path).expect("our own file");
}

#[test]
fn mistakes_are_one_line() {
    let text = message_of("verify --only mongo", 2);
    assert!(text.contains("did you mean 'mongodb'"), "{text}");
    let text = message_of("ablate mongodb --variants base", 2);
    assert!(text.contains("BEFORE,AFTER"), "{text}");
    let text = message_of("ablate mongodb --variants v5,series-v5", 2);
    assert!(text.contains("differ in a switch"), "{text}");
}

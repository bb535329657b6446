//! Pages of results, and comparing two results.

use crate::common::{json_of, lab, message_of, sample, stdout_of, temporary};
use serde_json::{json, Value};
use std::path::Path;

/// A run of a second.
const RUN: [&str; 8] = [
    "run", "mongodb", "--seeds", "2", "--scale", "1/512", "--effort", "0.1",
];

fn name(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// `coldset lab ARGUMENTS --report FILE`: the page, and standard output.
fn page_of(arguments: &[&str], file: &str, codes: &[i32]) -> (String, String) {
    let path = temporary(file);
    let mut all = arguments.to_vec();
    all.extend(["--report", name(&path)]);
    let out = lab(&all);
    let stderr = String::from_utf8_lossy(&out.stderr);
    let code = out.status.code().expect("an exit code");
    assert!(codes.contains(&code), "{all:?}: {code} {stderr}");
    assert_eq!(stderr, format!("report: {}\n", name(&path)), "{all:?}");
    let page = std::fs::read_to_string(&path).expect("a page");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    (page, text)
}

fn result_in(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"result\">").expect("the result");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn the_page_of_a_run_holds_its_numbers_and_its_command() {
    let (page, text) = page_of(&RUN, "run.html", &[0, 1]);
    assert!(text.starts_with("mongodb: scale 1/512"), "{text}");
    let mut arguments = RUN.to_vec();
    arguments.extend(["--json", "-"]);
    let out = lab(&arguments);
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(result_in(&page), json, "sampling changes no number");
    assert!(page.contains("<h1>mongodb: base against v5</h1>"));
    let command = "<code>coldset lab run mongodb --seeds 2 --scale 1/512 --effort 0.1 --report ";
    assert!(page.contains(command));
    for part in [
        "nvme_read_lat_ns",
        "limit_mib",
        "smaller batch",
        "id=\"chart-generations\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let again = page_of(&RUN, "run.html", &[0, 1]).0;
    assert!(page == again, "the command makes the same page");
}

#[test]
fn pages_of_replays_and_of_other_commands() {
    let s = sample();
    let replay = ["replay", &s, "--memory", "25%,50%", "--variants", "base,v5"];
    let (page, _) = page_of(&replay, "replay.html", &[0]);
    assert_eq!(
        result_in(&page)["replays"].as_array().map(Vec::len),
        Some(2)
    );
    assert!(page.contains("id=\"chart-miss-ratio\""));
    let verify = ["verify", "--only", "throttling-oom", "--quick"];
    let (page, _) = page_of(&verify, "verify.html", &[0, 1]);
    assert_eq!(
        result_in(&page)["experiments"][0]["experiment"],
        "throttling-oom"
    );
    // The page alone goes to standard output as the other forms do.
    let mut piped = replay.to_vec();
    piped.extend(["--report", "-"]);
    assert!(stdout_of(&piped, 0).starts_with("<!DOCTYPE html>"));
}

#[test]
fn two_results_are_compared() {
    let files = [temporary("one.json"), temporary("two.json")];
    for (file, cost) in files.iter().zip(["1700000000", "170000000"]) {
        let mut arguments = RUN.to_vec();
        let cost = format!("nvme_read_bytes_per_s={cost}");
        arguments.extend(["--cost", &cost, "--json", name(file)]);
        lab(&arguments);
    }
    let (one, two) = (name(&files[0]), name(&files[1]));
    let json = json_of(&["compare", one, two, "--json", "-"], 0);
    assert_eq!(
        json["differing"]["cost nvme_read_bytes_per_s"]["after"],
        "170000000"
    );
    let throughput = &json["variants"]["base"]["throughput"];
    assert_eq!(throughput["verdict"], "worse");
    assert!(throughput["ratio"].as_f64().expect("a ratio") < 0.9);
    let text = stdout_of(&["compare", one, two, "--markdown"], 0);
    assert!(
        text.contains("before:base") && text.contains("| worse"),
        "{text}"
    );
    let same = json_of(&["compare", one, one, "--json", "-"], 0);
    assert_eq!(same["variants"]["v5"]["throughput"]["verdict"], "equal");
    let (page, _) = page_of(&["compare", one, two], "compare.html", &[0]);
    assert_eq!(result_in(&page), json);
    assert!(page.contains("cost nvme_read_bytes_per_s: 1700000000 before, 170000000 after."));
}

/// The JSON of a replay has all that it was made with, and a comparison names what differs.
#[test]
fn settings_of_two_replays_that_differ_are_named() {
    let sample = sample();
    let replayed = |name: &str, more: &[&str]| {
        let file = temporary(name).to_str().unwrap().to_owned();
        let plain = [
            "replay",
            &sample,
            "--memory=25%",
            "--variants=v73",
            "--bounds=none",
            "--json",
            &file,
        ];
        stdout_of(&[&plain[..], more].concat(), 0);
        file
    };
    let options = "--swappiness=150 --swap=nvme:1GiB --kernel-memory=off --cost=nvme_read_lat_ns=5 --low=0=10% \
                   --fold-phases=2 --one-task --set=smaller_batch=on";
    let options: Vec<&str> = options.split_whitespace().collect();
    let (one, two) = (replayed("q1.json", &[]), replayed("q2.json", &options));
    let text = stdout_of(&["compare", &one, &two], 0);
    for line in [
        "swap: zram:2213pages:lz4 before, nvme:262144pages after",
        "swappiness: 60 before, 150 after",
        "kernel_memory: on before, off after",
        "low 0: default before, 10% after",
        "fold_phases: 1 before, 2 after",
        "set smaller_batch: default before, on after",
        "cost nvme_read_lat_ns: default before, 5 after",
        "one_task: default before, on after",
    ] {
        assert!(text.contains(&format!("\n  {line}\n")), "{line}\n{text}");
    }
    let text = stdout_of(&["compare", &one, &one], 0);
    assert!(!text.contains(" before, "), "{text}");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&one).unwrap()).unwrap();
    let settings = json["settings"].as_object().expect("settings");
    for (name, value) in [
        ("memory", json!(["25%"])),
        ("device", json!("nvme")),
        ("clock", Value::Null),
    ] {
        assert_eq!(settings[name], value, "{name}");
    }
}

#[test]
fn two_replays_are_compared_and_no_replay_with_an_experiment() {
    let s = sample();
    let files = [
        temporary("v618.json"),
        temporary("v72.json"),
        temporary("run.json"),
    ];
    let [one, two, run] = files.each_ref().map(|f| name(f));
    for (file, variant) in [(one, "v618"), (two, "v72")] {
        lab(&[
            "replay",
            &s,
            "--memory",
            "25%",
            "--variants",
            variant,
            "--json",
            file,
        ]);
    }
    let json = json_of(&["compare", one, two, "--json", "-"], 0);
    let pair = &json["columns"][0];
    assert_eq!(
        pair["before"]["what"],
        "sqlite.pageops.zst replayed with v618"
    );
    assert_eq!(json["by_place"], serde_json::json!(["v618", "v72"]));
    let misses = &pair["counters"]["misses"];
    let mean = |side: &str| misses[side]["mean"].as_f64().expect("a mean");
    let change = misses["change"].as_f64().expect("a change");
    assert!((mean("after") / mean("before") - 1.0 - change).abs() < 1e-9);
    assert_eq!(
        misses["verdict"], "changed",
        "another kernel evicts otherwise"
    );
    let text = stdout_of(&["compare", one, two, "--markdown"], 0);
    assert!(
        text.contains("after:  sqlite.pageops.zst replayed with v72"),
        "{text}"
    );
    let (page, _) = page_of(&["compare", one, two], "replays.html", &[0]);
    assert_eq!(result_in(&page), json);
    let mut arguments = RUN.to_vec();
    arguments.extend(["--json", run]);
    lab(&arguments);
    for pair in [[one, run], [run, one]] {
        let said = message_of(&["compare", pair[0], pair[1]], 2);
        assert!(
            said.contains("run.json is a result of lab run, and "),
            "{said}"
        );
    }
}

#[test]
fn mistakes_are_explained() {
    let s = sample();
    let other = temporary("other.json");
    std::fs::write(&other, "{\"experiments\": []}").expect("a file");
    let other = name(&other).to_owned();
    for (arguments, code, part) in [
        (
            vec!["run", "mongodb", "--report", "/nonexistent/x.html"],
            3,
            "/nonexistent/x.html: cannot write",
        ),
        (
            vec!["run", "mongodb", "--report", "-", "--json", "-"],
            2,
            "--json - and --report -",
        ),
        (vec!["compare", "x.json"], 2, "<AFTER.json>"),
        (
            vec!["compare", "/nonexistent/a.json", "b.json"],
            2,
            "/nonexistent/a.json: cannot read",
        ),
        (vec!["compare", &s, &s], 2, "not JSON"),
        (vec!["compare", &other, &other], 2, "a result of lab verify"),
    ] {
        let said = message_of(&arguments, code);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

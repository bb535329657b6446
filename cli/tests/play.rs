//! `coldset play`: the kernel under the tests is the oracle of the lab.

mod common;

use common::{coldset, json_of, lab, random_trace, stdout_of, temporary};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Plays it, if this machine lets us: it takes a memory cgroup to write to.
fn played(arguments: &[&str]) -> Option<Value> {
    let out = coldset("play", arguments);
    let said = String::from_utf8_lossy(&out.stderr);
    let no_cgroup = out.status.code() == Some(3) && said.contains("cgroup");
    if no_cgroup || said.contains("are memory themselves") {
        eprintln!("SKIPPED: {said}");
        return None;
    }
    assert!(out.status.success(), "{said}");
    Some(serde_json::from_slice(&out.stdout).expect("JSON"))
}

fn mean(v: &Value, variant: usize, counter: &str) -> f64 {
    let variants = v["variants"].as_object().unwrap();
    let (_, counters) = variants.iter().nth(variant).unwrap();
    counters[counter]["mean"]
        .as_f64()
        .unwrap_or_else(|| panic!("{counter}"))
}

/// The lab predicts refaults of the classic lists within a twentieth, whatever runs beside the test; on a
/// quiet machine the two are within a hundredth. What runs beside it cannot evict the group's pages, but the
/// order of a few of them depends on it.
#[test]
fn the_kernel_does_what_the_lab_says() {
    let dir = temporary("played");
    fs::create_dir_all(&dir).unwrap();
    for (kind, name) in [(1, "pread"), (0, "mapped")] {
        let trace = random_trace(name, kind, 6000, 60_000);
        let arguments = [
            trace.as_str(),
            "--memory=8MiB",
            "--exact-access=64",
            "--variants=classic,v618",
            "--json=-",
            "--dir",
            dir.to_str().unwrap(),
        ];
        let Some(v) = played(&arguments) else { return };
        let machine = v["played"]["machine"].as_str().unwrap();
        let with_root = v["played"]["quiet_faults"].as_bool().unwrap();
        let measured = mean(&v, 0, "workingset_refault_file");
        assert!(measured > 1000.0, "{name}: {measured} refaults");
        let run = &v["played"]["runs"][0];
        let points = run["points"].as_array().unwrap();
        assert_eq!(points.last().unwrap()["access"], 60_000);
        let latencies = run["latencies"].as_object().unwrap();
        assert_eq!(latencies.values().next().unwrap()["count"], 60_000);
        // Each refault of a mapped page is a fault that waits.
        let faults = mean(&v, 0, "worker_majflt");
        match name {
            "mapped" if with_root => assert!(faults >= measured, "{faults} faults"),
            _ => assert!(faults < measured, "{faults} faults"),
        }
        let last = &points.last().unwrap()["counters"];
        assert_eq!(last["worker_majflt"].as_f64(), Some(faults));
        if Path::new("/proc/pressure/memory").exists() {
            assert!(last["pressure_some_us"].as_u64() >= last["pressure_full_us"].as_u64());
        }
        // Nothing is dropped beside it, but the machine may be short of memory.
        assert!(run["disturbed"].is_array());
        assert_eq!(
            v["prediction"]["not_in_it"].as_array().map(Vec::len),
            Some(0)
        );
        // Which policy is beside it is the machine's; which kernel, too.
        if machine.contains("Linux 6.18") && !machine.contains("multi-gen LRU on") {
            let predicted = mean(&v, 1, "workingset_refault_file");
            let error = (predicted / measured - 1.0).abs();
            assert!(
                error < 0.05,
                "{name}: {predicted} predicted, {measured} measured on {machine}"
            );
        }
        if !with_root {
            eprintln!("SKIPPED: mapped files, whose faults read ahead here");
            break;
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "the files are gone");
}

/// A limit that anonymous memory cannot fit into without swap: the kernel kills, and that is the result.
#[test]
fn a_killed_worker_is_a_result() {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() > 1 {
        eprintln!("SKIPPED: this machine has swap");
        return;
    }
    let trace = random_trace("anon", 3, 6000, 20_000);
    let dir = temporary("");
    let arguments = [
        trace.as_str(),
        "--memory=8MiB",
        "--variants=v618",
        "--json=-",
        "--dir",
        dir.to_str().unwrap(),
    ];
    let Some(v) = played(&arguments) else { return };
    // So it is in the lab, without swap as here.
    assert_eq!(v["prediction"]["swap"], "none");
    let said = v["prediction"]["ended"]["v618"].as_str().expect("no end");
    assert!(said.starts_with("out of memory at access "), "{said}");
    let after = v["played"]["runs"][0]["killed_after"]
        .as_u64()
        .expect("killed");
    assert!((1900..20_000).contains(&after), "after {after} accesses");
    assert_eq!(mean(&v, 0, "events_oom_kill"), 1.0);
}

/// What is measured and predicted is on one page, with its numbers, and can be compared with a replay.
#[test]
fn a_page_of_a_run_and_a_comparison() {
    let trace = random_trace("page.pageops", 1, 3000, 20_000);
    let (page, played_json) = (temporary("play.html"), temporary("play.json"));
    let (dir, page) = (temporary(""), page.to_str().unwrap());
    let arguments = [
        trace.as_str(),
        "--memory=4MiB",
        "--variants=classic",
        "--repeat=2",
        "--json=-",
        "--report",
        page,
        "--dir",
        dir.to_str().unwrap(),
    ];
    let Some(v) = played(&arguments) else { return };
    let html = fs::read_to_string(page).unwrap();
    let (_, rest) = html.split_once("id=\"result\">").expect("the result");
    let (inside, _) = rest.split_once("</script>").expect("its end");
    let inside: Value = serde_json::from_str(inside).expect("JSON");
    assert_eq!(inside, v);
    let label = v["variants"].as_object().unwrap().keys().next().unwrap();
    for part in [
        "<h1>page.pageops on this kernel</h1>",
        "id=\"chart-refaults\"",
        "Predicted with ",
        "this command measures again:",
        v["played"]["machine"].as_str().unwrap(),
        label,
    ] {
        assert!(html.contains(part), "{part}");
    }
    fs::write(&played_json, v.to_string()).unwrap();
    let replayed = temporary("replay.json");
    let replayed = replayed.to_str().unwrap();
    let replay = [
        "replay",
        &trace,
        "--memory=4MiB",
        "--variants=classic",
        "--json",
        replayed,
    ];
    assert!(lab(&replay).status.success());
    let files = [played_json.to_str().unwrap(), replayed];
    let text = stdout_of(&["compare", files[0], files[1]], 0);
    assert!(
        text.contains("before: page.pageops replayed with classic\n"),
        "{text}"
    );
    let c = json_of(&["compare", files[0], files[1], "--json", "-"], 0);
    let refaults = &c["columns"][0]["counters"]["workingset_refault_file"];
    // The prediction beside the run is that of the replay but for the settings, which cannot matter here.
    assert_eq!(refaults["verdict"], "equal", "{refaults}");
    assert_eq!(c["not_compared"][0]["column"], label.as_str());
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let trace = random_trace("one", 1, 10, 10);
    for (arguments, code, word) in [
        (vec![trace.as_str()], 2, "--memory"),
        (vec![&trace, "--memory=9bananas"], 2, "bananas"),
        (
            vec![&trace, "--memory=8MiB", "--cgroup=/tmp"],
            2,
            "no memory cgroup here",
        ),
        (
            vec![&trace, "--memory=8MiB", "--dir=/nowhere"],
            3,
            "/nowhere",
        ),
        (
            vec!["/nowhere.pageops", "--memory=8MiB"],
            2,
            "/nowhere.pageops",
        ),
    ] {
        let out = coldset("play", &arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        if code == 3 && said.contains("cgroup") {
            continue;
        }
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
    assert!(!Path::new("/nowhere").exists());
}

//! `coldset play`: the kernel under the tests is the oracle of the lab.

mod common;

use common::{coldset, random_trace, temporary};
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
        "--json=-",
        "--dir",
        dir.to_str().unwrap(),
    ];
    let Some(v) = played(&arguments) else { return };
    let after = v["played"]["runs"][0]["killed_after"]
        .as_u64()
        .expect("killed");
    assert!((1900..20_000).contains(&after), "after {after} accesses");
    assert_eq!(mean(&v, 0, "events_oom_kill"), 1.0);
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

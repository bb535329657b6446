//! `coldset kernel play`: released kernels are the oracle of the lab, where QEMU and one of them are at hand.

use crate::common::{coldset, json_of, random_trace, temporary, two_tasks, two_tasks_of};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Mapped reads. (Where a hot set just fits beside a scan, runs of one kernel differ by half.)
fn trace() -> String {
    random_trace("kernel.pageops", 0, 6000, 60_000)
}

/// Kernels that can be booted without a network, and the variants that they are.
fn kernels_here() -> Vec<(&'static str, &'static str)> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let cache = coldset_guest::packages::Cache::open().ok();
    let known = [("6.18", "v618"), ("7.2", "v72")];
    let here: Vec<_> = known
        .into_iter()
        .filter(|(k, _)| cache.as_ref().is_some_and(|c| c.here(k).is_some()))
        .collect();
    if !has("qemu-system-x86_64") || !has("mkfs.ext4") || here.is_empty() {
        eprintln!(
            "SKIPPED: needs qemu-system-x86, e2fsprogs and a kernel: \
             coldset kernel play TRACE --memory 8MiB --kernel debian:6.18 fetches one"
        );
        return Vec::new();
    }
    here
}

#[test]
fn a_released_kernel_does_what_the_lab_says() {
    let here = kernels_here();
    let trace = trace();
    for (version, variant) in here {
        let (kernel_of, variants) = (
            format!("--kernel=debian:{version}"),
            format!("--variants={variant}"),
        );
        let out = coldset(
            "kernel",
            &[
                "play",
                &trace,
                "--memory=8MiB",
                &kernel_of,
                &variants,
                "--json=-",
                "--timeout=240",
            ],
        );
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let v: Value = serde_json::from_slice(&out.stdout).unwrap();
        let refaults: Vec<f64> = v["variants"]
            .as_object()
            .unwrap()
            .values()
            .map(|c| c["workingset_refault_file"]["mean"].as_f64().unwrap())
            .collect();
        let (measured, predicted) = (refaults[0], refaults[1]);
        assert!(measured > 1000.0);
        let prediction = &v["prediction"];
        assert_eq!(prediction["fault_around_bytes"], 4096);
        assert_eq!(
            (&prediction["swap"], &prediction["swappiness"]),
            (&"none".into(), &60.into())
        );
        // All pages of the file that the limit lets in are in some generation.
        let played = v["played"].as_object().unwrap().values().next().unwrap();
        let run = &played["runs"][0];
        let last = run["points"].as_array().unwrap().last().unwrap();
        let lists = last["lru_gen"][0]["generations"]
            .as_array()
            .expect("generations");
        let pages: u64 = lists.iter().filter_map(|g| g["file"].as_u64()).sum();
        assert!((1500..=2048).contains(&pages), "{pages} pages");
        // A guest is by itself, and its kernel counts for the group.
        assert_eq!(run["disturbed"], serde_json::json!([]));
        assert!(last["counters"]["worker_majflt"].as_f64() >= Some(measured));
        let error = (predicted / measured - 1.0).abs();
        assert!(
            error < 0.03,
            "{version}: {predicted} predicted, {measured} measured"
        );
    }
}

/// Tasks have groups of their own, and one is protected: cgroup v2, as the lab has it.
#[test]
fn a_protected_task_keeps_what_the_lab_says() {
    let Some(&(version, variant)) = kernels_here().first() else {
        return;
    };
    let trace = two_tasks("protected", 5, 60_000);
    let refaults = |v: &Value| {
        let (_, counters) = v["variants"].as_object().unwrap().iter().next().unwrap();
        let of = |name: &str| counters[name]["mean"].as_f64().unwrap();
        [0, 1].map(|task| of(&format!("task{task}.workingset_refault_file")))
    };
    let replay = format!(
        "replay {trace} --memory 6MiB --low 1=3MiB --variants {variant} --bounds none --json -"
    );
    let predicted = refaults(&json_of(replay.as_str(), 0));
    let kernel = format!("--kernel=debian:{version}");
    let played = [
        "play",
        &trace,
        "--memory=6MiB",
        "--low=1=3MiB",
        &kernel,
        "--json=-",
        "--timeout=240",
    ];
    let out = coldset("kernel", &played);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let measured = refaults(&serde_json::from_slice(&out.stdout).unwrap());
    for (predicted, measured) in predicted.into_iter().zip(measured) {
        let error = (predicted / measured - 1.0).abs();
        assert!(error < 0.03, "{predicted} predicted, {measured} measured");
    }
}

/// No group has a limit, and kswapd reclaims from a reader and from a program with anonymous memory, which it swaps to zram.
/// Two runs of a kernel differ by up to 5 % from their mean.
#[test]
fn a_machine_short_of_memory_reclaims_as_the_lab_says() {
    let Some(&(version, _)) = kernels_here().first() else {
        return;
    };
    let trace = two_tasks_of("short", 6, 14_000, 80_000);
    let mut bytes = fs::read(&trace).unwrap();
    let of_second = bytes.chunks_exact_mut(8).filter(|record| record[2] == 1);
    for (i, record) in of_second.enumerate() {
        // Stores, and loads from what may never have been stored to.
        record[0] = if i % 3 == 0 { 3 } else { 4 };
    }
    fs::write(&trace, bytes).unwrap();
    let validate = format!(
        "validate {trace} --limit machine --memory 8000pages --kernel debian:{version} --repeat 2 --timeout 240 --json -"
    );
    let v = json_of(validate.as_str(), 0);
    let kernel = &v["kernels"][0];
    let stolen = &kernel["counters"]["stolen"];
    let [measured, predicted] = ["measured", "predicted"].map(|of| stolen[of].as_f64().unwrap());
    assert!(measured > 5_000.0, "{measured}");
    let error = (predicted / measured - 1.0).abs();
    assert!(error < 0.08, "{predicted} predicted, {measured} measured");
    assert_eq!(kernel["prediction"]["swap"], "zram");
    let room = kernel["prediction"]["room"]["pages"].as_u64().unwrap();
    assert!((7000..=8400).contains(&room), "{room} pages");
    // That kswapd reclaims is what was wanted.
    assert_eq!(kernel["disturbed"], serde_json::json!([[], []]));
}

#[test]
fn scans_are_laid_side_by_side() {
    let trace = random_trace("scans.pageops", 0, 6000, 30_000);
    let here = kernels_here();
    // The newest: what it asks for differs from 6.18's words.
    let Some((version, variant)) = here.last() else {
        return;
    };
    let (kernel_of, variants) = (
        format!("--kernel=debian:{version}"),
        format!("--variants={variant}"),
    );
    let words = ["play", &trace, "--memory=8MiB", &kernel_of, &variants];
    let more = ["--scans", "--virtual-time", "--json=-", "--timeout=240"];
    let out = coldset("kernel", &[&words[..], &more].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    let played = v["played"].as_object().unwrap().values().next().unwrap();
    let points = played["runs"][0]["points"].as_array().unwrap();
    // Where nothing has been scanned there is nothing.
    let scans = points.iter().filter_map(|p| p["scans"].as_array());
    let scans = scans.flatten();
    let words: Vec<&str> = scans.map(|s| s.as_str().unwrap()).collect();
    assert!(words.iter().all(|w| !w.starts_with("lost")));
    // The tracepoints and the counters of the group agree.
    let figure = |word: &&str, n: usize| word.split(' ').nth(n)?.parse::<u64>().ok();
    let of = |name: &str, n: usize| -> u64 {
        let named = words.iter().filter(|w| w.starts_with(name));
        named.map(|w| figure(w, n).unwrap()).sum()
    };
    let counters = &points.last().unwrap()["counters"];
    assert_eq!(of("inactive_file", 3), counters["pgscan"].as_u64().unwrap());
    assert_eq!(of("freed", 1), counters["pgsteal"].as_u64().unwrap());
    let pair = &v["scans"]["pairs"][0];
    let begun = words.iter().filter(|w| **w == "limit").count();
    assert_eq!(pair["requests"], begun);
    assert!(begun > 50, "{begun}");
    let predicted = v["scans"]["predicted"][variant].as_array().unwrap();
    assert!(predicted.len() > 100, "{}", predicted.len());
}

#[test]
fn what_is_missing_is_named() {
    let trace = trace();
    let folder = temporary("empty");
    fs::create_dir_all(&folder).unwrap();
    let modules = format!("--modules={}", folder.display());
    for (arguments, code, word) in [
        (vec!["play", &trace, "--memory=8MiB"], 2, "--kernel"),
        (
            vec!["play", &trace, "--memory=8MiB", "--kernel=/nowhere"],
            2,
            "--modules",
        ),
        (
            vec![
                "play",
                &trace,
                "--memory=8MiB",
                "--kernel=/nowhere",
                &modules,
            ],
            2,
            "/nowhere",
        ),
        (
            vec!["play", &trace, "--memory=x", "--kernel=debian:7.2"],
            2,
            "x",
        ),
        (
            vec!["play", &trace, "--memory=1pages", "--kernel=debian:7.2"],
            2,
            "'1 pages' cannot be used: write 128 pages (512 KiB) or more",
        ),
    ] {
        let out = coldset("kernel", &arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
}

/// Before anything is booted, and as `coldset play` says it.
#[test]
fn what_contradicts_is_refused() {
    let trace = trace();
    for (options, word) in [
        ("--low=7=1MiB", "--low names task 7"),
        ("--low=0=1MiB --tasks=threads", "--tasks"),
        (
            "--dirty-ratio=5 --dirty-background-ratio=10",
            "--dirty-background-ratio 10 is above --dirty-ratio 5",
        ),
        ("--fault-around=3KiB", "4KiB"),
        ("--fault-around=12KiB", "power of two"),
        ("--disk-us=5", "--virtual-time"),
        ("--guest-memory=100", "MiB or more"),
        ("--timeout=0", "--timeout"),
    ] {
        let mut arguments = vec!["play", &trace, "--memory=8MiB", "--kernel=debian:7.2"];
        arguments.extend(options.split(' '));
        let out = coldset("kernel", &arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{options}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
}

//! `coldset play`: the kernel under the tests is the oracle of the lab.

use crate::common::{coldset, json_of, lab, random_trace, stdout_of, temporary, two_tasks};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Plays it, if this machine lets us: it takes a memory cgroup to write to.
pub fn played(arguments: &[&str]) -> Option<Value> {
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

/// The mean of a counter of the variant of this number.
pub fn mean(v: &Value, variant: usize, counter: &str) -> f64 {
    let variants = v["variants"].as_object().unwrap();
    let (_, counters) = variants.iter().nth(variant).unwrap();
    counters[counter]["mean"]
        .as_f64()
        .unwrap_or_else(|| panic!("{counter}"))
}

/// For a trace whose files are in this folder, under 6 MiB.
pub fn arguments<'a>(trace: &'a str, dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let dir = dir.to_str().unwrap();
    let first = [trace, "--memory=6MiB", "--json=-", "--dir", dir];
    first.into_iter().chain(more.iter().copied()).collect()
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
            "--points=5",
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
        assert_eq!(points.len(), 5);
        let predicted = v["courses"]["predicted"]["v618"]["pgscan"]
            .as_array()
            .unwrap();
        let met = |access: u64| predicted.iter().any(|p| p[0] == access);
        assert!(met(12_000) && met(48_000), "{predicted:?}");
        assert_eq!(v["courses"]["apart"].as_array().map(Vec::len), Some(2));
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

/// What the kernel says of the group while each run is under way.
#[test]
fn runs_near_a_limit_have_limits_of_their_own() {
    let trace = random_trace("near", 1, 3000, 6000);
    let dir = temporary("");
    let limits = |runs: &str| {
        let arguments = [
            trace.as_str(),
            "--memory=1000pages",
            runs,
            "--json=-",
            "--dir",
            dir.to_str().unwrap(),
        ];
        let runs = played(&arguments)?["played"]["runs"].take();
        let limit = |run: &Value| run["limit_pages"].as_u64().unwrap();
        Some(runs.as_array().unwrap().iter().map(limit).collect())
    };
    let Some(three): Option<Vec<u64>> = limits("--near=3") else {
        return;
    };
    assert_eq!(three, [996, 1000, 1004]);
    assert_eq!(limits("--repeat=2"), Some(vec![1000, 1000]));
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
    assert_eq!(mean(&v, 0, "accesses"), after as f64);
    assert_eq!(mean(&v, 0, "events_oom_kill"), 1.0);
    assert_eq!(v["played"]["runs"][0]["killed_task"], 0);
}

/// What a killed worker did is counted by itself: of stores that take a page each there are no more than the limit has
/// pages, however far the next point is.
#[test]
fn what_a_killed_worker_did_is_exact() {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() > 1 {
        eprintln!("SKIPPED: this machine has swap");
        return;
    }
    let trace = temporary("each.pageops");
    let store = |page: u32| [[3, 0, 0, 0], page.to_le_bytes()].concat();
    fs::write(&trace, (0..20_000).flat_map(store).collect::<Vec<u8>>()).unwrap();
    let dir = temporary("");
    let arguments = [
        trace.to_str().unwrap(),
        "--memory=8MiB",
        "--points=100",
        "--repeat=2",
        "--json=-",
        "--dir",
        dir.to_str().unwrap(),
    ];
    let Some(v) = played(&arguments) else { return };
    let runs = v["played"]["runs"].as_array().unwrap();
    let mut sum = 0.0;
    for run in runs {
        let after = run["killed_after"].as_u64().expect("killed");
        assert!((1500..=2048).contains(&after), "after {after} accesses");
        assert_eq!(run["tasks"][0]["accesses"], after);
        let points = run["points"].as_array().unwrap();
        assert_eq!(points.last().unwrap()["access"], after);
        sum += after as f64;
    }
    assert_eq!(mean(&v, 0, "accesses"), sum / 2.0);
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
    // At the times of the two runs.
    let runs = v["played"]["runs"].as_array().unwrap();
    let points = |run: &Value| run["points"].as_array().unwrap().clone();
    let (first, second) = (points(&runs[0]), points(&runs[1]));
    let clock = first
        .iter()
        .zip(&second)
        .fold("0:0".to_owned(), |clock, (a, b)| {
            let ms = |point: &Value| point["time_ms"].as_f64().unwrap();
            format!("{clock},{}:{:.4}", a["access"], (ms(a) + ms(b)) / 2000.0)
        });
    let replay = [
        "replay",
        &trace,
        "--memory=4MiB",
        "--variants=classic",
        "--clock",
        &clock,
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
    // The prediction beside the run is that of the replay but for the settings. Where the host has swap, the player's own
    // few pages can leave, too.
    let change = refaults["change"].as_f64().expect("a change");
    assert!(change.abs() < 0.005, "{refaults}");
    assert_eq!(c["not_compared"][0]["column"], label.as_str());
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let trace = random_trace("one", 1, 10, 10);
    for (arguments, code, word) in [
        (vec![trace.as_str()], 2, "--memory"),
        (vec![&trace, "--memory=9bananas"], 2, "bananas"),
        (vec![&trace, "--memory", "-5MiB"], 2, "a positive size"),
        (vec![&trace, "--memory=1pages"], 2, "write 128 pages"),
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
            vec![&trace, "--memory=8MiB", "--low=7=1MiB"],
            2,
            "--low names task 7",
        ),
        (
            vec![&trace, "--memory=8MiB", "--low=0=1MiB", "--low=0=2MiB"],
            2,
            "--low 0=2MiB",
        ),
        (
            vec![&trace, "--memory=8MiB", "--low=0=1MiB", "--tasks=threads"],
            2,
            "--tasks",
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
    let tracefs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    if tracefs
        .iter()
        .all(|t| !Path::new(t).join("events").exists())
    {
        let out = coldset("play", &[&trace, "--memory=8MiB", "--scans"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{said}");
        let known = said.contains("mount -t tracefs") || said.contains("cgroup");
        assert!(known && said.lines().count() == 1, "{said}");
    }
}

/// The kernel that runs here beside its variant, in `lab validate`.
#[test]
fn the_lab_is_validated_by_the_kernel_that_runs_here() {
    let dir = temporary("validated-here");
    fs::create_dir_all(&dir).unwrap();
    let trace = random_trace("here", 1, 6000, 60_000);
    let words = format!("lab validate {trace} --memory 8MiB --kernel here=classic --json -");
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldset"));
    let out = command
        .args(words.split(' '))
        .current_dir(&dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(3) && said.contains("cgroup") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(out.status.success(), "{said}");
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    let kernel = &v["kernels"][0];
    let machine = kernel["machine"].as_str().unwrap();
    assert!(machine.starts_with("Linux "), "{machine}");
    let refaults = &kernel["counters"]["refaults"];
    let [measured, predicted] = ["measured", "predicted"].map(|k| refaults[k].as_f64().unwrap());
    assert!(measured > 1000.0, "{measured}");
    if machine.contains("Linux 6.18") && !machine.contains("multi-gen LRU on") {
        let error = predicted / measured - 1.0;
        assert!(error.abs() < 0.05, "{predicted} for {measured}");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "the files are gone");
}

/// Processes that `parent` has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    let mut pids: Vec<u32> = pids.filter(is_child).collect();
    pids.sort_unstable();
    pids
}

/// Folders below `from` that are called after the run of `pid`.
fn groups(from: &Path, pid: u32) -> Vec<PathBuf> {
    let name = format!("coldset-play-{pid}");
    let mut found = Vec::new();
    let mut left = vec![from.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                let ours = entry.file_name().to_string_lossy().starts_with(&name);
                if ours { &mut found } else { &mut left }.push(entry.path());
            }
        }
    }
    found
}

/// A run that takes long, and its workers once they are at work. None: this machine does not let us.
fn long_run(trace: &str, dir: &Path, more: &[&str]) -> Option<(Child, Vec<u32>)> {
    // Whoever runs the tests may ignore hang-ups, as nohup does.
    let mut run = Command::new("env")
        .args([
            "--default-signal=HUP",
            env!("CARGO_BIN_EXE_coldset"),
            "play",
        ])
        .args(arguments(trace, dir, more))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let workers = children(run.id());
        let reads = |pid: &u32| {
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let calls = io.lines().find_map(|l| l.strip_prefix("syscr: "));
            calls.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        };
        // More than it takes to start.
        if workers.len() == 2 && workers.iter().all(|pid| reads(pid) > 1000) {
            let given = more.iter().any(|option| option.starts_with("--cgroup"));
            let made = groups(Path::new("/sys/fs/cgroup"), run.id()).len();
            // Where the whole is somebody else's, those of the tasks are in it.
            assert_eq!(made, if given { 2 } else { 1 });
            return Some((run, workers));
        }
        if run.try_wait().unwrap().is_some() {
            let out = run.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            let skip = said.contains("cgroup") || said.contains("are memory themselves");
            assert!(skip, "{said}");
            eprintln!("SKIPPED: {said}");
            return None;
        }
        assert!(Instant::now() < end, "workers: {workers:?}");
        sleep(Duration::from_millis(10));
    }
}

/// Whatever ends a run, one line says it, and nothing is left: no files, no cgroups, no processes.
#[test]
fn a_run_that_is_ended_from_outside_leaves_nothing() {
    let dir = temporary("played-ended");
    fs::create_dir_all(&dir).unwrap();
    let trace = two_tasks("ended", 1, 2_000_000);
    for order in ["--order=strict", "--order=per-task"] {
        for (signal, at_worker, words) in [
            ("-KILL", true, "task 1: the worker ended: signal: 9"),
            ("-INT", false, "interrupted"),
            // The terminal is closed.
            ("-HUP", false, "interrupted"),
        ] {
            let Some((run, workers)) = long_run(&trace, &dir, &[order]) else {
                return;
            };
            let pid = run.id();
            let whom = if at_worker { workers[1] } else { pid };
            let sent = Command::new("kill")
                .args([signal, &whom.to_string()])
                .status();
            assert!(sent.unwrap().success());
            let out = run.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(3), "{order} {signal}: {said}");
            assert!(said.contains(words) && said.lines().count() == 1, "{said}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{order} {signal}");
            assert!(groups(Path::new("/sys/fs/cgroup"), pid).is_empty());
            for worker in workers {
                assert!(!Path::new(&format!("/proc/{worker}")).exists());
            }
        }
    }
}

/// A group of somebody else's is as it was, however a run ends.
#[test]
fn a_group_that_is_given_has_its_limit_back() {
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let name = format!("coldset-test-{}", std::process::id());
    let files = ["memory.limit_in_bytes", "memory.max"];
    let made = groups.iter().find_map(|root| {
        let group = Path::new(root).join(&name);
        fs::create_dir(&group).ok()?;
        let file = files.iter().map(|f| group.join(f)).find(|f| f.exists());
        if file.is_none() {
            let _ = fs::remove_dir(&group);
        }
        Some((group, file?))
    });
    let Some((group, limit)) = made else {
        eprintln!("SKIPPED: no memory cgroup can be made here");
        return;
    };
    fs::write(&limit, "33554432").unwrap();
    let dir = temporary("given");
    fs::create_dir_all(&dir).unwrap();
    let option = format!("--cgroup={}", group.display());
    let short = random_trace("given.pageops", 1, 3000, 5000);
    let ran = played(&arguments(&short, &dir, &[&option, "--tasks=one"]));
    let after = fs::read_to_string(&limit).unwrap();
    let trace = two_tasks("given-long", 1, 2_000_000);
    let mut ended = None;
    if let Some((run, _)) = long_run(&trace, &dir, &[&option]) {
        let during = fs::read_to_string(&limit).unwrap();
        let pid = run.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        run.wait_with_output().unwrap();
        ended = Some((during, fs::read_to_string(&limit).unwrap()));
    }
    let _ = fs::remove_dir(&group);
    assert!(ran.is_none() || after.trim() == "33554432", "{after}");
    if let Some((during, after)) = ended {
        assert_ne!(during.trim(), "33554432");
        assert_eq!(after.trim(), "33554432");
    }
}

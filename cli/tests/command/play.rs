//! `coldset play`: the kernel under the tests is the oracle of the lab.

use crate::common::{coldset, json_of, lab, random_trace, stdout_of, temporary, two_tasks};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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
    assert_eq!(v["played"]["runs"][0]["killed_task"], 0);
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

/// The same accesses by one task.
fn merged(trace: &str) -> String {
    let mut bytes = fs::read(trace).unwrap();
    bytes.chunks_exact_mut(8).for_each(|record| record[2] = 0);
    let path = format!("{trace}-merged");
    fs::write(&path, bytes).unwrap();
    path
}

fn arguments<'a>(trace: &'a str, dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let dir = dir.to_str().unwrap();
    let first = [trace, "--memory=6MiB", "--json=-", "--dir", dir];
    first.into_iter().chain(more.iter().copied()).collect()
}

/// Tasks are processes, threads or mappings, and take turns or do not. In the trace's order all do what the lab says:
/// processes have groups of their own, the others one for both.
#[test]
fn tasks_are_processes_or_threads_or_one() {
    let dir = temporary("played-tasks");
    fs::create_dir_all(&dir).unwrap();
    let trace = two_tasks("tasks", 5, 60_000);
    let predicted = |trace: &str| {
        let replay =
            format!("replay {trace} --memory 6MiB --variants classic --bounds none --json -");
        mean(&json_of(replay.as_str(), 0), 0, "workingset_refault_file")
    };
    let (apart, together) = (predicted(&trace), predicted(&merged(&trace)));
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    let mut of_one = None;
    for (tasks, order, workers) in [
        ("one", "strict", 1),
        ("threads", "strict", 2),
        ("processes", "strict", 2),
        ("processes", "within:64", 2),
        ("processes", "per-task", 2),
        ("threads", "per-task", 2),
    ] {
        let what = [format!("--tasks={tasks}"), format!("--order={order}")];
        let Some(v) = played(&arguments(&trace, &dir, &[&what[0], &what[1]])) else {
            return;
        };
        let run = &v["played"]["runs"][0];
        let points = run["points"].as_array().unwrap();
        assert_eq!(points.last().unwrap()["access"], 60_000, "{what:?}");
        assert_eq!(run["latencies"]["pread"]["count"], 60_000, "{what:?}");
        let each = run["tasks"].as_array().unwrap();
        let did = |n: usize| each[n]["accesses"].as_u64().unwrap();
        assert_eq!(each.len(), workers, "{what:?}");
        assert_eq!((0..workers).map(did).sum::<u64>(), 60_000, "{what:?}");
        let refaults = mean(&v, 0, "workingset_refault_file");
        assert!(refaults > 1000.0, "{what:?}: {refaults} refaults");
        if order == "per-task" {
            continue;
        }
        if order == "within:64" {
            // Nearly the trace's order, and so nearly what it comes to.
            assert!((refaults / apart - 1.0).abs() < 0.1, "{refaults}, {apart}");
            continue;
        }
        if tasks == "processes" {
            assert_eq!((did(0), did(1)), (45_000, 15_000));
            let of = |task: u8| mean(&v, 0, &format!("task{task}.workingset_refault_file"));
            assert!(of(0) > of(1) && of(1) > 100.0, "{} and {}", of(0), of(1));
            assert!(near(of(0) + of(1), refaults), "the parts are the whole");
        } else {
            let one = *of_one.get_or_insert(refaults);
            assert!(near(refaults, one), "{what:?}: {refaults}, {one}");
        }
        let machine = v["played"]["machine"].as_str().unwrap();
        if machine.contains("Linux 6.18") && !machine.contains("multi-gen LRU on") {
            let predicted = if tasks == "processes" {
                apart
            } else {
                together
            };
            assert!(
                near(predicted, refaults),
                "{what:?}: {predicted}, {refaults} measured"
            );
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "the files are gone");
}

/// Two tasks that are threads of a process, a file each, with fsync and a part of the work that begins in the middle.
fn two_threads(name: &str) -> String {
    let path = two_tasks(name, 5, 60_000);
    let accesses = fs::read(&path).unwrap();
    let step = |kind: u8, value: u32| [&[kind, 0, 0, 0][..], &value.to_le_bytes()].concat();
    let thread = |task: u8| [40, 0, task, 0, 7, 0, 0, 0];
    let mut bytes = step(42, 2);
    bytes.extend([thread(0), thread(1)].concat());
    bytes.extend(step(39, 1));
    bytes.extend(&accesses[..240_000]);
    bytes.extend([step(39, 2), step(32, 0)].concat());
    bytes.extend(&accesses[240_000..]);
    fs::write(&path, bytes).unwrap();
    path
}

/// Threads of a trace are threads of one process and one group where they run at once, and one task where accesses
/// are done one by one. In the lab, too.
#[test]
fn threads_of_a_trace_are_threads() {
    let dir = temporary("played-threads");
    fs::create_dir_all(&dir).unwrap();
    let trace = two_threads("threads");
    let mut refaults = Vec::new();
    for (order, workers) in [("strict", 1), ("within:64", 2), ("per-task", 2)] {
        let order_is = format!("--order={order}");
        let more = [order_is.as_str(), "--variants=classic"];
        let Some(v) = played(&arguments(&trace, &dir, &more)) else {
            return;
        };
        let run = &v["played"]["runs"][0];
        let each = run["tasks"].as_array().unwrap();
        let did: u64 = each.iter().map(|t| t["accesses"].as_u64().unwrap()).sum();
        assert_eq!((each.len(), did), (workers, 60_000), "{order}");
        assert_eq!(run["latencies"]["fsync"]["count"], 1, "{order}");
        let points = run["points"].as_array().unwrap();
        let begun = points.iter().filter(|p| p.get("phase").is_some());
        let begun: Vec<_> = begun
            .map(|p| (&p["phase"], p["access"].as_u64().unwrap()))
            .collect();
        assert_eq!(
            (begun.len(), begun[0].0, begun[1].0),
            (2, &1.into(), &2.into())
        );
        let at = begun[1].1;
        match order {
            "strict" => assert_eq!(at, 30_000),
            "within:64" => assert!(at.abs_diff(30_000) <= 256, "{at}"),
            _ => {}
        }
        assert_eq!(points.len(), 12, "ten, and two phases");
        assert_eq!(v["phases"]["classic"][1]["phase"], 2, "{order}");
        assert_eq!(v["prediction"]["order"], order);
        let both = v["variants"].as_object().unwrap().values();
        let of_task = |c: &Value| c.as_object().unwrap().keys().any(|k| k.starts_with("task"));
        assert!(!both.into_iter().any(of_task), "one group");
        refaults.push([0, 1].map(|n| mean(&v, n, "workingset_refault_file")));
        let machine = v["played"]["machine"].as_str().unwrap();
        let [measured, predicted] = *refaults.last().unwrap();
        let classic = machine.contains("Linux 6.18") && !machine.contains("multi-gen LRU on");
        if classic && order != "per-task" {
            let error = predicted / measured - 1.0;
            assert!(error.abs() < 0.05, "{order}: {predicted} for {measured}");
        }
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

/// Of two tasks the one that stores is killed, and the other is stopped.
#[test]
fn of_two_tasks_the_killed_one_is_named() {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() > 1 {
        eprintln!("SKIPPED: this machine has swap");
        return;
    }
    let dir = temporary("");
    let trace = two_tasks("of-two", 3, 60_000);
    let mut bytes = fs::read(&trace).unwrap();
    for record in bytes.chunks_exact_mut(8).filter(|r| r[2] == 1) {
        record[0] = 3;
    }
    fs::write(&trace, bytes).unwrap();
    for (order, tasks, who) in [
        ("--order=strict", "--tasks=processes", Value::from(1)),
        ("--order=per-task", "--tasks=processes", Value::from(1)),
        ("--order=per-task", "--tasks=threads", Value::Null),
    ] {
        let Some(v) = played(&arguments(&trace, &dir, &[order, tasks])) else {
            return;
        };
        let run = &v["played"]["runs"][0];
        let after = run["killed_after"].as_u64().expect("killed");
        assert!((1400..60_000).contains(&after), "after {after} accesses");
        // While the memory of the killed one is being freed, the other may ask for some and be killed, too: seen in one
        // of ten runs on a busy machine.
        let kills = mean(&v, 0, "events_oom_kill");
        let killed = run["killed_tasks"].as_array().unwrap();
        if killed.len() == 2 {
            assert_eq!(kills, 2.0, "{order} {tasks}");
        } else {
            assert_eq!(kills, 1.0, "{order} {tasks}");
            assert_eq!(run["killed_task"], who, "{order} {tasks}");
            let named = killed.first().cloned().unwrap_or_default();
            assert_eq!(named, who, "{order} {tasks}");
        }
        // At least a store for each page of the limit, and not all of them.
        let did = run["tasks"][1]["accesses"].as_u64().unwrap();
        assert!((1400..15_000).contains(&did), "{order} {tasks}: {did}");
    }
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
    let mut run = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .arg("play")
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
            assert_eq!(groups(Path::new("/sys/fs/cgroup"), run.id()).len(), 1);
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

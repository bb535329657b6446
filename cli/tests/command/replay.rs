//! `replay` of real traces.

use crate::common::{
    circle, json_of, lab, mean, message_of, recorded, sample, stdout_of, temporary, two_tasks,
};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn sample_trace_over_variants() {
    let json = json_of("replay SAMPLE --memory 25% --json -", 0);
    let names: Vec<_> = json["variants"]
        .as_object()
        .expect("variants")
        .keys()
        .collect();
    assert_eq!(names, ["classic", "base", "v5"]);
    let bounds = &json["bounds"];
    // data/README.md
    assert_eq!(bounds["capacity_pages"], 553);
    // There, first touches of anonymous memory count, too.
    assert_eq!(bounds["lru_misses"], 13_914 - 2_213);
    assert_eq!(bounds["opt_misses"], 7_413 - 2_213);
    assert_eq!(bounds["anon_first_touches"], 2_213);
    assert_eq!(bounds["unique_pages"], 2_213);
    for variant in ["classic", "base", "v5"] {
        let misses = mean(&json, variant, "misses");
        assert_eq!(mean(&json, variant, "accesses"), 693_790.0);
        assert_eq!(misses, mean(&json, variant, "pswpin"));
        assert!(misses >= 5_200.0, "{variant} beats OPT: {misses}");
        assert!(misses < 2.0 * 13_914.0, "{variant}: {misses}");
        assert!(mean(&json, variant, "pgsteal") <= mean(&json, variant, "pgscan"));
        let counter = &json["variants"][variant]["workingset_refault_anon"];
        assert_eq!(counter["per_seed"].as_array().expect("list").len(), 1);
        assert!(counter["ci95"].is_null());
    }
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let sample = sample();
    let run = |jobs: &str| {
        let variants = "classic,v5,base+smaller_batch=on";
        let arguments = [
            "replay",
            &sample,
            "--memory",
            "10%,300pages",
            "--variants",
            variants,
            "--fold-phases",
            "2",
            "--jobs",
            jobs,
            "--json",
            "-",
        ];
        stdout_of(&arguments, 0)
    };
    let one = run("1");
    assert_eq!(one, run("2"));
    let json: Value = serde_json::from_str(&one).expect("JSON");
    let tables = json["replays"].as_array().expect("replays");
    assert_eq!(tables[0]["bounds"]["memory_pages"], 221);
    assert_eq!(tables[1]["bounds"]["memory_pages"], 300);
    let phases = &tables[1]["variants"]["classic"]["pgscan"]["per_seed"];
    assert_eq!(phases.as_array().expect("list").len(), 2);
}

#[test]
fn default_tables_show_bounds_and_variants() {
    let text = stdout_of("replay SAMPLE", 0);
    for part in [
        "= 10 % of",
        "= 25 % of",
        "= 50 % of",
        "exact LRU",
        "OPT",
        "classic",
        "refaults",
        "scanned",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let bare = stdout_of(
        "replay SAMPLE --memory 50% --bounds none --variants fifo",
        0,
    );
    assert!(!bare.contains("OPT"), "{bare}");
}

#[test]
fn standard_input_is_a_trace() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args([
            "lab",
            "replay",
            "-",
            "--format",
            "lirs",
            "--memory",
            "500pages,1100pages",
        ])
        .args(["--variants", "v5", "--kernel-memory", "off", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin
        .write_all(circle(1011, 10).as_bytes())
        .expect("read to the end");
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success());
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let [small, whole] = [0, 1].map(|i| &json["replays"][i]);
    assert_eq!(small["bounds"]["lru_misses"], 10_110);
    assert_eq!(whole["bounds"]["lru_misses"], 1_011);
    // Pages read one after the other go in and out in order under the multi-gen LRU, too.
    assert_eq!(mean(small, "v5", "misses"), 10_110.0);
    assert!(small["bounds"]["opt_misses"].as_f64().expect("number") < 6_000.0);
    assert_eq!(mean(whole, "v5", "misses"), 1_011.0);
}

#[test]
fn protection_and_swap_and_clock_are_taken() {
    let json = json_of(
        "replay SAMPLE --memory 50% --variants base --low 0=1MiB --swap zram:32MiB:zstd \
         --clock 0:0,300000:4,693790:9.5 --own-pages 3 --swappiness 100 --json -",
        0,
    );
    assert!(mean(&json, "base", "task0.pgscan") > 0.0);
    assert_eq!(json["bounds"]["capacity_pages"], 1_103);
    let disk = "replay SAMPLE --memory 50% --variants base --swap nvme:32MiB --json -";
    let disk = json_of(disk, 0);
    assert!(mean(&disk, "base", "pswpin") > 0.0);
    assert_eq!(mean(&disk, "base", "pswpin"), mean(&disk, "base", "misses"));
}

#[test]
fn a_machine_may_be_what_limits() {
    let trace = two_tasks("machine", 6, 40_000);
    let json = json_of(
        format!(
            "replay {trace} --limit machine --memory 50% --watermarks 60,90,120 --fold-phases 2 --variants v618 --json -"
        )
        .as_str(),
        0,
    );
    let mean = |name| mean(&json, "v618", name);
    assert!(mean("pgscan_kswapd") > 1000.0 && mean("pageoutrun") > 10.0);
    assert_eq!(mean("events_max"), 0.0);
    let settings = &json["settings"];
    assert_eq!(
        (&settings["limit"], &settings["watermarks"]),
        (&"machine".into(), &"60,90,120".into())
    );
}

#[test]
fn csv_and_json_files_beside_the_table() {
    let (csv, json) = (temporary("r.csv"), temporary("r.json"));
    let [csv_name, json_name] = [&csv, &json].map(|p| p.to_str().expect("UTF-8"));
    let sample = sample();
    let arguments = [
        "replay",
        &sample,
        "--memory",
        "50%",
        "--variants",
        "v5",
        "--csv",
        csv_name,
        "--json",
        json_name,
    ];
    assert!(stdout_of(&arguments, 0).contains("miss ratio"));
    let csv = std::fs::read_to_string(csv).expect("written");
    assert!(
        csv.starts_with("memory_pages,variant,phase,counter,value\n1106,v5,0,accesses,693790\n")
    );
    let json: Value = serde_json::from_slice(&std::fs::read(json).expect("written")).expect("JSON");
    assert_eq!(json["bounds"]["opt_misses"], 3_927 - 2_213);
}

#[test]
fn windows_are_read_ahead_if_asked_for() {
    let path = temporary("far.lirs");
    std::fs::write(&path, b"0\n500\n").expect("written");
    let path = path.to_str().expect("UTF-8");
    let mut arguments = vec!["replay", path, "--format", "lirs", "--memory", "500pages"];
    arguments.extend(["--variants", "v5", "--bounds", "none"]);
    let read = |arguments: &[&str]| {
        let arguments = [arguments, &["--json", "-"]].concat();
        let out = lab(&arguments[..]);
        let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        mean(&json, "v5", "disk_read_pages")
    };
    assert_eq!(read(&arguments), 2.0);
    arguments.extend(["--read-ahead-kb", "128"]);
    assert_eq!(read(&arguments), 5.0, "the beginning of a file: four pages");
    let text = stdout_of(&arguments[..], 0);
    assert!(text.contains("read-ahead of 128 KiB"), "{text}");
    // Nothing but faults.
    let faults = sample();
    let said = message_of(&["replay", &faults, "--read-ahead-kb", "128"], 2);
    assert!(said.contains("no reads through descriptors"), "{said}");
}

/// The first line of a replay of files says what is read ahead.
#[test]
fn what_is_read_ahead_is_said() {
    let folder = temporary("ahead");
    let folder = folder.to_str().expect("a path in UTF-8");
    let made = format!("fidelity --cases k_seqwrite --traces {folder}");
    assert!(lab(made.as_str()).status.success());
    let trace = format!("{folder}/k_seqwrite.pageops");
    let first = |more: &str| {
        let line = format!("replay {trace} --memory 50% --bounds none --variants fifo {more}");
        let text = stdout_of(line.trim(), 0);
        text.lines().next().expect("a line").to_string()
    };
    let given = first("");
    assert!(
        given.ends_with(", no read-ahead (the trace is taken to contain it; else --read-ahead-kb)"),
        "{given}"
    );
    let none = first("--read-ahead-kb 0");
    assert!(none.ends_with(", no read-ahead"), "{none}");
    let fixed = first("--read-ahead 32KiB");
    assert!(
        fixed.ends_with(", 8 pages read ahead of each request"),
        "{fixed}"
    );
}

/// A program that writes a file, under a limit of a quarter of it: with large folios reclaim takes 256 pages
/// at a time, and on a device whose writes take a second the writer of before the series runs out of memory.
#[test]
fn large_folios_and_a_slow_device() {
    let folder = temporary("writer");
    let folder = folder.to_str().expect("a path in UTF-8");
    let made = format!("fidelity --cases k_seqwrite --traces {folder}");
    assert!(lab(made.as_str()).status.success());
    let replay = |more: &str| {
        format!("replay {folder}/k_seqwrite.pageops --memory 128MiB --bounds none --json - {more}")
    };
    let of = |more: &str, variant: &str, counter: &str| {
        let line = replay(&format!("--variants {variant} {more}"));
        mean(&json_of(line.as_str(), 0), variant, counter)
    };
    let single = of("--large-folios off", "v618", "events_max");
    let large = of("--large-folios on", "v618", "events_max");
    assert!(large < single / 3.0, "{large} of {single} reclaims");
    let slow = "--large-folios on --device delay:1s --dirty-ratio 95 --dirty-background-ratio 90";
    assert!(of(slow, "v72", "throttle_waits") > 0.0);
    assert_eq!(of(slow, "v72", "events_oom_kill"), 0.0);
    assert_eq!(of(slow, "v618", "events_oom_kill"), 1.0);
    assert!(of(slow, "v618", "killed_after") > 0.0);
}

/// A program's memory comes in huge pages if that is asked for, and not a byte is different if it is not.
#[test]
fn huge_pages_are_an_option() {
    let plain = "replay SAMPLE --memory 50% --bounds none --variants v618 --json -";
    let single = json_of(plain, 0);
    let never = json_of(format!("{plain} --thp never").as_str(), 0);
    assert_eq!(single["variants"], never["variants"]);
    assert!(single["variants"]["v618"]["thp_fault_alloc"].is_null());
    let huge = json_of(format!("{plain} --thp always").as_str(), 0);
    assert!(mean(&huge, "v618", "thp_fault_alloc") > 0.0);
    let faults = |json: &Value| mean(json, "v618", "pgfault");
    assert!(
        faults(&huge) < faults(&single),
        "{} of {}",
        faults(&huge),
        faults(&single)
    );
    let folder = temporary("thp");
    let folder = folder.to_str().expect("a path in UTF-8");
    let made = format!("fidelity --cases k_seqwrite --traces {folder}");
    assert!(lab(made.as_str()).status.success());
    let line = format!("replay {folder}/k_seqwrite.pageops --memory 128MiB --thp always");
    let said = message_of(line.as_str(), 2);
    assert!(
        said.contains("--thp") && said.contains("no anonymous memory"),
        "{said}"
    );
}

/// A block of the file system is one more page that is read; held, it is activated whenever reclaim meets it.
#[test]
fn files_of_many_extents_have_a_block() {
    let folder = temporary("extents");
    let folder = folder.to_str().expect("a path in UTF-8");
    let made = format!("fidelity --cases d_pread_cyc --traces {folder}");
    assert!(lab(made.as_str()).status.success());
    let replay = |more: &str| {
        format!("replay {folder}/d_pread_cyc.pageops --memory 64MiB --variants v618 --bounds none --json - {more}")
    };
    let of = |more: &str, counter: &str| mean(&json_of(replay(more).as_str(), 0), "v618", counter);
    let read = |more: &str| of(more, "disk_read_pages");
    let whole = read("--extents 1");
    assert_eq!(read("--extents 4"), whole);
    assert_eq!(read("--extents 5"), whole + 1.0);
    assert_eq!(of("--extents 5", "pgactivate"), 0.0);
    assert!(of("--extents 5 --hold-blocks on", "pgactivate") > 0.0);
    let refused = lab(replay("--hold-blocks on").as_str());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--hold-blocks: no effect"), "{said}");
}

/// Of recordings, with their steps, and of a trace longer than what is in memory of one.
#[test]
fn a_trace_that_is_not_held_is_replayed_the_same() {
    let long = temporary("long.csv");
    let lines: String = (0..200_000u64)
        .map(|i| format!("{},{}\n", i * i % 70_001, ["r", "w"][(i % 9 == 0) as usize]))
        .collect();
    std::fs::write(&long, lines).expect("written");
    let long = long.display().to_string();
    for trace in [
        sample(),
        recorded("mix-v3.fio"),
        recorded("session.perf.zst"),
        long.clone(),
    ] {
        let line = format!("replay {trace} --memory 300pages --variants classic,v5,fifo --json -");
        let mut held = json_of(line.as_str(), 0);
        let mut read = json_of((line + " --stream").as_str(), 0);
        for name in ["lru_misses", "opt_misses"] {
            assert!(held["bounds"][name].is_u64(), "{trace}: {}", held["bounds"]);
            assert!(
                read["bounds"].get(name).is_none(),
                "{trace}: {}",
                read["bounds"]
            );
        }
        for json in [&mut held, &mut read] {
            let json = json.as_object_mut().expect("an object");
            json.remove("bounds");
            json.remove("alone");
        }
        assert_eq!(held, read, "{trace}");
    }
    let line = format!("replay {long} --memory 20% --variants v5 --stream");
    let said = stdout_of(line.as_str(), 0);
    assert!(said.contains("left out where it is read again"), "{said}");
    let said = message_of((line + " --order per-task").as_str(), 2);
    assert!(said.contains("without --stream"), "{said}");
    let said = message_of("replay - --stream", 2);
    assert!(said.contains("cannot be read again"), "{said}");
}

/// The accesses of a trace that is read again take no memory: five million of them are 40 MB.
#[test]
fn a_trace_that_is_not_held_takes_no_memory() {
    use coldset_lab::traces::{Op, OpKind};
    use wait4::Wait4;
    let file = temporary("long.pageops");
    let op = |i: u32| Op {
        kind: OpKind::Pread,
        object: 0,
        task: 0,
        page: i % 1000,
    };
    // Piece by piece: until it begins, a child counts as large as this process.
    let mut to = std::io::BufWriter::new(std::fs::File::create(&file).expect("made"));
    for i in 0..5_000_000 {
        to.write_all(&op(i).to_bytes()).expect("written");
    }
    drop(to);
    let peak = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coldset"));
        command.args([
            "lab",
            "replay",
            "--bounds=none",
            "--variants=v5",
            "--memory=900pages",
        ]);
        command.args(more).arg(&file).stdout(Stdio::null());
        let done = command
            .spawn()
            .expect("started")
            .wait4()
            .expect("waited for");
        assert!(done.status.success());
        done.rusage.maxrss
    };
    let (held, streamed) = (peak(&[]), peak(&["--stream"]));
    assert!(streamed + 20_000_000 < held, "{streamed} of {held} bytes");
}

/// A kill is a result, whether another variant lives or not.
#[test]
fn whoever_is_killed_is_told_apart() {
    let trace = temporary("killed.csv");
    let rows: String = (0..600).map(|page| format!("{page},a\n")).collect();
    std::fs::write(&trace, format!("page,op\n{rows}")).expect("written");
    let line = format!(
        "replay {} --memory 200pages --swap none --kernel-memory off",
        trace.display()
    );
    for variants in ["v618", "v618,v73"] {
        let line = format!("{line} --variants {variants}");
        let json = json_of(format!("{line} --json -").as_str(), 0);
        let after = mean(&json, "v618", "killed_after");
        assert!((150.0..=200.0).contains(&after), "{after}");
        assert_eq!(mean(&json, "v618", "events_oom_kill"), 1.0);
        assert!(json["variants"]["v618"].get("miss_ratio").is_none());
        let text = stdout_of(line.as_str(), 0);
        let row = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name));
        let killed = row("killed for lack of memory").expect("a row");
        assert!(
            killed.contains(&format!("after {after} accesses")),
            "{text}"
        );
        let misses: Vec<_> = row("misses").expect("a row").split_whitespace().collect();
        assert_eq!(misses[1], "-", "{text}");
        assert!(
            text.contains("\nso that nobody is killed: raise --memory or give --swap\n"),
            "{text}"
        );
        let csv = stdout_of(format!("{line} --csv -").as_str(), 0);
        assert!(csv.contains("200,v618,0,until_killed.misses,"), "{csv}");
        assert!(!csv.contains("v618,0,misses,"), "{csv}");
    }
}

/// Tasks are those that occur, whatever their numbers.
#[test]
fn tasks_that_do_not_occur_are_none() {
    let trace = temporary("two-tasks.csv");
    let rows: String = (0..1200)
        .map(|i| format!("{},{}\n", i % 400, 1 + i % 2))
        .collect();
    std::fs::write(&trace, format!("page,task\n{rows}")).expect("written");
    let line = format!(
        "replay {} --memory 200pages --variants v73",
        trace.display()
    );
    let text = stdout_of(line.as_str(), 0);
    assert!(text.contains(" 0 writes, 2 tasks,"), "{text}");
    let json = json_of(format!("{line} --json -").as_str(), 0);
    let counters = json["variants"]["v73"].as_object().expect("counters");
    let has = |task: &str| counters.keys().any(|name| name.starts_with(task));
    assert!(has("task1.") && has("task2."));
    assert!(!has("task0."));
    assert_eq!(
        message_of(format!("{line} --low 0=50%").as_str(), 2),
        "coldset: variant v73: --low names task 0, which the trace does not have; it has tasks 1 and 2\n"
    );
    json_of(format!("{line} --low 2=50% --json -").as_str(), 0);
}

/// Loads of memory that nobody has stored to see the page of zeroes: there is nothing to evict.
#[test]
fn memory_that_is_only_loaded_from_is_a_warning() {
    let trace = |name: &str, first: char| {
        let path = temporary(name);
        let lines: String = (0..2000)
            .map(|i| format!("{},{},1,0\n", i % 1000, if i == 0 { first } else { 'l' }))
            .collect();
        std::fs::write(&path, format!("page,op,object,task\n{lines}")).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    for command in ["replay", "advise"] {
        let loads = trace("loads.csv", 'l');
        let out = lab(&[command, &loads, "--memory", "500pages"]);
        let said = String::from_utf8(out.stderr).expect("UTF-8");
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.contains("only loaded from"), "{said}");
        let stored = trace("stored.csv", 'a');
        stdout_of(&[command, &stored, "--memory", "500pages"], 0);
    }
}

//! `replay` and `convert` of real traces.

use crate::common::{json_of, lab, message_of, sample, stdout_of, temporary};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

fn mean(json: &Value, variant: &str, counter: &str) -> f64 {
    json["variants"][variant][counter]["mean"]
        .as_f64()
        .unwrap_or_else(|| panic!("{variant} {counter}"))
}

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

/// `docs/reference/formats.md`: a circle hits if memory holds all of it; with less, LRU never hits.
fn circle(pages: u32, rounds: u32) -> String {
    let numbers = (0..rounds).flat_map(|_| 0..pages).map(|p| format!("{p}\n"));
    numbers.collect()
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
fn convert_and_replay_again() {
    let (text, packed, plain) = (
        temporary("c.lirs"),
        temporary("c.pageops.zst"),
        temporary("c.pageops"),
    );
    std::fs::write(&text, circle(300, 2)).expect("written");
    let [text, packed, plain] = [&text, &packed, &plain].map(|p| p.to_str().expect("UTF-8"));
    let said = stdout_of(&["convert", text, packed], 0);
    assert!(said.contains("600 references to 300 pages"), "{said}");
    stdout_of(&["convert", packed, plain], 0);
    assert_eq!(std::fs::metadata(plain).expect("written").len(), 600 * 8);
    // All bytes but the name of the trace.
    let of = |file: &str| {
        let json = stdout_of(&["replay", file, "--memory", "50%", "--json", "-"], 0);
        let (_, name) = file.rsplit_once('/').expect("a folder");
        json.replace(&format!("\"{name}\""), "\"c\"")
    };
    assert!(of(text).contains("\"trace\": \"c\""));
    assert_eq!(of(text), of(packed));
    assert_eq!(of(text), of(plain));
}

#[test]
fn bad_traces_are_one_line() {
    let write = |name: &str, bytes: &[u8]| {
        let path = temporary(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let words = write("bad.lirs", b"1\n2\nthree\n");
    let said = message_of(&["replay", &words, "--format", "lirs"], 2);
    assert!(said.contains("line 3") && said.contains("three"), "{said}");
    let odd = write("odd.pageops", &[9; 12]);
    assert!(message_of(&["replay", &odd], 2).contains("record 0"));
    let empty = write("empty.lis", b"");
    assert!(message_of(&["replay", &empty], 2).contains("no reference"));
    let noise = write("noise", &[0xff, 0xfe, 0x80, 0x01, 0x99]);
    assert!(message_of(&["replay", &noise], 2).contains("format is not recognised"));
    let whole = std::fs::read(sample()).expect("sample");
    let cut = write("cut.pageops.zst", &whole[..whole.len() / 2]);
    assert!(message_of(&["replay", &cut], 2).contains("cut short"));
    assert!(message_of(&["convert", &cut, "/dev/null"], 2).contains("cut short"));
    assert_eq!(
        lab(&["replay", &words, "--format", "lirs"]).status.code(),
        Some(2)
    );
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

/// A trace of `data/samples`.
fn recorded(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/samples");
    path.join(name).to_str().expect("a path in UTF-8").into()
}

#[test]
fn recorded_samples_are_converted_and_replayed() {
    let out = temporary("sample.pageops");
    let out = out.to_str().expect("UTF-8");
    // data/README.md
    for (name, format, references, pages) in [
        ("session.perf.zst", "perf", 1018, 516),
        ("sort-faults.perf.zst", "perf", 630, 621),
        ("session.ftrace.zst", "ftrace", 2166, 1973),
        ("session.trace-cmd.zst", "ftrace", 2166, 1973),
        ("mix-v2.fio", "fio", 1422, 630),
        ("mix-v3.fio", "fio", 1422, 630),
        ("session.blkparse.zst", "blkparse", 1672, 954),
        ("awk.lackey.zst", "lackey", 165_715, 130),
    ] {
        let sample = recorded(name);
        let said = json_of(&["convert", &sample, out, "--json", "-"], 0);
        assert_eq!(said["references"], references, "{name}");
        assert_eq!(said["pages"], pages, "{name}");
        assert_eq!(said["reading"]["format"], format);
        assert_eq!(said["reading"]["bad_lines"], 0);
        let replay = |trace: &str| {
            let memory = ["--memory", "258pages", "--variants", "v5"];
            json_of(
                &[&["replay", trace, "--json", "-"][..], &memory].concat()[..],
                0,
            )
        };
        let mut json = replay(&sample);
        assert_eq!(json["reading"], said["reading"], "{name}");
        assert_eq!(json["bounds"]["unique_pages"], pages, "{name}");
        assert_eq!(json["trace"], name);
        json.as_object_mut().expect("object").remove("reading");
        json["trace"] = "sample.pageops".into();
        assert_eq!(json, replay(out), "{name}: as converted");
    }
}

#[test]
fn bad_lines_and_lost_events_are_reported() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let text = format!(
        "{good}page-faults, it said\n{good}sort 7 [000] 1.6: PERF_RECORD_LOST lost 9\n{good}"
    );
    let (bad, out) = (temporary("bad.perf"), temporary("bad.pageops"));
    std::fs::write(&bad, &text).expect("written");
    let [bad, out] = [&bad, &out].map(|p| p.to_str().expect("UTF-8"));
    let run = lab(&["convert", bad, out]);
    assert_eq!(run.status.code(), Some(0));
    let said = String::from_utf8(run.stderr).expect("UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(
        lines[0].contains("line 2: found `page-faults, it said`"),
        "{said}"
    );
    assert!(
        lines[1].contains("1 of 5 lines are bad and left out, read as perf"),
        "{said}"
    );
    assert!(lines[2].contains("lost 9 events"), "{said}");
    let run = lab(&["replay", bad, "--memory", "128pages", "--json", "-"]);
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let reading = &json["reading"];
    assert_eq!(
        (&reading["bad_lines"], &reading["lost_events"]),
        (&1.into(), &9.into())
    );
    assert_eq!(reading["first_bad_lines"][0]["line"], 2);
    let strict = message_of(&["replay", bad, "--strict"], 2);
    assert!(strict.contains("bad.perf, line 2: "), "{strict}");
    // More bad than good: it is something else.
    std::fs::write(bad, format!("{good}one\ntwo\n")).expect("written");
    let refused = message_of(&["convert", bad, out], 2);
    assert!(
        refused.contains("2 of 3 lines are bad, read as perf (guessed)"),
        "{refused}"
    );
    assert!(refused.contains("--format: pageops"), "{refused}");
}

#[test]
fn miss_ratio_curves() {
    let base = "mrc SAMPLE --policies lru,v5,opt --sizes 100pages,25%";
    let json = json_of(&format!("{base} --json -")[..], 0);
    let misses =
        |curve: usize, point: usize| json["curves"][curve]["points"][point]["misses"].clone();
    // As the bounds and the misses of a replay under the same limit.
    let replay = json_of("replay SAMPLE --memory 25% --variants v5 --json -", 0);
    let bounds = &replay["bounds"];
    assert_eq!(misses(0, 1), bounds["lru_misses"]);
    assert_eq!(misses(2, 1), bounds["opt_misses"]);
    assert_eq!(misses(1, 0).as_f64(), Some(mean(&replay, "v5", "misses")));
    let absences = "mrc SAMPLE --policies lru,opt --sizes 25% --count absences --json -";
    let absences = json_of(absences, 0);
    assert_eq!(absences["curves"][0]["points"][0]["misses"], 13_914);
    assert_eq!(absences["curves"][1]["points"][0]["misses"], 7_413);
    // The kernel's policy has no figure for 100 pages.
    assert_eq!(json["curves"][1]["points"][0]["pages"], 553);
    let text = stdout_of(base, 0);
    assert!(
        text.contains("miss ratio\n") && text.contains("l lru, v v5, o opt"),
        "{text}"
    );
    let wrong = message_of("mrc SAMPLE --policies v5 --sample 1%", 2);
    assert!(wrong.contains("without --sample"), "{wrong}");
}

#[test]
fn advice_agrees_with_replays_and_fits_80_columns() {
    let page = temporary("advice.html");
    let name = page.to_str().expect("UTF-8");
    let text = stdout_of("advise SAMPLE --memory 50% --for v73,classic", 0);
    let sample = sample();
    let made = ["advise", &sample, "--memory", "50%", "--report", name];
    assert!(lab(&made).status.success());
    // The first line has the path.
    let mut lines = text.lines().skip(1);
    assert!(lines.all(|l| l.chars().count() <= 80), "{text}");
    let replay = json_of(
        "replay SAMPLE --memory 50% --variants v73,classic --json -",
        0,
    );
    let advice = json_of("advise SAMPLE --memory 50% --for v73,classic --json -", 0);
    let level = &advice["levels"][1];
    assert_eq!(level["pages"], 1_106);
    for (i, kernel) in ["v73", "classic"].into_iter().enumerate() {
        let cost = &level["cases"][i]["cost"];
        assert_eq!(
            cost["reads"].as_f64(),
            Some(mean(&replay, kernel, "misses"))
        );
        assert_eq!(
            cost["time_ns"].as_f64(),
            Some(mean(&replay, kernel, "time_ns"))
        );
    }
    let opt = replay["bounds"]["opt_misses"].as_f64();
    assert_eq!(level["opt_reads"].as_f64(), opt);
    let page = std::fs::read_to_string(page).expect("written");
    for part in [
        "Heat of pages",
        "anonymous region 0",
        "knee",
        "50 % less memory",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let peak = json_of(
        "advise SAMPLE --today peak --memory 50% --for v73 --json -",
        0,
    );
    assert_eq!(peak["today_pages"], 2_213);
    let small = message_of("advise SAMPLE --memory 1%", 2);
    assert!(
        small.contains("22 pages") && small.contains("133 pages"),
        "{small}"
    );
    let unknown = message_of("advise SAMPLE --today some", 2);
    assert!(
        unknown.contains("--today") || unknown.contains("today"),
        "{unknown}"
    );
}

/// A file that is read in order, twice: what is read ahead is not waited for, and `replay` says the same.
#[test]
fn advice_reads_ahead() {
    let trace = temporary("order.csv");
    let rows: String = (0..6000).map(|i| format!("{}\n", i % 3000)).collect();
    std::fs::write(&trace, rows).expect("written");
    let trace = trace.to_str().expect("UTF-8");
    let advise = |more: &str| {
        let line = format!("advise {trace} --columns page --for v73 --memory 50% {more}");
        json_of(line.trim(), 0)["levels"][1]["cases"][0]["cost"].clone()
    };
    let alone = advise("--json -");
    let ahead = advise("--read-ahead-kb 128 --json -");
    // All of it, twice, but for the last window.
    assert_eq!(alone["reads"], 6000.0);
    let reads = ahead["reads"].as_f64().expect("reads");
    assert!((5_900.0..=6_000.0).contains(&reads), "{ahead}");
    let time = |cost: &Value| cost["time_ns"].as_f64().expect("time");
    assert!(time(&ahead) * 20.0 < time(&alone), "{alone} {ahead}");
    let line = format!(
        "replay {trace} --columns page --variants v73 --memory 50% --read-ahead-kb 128 --json -"
    );
    let replay = json_of(line.as_str(), 0);
    assert_eq!(time(&ahead), mean(&replay, "v73", "time_ns"));
    let text = stdout_of(
        format!("advise {trace} --columns page --read-ahead-kb 128").as_str(),
        0,
    );
    assert!(
        text.lines()
            .next()
            .is_some_and(|l| l.ends_with("read-ahead of 128 KiB")),
        "{text}"
    );
    let said = message_of("advise SAMPLE --read-ahead-kb 128", 2);
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
    let said = message_of(replay(&format!("--variants v618 {slow}")).as_str(), 2);
    assert!(said.contains("out of memory"), "{said}");
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

/// What a file is called is what is in it, or there is none.
#[test]
fn convert_writes_what_the_name_says() {
    let (from, to) = (temporary("named.txt"), temporary("named.oracleGeneral.zst"));
    std::fs::write(&from, "0.5 r 4000 200\n0.6 w 4096 8192\n0.7 r 0 1\n").expect("written");
    let line = format!(
        "convert {} {} --columns time,op,offset,size",
        from.display(),
        to.display()
    );
    let said = stdout_of(line.as_str(), 0);
    assert!(said.contains("5 references to 3 pages"), "{said}");
    let line = format!(
        "mrc {} --policies lru --sizes 2pages --count absences --json -",
        to.display()
    );
    // 0 1 1 2 0 in two frames: only the second reference to page 1 hits.
    let json = json_of(line.as_str(), 0).to_string();
    assert!(json.contains("\"misses\":4"), "{json}");
    let wrong = temporary("named.lis");
    let line = format!(
        "convert {} {} --columns time,op,offset,size",
        from.display(),
        wrong.display()
    );
    let said = message_of(line.as_str(), 2);
    assert!(
        said.contains("not lis") && said.contains("named.pageops"),
        "{said}"
    );
    assert!(!wrong.exists());
}

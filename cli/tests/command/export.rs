//! `export`: the work of an experiment, replayed from a trace, comes to what the experiment comes to.

use crate::common::{json_of, lab, message_of, stdout_of, temporary};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn exported(experiment: &str, name: &str, more: &[&str]) -> (PathBuf, Value) {
    let path = temporary(name);
    let file = path.to_str().unwrap().to_owned();
    let mut words = vec!["export", experiment, "--out", &file, "--json", "-"];
    words.extend(more);
    let said = json_of(&words, 0);
    (path, said)
}

/// The command that an export prints, with its result as JSON.
fn as_it_ran(said: &str) -> Vec<&str> {
    let mut lines = said.lines();
    let command = lines.find_map(|l| l.strip_prefix("as it ran: coldset lab "));
    let words = command.expect("a command").split(' ');
    words.chain(["--json", "-"]).collect()
}

fn counter(json: &Value, variant: &str, name: &str) -> f64 {
    json["variants"][variant][name]["mean"]
        .as_f64()
        .unwrap_or_else(|| panic!("{variant} {name}"))
}

/// The writer of throttling-oom is killed under the variants that kill it there, and under no other.
#[test]
fn a_writer_has_the_fate_that_it_has_in_the_experiment() {
    let (trace, said) = exported("throttling-oom", "writer.pageops.zst", &["--variant", "v5"]);
    assert_eq!(
        (&said["accesses"], &said["tasks"]),
        (&49_152.into(), &1.into())
    );
    assert_eq!(said["limits_pages"], Value::from([32_768].to_vec()));
    let run = json_of(
        &[
            "run",
            "throttling-oom",
            "--variants",
            "base,classic,v5",
            "--seeds",
            "1",
            "--json",
            "-",
        ],
        0,
    );
    let trace = trace.to_str().unwrap();
    let words = [
        "replay",
        trace,
        "--memory",
        "128MiB",
        "--device",
        "delay:1s",
        "--dirty-ratio",
        "95",
        "--dirty-background-ratio",
        "90",
        "--variants",
        "base,classic,v5",
        "--bounds",
        "none",
        "--json",
        "-",
    ];
    let replay = json_of(&words, 0);
    for (variant, killed) in [("base", 1.0), ("classic", 0.0), ("v5", 0.0)] {
        assert_eq!(counter(&run, variant, "oom_kill"), killed, "{variant}");
        assert_eq!(
            counter(&replay, variant, "events_oom_kill"),
            killed,
            "{variant}"
        );
        let done = counter(&replay, variant, "accesses");
        assert_eq!(done < 49_152.0, killed == 1.0, "{variant}: {done} accesses");
    }
}

/// Several limits: what the command has is as large as those together, and of nested ones the outer one counts.
#[test]
fn a_replay_has_the_memory_of_all_cgroups() {
    let folder = temporary("several-limits");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (workload, trace) = (file("three.toml"), file("three.pageops"));
    let cgroup = |name: &str, limit: &str| format!("[[cgroups]]\nname = \"{name}\"\n{limit}\n");
    let task = |name: &str| {
        let steps = "[[tasks.phases]]\nsteps = [{ pread = \"table\", at = \"share\" }]\n";
        format!("[[tasks]]\nname = \"{name}\"\ncgroup = \"{name}\"\n{steps}")
    };
    let text = [
        "[[files]]\nname = \"table\"\nsize = \"4MiB\"\n".to_owned(),
        cgroup("server", "limit = \"2MiB\""),
        cgroup("inner", "parent = \"server\"\nlimit = \"1MiB\""),
        cgroup("log", "limit = \"3MiB\""),
        task("server"),
        task("inner"),
        task("log"),
    ];
    fs::write(&workload, text.concat()).unwrap();
    let said = stdout_of(&["export", &workload, "--out", &trace], 0);
    let pages = (2 + 3) * 256;
    assert!(said.contains(&format!(" --memory {pages}pages ")), "{said}");
    assert!(said.contains("but for its limits: "), "{said}");
    let replay = json_of(&as_it_ran(&said), 0);
    assert_eq!(replay["bounds"]["memory_pages"], pages);
}

/// With one thread, the order of a trace is that of the run: what it reads again is the same but for the moments at which the
/// server's other tasks write.
#[test]
fn a_server_with_one_thread_reads_the_same_again() {
    let small = ["--scale", "1/256", "--param", "threads=1"];
    let (trace, said) = exported(
        "mongodb",
        "server.pageops.zst",
        &[&small[..], &["--variant", "v618"]].concat(),
    );
    assert_eq!(said["processes"], 1);
    assert!(said["steps"].as_u64().unwrap() > 1000, "{said}");
    let limit = said["limits_pages"][0].to_string() + "pages";
    let run = [
        &[
            "run",
            "mongodb",
            "--variants",
            "classic,v618",
            "--seeds",
            "1",
            "--json",
            "-",
        ][..],
        &small,
        &["--param", "controls=off"],
    ];
    let run = json_of_any(&run.concat());
    let words = [
        "replay",
        trace.to_str().unwrap(),
        "--memory",
        &limit,
        "--read-ahead-kb",
        "512",
        "--variants",
        "v618",
        "--bounds",
        "none",
        "--json",
        "-",
    ];
    let replay = json_of(&words, 0);
    let refaults = |json| counter(json, "v618", "workingset_refault_file");
    let (run, replay) = (refaults(&run), refaults(&replay));
    let error = (replay / run - 1.0).abs();
    assert!(
        run > 5000.0 && error < 0.03,
        "{run} in the run, {replay} in the replay"
    );
}

/// A run with claims that are out ends with 1.
/// Of many threads, too, the trace comes to what the run came to, and so to the difference between two kernels: with the
/// command that the export prints, all threads under way at once.
#[test]
fn a_server_with_many_threads_gains_what_it_gains_in_the_experiment() {
    let refaults = |variant: &str| {
        let name = format!("threads-{variant}.pageops.zst");
        let size = ["--scale", "1/512", "--param", "controls=off"];
        let words = [&["--variant", variant][..], &size].concat();
        let (_, said) = exported("mongodb", &name, &words);
        let as_it_ran = said["as_it_ran"].as_str().expect("a command");
        let mut words: Vec<&str> = as_it_ran.split_whitespace().skip(2).collect();
        words.extend(["--json", "-"]);
        let replay = json_of(&words, 0);
        let run = ["run", "mongodb", "--seeds", "1", "--variants", variant];
        let run = json_of(&[&run[..], &size, &["--json", "-"]].concat(), 0);
        [replay, run].map(|json| counter(&json, variant, "workingset_refault_file"))
    };
    let (before, after) = (refaults("base"), refaults("v5"));
    for ([replay, run], variant) in [(before, "base"), (after, "v5")] {
        let error = replay / run - 1.0;
        assert!(error.abs() < 0.1, "{variant}: {replay} for {run}");
    }
    let [of_replay, of_run] = [0, 1].map(|n| after[n] / before[n]);
    assert!(of_replay < 0.9 && of_run < 0.9, "{of_replay} and {of_run}");
}

#[test]
fn an_export_runs_at_the_costs_that_it_is_given() {
    let bytes = |name: &str, more: &[&str]| {
        let words = [&["--scale", "1/1024", "--variant", "v5"][..], more].concat();
        let (trace, said) = exported("mongodb", name, &words);
        (fs::read(trace).unwrap(), said["as_it_ran"].to_string())
    };
    let (both_ways, as_it_ran) = bytes("both-ways.pageops", &[]);
    assert!(!as_it_ran.contains("duplex"), "{as_it_ran}");
    let cost = "dev_full_duplex_enabled=0";
    let (one_wire, as_it_ran) = bytes("one-wire.pageops", &["--cost", cost]);
    assert!(as_it_ran.contains(&format!(" --cost {cost} ")));
    assert!(both_ways != one_wire, "reads waited for writes");
}

/// Who sleeps before it does anything does so from when it began: not from then on when its first access is due, which is as
/// much later.
#[test]
fn a_sleeper_wakes_when_it_did() {
    let folder = temporary("sleeper");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (workload, trace) = (file("sleeper.toml"), file("sleeper.pageops"));
    let text = r#"
[[cgroups]]
name = "all"
limit = "4MiB"

[[files]]
name = "table"
size = "8MiB"

[[tasks]]
name = "reader"
cgroup = "all"
[[tasks.phases]]
count = 6000
steps = [{ pread = "table" }, { sleep = "50us" }]

[[tasks]]
name = "sleeper"
cgroup = "all"
[[tasks.phases]]
count = 1
steps = [{ sleep = "400ms" }, { pread = "table" }]
"#;
    fs::write(&workload, text).unwrap();
    let said = stdout_of(&["export", &workload, "--out", &trace], 0);
    let words = as_it_ran(&said);
    let variant = words[words.iter().position(|w| *w == "--variants").unwrap() + 1];
    let ms = |words: &[&str]| counter(&json_of(words, 0), variant, "time_ns") / 1e6;
    let both = ms(&words);
    // What the reader takes by itself.
    let alone = fs::read(&trace).unwrap();
    let records = alone.chunks_exact(8);
    let of_reader = records.filter(|r| r[2..4] == [0, 0]).flatten().copied();
    fs::write(&trace, of_reader.collect::<Vec<u8>>()).unwrap();
    let alone = ms(&words);
    assert!((500.0..650.0).contains(&alone), "{alone} ms");
    assert!((both / alone - 1.0).abs() < 0.05, "{both} ms for {alone}");
}

fn json_of_any(arguments: &[&str]) -> Value {
    let out = lab(arguments);
    assert!(matches!(out.status.code(), Some(0 | 1)));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// The same steps are there after a conversion, in a file that says that it has them.
#[test]
fn converted_it_is_the_same() {
    let (trace, exported) = exported(
        "aging-oom",
        "readers.pageops",
        &["--accesses", "20000", "--machine", "16g."],
    );
    // This machine's own scale.
    let as_it_ran = exported["as_it_ran"].as_str().expect("a command");
    assert!(as_it_ran.contains("--scale 1/32 "), "{as_it_ran}");
    let again = temporary("again.pageops");
    let (from, to) = (trace.to_str().unwrap(), again.to_str().unwrap());
    let said = json_of(&["convert", from, to, "--json", "-"], 0);
    let (old, new) = (fs::read(&trace).unwrap(), fs::read(&again).unwrap());
    assert_eq!(old[..8], [42, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(new[..8], old[..8]);
    assert!(
        new == old,
        "another file: {} for {} bytes",
        new.len(),
        old.len()
    );
    assert!(said["references"].as_u64().unwrap() >= 20_000);
}

#[test]
fn what_cannot_be_exported_is_said_in_one_line() {
    let out = temporary("none.pageops");
    let file = out.to_str().unwrap();
    for (words, code, part) in [
        (vec!["nosuch"], 2, "there is no experiment 'nosuch'"),
        (
            vec!["mongodb", "--machine", "ra12."],
            2,
            "did you mean 'ra128.'",
        ),
        (
            vec!["mongodb", "--param", "thread=1"],
            2,
            "did you mean 'threads'",
        ),
        (
            vec!["mongodb", "--cost", "dev_full_duplex=0"],
            2,
            "did you mean 'dev_full_duplex_enabled'",
        ),
        (
            vec!["slow-io", "--scale", "1/1024"],
            2,
            "no task does anything on its machine",
        ),
        (
            vec!["kernel-build", "--accesses", "10000000"],
            2,
            "more than 256 files and regions",
        ),
    ] {
        let words = [&["export"][..], &words, &["--out", file]].concat();
        let message = message_of(&words, code);
        assert!(message.contains(part), "{message}");
        assert!(!out.exists(), "half a trace is none");
    }
}

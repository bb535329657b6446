//! `sweep`: what is interrupted goes on, and nothing is computed twice.

use crate::common::{json_of, lab, message_of, sample, stdout_of, temporary};
use coldset_lab::sweep::{Rows, Store};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let dir = temporary(&format!("sweep-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn grid(dir: &Path, toml: &str) -> String {
    let path = dir.join("grid.toml");
    std::fs::write(&path, toml).expect("written");
    text(&path).into()
}

/// Cells of a fraction of a second each, more than are done at once.
const SLOW: &str = "
experiments = 'tlb-stress'
scales = '1/512'
effort = 0.25
seeds = 10
variants = ['base', 'base+tlbbatch']
";

fn rows(dir: &Path) -> Rows {
    let store = Store::look(dir);
    store.read(&store.keys().expect("keys")).expect("rows")
}

fn finished(dir: &Path) -> usize {
    Store::look(dir).keys().expect("keys").len()
}

fn start(grid: &str, out: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args(["lab", "sweep", grid, "--jobs", "2", "--json", "-", "--out"])
        .arg(out)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs")
}

/// Waits until so many cells are finished.
fn wait_for(out: &Path, cells: usize) {
    let begin = Instant::now();
    while finished(out) < cells {
        assert!(begin.elapsed() < Duration::from_secs(100), "no progress");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(signal: &str, process: u32) {
    let process = process.to_string();
    let done = Command::new("kill").args([signal, &process]).status();
    assert!(done.expect("kill").success());
}

fn result(child: Child) -> (Output, Value) {
    let out = child.wait_with_output().expect("it ends");
    let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    (out, json)
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn killed_and_interrupted_sweeps_go_on_where_they_were() {
    let dir = folder("resumes");
    let grid = grid(&dir, SLOW);
    let (whole, parts) = (dir.join("whole"), dir.join("parts"));
    let (out, uninterrupted) = result(start(&grid, &whole));
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(uninterrupted["computed"], 20);

    let mut before = 0;
    let mut computed = 0;
    for signal in ["-KILL", "-INT", "-TERM"] {
        let child = start(&grid, &parts);
        let id = child.id();
        wait_for(&parts, before + 2);
        let workers = children(id);
        kill(signal, id);
        let (out, _) = result(child);
        workers.into_iter().for_each(wait_for_end);
        let now = finished(&parts);
        assert!(now < 20, "it was too quick to be interrupted");
        match signal {
            "-KILL" => assert_eq!(out.status.code(), None),
            _ => {
                let code = if signal == "-INT" { 130 } else { 143 };
                assert_eq!(out.status.code(), Some(code), "{}", said(&out));
                let message = said(&out);
                assert_eq!(message.matches('\n').count(), 1, "{message}");
                assert!(message.contains(&format!("{now} of 20 cells")), "{message}");
                assert!(message.contains("goes on from there"), "{message}");
            }
        }
        computed += now - before;
        before = now;
    }
    let (out, resumed) = result(start(&grid, &parts));
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(resumed["found"], before);
    computed += resumed["computed"].as_u64().expect("number") as usize;
    assert_eq!(computed, 20, "each cell was computed once");
    assert_eq!(resumed["groups"], uninterrupted["groups"]);
    assert_eq!(rows(&parts), rows(&whole));
    assert_eq!(rows(&parts).0.len(), 20);

    // Nothing is left to do, and nothing is written.
    let again = json_of(&["sweep", &grid, "--out", text(&parts), "--json", "-"], 0);
    assert_eq!(
        (&again["found"], &again["computed"]),
        (&20.into(), &0.into())
    );
    assert_eq!(again["groups"], uninterrupted["groups"]);
    let table = stdout_of(&["sweep", &grid, "--out", text(&parts)], 0);
    for part in [
        "tlb-stress",
        "base+tlbbatch",
        "20 of 20 cells",
        "20 found",
        text(&parts),
    ] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    let named = |name| {
        [
            "sweep",
            grid.as_str(),
            "--out",
            text(&parts),
            "--counters",
            name,
        ]
    };
    assert!(stdout_of(&named("pgsteal_anon"), 0).contains("pgsteal_anon"));
    assert!(message_of(&named("pgsteal_ano"), 2).contains("did you mean 'pgsteal_anon'"));
}

/// Waits until a process, which follows the one that has started it, has ended.
fn wait_for_end(id: u32) {
    let begin = Instant::now();
    let alive = |stat: String| !stat.contains(") Z ");
    while std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(alive) {
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "a worker goes on"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Children of a process.
fn children(id: u32) -> Vec<u32> {
    let path = format!("/proc/{id}/task");
    let tasks = std::fs::read_dir(path).expect("a live process");
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let lists: Vec<String> = tasks.flatten().filter_map(|t| of(t).ok()).collect();
    let ids = lists.iter().flat_map(|l| l.split_whitespace());
    ids.filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn a_killed_worker_costs_nothing_finished() {
    let dir = folder("worker");
    let grid = grid(&dir, SLOW);
    let out_dir = dir.join("out");
    let child = start(&grid, &out_dir);
    wait_for(&out_dir, 2);
    let there = Store::look(&out_dir).keys().expect("keys");
    let workers = children(child.id());
    assert_eq!(workers.len(), 2);
    workers.iter().for_each(|&w| kill("-KILL", w));
    let (out, json) = result(child);
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(json["cells"], 20);
    let total = json["computed"].as_u64().zip(json["found"].as_u64());
    assert_eq!(total.map(|(a, b)| a + b), Some(20));
    assert!(Store::look(&out_dir)
        .keys()
        .expect("keys")
        .is_superset(&there));
}

#[test]
fn two_sweeps_share_a_folder() {
    let dir = folder("two");
    let grid = grid(&dir, &SLOW.replace("seeds = 10", "seeds = 3"));
    let out_dir = dir.join("out");
    let both = [start(&grid, &out_dir), start(&grid, &out_dir)].map(result);
    let mut computed = 0;
    for (out, json) in &both {
        assert!(out.status.success(), "{}", said(out));
        computed += json["computed"].as_u64().expect("number");
        assert_eq!(json["groups"], both[0].1["groups"]);
    }
    assert_eq!(computed, 6, "each cell was computed by one of them");
    assert_eq!(rows(&out_dir).0.len(), 6);
}

#[test]
fn more_of_a_grid_computes_only_what_is_new() {
    let dir = folder("more");
    let trace = sample();
    let toml = format!("traces = '{trace}'\nmemory = '25%'\nvariants = ['fifo', 'v5']\n");
    let first = grid(&dir, &toml);
    let out = dir.join("out");
    let arguments = ["sweep", &first, "--out", text(&out), "--json", "-"];
    assert_eq!(json_of(&arguments, 0)["computed"], 2);
    grid(&dir, &toml.replace("'25%'", "['25%', '50%']"));
    let listed = stdout_of(&["sweep", &first, "--out", text(&out), "--dry-run"], 0);
    assert_eq!(listed.matches("finished  replay").count(), 2, "{listed}");
    assert!(listed.ends_with("4 cells, 2 finished\n"), "{listed}");
    let json = json_of(&arguments, 0);
    assert_eq!((&json["found"], &json["computed"]), (&2.into(), &2.into()));
    // The figures are those of `replay`.
    let replay = [
        "replay",
        &trace,
        "--memory",
        "25%",
        "--variants",
        "v5",
        "--json",
        "-",
    ];
    let replay = json_of(&replay, 0);
    let group = &json["groups"][1];
    assert_eq!(group["settings"]["variant"], "v5");
    assert_eq!(
        group["counters"]["misses"]["mean"],
        replay["variants"]["v5"]["misses"]["mean"]
    );
}

#[test]
fn a_cell_that_fails_is_named_and_tried_again() {
    let dir = folder("fails");
    let grid = grid(
        &dir,
        "experiments = 'mongodb'\nvariants = 'base'\nscales = ['1/2048', '1/65536']\neffort = 0.02",
    );
    let out_dir = dir.join("out");
    for computed in [1, 0] {
        let out = lab(&["sweep", &grid, "--out", text(&out_dir), "--json", "-"]);
        let message = said(&out);
        assert_eq!(out.status.code(), Some(1), "{message}");
        assert!(
            message.starts_with("coldset: FAILED mongodb: scale=1/65536"),
            "{message}"
        );
        assert_eq!(message.matches('\n').count(), 1, "{message}");
        let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(json["computed"], computed);
        assert_eq!(json["failed"].as_array().expect("list").len(), 1);
    }
}

#[test]
fn mistakes_are_one_line() {
    let dir = folder("mistakes");
    let out = dir.join("out");
    let wrong = grid(&dir, "experiments = 'mongodb'\nvarients = 'v5'");
    let said = message_of(&["sweep", &wrong, "--out", text(&out)], 2);
    assert!(said.contains("did you mean 'variants'"), "{said}");
    assert!(!out.exists());
    assert!(message_of("sweep /nowhere.toml --dry-run", 2).contains("/nowhere.toml"));
    assert!(message_of(&["sweep", &wrong], 2).contains("--out"));
    let right = grid(&dir, "experiments = 'mongodb'");
    let file = dir.join("file");
    std::fs::write(&file, "").expect("written");
    assert!(message_of(&["sweep", &right, "--out", text(&file)], 3).contains("file"));
    let done = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args([
            "lab",
            "sweep",
            &right,
            "--out",
            text(&out),
            "--dask",
            "tcp://x:1",
        ])
        .env("COLDSET_PYTHON", "/nowhere/python")
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(
        said.contains("/nowhere/python") && said.contains("coldset[dask]"),
        "{said}"
    );
    assert_eq!(said.matches('\n').count(), 1, "{said}");
}

/// As with `replay`: it is stored, not tried again, and says what it is.
#[test]
fn a_variant_that_is_killed_is_a_result() {
    let dir = folder("killed");
    let (sample, out) = (sample(), dir.join("results"));
    let toml =
        format!("traces = '{sample}'\nmemory = '1MiB'\nswap = 'nvme:4MiB'\nvariants = ['v5']");
    let arguments = [
        "sweep",
        &grid(&dir, &toml),
        "--counters",
        "misses",
        "--out",
        text(&out),
    ];
    let first = stdout_of(&arguments, 0);
    assert!(
        first.contains("killed") && first.contains("1 of 1 cells: 1 computed now"),
        "{first}"
    );
    let again = stdout_of(&arguments, 0);
    assert!(again.contains("0 computed now, 1 found"), "{again}");
}

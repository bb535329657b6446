//! Workloads of users, with every command that takes an experiment.

use crate::common::{lab, message_of, temporary};
use std::fs;

const MINE: &str = r#"
name = "mine"
results = ["ops", "pgmajfault", "log.ops"]

[params]
count = 3000

[[cgroups]]
name = "g"
limit = "4MiB"

[[files]]
name = "f"
size = "6MiB"

[[tasks]]
name = "reader"
cgroup = "g"

[[tasks.phases]]
count = "$count"
steps = [{ load = "f", at = { zipf = 1.2 }, cpu = "1us" }]

[[tasks]]
name = "log"
cgroup = "g"

[[tasks.phases]]
count = 50
steps = [{ pwrite = "f", at = "cyclic" }]

[[claims]]
name = "as many as asked for"
value = "ops"
class = "A"
exactly = 3050
"#;

fn file(name: &str, text: &str) -> String {
    let path = temporary(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

/// What a run prints as JSON, and its exit code.
fn json(arguments: &[&str], code: i32) -> serde_json::Value {
    let done = lab(arguments);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(code), "{said}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn options_of_run_hold_and_claims_decide() {
    let path = file("mine.toml", MINE);
    let run = ["run", &path, "--seeds", "2", "--json", "-"];
    let all = json(&run, 0);
    assert_eq!(all["experiment"], "mine");
    assert_eq!(
        all["variants"]["v5"]["ops"]["per_seed"],
        serde_json::json!([3050, 3050])
    );
    assert_eq!(all["variants"]["base"]["log.ops"]["mean"], 50);
    // A parameter makes the claim fail, and is on record.
    let other = json(&[&run[..], &["--param", "count=100"]].concat(), 1);
    assert_eq!(other["parameters"]["count"], "100");
    assert_eq!(other["claims"][0]["pass"], false);
    // The same bytes, whatever the number of threads.
    let with = |jobs| lab(&[&run[..], &["--jobs", jobs]].concat()).stdout;
    assert_eq!(with("1"), with("2"));
}

#[test]
fn mistakes_take_one_line_and_exit_2() {
    let wrong = file("wrong.toml", &MINE.replace("limit =", "limti ="));
    for arguments in [
        vec!["run", &wrong],
        vec!["ablate", &wrong],
        vec!["export", &wrong, "--out", "out.pageops"],
    ] {
        let said = message_of(&arguments, 2);
        assert!(said.contains("line 10: cgroups[1].limti"), "{said}");
        assert!(said.contains("did you mean 'limit'?"), "{said}");
    }
    let path = file("right.toml", MINE);
    let said = message_of(&["run", &path, "--param", "cuont=1"], 2);
    assert!(said.contains("did you mean 'count'?"), "{said}");
    let said = message_of(&["run", &path, "--param", "count=many"], 2);
    assert!(
        said.contains("'many' cannot be used") && said.contains("line 21"),
        "{said}"
    );
    let said = message_of(&["run", "none.toml"], 2);
    assert!(said.contains("cannot read the workload"), "{said}");
}

#[test]
fn export_ablate_and_sweep_take_it() {
    let path = file("swept.toml", MINE);
    let trace = temporary("swept.pageops");
    let out = json(
        &[
            "export",
            &path,
            "--out",
            trace.to_str().unwrap(),
            "--json",
            "-",
        ],
        0,
    );
    assert_eq!(out["accesses"], 3050);
    let table = json(&["ablate", &path, "--seeds", "1", "--json", "-"], 0);
    assert!(table.is_object());
    let grid = file(
        "grid.toml",
        "experiments = [\"swept.toml\"]\nvariants = [\"base\", \"v5\"]\nparams = { count = [100, 200] }",
    );
    let results = temporary("results");
    let sweep = [
        "sweep",
        &grid,
        "--out",
        results.to_str().unwrap(),
        "--jobs",
        "1",
    ];
    let text = |code: i32| {
        let done = lab(&sweep);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{said}");
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(text(0).contains("4 computed"), "first");
    assert!(text(0).contains("4 found"), "again");
    // Another workload in the same file is another cell.
    fs::write(&path, MINE.replace("zipf = 1.2", "zipf = 1.3")).unwrap();
    assert!(text(0).contains("4 computed"), "changed");
}

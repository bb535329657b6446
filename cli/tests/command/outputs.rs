//! Files that results go to: whole, or as they were.

use crate::common::{lab, message_of, sample, stdout_of, temporary};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_command_that_fails_leaves_files_as_they_were() {
    let (old, new) = (temporary("old.json"), temporary("new.json"));
    fs::write(&old, "keep").unwrap();
    let _ = fs::remove_file(&new);
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (old, new) = (name(&old), name(&new));
    let sample = sample();
    for (arguments, code) in [
        (
            vec![
                "replay",
                &sample,
                "--memory=25%",
                "--low=7=1MiB",
                "--json",
                &old,
                "--csv",
                &new,
            ],
            2,
        ),
        (
            vec![
                "replay",
                &sample,
                "--memory=25%",
                "--json",
                &old,
                "--report=/nonexistent/x.html",
            ],
            3,
        ),
        (
            vec![
                "run",
                "mongodb",
                "--seeds=1",
                "--param=update_percent=abc",
                "--json",
                &old,
            ],
            2,
        ),
        (vec!["export", "slow-io", "--out", &old], 2),
    ] {
        message_of(&arguments, code);
        assert_eq!(fs::read_to_string(&old).unwrap(), "keep", "{arguments:?}");
        assert!(!fs::exists(&new).unwrap(), "{arguments:?}");
    }
    let done = lab(&[
        "replay",
        &sample,
        "--memory=25%",
        "--variants=lru",
        "--json",
        &old,
    ]);
    assert!(done.status.success());
    assert!(fs::read_to_string(&old).unwrap().contains("variants"));
}

#[test]
fn one_file_for_two_things_is_refused() {
    let (sample, file) = (sample(), temporary("both"));
    let file = file.to_str().unwrap();
    let copy = temporary("trace.zst");
    fs::copy(&sample, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    for arguments in [
        vec!["replay", &sample, "--json", file, "--csv", file],
        vec!["replay", copy, "--json", copy],
        vec!["mrc", copy, "--csv", copy],
        vec!["run", "dead-folios", "--json", file, "--series", file],
        vec!["export", "throttling-oom", "--out", file, "--json", file],
    ] {
        let said = message_of(&arguments, 2);
        assert!(said.contains("are one file"), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read(copy).unwrap(), fs::read(&sample).unwrap());
    for arguments in ["export throttling-oom --out -", "convert SAMPLE -"] {
        let said = message_of(arguments, 2);
        assert!(
            said.contains("name a file") || said.contains("name one"),
            "{said}"
        );
    }
}

/// Whatever a command reads: no form of its result may take its place, by any of its names.
#[test]
fn nothing_that_is_read_is_overwritten() {
    let folder = temporary("inputs");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let (workload, grid, csv) = (file("w.toml"), file("g.toml"), file("t.csv"));
    fs::copy(examples.join("throttling-oom.toml"), &workload).unwrap();
    fs::write(&grid, "traces = \"t.csv\"\nmemory = [\"200pages\"]\n").unwrap();
    fs::write(&csv, "page\n1\n2\n1\n").unwrap();
    let (before, after) = (file("before.json"), file("after.json"));
    for json in [&before, &after] {
        let run = [
            "run",
            "dead-folios",
            "--seeds=1",
            "--effort=0.1",
            "--json",
            json,
        ];
        assert!(lab(&run).status.success());
    }
    let link = file("link");
    std::os::unix::fs::symlink(&csv, &link).unwrap();
    let inputs = [&workload, &grid, &csv, &before, &after];
    let kept = inputs.map(|name| fs::read(name).unwrap());
    let refused = |what: &str, given: &[&str], options: &[&str], name: &str| {
        for option in options {
            let arguments = [given, &[*option, name]].concat();
            let said = message_of(&arguments, 2);
            let expected = format!("{what} and {option} are one file, ");
            assert!(said.contains(&expected), "{arguments:?}: {said}");
            assert!(said.contains("; name another one"), "{said}");
        }
        assert!(
            inputs.map(|name| fs::read(name).unwrap()) == kept,
            "{given:?}"
        );
    };
    let (out, roundabout) = (file("out.pageops"), file("../inputs/w.toml"));
    let workload_is = "the workload";
    let all = ["--json", "--csv", "--series", "--report"];
    refused(workload_is, &["run", &workload], &all, &workload);
    refused(workload_is, &["run", &workload], &["--json"], &roundabout);
    refused(
        workload_is,
        &["ablate", &workload],
        &["--json", "--report"],
        &workload,
    );
    refused(workload_is, &["export", &workload], &["--out"], &workload);
    let exported = ["export", &workload, "--out", &out];
    refused(workload_is, &exported, &["--json"], &workload);
    let results = file("results");
    let swept = ["sweep", &grid, "--out", &results];
    refused("the grid", &swept, &["--json"], &grid);
    refused("a file of the grid", &swept, &["--json"], &csv);
    refused(
        "the grid",
        &["sweep", &grid, "--dry-run"],
        &["--json"],
        &grid,
    );
    assert!(!fs::exists(&results).unwrap());
    let compared = ["compare", &before, &after];
    refused(
        "the result before",
        &compared,
        &["--json", "--report"],
        &before,
    );
    refused(
        "the result after",
        &compared,
        &["--json", "--report"],
        &after,
    );
    let converted = ["convert", &csv, &out];
    refused("the trace", &converted, &["--json"], &csv);
    refused("the trace", &converted, &["--json"], &link);
    let replayed = ["replay", &csv, "--memory=200pages"];
    refused("the trace", &replayed, &["--json"], &link);
    assert!(!fs::exists(&out).unwrap());
}

/// A file may have any name. A terminal would take some of it for commands.
#[test]
fn control_characters_in_names_are_shown() {
    let folder = temporary("names");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let trace = file("a\u{1b}[2J.csv");
    fs::write(&trace, "page\n1\n2\n1\n").unwrap();
    let said = stdout_of(
        &[
            "mrc",
            &trace,
            "--policies=lru",
            "--sizes=2pages",
            "--no-plot",
        ],
        0,
    );
    let missing = message_of(&["mrc", &file("b\u{1b}[2J\n.csv")], 2);
    for (said, shown) in [(&said, "a\\u{1b}[2J.csv"), (&missing, "b\\u{1b}[2J\\n.csv")] {
        assert!(said.contains(shown) && !said.contains('\u{1b}'), "{said}");
    }
}

/// Whether the trace cannot be read or, beyond the size that files may have, not be written.
#[test]
fn a_conversion_that_fails_leaves_the_file_as_it_was() {
    let folder = temporary("conversions");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (sample, bad) = (sample(), file("bad.lirs"));
    fs::write(&bad, "1\n2\nthree\n").unwrap();
    for name in ["old.pageops", "old.oracleGeneral"] {
        let old = file(name);
        fs::write(&old, "keep").unwrap();
        message_of(&["convert", &bad, &old, "--format", "lirs"], 2);
        assert_eq!(fs::read_to_string(&old).unwrap(), "keep");
        let limited = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
            .args([
                env!("CARGO_BIN_EXE_coldset"),
                "lab",
                "convert",
                &sample,
                &old,
            ])
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&limited.stderr);
        assert_eq!(limited.status.code(), Some(3), "{said}");
        assert!(
            said.contains(name) && said.contains("cannot write"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&old).unwrap(), "keep");
    }
    let left = fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 3, "no draft is left");
}

/// A page that was written is one, whether or not its name can be told.
#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_takes_nothing_is_no_failure() {
    let page = temporary("told-nobody.html");
    let _ = fs::remove_file(&page);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args([
            "lab",
            "replay",
            &sample(),
            "--memory=25%",
            "--variants=v5",
            "--report",
        ])
        .arg(&page)
        .stdout(std::process::Stdio::null())
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>"));
}

//! Files that results go to: whole, or as they were.

use crate::common::{lab, message_of, sample, temporary};
use std::fs;
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

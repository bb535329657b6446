//! `coldset play` says what other programs did to a run. By itself, since it drops what other tests measure.

mod common;

use common::{coldset, random_trace, temporary};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const DROP: &str = "/proc/sys/vm/drop_caches";

/// Counts of what is in the list of the first run.
fn count(v: &Value, name: &str) -> Option<u64> {
    let list = v["played"]["runs"][0]["disturbed"].as_array()?;
    list.iter().find(|d| d["name"] == name)?["count"].as_u64()
}

#[test]
fn dropped_caches_are_told() {
    let may = fs::OpenOptions::new().write(true).open(DROP).is_ok();
    if !may {
        eprintln!("SKIPPED: caches are dropped by root only");
        return;
    }
    let trace = random_trace("dropped", 1, 6000, 100_000);
    let (json, dir) = (temporary("dropped.json"), temporary(""));
    let mut play = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args(["play", &trace, "--memory=8MiB", "--json"])
        .arg(&json)
        .arg("--dir")
        .arg(&dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut dropped = 0;
    while play.try_wait().expect("a child").is_none() {
        sleep(Duration::from_millis(100));
        fs::write(DROP, "2").expect("slabs are dropped");
        dropped += 1;
    }
    let out = play.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(3) && said.contains("cgroup") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert_eq!(out.status.code(), Some(0), "{said}");
    let v: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let seen = count(&v, "drop_slab").expect("dropped slabs");
    assert!((1..=dropped).contains(&seen), "{seen} of {dropped}");
    let text = String::from_utf8_lossy(&out.stdout);
    let line = format!("run 1 was disturbed: slabs were dropped {seen} time");
    assert!(text.contains(&line), "{text}");
}

/// A memory cgroup with a task that does nothing.
struct Group {
    path: PathBuf,
    task: Child,
}

impl Group {
    fn make() -> Option<Self> {
        let places = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
        let place = places.into_iter().find(|p| {
            p.join("memory.limit_in_bytes").exists()
                || fs::read_to_string(p.join("cgroup.subtree_control"))
                    .is_ok_and(|c| c.contains("memory"))
        })?;
        let path = place.join(format!("coldset-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let task = Command::new("sleep").arg("600").spawn().ok()?;
        let group = Self { path, task };
        fs::write(group.path.join("cgroup.procs"), group.task.id().to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.task.kill();
        let _ = self.task.wait();
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn other_tasks_in_the_group_are_told() {
    let Some(group) = Group::make() else {
        eprintln!("SKIPPED: no memory cgroup to make a group in");
        return;
    };
    let trace = random_trace("beside", 1, 3000, 5000);
    let (at, dir) = (group.path.to_str().unwrap(), temporary(""));
    let arguments = [
        trace.as_str(),
        "--memory=8MiB",
        "--cgroup",
        at,
        "--json=-",
        "--dir",
        dir.to_str().unwrap(),
    ];
    let out = coldset("play", &arguments);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(count(&v, "tasks"), Some(1));
}

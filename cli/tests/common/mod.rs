//! Running the command as a user does.
#![allow(dead_code, reason = "every test program uses its own part")]

use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The sample trace.
pub fn sample() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
    path.to_str().expect("a path in UTF-8").into()
}

/// A file name of this process and the caller's source in the folder for temporary files.
#[track_caller]
pub fn temporary(name: &str) -> PathBuf {
    let source = Path::new(Location::caller().file()).file_stem();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    let dir = dir.join(source.expect("a name"));
    std::fs::create_dir_all(&dir).expect("folder for temporary files");
    dir.join(name)
}

/// Arguments: a list of them, or a line of words, of which SAMPLE is [`sample`].
pub trait Arguments {
    /// One by one.
    fn list(&self) -> Vec<String>;
}

impl Arguments for str {
    fn list(&self) -> Vec<String> {
        let words = self.split(' ');
        words
            .map(|w| if w == "SAMPLE" { sample() } else { w.into() })
            .collect()
    }
}

impl Arguments for [&str] {
    fn list(&self) -> Vec<String> {
        self.iter().map(|&word| word.into()).collect()
    }
}

impl Arguments for Vec<&str> {
    fn list(&self) -> Vec<String> {
        self[..].list()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn list(&self) -> Vec<String> {
        self[..].list()
    }
}

/// `coldset GROUP ARGUMENTS`.
pub fn coldset(group: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coldset"))
        .arg(group)
        .args(arguments)
        .output()
        .expect("the command runs")
}

/// A `pageops` file of random accesses, a few pages far more often than others.
#[track_caller]
pub fn random_trace(name: &str, kind: u8, pages: u32, accesses: u32) -> String {
    let mut x = 88172645463325252u64;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut bytes = Vec::new();
    for _ in 0..accesses {
        // The smaller of two uniform numbers, squared.
        let u = draw().min(draw()) as f64 / u64::MAX as f64;
        let page = ((u * u * f64::from(pages)) as u32 * 7919) % pages;
        bytes.extend([kind, 0, 0, 0]);
        bytes.extend(page.to_le_bytes());
    }
    let path = temporary(name);
    std::fs::write(&path, bytes).expect("a trace can be written");
    path.to_str().expect("a path in UTF-8").into()
}

/// A trace of two tasks, each with a file of its own, that take turns after `turn` accesses. A quarter is of the second.
#[track_caller]
pub fn two_tasks(name: &str, turn: usize, accesses: u32) -> String {
    two_tasks_of(name, turn, 3000, accesses)
}

/// The same with files of so many pages.
pub fn two_tasks_of(name: &str, turn: usize, pages: u32, accesses: u32) -> String {
    let path = random_trace(name, 1, pages, accesses);
    let mut bytes = std::fs::read(&path).expect("the trace");
    for (i, record) in bytes.chunks_exact_mut(8).enumerate() {
        let task = u8::from(i / turn % 4 == 3);
        (record[1], record[2]) = (task, task);
    }
    std::fs::write(&path, bytes).expect("the trace");
    path
}

/// `docs/reference/formats.md`: a circle hits if memory holds all of it; with less, LRU never hits.
pub fn circle(pages: u32, rounds: u32) -> String {
    let numbers = (0..rounds).flat_map(|_| 0..pages).map(|p| format!("{p}\n"));
    numbers.collect()
}

/// A trace of `data/samples`.
pub fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/samples");
    path.join(name).to_str().expect("a path in UTF-8").into()
}

/// `coldset lab ARGUMENTS`.
pub fn lab(arguments: &(impl Arguments + ?Sized)) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coldset"))
        .arg("lab")
        .args(arguments.list())
        .stdin(Stdio::null())
        .output()
        .expect("the command runs")
}

/// Standard output of a run that must end with `code`, saying nothing else.
pub fn stdout_of(arguments: &(impl Arguments + ?Sized), code: i32) -> String {
    let (out, arguments) = (lab(arguments), arguments.list());
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "", "{arguments:?}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// JSON on standard output of a run that must end with `code`.
pub fn json_of(arguments: &(impl Arguments + ?Sized), code: i32) -> serde_json::Value {
    serde_json::from_str(&stdout_of(arguments, code)).expect("JSON")
}

/// The message of a run that must fail with `code`: one line, nothing on standard output.
pub fn message_of(arguments: &(impl Arguments + ?Sized), code: i32) -> String {
    let (out, arguments) = (lab(arguments), arguments.list());
    let stderr = String::from_utf8(out.stderr).expect("UTF-8");
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert_eq!(stderr.matches('\n').count(), 1, "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("coldset: "), "{arguments:?}: {stderr}");
    assert!(out.stdout.is_empty(), "{arguments:?}");
    stderr
}

/// The mean of a counter in the result of a replay.
pub fn mean(json: &serde_json::Value, variant: &str, counter: &str) -> f64 {
    json["variants"][variant][counter]["mean"]
        .as_f64()
        .unwrap_or_else(|| panic!("{variant} {counter}"))
}
